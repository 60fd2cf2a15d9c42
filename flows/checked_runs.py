"""Runs whose training died or got stuck, by their lease and log, and the command that goes on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.lease import KEY as LEASE
from fewpass.pipeline.lease import holder_of, release_stale
from fewpass.pipeline.runs.run_folder import KEY, RunFolder
from fewpass.pipeline.runs.run_log import LOG
from fewpass.pipeline.runs.run_series import is_finished
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.sizes import counted, passes_of
from fewpass.storage.addresses import command
from fewpass.storage.folder import Folder

WHEN_STALLED = "look what it waits for: disk, store, workers; once ended, fewpass resume goes on"
NOBODY = "no process is training it"
MARKS = (KEY, LOG, LEASE)  # objects that only a run has


class Finding(NamedTuple):
    """The result of a check of one place."""

    place: str
    ok: bool
    why: str
    kind: str
    alive: bool | None = None  # None: nobody claims to be at it
    stalled: bool = False  # alive, and without progress for far longer than is usual for it
    damaged: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    done: tuple[str, ...] = ()  # what was put right
    advice: str | None = None
    folder: str | None = None  # of the run


def runs_at(folder: Folder) -> Iterator[str]:
    """Yield the address of a run, or those of all runs below a folder; BadInput for none."""
    if any(folder.exists(key) for key in MARKS):
        yield folder.url
        return
    parts = (key.rpartition("/") for key in folder.list())
    below = sorted({place for place, _, name in parts if name in MARKS})
    if not below:
        raise BadInput(f"There is no run at {folder.url}, or below. Check the address.")
    yield from (f"{folder.url}/{name}" for name in below)


def named_host(host: str) -> str:
    """Name a machine; one that gave no name is not left blank."""
    return host or "a machine that gave no name"


def examine_run(url: str, *, free: bool) -> Finding:
    """Look at a run's lease and log; a dead holder's lease is removed if `free`."""
    run = RunFolder(url)
    holder = holder_of(run.folder)
    if holder is None:
        finished = run.exists() and is_finished(run)
        why, then = ("it is finished", None) if finished else (NOBODY, what_resumes(run))
        return Finding(url, True, why, "run", advice=then, folder=run.url)
    who = f"process {holder.pid} on {named_host(holder.host)}"
    if holder.is_dead():
        freed = free and release_stale(run.folder)
        done = ("freed its lease",) if freed else ()
        return Finding(
            url, bool(freed), f"{who} is dead", "run", alive=False, done=done,
            advice=what_resumes(run), folder=run.url,
        )  # fmt: skip
    stuck = stalled(run)
    if stuck is None:
        why = f"{who} trains into it, last sign of life {holder.silence():.0f} s ago"
        return Finding(url, True, why, "run", alive=True, folder=run.url)
    why = f"{who} trains into it: {stuck}"
    return Finding(
        url, False, why, "run", alive=True, stalled=True, advice=WHEN_STALLED, folder=run.url
    )


def stalled(run: RunFolder) -> str | None:
    """Say for how long a run has made no progress, where that is far longer than usual for it."""
    silence = Timeline.of(run).silence()
    return silence.sentence() if silence is not None and silence.is_stalled else None


def what_resumes(run: RunFolder) -> str:
    """Say what `fewpass resume` would do."""
    if not run.exists():
        return "there is nothing to resume: the same command begins anew"
    plan = run.record().plan
    newest, damaged = run.snapshots.latest()
    past = f" (past {len(damaged)} damaged ones)" if damaged else ""
    if newest is None:
        return f"{command('resume', run.url)} begins at the first row{past}"
    saved = Saved.of(newest)
    if saved.finished:
        return "the training is finished: there is nothing to resume"
    return (
        f"{command('resume', run.url)} goes on from snapshot {saved.name}{past}: "
        f"{passes_of(saved.cursor.passes, plan.passes, 'g')}"
        + (f", {counted(saved.cursor.rows_seen, 'row')}" if saved.cursor.rows_seen else "")
    )
