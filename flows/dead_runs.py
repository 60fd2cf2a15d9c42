"""Run folders whose training died or got stuck, by their lease and log, and what would go on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.lease import KEY as LEASE
from fewpass.pipeline.runs.lease import holder_of, release_stale
from fewpass.pipeline.runs.run_folder import KEY, RunFolder
from fewpass.pipeline.runs.run_log import LOG
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.sizes import counted, format_passes
from fewpass.storage.addresses import command
from fewpass.storage.folder import Folder

WHEN_STALLED = "look what it waits for: disk, store, workers; once ended, fewpass resume goes on"
TELLING = (KEY, LOG, LEASE)  # objects that only a run has


class Finding(NamedTuple):
    """One run that was looked at."""

    what: str  # a run folder's address, or a flow run's name
    alive: bool | None  # None: nobody claims to be at it
    why: str
    done: tuple[str, ...]  # what was put right
    resume: str
    stalled: bool = False  # alive, and without progress for far longer than is usual for it
    folder: str | None = None  # the run folder, where it is known


def run_folders(urls: Iterable[str]) -> list[str]:
    """Return the run folders named, and those below folders that are none; each of them once.

    Raises BadInput where there is no run.
    """
    return list(dict.fromkeys(run for url in urls for run in _runs_at(Folder(url))))


def _runs_at(folder: Folder) -> Iterator[str]:
    if any(folder.exists(key) for key in TELLING):
        yield folder.url
        return
    parts = (key.rpartition("/") for key in folder.list())
    below = sorted({place for place, _, name in parts if name in TELLING})
    if not below:
        raise BadInput(f"There is no run at {folder.url}, or below. Check the address.")
    yield from (f"{folder.url}/{name}" for name in below)


def named_host(host: str) -> str:
    """Name a machine; one that gave no name is not left blank."""
    return host or "a machine that gave no name"


def each_once(findings: Iterable[Finding]) -> list[Finding]:
    """Leave out findings of a run folder that another one is of, too: the first one stays."""
    seen: set[str] = set()
    once = []
    for finding in findings:
        if finding.folder is None or finding.folder not in seen:
            once.append(finding)
        seen |= {finding.folder} if finding.folder else set()
    return once


def examine_folder(url: str, *, fix: bool) -> Finding:
    """Look at a run folder's lease; a dead holder's is removed if `fix`."""
    run = RunFolder(url)
    holder = holder_of(run.folder)
    resume = what_resumes(run)
    if holder is None:
        return Finding(url, None, "no process is training it", (), resume, folder=run.url)
    who = f"process {holder.pid} on {named_host(holder.host)}"
    if holder.is_dead():
        done = ("freed its lease",) if fix and release_stale(run.folder) else ()
        return Finding(url, False, f"{who} is dead", done, resume, folder=run.url)
    stuck = stalled(run)
    if stuck is not None:
        return Finding(url, True, f"{who} trains into it: {stuck}", (), WHEN_STALLED, True, run.url)
    why = f"{who} trains into it, last sign of life {holder.silence():.0f} s ago"
    return Finding(url, True, why, (), "nothing to resume: it is being trained", False, run.url)


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
        f"{saved.cursor.passes:g} of {format_passes(plan.passes, ',')}"
        + (f", {counted(saved.cursor.rows_seen, 'row')}" if saved.cursor.rows_seen else "")
    )
