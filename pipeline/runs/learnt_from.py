"""Runs that have learnt from rows, or were chosen by them.

They learnt from a data set that had the rows, or from such a run on; others had them held out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.kinds import RUN_KEY

#: Folders below the one that is looked through: a store's runs lie two deep.
DEEPEST = 3


class Forgotten(NamedTuple):
    """A data set that rows were deleted of, by the fingerprints of its generations."""

    had: Collection[str]  # that had the rows
    now: str


class LearntRun(NamedTuple):
    """A run that has learnt from rows."""

    run: str
    plan: TrainingPlan
    itself: bool  # not only the model that it began at


def learnt_from(
    runs: str, sets: Sequence[Forgotten], storage_options: dict[str, Any] | None = None
) -> list[LearntRun]:
    """Return the runs in a folder, up to three deep, that have learnt from rows of data sets.

    Also those that they began at, wherever these lie.  A run whose record is damaged is passed
    over: `fewpass check` names it.  One on a data set as it is now is free of what that had.
    """
    learners: dict[str, LearntRun] = {}
    waiting = list(_runs_in(runs, storage_options))
    looked = set(waiting)
    for url in waiting:
        learnt = _learnt(url, sets, storage_options)
        if learnt is None:
            continue
        learners[url] = learnt
        start = learnt.plan.start_from
        if start is not None and start not in looked:
            looked.add(start)
            waiting.append(start)
    return [learners[url] for url in sorted(learners)]


def chosen_by(
    runs: str, had: Collection[str], storage_options: dict[str, Any] | None = None
) -> list[str]:
    """Return the runs in a folder, as above, that had data sets of these fingerprints held out.

    By such rows lam, the end of the training or probabilities were chosen, and losses measured.
    """
    every = _runs_in(runs, storage_options) if had else ()
    records = ((url, _record_of(url, storage_options)) for url in every)
    return sorted(url for url, one in records if one and one.held_out_fingerprint in had)


def learnt_beyond(runs: str, fingerprints: Collection[str]) -> list[str]:
    """Return the runs in a folder, as above, that have learnt from other data sets than these."""
    records = ((url, _record_of(url, None)) for url in _runs_in(runs, None))
    return sorted(url for url, one in records if one and not set(one.learnt).issubset(fingerprints))


def _record_of(url: str, storage_options: dict[str, Any] | None) -> RunRecord | None:
    try:
        return RunFolder(url, storage_options).record()
    except (Damaged, ValueError, OSError):
        return None


def _learnt(
    url: str, sets: Sequence[Forgotten], storage_options: dict[str, Any] | None
) -> LearntRun | None:
    if (record := _record_of(url, storage_options)) is None:
        return None
    own, earlier = set(record.rows_of), set(record.learnt_before)
    itself = any(not own.isdisjoint(had) for had, _ in sets)
    before = any(now not in own and not earlier.isdisjoint(had) for had, now in sets)
    return LearntRun(url, record.plan, itself) if itself or before else None


def learnt_by(start_from: str | None) -> tuple[str, ...]:
    """Return the fingerprints of all data sets that a model to start from has learnt from."""
    if start_from is None:
        return ()
    record: RunRecord = RunFolder(start_from).record()
    return record.learnt


def _runs_in(runs: str, storage_options: dict[str, Any] | None) -> Iterator[str]:
    folder = Folder(runs, storage_options)
    if folder.is_local:
        here = folder.local_path()
        patterns = ("/".join(["*"] * deep + [RUN_KEY]) for deep in range(DEEPEST + 1))
        yield from sorted(str(path.parent) for pattern in patterns for path in here.glob(pattern))
        return
    for key in folder.list():
        if key.rpartition("/")[2] == RUN_KEY and key.count("/") <= DEEPEST:
            yield folder.address(key).rpartition("/")[0]
