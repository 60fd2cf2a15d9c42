"""Tolerances, named once, and what more than one test file needs."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from tests.prefect_server import FlowRunner, Server, stop

#: The same operations in the same order: equal bits, compared with ==.
EXACT = 0.0
#: The same sums in another order, relative.
ROUNDING = 1e-12
#: A method run to its end: objective above the optimum, relative to max(1, |objective|).
CONVERGED = 1e-8
#: One pass: factor by which an excess may differ from the published one (other permutations).
STOCHASTIC = 2.0

settings.register_profile("fewpass", max_examples=50, deadline=None, derandomize=True)
settings.load_profile("fewpass")

PROJECT = Path(__file__).parents[1]

#: What takes minutes begins first, so that no process is left with it at the end.
LONG = ("test_training_kill.py", "test_deployments.py", "test_operations_page.py")


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture
def rng():
    return np.random.default_rng(20240517)


@pytest.fixture(scope="session")
def data_folder():
    """Public data sets; a test that needs one fails when it is missing."""
    return Path(os.environ.get("FEWPASS_DATA") or PROJECT / "../shared/data").resolve()


@pytest.fixture(scope="session")
def prefect_server(tmp_path_factory):
    """One Prefect server for all tests that need one: a start costs many seconds."""
    server = Server(tmp_path_factory.mktemp("prefect-home")).start()
    yield server
    stop(server.process)


@pytest.fixture(scope="session")
def flow_runner(prefect_server):
    """One process that runs flows against that server."""
    runner = FlowRunner(prefect_server.environment, prefect_server.home / "flows.log")
    yield runner
    runner.close()
