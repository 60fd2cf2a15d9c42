"""Delete rows of a data set for good: a new generation without them, and nothing of any other.

Rows keep their order, and chunks before the first row that goes stay as they are.  Once the
manifest is replaced, the objects of all earlier generations are removed, which the next change sees
to where this one was killed between.  Test rows that the ingest held out go the same way, first.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.errors import BadInput, NoRowLeft, NoRowMeant
from fewpass.pipeline.memory import peak_memory_bytes, return_freed_memory
from fewpass.pipeline.settings.change_plans import ForgetPlan
from fewpass.pipeline.tables.changing.condition import Condition
from fewpass.pipeline.tables.changing.one_change import changing
from fewpass.pipeline.tables.changing.rows_left import (
    ChunksAtOnce,
    Rows,
    ShowShare,
    rewrite_without,
)
from fewpass.pipeline.tables.ingest.retained_columns import Retained
from fewpass.pipeline.tables.ingest.set_pair import test_rows_of
from fewpass.pipeline.tables.ingest.work_dir import WorkDir
from fewpass.storage.dataset import Dataset
from fewpass.storage.ordered import ordered_map

#: Rows of which a dry run shows what is kept of them.
EXAMPLES = 5


class ForgetResult(BaseModel):
    """The result of a forget, or of what it would do (`dry_run`).

    `rows` are those of the data set now, `forgotten` those that went or would go, `unmatched` how
    many values no row had.  `examples` are kept cells of some rows that would go.  `learnt_from`
    are the fingerprints of the generations that had such rows.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: str
    generation: int
    rows: int
    forgotten: int
    test_dataset: str | None = None
    test_rows: int = 0
    test_forgotten: int = 0
    unmatched: int = 0
    dry_run: bool = False
    examples: tuple[dict[str, str], ...] = ()
    seconds: float = 0.0
    peak_memory_bytes: int = 0
    learnt_from: tuple[str, ...] = ()
    test_fingerprints: tuple[str, ...] = ()
    """Of the generations of the test rows that had such rows."""
    test_fingerprint: str = ""
    """Of the test rows now."""
    models: tuple[str, ...] = ()
    """Runs that have learnt from one of these, or began at such a run; they are as they were."""
    chosen: tuple[str, ...] = ()
    """Runs that have not learnt from such rows, and had them held out."""
    published: tuple[str, ...] = ()
    """Those of `models` that were published."""
    retrained: tuple[str, ...] = ()
    """Runs trained anew."""
    notes: tuple[str, ...] = ()
    """Remarks about test rows, and reasons why models were not trained anew."""
    fingerprint: str


def forget(plan: ForgetPlan, *, progress: ShowShare = lambda _share, _said: None) -> ForgetResult:
    """Delete rows of one data set; see `forget_in`."""
    return forget_in([plan.dataset], plan, progress=progress)[0]


def forget_in(
    datasets: Sequence[str], plan: ForgetPlan, *, progress: ShowShare = lambda _share, _said: None
) -> list[ForgetResult]:
    """Delete rows of data sets, and of their test rows; finish a deletion that was cut short.

    Parameters
    ----------
    datasets
        Where they lie; all keep the same columns.
    plan
        Which rows.
    progress
        Called with the share that is done, and words for it.

    Returns
    -------
    list of ForgetResult
        One for each; with nothing forgotten where no row is meant and `allow_none` is set.

    Raises
    ------
    NoRowMeant
        No row meets the condition; nothing was changed.  A BadInput.
    NoRowLeft
        All rows of a data set meet it; nothing was changed.  A BadInput.
    BadInput
        A condition that cannot be read, on a column that is not kept, or of numbers on text.
    NotADataset, BusyPlace, FileNotFoundError, PermissionError, OSError
        As for `ingest`.
    """
    began = time.perf_counter()
    return_freed_memory(plan.budget.rows)
    threads = plan.threads or len(os.sched_getaffinity(0))
    with ExitStack() as changes:
        pairs = [_pair(one, plan, changes) for one in datasets]
        first, *_ = sets = [one for pair in pairs for one in pair.sets]
        condition = Condition(
            plan.where, first.manifest.retained, first.folder.url, plan.storage_options
        )
        looked = _looked_in(sets, condition, threads)
        _require_some(looked, allow_none=plan.allow_none)
        if not plan.dry_run:
            owned = (pair.work_dirs for pair in pairs for _ in pair.sets)
            changed = [*zip(looked, owned, strict=True)]
            several = (_forgotten(*one, plan, threads, progress) for one in reversed(changed))
            looked = [*several][::-1]
    took, every = time.perf_counter() - began, iter(looked)
    results = [_result(plan, [next(every) for _ in pair.sets], pair.notes) for pair in pairs]
    same = {"unmatched": condition.unmatched, "seconds": took}
    return [one.model_copy(update=same) for one in results]


class _Pair(NamedTuple):
    """A data set and that of its test rows, if there is one, and what to say of these."""

    sets: list[Dataset]
    notes: tuple[str, ...]
    work_dirs: Sequence[WorkDir]


