"""Rows and columns at once, for methods that read single ones of both in any order."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.best_constant import levelled
from fewpass.pipeline.planning.planned_problem import stats_of
from fewpass.pipeline.planning.problem import problem_of, training_rule
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.solvers.drive import NO_ROW_STATE, sweeps
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_state import RUNNING, read_column
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.kernels.scores import scores
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import refuse_penalty
from fewpass.solvers.protocol import Block, ProblemStats
from fewpass.solvers.simba.lazy import SparseCopies
from fewpass.solvers.simba.simba import DenseCopies, Simba
from fewpass.storage.addresses import command
from fewpass.storage.column_copy import Arrays, copy_bytes, has_columns, load_columns, map_columns
from fewpass.storage.dataset import Dataset

PILOT = 31  # what a random generator is for


class FeatureData(NamedTuple):
    """The data that such a method works on."""

    dataset: Dataset
    problem: Problem
    stats: ProblemStats
    copies: DenseCopies | SparseCopies
    rows: Rows
    y: NDArray[np.float64]  # (n,) -1 and +1
    mapped: bool  # from files; otherwise in memory

    @property
    def values(self) -> int:
        """Numbers stored: what one pass reads."""
        return self.dataset.manifest.nnz

    @property
    def value_bytes(self) -> int:
        """Bytes of a number, with its position where it has one."""
        manifest = self.dataset.manifest
        position = manifest.index_dtype.itemsize if manifest.layout == "sparse" else 0
        return np.dtype(manifest.dtype).itemsize + position


def feature_data(plan: TrainingPlan, dataset: Dataset) -> FeatureData:
    """Map the column copy of a data set, or make one in memory where it fits.

    Raises
    ------
    BadInput
        When plan and data set do not fit: targets, row weights, memory.
    ValueError
        When the method does not take the penalty.
    Damaged
        When the copy, or a chunk, is not intact.
    """
    manifest = dataset.manifest
    problem = problem_of(plan, manifest)
    refuse_penalty(plan.solver.kind, plan.solver.needs, problem)  # type: ignore[union-attr]
    rule = training_rule(plan, manifest, problem.loss)
    if rule.n_classes:
        raise BadInput(
            f"simba tells two classes apart, but {dataset.folder.url} has {rule.n_classes} labels. "
            "Name the one that counts as +1 with `positive`."
        )
    if manifest.has_weight:
        raise BadInput(
            f"simba knows no row weights, but {dataset.folder.url} has them. Choose sdca, or "
            "ingest without `weight`."
        )
    if not manifest.norms.max_square:
        raise BadInput(f"All rows of {dataset.folder.url} are empty: there is nothing to learn.")
    mapped = has_columns(dataset)
    arrays = map_columns(dataset) if mapped else _in_memory(plan, dataset)
    y = np.ascontiguousarray(rule.read(arrays["target"]))
    constants = levelled(problem, rule, dataset, dataset.sample(MOST_ROWS)).constants
    stats = stats_of(manifest, rule, problem, seed=plan.seed)._replace(constants=constants)
    copies, rows = _as_kernels_see(arrays)
    return FeatureData(dataset, problem, stats, copies, rows, y, mapped)


def _in_memory(plan: TrainingPlan, dataset: Dataset) -> Arrays:
    """Make rows and columns in memory, unless they are too large for it."""
    assert isinstance(plan.solver, Simba), "no other method asks"
    most = memory_for(dataset)
    if most > plan.memory and not plan.solver.beyond_memory:
        raise BadInput(
            f"Rows and columns of {dataset.folder.url} take {format_bytes(copy_bytes(dataset))} in "
            f"memory, {format_bytes(most)} while they are made: more than `memory` "
            f"{format_bytes(plan.memory)}. Make a copy on disk with "
            f"`{command('column-copy', dataset.folder.url)}`, or force it with "
            "`solver.beyond_memory=true`."
        )
    return load_columns(dataset)


def memory_for(dataset: Dataset) -> int:
    """Bytes that it takes to hold a data set by row and by column, with a method's state."""
    state = Budget.single_row * dataset.n_rows + Budget.single_column * dataset.n_features
    return Budget.single_copies * copy_bytes(dataset) + state


def _as_kernels_see(arrays: Arrays) -> tuple[DenseCopies | SparseCopies, Rows]:
    if "rows" in arrays:
        return DenseCopies(arrays["rows"], arrays["columns"]), DenseRows(arrays["rows"])
    rows, columns = (_sparse_rows(arrays, name) for name in ("rows", "columns"))
    return SparseCopies(rows, columns), rows


def _sparse_rows(arrays: Arrays, name: str) -> SparseRows:
    indices = arrays[f"{name}/indices"]
    unsigned = indices.view(f"u{indices.itemsize}")
    return SparseRows(arrays[f"{name}/data"], unsigned, arrays[f"{name}/indptr"])


class Pilot(NamedTuple):
    """The result of a short training."""

    nu: float
    accesses: int  # values read


def find_nu(data: FeatureData, passes: int) -> Pilot:
    """Train by dual coordinate ascent for a few passes; return nu = hinge loss / (R ||w||).

    Raises
    ------
    BadInput
        When the weights stay zero, as for a lam without bound.
    """
    n, seed = data.stats.n, data.stats.seed
    block = Block(data.rows, data.y, np.ones(n), np.arange(n), NO_ROW_STATE)
    walks = sweeps(
        Sdca(), data.problem, data.stats, block,
        lambda sweep, _: np.random.default_rng([seed, PILOT, sweep]).permutation(n),
    )  # fmt: skip
    *_, last = islice(walks, passes)
    w, b = read_column(last.state, RUNNING)
    length = float(np.sqrt(data.stats.max_square) * np.linalg.norm(w))
    if length == 0.0:
        raise BadInput("The pilot's weights are zero. Choose a smaller `lam`, or give solver.nu.")
    loss = np.maximum(0.0, 1.0 - data.y * scores(w, data.problem.intercept * b, data.rows)).mean()
    return Pilot(float(loss) / length, (passes + 1) * data.values)
