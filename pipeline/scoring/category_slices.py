"""Figures of slices of a stored data set: one for every value of a column that is a category."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.rows.buffers import free_buffers, rows_taken
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluated_slices import SLICE_BITS
from fewpass.pipeline.scoring.evaluation import Evaluation, figures_of
from fewpass.pipeline.scoring.evaluation_job import scored
from fewpass.pipeline.scoring.figure_sums import USUAL, Measured, side_by_side, sum_of_rows
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum
from fewpass.storage.dataset import Dataset

#: Values of a column at most: each has sums of its own.
MOST_VALUES = 200


def evaluate_slices(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    column: str,
    on_report: Callable[[SpanReport], None] = lambda _: None,
) -> dict[str, Evaluation]:
    """Evaluate a model on the rows of each value of a category, in one pass.

    Parameters
    ----------
    column
        Name of the source's column.

    Returns
    -------
    dict of str to Evaluation
        Of every value that any row has, of the rare or unseen ones together, and of missing ones.

    Raises
    ------
    BadInput
        The data set has no such category, or one of too many values.
    """
    features = _features_of(dataset, column)
    order = dataset.column_order.source
    measured = Measured.of(model, USUAL)
    places = [k if order is None else int(dataset.column_order.place[k]) for k in features.values()]
    what = _sums(measured, places)
    job, total, _ = scored(model, dataset, executor, what, on_report)
    executor.everywhere(free_buffers)
    return {
        name: figures_of(job.problem, model.record, model.weights, part)
        for name, part in zip(features, total, strict=True)
        if part.rows
    }


def _features_of(dataset: Dataset, column: str) -> dict[str, int]:
    """Return the features of a category's values, by the value."""
    recipe = recipe_in(dataset.schema)
    first = 0
    for part in recipe.parts if recipe else ():
        if part.name == column and isinstance(part, Category):
            if part.width > MOST_VALUES:
                raise BadInput(
                    f"Column {column!r} has {part.width:,} values, and {MOST_VALUES} are looked at "
                    "each. Name another."
                )
            names = [name.removeprefix(f"{column}=") for name in part.outputs]
            return {name: first + k for k, name in enumerate(names)}
        first += part.width
    raise BadInput(
        f"{dataset.folder.url} has no category {column!r}, whose values would be slices. "
        "fewpass inspect lists its columns."
    )


def _sums(measured: Measured, places: Sequence[int]) -> Sum:
    whole = sum_of_rows(measured, SLICE_BITS)
    return side_by_side(
        [whole._replace(add=partial(_add_rows_with, place, whole)) for place in places]
    )


def _add_rows_with(
    place: int, whole: Sum, problem: Problem, at: Any, block: Block, part: Any
) -> Any:
    """Add the rows of a block in which a feature is not 0."""
    rows = block.rows
    if isinstance(rows, DenseRows):
        chosen = np.flatnonzero(rows.X[:, place])
    else:
        hits = np.flatnonzero((rows.indices == place) & (rows.data != 0.0))
        chosen = np.searchsorted(rows.indptr, hits, side="right") - 1
    if not len(chosen):
        return part
    return whole.add(problem, at, rows_taken(block, chosen), part)
