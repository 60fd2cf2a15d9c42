"""One workshop for all tests of a process."""

import pytest

from tests.faults.workshop import Workshop


@pytest.fixture(scope="session")
def shop(tmp_path_factory):
    made = Workshop(tmp_path_factory.mktemp("faults"))
    yield made
    made.close()
