"""A Prefect server; it ends with the tests of this folder, as one that waits computes, too."""

import pytest

from testing.prefect_server import FlowRunner, Server, stop


@pytest.fixture(scope="package")
def prefect_server(tmp_path_factory, prefect_database):
    """One Prefect server for all tests that need one: a start costs many seconds."""
    server = Server(tmp_path_factory.mktemp("prefect-home"), prefect_database).start()
    yield server
    stop(server.process)


@pytest.fixture(scope="package")
def flow_runner(prefect_server):
    """One process that runs flows against that server."""
    runner = FlowRunner(prefect_server.environment, prefect_server.home / "flows.log")
    yield runner
    runner.close()
