"""`fewpass doctor`: which runs are dead without anybody knowing, and what would go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from flows.console import Terminal
from flows.options import Output
from pipeline.errors import BadInput
from pipeline.training.lease import holder_of, release_stale
from pipeline.training.run_folder import RunFolder, Saved


class Finding(NamedTuple):
    """One run that was looked at."""

    what: str  # a run folder's address, or a flow run's name
    alive: bool | None  # None: nobody claims to be at it
    why: str
    done: tuple[str, ...]  # what was put right
    resume: str


def run_doctor(runs: Sequence[str], dry_run: bool, output: Output) -> int:
    """Look at run folders and, with PREFECT_API_URL set, at the server's runs.

    What is dead is freed, and the exit status is 0; with --dry-run it is left, and the status is 1.
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
        from flows.orchestration.silent_runs import examine_server  # noqa: PLC0415 - two seconds

        found += examine_server(fix=not dry_run)
    found += [examine_folder(url, fix=not dry_run) for url in runs]
    ill = sum(finding.alive is False for finding in found)
    facts = {"server": server, "ill": ill, "runs": [finding._asdict() for finding in found]}
    terminal.result(facts, _told(found, ill))
    return 1 if ill and dry_run else 0


def examine_folder(url: str, *, fix: bool) -> Finding:
    """Look at a run folder's lease; a dead holder's is removed if `fix`."""
    run = RunFolder(url)
    holder = holder_of(run.folder)
    resume = resume_outlook(run)
    if holder is None:
        return Finding(url, None, "nobody trains into it", (), resume)
    who = f"process {holder.pid} on {holder.host}"
    if not holder.is_dead():
        why = f"{who} trains into it, last sign of life {holder.silence():.0f} s ago"
        return Finding(url, True, why, (), "nothing to resume: it is being trained")
    done = ("freed its lease",) if fix and release_stale(run.folder) else ()
    return Finding(url, False, f"{who} is dead", done, resume)


def resume_outlook(run: RunFolder) -> str:
    """Say what `fewpass resume` would do."""
    if not run.exists():
        return "there is nothing to resume: the same command begins anew"
    plan = run.record().plan
    newest, damaged = run.snapshots.latest()
    past = f" (past {len(damaged)} damaged ones)" if damaged else ""
    if newest is None:
        return f"fewpass resume {run.url} begins at the first row{past}"
    saved = Saved.of(newest)
    if saved.finished:
        return f"the training is finished: fewpass resume {run.url} says so and changes nothing"
    return (
        f"fewpass resume {run.url} goes on from snapshot {saved.name}{past}: "
        f"{saved.cursor.passes:g} of {plan.passes} passes, {saved.cursor.rows_seen:,} rows"
    )


def _told(found: Sequence[Finding], ill: int) -> str:
    lines: list[str] = []
    for finding in found:
        state = {True: "alive", False: "dead", None: "at rest"}[finding.alive]
        lines += [f"{finding.what}: {state}", f"  {finding.why}"]
        lines += [f"  {act}" for act in finding.done]
        lines.append(f"  {finding.resume}")
    count = f"{len(found)} run{'s' * (len(found) != 1)} looked at"
    return "\n".join([*lines, f"{count}, {ill} dead."])
