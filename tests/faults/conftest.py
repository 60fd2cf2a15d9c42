"""One sandbox for all tests of a process."""

import pytest

from tests.faults.sandbox import Sandbox


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory):
    made = Sandbox(tmp_path_factory.mktemp("faults"))
    yield made
    made.close()
