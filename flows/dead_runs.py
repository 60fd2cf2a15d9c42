"""Run folders whose training died: what their lease says, and what would go on."""

from __future__ import annotations

from typing import NamedTuple

from pipeline.training.lease import holder_of, release_stale
from pipeline.training.run_folder import RunFolder
from pipeline.training.saved import Saved


class Finding(NamedTuple):
    """One run that was looked at."""

    what: str  # a run folder's address, or a flow run's name
    alive: bool | None  # None: nobody claims to be at it
    why: str
    done: tuple[str, ...]  # what was put right
    resume: str


def examine_folder(url: str, *, fix: bool) -> Finding:
    """Look at a run folder's lease; a dead holder's is removed if `fix`."""
    run = RunFolder(url)
    holder = holder_of(run.folder)
    resume = what_resumes(run)
    if holder is None:
        return Finding(url, None, "nobody trains into it", (), resume)
    who = f"process {holder.pid} on {holder.host}"
    if not holder.is_dead():
        why = f"{who} trains into it, last sign of life {holder.silence():.0f} s ago"
        return Finding(url, True, why, (), "nothing to resume: it is being trained")
    done = ("freed its lease",) if fix and release_stale(run.folder) else ()
    return Finding(url, False, f"{who} is dead", done, resume)


def what_resumes(run: RunFolder) -> str:
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
