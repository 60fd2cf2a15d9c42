"""`fewpass doctor`: which runs are dead without anybody knowing, and what would go on."""

from __future__ import annotations

import os
from collections.abc import Sequence

from fewpass.flows.dead_runs import Finding, each_once, examine_folder, run_folders
from fewpass.flows.display.console import Terminal
from fewpass.flows.options import Output
from fewpass.pipeline.errors import BadInput


def run_doctor(runs: Sequence[str], dry_run: bool, output: Output) -> int:
    """Look at run folders, at those below a folder, and with PREFECT_API_URL at the server's runs.

    What is dead is freed, and the exit status is 0; with --dry-run it is left, and the status is 1.
    What is stalled is only told; the status is 1, too.
    """
    terminal = Terminal(output)
    server = os.environ.get("PREFECT_API_URL")
    if not runs and not server:
        raise BadInput(
            "There is nothing to look at. Name run folders, or set PREFECT_API_URL to look at a "
            "Prefect server's runs."
        )
    found: list[Finding] = []
    if server:
        from fewpass.flows.orchestration.silent_runs import examine_server  # noqa: PLC0415 - two seconds

        found += examine_server(fix=not dry_run)
    found += [examine_folder(url, fix=not dry_run) for url in run_folders(runs)]
    found = each_once(found)
    ill = sum(finding.alive is False for finding in found)
    stuck = sum(finding.stalled for finding in found)
    facts = {
        "server": server,
        "ill": ill,
        "stalled": stuck,
        "runs": [finding._asdict() for finding in found],
    }
    terminal.result(facts, _told(found, ill, stuck))
    return 1 if stuck or (ill and dry_run) else 0


def _told(found: Sequence[Finding], ill: int, stuck: int) -> str:
    lines: list[str] = []
    for finding in found:
        state = {True: "alive", False: "dead", None: "at rest"}[finding.alive]
        state = "stalled" if finding.stalled else state
        lines += [f"{finding.what}: {state}", f"  {finding.why}"]
        lines += [f"  {act}" for act in finding.done]
        lines.append(f"  {finding.resume}")
    count = f"{len(found)} run{'s' * (len(found) != 1)} looked at"
    return "\n".join([*lines, f"{count}, {ill} dead, {stuck} stalled."])
