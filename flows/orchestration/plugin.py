"""Prefect's documented start-up hook: adds `prefect run`, and keeps the program to itself.

Prefect calls it on import where plug-ins are enabled.  For `prefect run` the line of
fewpass_prefect_run.pth enables them, which Python reads at its start where the package is
installed; for all else of Prefect's the pyproject.toml of the checkout does.  The names of the
commands are imported when one of them runs.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prefect.plugins import HookContext, SetupResult, register_hook

if TYPE_CHECKING:
    from prefect.client.schemas.objects import FlowRun

PROGRAMS = ("prefect", "__main__.py", "-m")  # what sys.argv[0] is called in Prefect's own program


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult | None:  # noqa: ARG001 - Prefect's name
    """Register the command in Prefect's program, and ask every library not to phone home."""
    if Path(sys.argv[0] or "").name in PROGRAMS:
        add_run_command()
        if sys.argv[1:2] == ["worker"]:
            keep_reasons()
    if "DO_NOT_TRACK" in os.environ:
        return None
    return SetupResult(env={"DO_NOT_TRACK": "1"}, note="fewpass: nothing is sent anywhere")


def add_run_command() -> None:
    """Add `prefect run` unless Prefect has such a command."""
    from prefect.cli._app import _app  # there is no public name for it; a test watches this one

    if "run" not in _app:
        _app.command(
            "fewpass.flows.orchestration.command:run_app",
            name="run",
            help="Run one of fewpass's flows now, in this process.",
        )


def keep_reasons() -> None:
    """Have a worker leave alone what a cancelled run says of its end, and why it was cancelled.

    Prefect's would write over both that it was cancelled successfully.
    """
    from prefect.runner._state_proposer import StateProposer  # no public name; a test watches it

    propose = StateProposer.propose_cancelled

    async def unless_it_is(
        self: StateProposer, flow_run: FlowRun, state_updates: dict[str, Any] | None = None
    ) -> bool:
        state = (await self._client.read_flow_run(flow_run.id)).state
        if state is not None and state.is_cancelled():
            return True
        reason = {"message": state.message} if state is not None and state.message else {}
        return await propose(self, flow_run, (state_updates or {}) | reason)

    StateProposer.propose_cancelled = unless_it_is  # type: ignore[method-assign]