def _pair(dataset: str, plan: ForgetPlan, changes: ExitStack) -> _Pair:
    """Open a data set and its test rows, alone in them unless they are only looked at."""
    if plan.dry_run:
        training, work_dirs = Dataset.open(dataset, plan.storage_options), list[WorkDir]()
        test, note = test_rows_of(training)
        notes = tuple([note] if note is not None else [])
    else:
        own = plan.model_copy(update={"dataset": dataset})
        training, test, _, work_dirs, notes = changes.enter_context(changing(own))
    return _Pair([one for one in (training, test) if one is not None], notes, work_dirs)


def _result(plan: ForgetPlan, looked: Sequence[RowsMeant], notes: tuple[str, ...]) -> ForgetResult:
    now, *tested = looked
    manifest = now.dataset.manifest
    return ForgetResult(
        dataset=now.dataset.folder.url,
        generation=manifest.generation,
        rows=now.dataset.n_rows,
        forgotten=now.n_rows,
        test_dataset=tested[0].dataset.folder.url if tested else None,
        test_rows=sum(one.dataset.n_rows for one in tested),
        test_forgotten=sum(one.n_rows for one in tested),
        dry_run=plan.dry_run,
        examples=tuple(row for one in looked for row in one.examples)[: EXAMPLES * plan.dry_run],
        peak_memory_bytes=peak_memory_bytes(),
        learnt_from=tuple(_that_had_rows(now, dry_run=plan.dry_run)),
        test_fingerprints=tuple(
            name for one in tested for name in _that_had_rows(one, dry_run=plan.dry_run)
        ),
        test_fingerprint=next((one.dataset.manifest.fingerprint for one in tested), ""),
        fingerprint=manifest.fingerprint,
        notes=notes,
    )


def _that_had_rows(now: RowsMeant, *, dry_run: bool) -> list[str]:
    """Return the fingerprints of the generations before the last in which rows were forgotten."""
    changes = now.dataset.manifest.changes
    if dry_run and now.n_rows:
        return [*(one.parent for one in changes), now.dataset.manifest.fingerprint]
    last = max((k for k, one in enumerate(changes) if one.change == "forget"), default=-1)
    return [one.parent for one in changes[: last + 1]]


class RowsMeant(NamedTuple):
    """The rows of a data set that a condition means."""

    dataset: Dataset
    places: list[Rows]  # in every chunk
    examples: list[dict[str, str]]  # kept cells of the first ones

    @property
    def n_rows(self) -> int:
        """Return the number of rows."""
        return sum(len(own) for own in self.places)


def _looked_in(sets: Sequence[Dataset], condition: Condition, threads: int) -> list[RowsMeant]:
    """Return which rows are meant: by all rows columns are numbers or text, then each decides."""
    for each in sets:
        if each.manifest.retained != sets[0].manifest.retained:
            raise BadInput(
                f"{each.folder.url} keeps other columns than {sets[0].folder.url}. Name one of "
                "these data sets."
            )
        _learn_kinds(each, condition, threads)
    condition.decide()
    return [_looked(each, condition, threads) for each in sets]


def _learn_kinds(dataset: Dataset, condition: Condition, threads: int) -> None:
    for retained in _retained_in(dataset, threads):
        if not condition.is_learning:
            return
        condition.learn(retained)


def _looked(dataset: Dataset, condition: Condition, threads: int) -> RowsMeant:
    """Return which rows of a data set are meant; nothing is changed."""
    meant = RowsMeant(dataset, [], [])
    for retained in _retained_in(dataset, threads):
        own = np.flatnonzero(condition.of(retained))
        meant.places.append(own)
        for row in own[: EXAMPLES - len(meant.examples)]:
            meant.examples.append(condition.shown(retained[row : row + 1]))
    return meant


def _retained_in(dataset: Dataset, threads: int) -> Iterator[Retained]:
    with ThreadPoolExecutor(threads, "forget-look") as pool:
        yield from ordered_map(pool, dataset.read_retained, range(dataset.n_chunks), threads + 1)


def _require_some(looked: Sequence[RowsMeant], *, allow_none: bool) -> None:
    """Refuse to delete no row at all, or all rows of a set."""
    for dataset, places, _ in looked:
        if sum(map(len, places)) == dataset.n_rows:
            raise NoRowLeft(
                f"No row of {dataset.folder.url} would be left, and a data set has one at least. "
                "Delete its folder instead.",
                dataset.folder.url,
            )
    if not allow_none and not any(one.n_rows for one in looked):
        n_rows = sum(one.dataset.n_rows for one in looked)
        names = [one.dataset.folder.url for one in looked]
        more = f" and {len(names) - 2} others" if len(names) > 2 else ""
        raise NoRowMeant(
            f"None of the {n_rows:,} rows of {' and '.join(names[:2])}{more} meets the condition, "
            "so nothing was changed. Correct it, or say that none may be there (`allow_none`), as "
            "to finish a call that was cut short."
        )


def _forgotten(
    meant: RowsMeant, work_dirs: Sequence[WorkDir], plan: ForgetPlan, threads: int,
    progress: ShowShare,
) -> RowsMeant:  # fmt: skip
    """Return the data set without the rows that are meant; leaves nothing of them."""
    before, gone = meant.dataset, meant.n_rows
    if gone:
        progress(0.0, f"deleting {gone:,} of {before.n_rows:,} rows of {before.folder.name}")
        at_once = ChunksAtOnce.of(before, plan.budget, threads)
        rewrite_without(before, meant.places, work_dirs, at_once, progress)
    return meant._replace(dataset=Dataset.open(before.folder))
