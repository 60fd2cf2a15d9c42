"""The rows that lam is chosen by: some of a data set, in memory, enough to choose it well."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.rows.row_summary import RowSummary
from fewpass.pipeline.rows.windows import chunk_bytes
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.registry import LOSS_OF_CLASSES
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Manifest
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import Table, concatenate, n_bytes, take

LEAST, TENTH = 100_000, 10  # rows at least, and the part of all at least
LEAST_ROWS = 30  # fewer tell nothing
SAMPLED = 43  # what a random generator is for


def sample_of(plan: TrainingPlan, dataset: Dataset) -> Table:
    """Return rows of a data set; the same ones for the same plan.

    Columns are in stored order.  A shuffled set's first chunks are a random sample, and so are
    those of each part of a view.  Of any other set every chunk gives some rows.
    """
    wanted, most = wanted_rows(plan, dataset), plan.budget.lam_rows
    if isinstance(dataset, MemoryDataset):
        fit = dataset.n_rows * most // max(1, n_bytes(dataset.table))
        return _some(plan, dataset.table, min(wanted, max(LEAST_ROWS, fit)))
    tables: list[Table] = []
    taken, rows = 0, 0
    for table in _read(plan, dataset, wanted):
        tables.append(table)
        taken, rows = taken + n_bytes(table), rows + table.n_rows
        if taken >= most or rows >= wanted:
            break
    return _some(plan, concatenate(tables), wanted)


def wanted_rows(plan: TrainingPlan, dataset: Dataset) -> int:
    """Return how many rows are wanted; one model of all classes has numbers for each of theirs."""
    n, targets = dataset.n_rows, dataset.manifest.targets
    wanted = min(n, max(LEAST, n // TENTH))
    together = plan.is_multinomial or plan.loss == LOSS_OF_CLASSES
    if not together or not isinstance(targets, Labels):
        return wanted
    most = plan.budget.lam_rows // (Budget.lam_class * len(targets.labels))
    return max(LEAST_ROWS, min(wanted, most))


def _read(plan: TrainingPlan, dataset: Dataset, wanted: int) -> Iterator[Table]:
    """Yield the rows of whole chunks; of sets that are not shuffled some of all stretches."""
    if dataset.manifest.is_shuffled:
        for k in range(dataset.n_chunks):
            yield dataset.read_stored(k)
        return
    largest = min(dataset.manifest.chunk_rows, dataset.n_rows)
    whole = dataset.n_rows * chunk_bytes(dataset.manifest) / largest
    share = min(1.0, wanted / dataset.n_rows, plan.budget.lam_rows / max(whole, 1.0))
    for chunks in _stretches(dataset.manifest):
        left = max(1, round(share * sum(map(dataset.manifest.rows_of, chunks))))
        for k in chunks:
            if left > 0:
                table = dataset.read_stored(k)
                yield _some(plan, table, left, k)
                left -= table.n_rows


def _stretches(manifest: Manifest) -> Iterator[range]:
    """Yield chunks whose rows are shuffled together: those of a view's part, else each alone."""
    first = 0
    for part in manifest.parts if manifest.shuffle.seed is not None else ():
        yield range(first, first + part.n_chunks)
        first += part.n_chunks
    yield from (range(k, k + 1) for k in range(first, manifest.n_chunks))


def _some(plan: TrainingPlan, table: Table, wanted: int, which: int = 0) -> Table:
    if table.n_rows <= wanted:
        return table
    rng = np.random.default_rng([plan.seed, SAMPLED, which])
    return take(table, np.sort(rng.choice(table.n_rows, wanted, replace=False)))


def in_memory(dataset: Dataset, table: Table) -> MemoryDataset:
    """Return rows of a data set as one of their own, with the same labels."""
    targets = dataset.manifest.targets
    if isinstance(targets, Labels):
        targets = RowSummary.of(table, targets).targets(targets)
    else:
        moments = {"mean": float(table.target.mean()), "variance": float(table.target.var())}
        targets = targets.model_copy(update=moments)
    return MemoryDataset(table, dataset.n_features, targets, dataset.feature_groups)
