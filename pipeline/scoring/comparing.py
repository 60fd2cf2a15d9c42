"""Several models on the rows of a data set, compared in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluation_job import scored_together
from fewpass.pipeline.scoring.paired_figures import (
    Contestant,
    ModelComparison,
    PairedPart,
    comparison_of,
    contestants,
    paired,
    row_figures,
)
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.dataset import Dataset


def compare(
    models: Sequence[Model], dataset: Dataset, executor: Executor, rules: Matching = BY_NAME
) -> ModelComparison:
    """Compare models on a data set whose columns all of them have, in one pass.

    Raises
    ------
    BadInput
        They do not predict the same, or the data set is not one of a model's.
    """
    those = contestants(models)
    bare = [of._replace(model=_without_run(of.model)) for of in those]
    what = Sum("reduce-comparison", partial(_none, bare), partial(_add, bare))
    sums, total = scored_together(models, dataset, executor, what, rules)
    return comparison_of(those, sums, total)


def _without_run(model: Model) -> Model:
    """Return a model without its weights, which workers read themselves."""
    empty = Weights(np.empty(0), 0.0)
    return model._replace(weights=empty, scale=None, shift=None)


def _none(those: Sequence[Contestant], at: tuple[Weights, ...]) -> tuple[Any, PairedPart]:
    zeros = np.zeros((len(those), len(those[0].names)))
    none = PairedPart(0.0, 0.0, zeros, zeros.copy(), zeros.copy())
    return tuple(of.what.zero(own) for of, own in zip(those, at, strict=True)), none


def _add(
    those: Sequence[Contestant], _problem: Problem, at: tuple[Weights, ...], block: Block,
    part: tuple[Any, PairedPart],
) -> tuple[Any, PairedPart]:  # fmt: skip
    """Add a block to the sums of every model, and to those of all differences."""
    each = list(zip(those, at, strict=True))
    sums = tuple(
        of.what.add(of.problem, own, block, before)
        for (of, own), before in zip(each, part[0], strict=True)
    )
    figures = [row_figures(of, own, block) for of, own in each]
    return sums, add_parts(part[1], paired(figures, block.weight))
