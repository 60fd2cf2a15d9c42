"""docs/tutorials/refresh.md: every command of it, after the demo alone, with a Prefect server that is there."""

import pytest

from testing.demo_folder import after_the_demo
from testing.flow_words import SHIM, flows_of_scripts
from tests.docs.test_pages_of_commands import finish
from tests.docs.walked import sessions


@pytest.mark.timeout(600)
def test_a_nightly_refresh(flow_runner, tmp_path):
    after_the_demo(tmp_path)
    commands = [command for command, _ in sessions("docs/tutorials/refresh.md")]
    with flows_of_scripts(tmp_path, flow_runner) as environment:
        finish("\n".join([SHIM, *commands]), tmp_path, environment)
    assert len((tmp_path / "scores.csv").read_text().splitlines()) > 1000
