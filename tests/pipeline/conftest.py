"""What tests of several folders start once."""

from contextlib import ExitStack

import pytest

from tests.pipeline.models.export.sql_databases import SqlDatabases


@pytest.fixture(scope="session")
def databases():
    """The databases that exported statements are run in."""
    with ExitStack() as stack:
        yield SqlDatabases(stack)
