"""Prefect's documented start-up hook: adds `prefect run`, and keeps the program to itself.

Prefect calls it on import where plug-ins are enabled.  For `prefect run` and `prefect deployment
run` the line of fewpass_prefect_run.pth enables them, which Python reads at its start where the
package is installed; for all else of Prefect's the pyproject.toml of the checkout does.  The names
of the commands are imported when one of them runs.
"""
# ruff: noqa: PLC0415

from __future__ import annotations

import os
import sys
from pathlib import Path

from prefect.plugins import HookContext, SetupResult, register_hook

PROGRAMS = ("prefect", "__main__.py", "-m")  # what sys.argv[0] is called in Prefect's own program


@register_hook
def setup_environment(*, ctx: HookContext) -> SetupResult | None:  # noqa: ARG001 - Prefect's name
    """Register the command in Prefect's program, and ask every library not to phone home.

    `prefect deployment run` takes the same parameters as `prefect run`.
    """
    if Path(sys.argv[0] or "").name in PROGRAMS:
        add_run_command()
        from fewpass.flows.orchestration.deployment_words import (
            is_deployment_run,
            rewrite_command_line,
        )

        if is_deployment_run(sys.argv[1:]):
            rewrite_command_line()
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
