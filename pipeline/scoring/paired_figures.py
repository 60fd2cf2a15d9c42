"""Several models on the same rows: differences from the first one, row by row, with intervals.

With figures l_ij of rows i under models j, the differences l_ij - l_i0 have a mean with an error
(paired_mean.py).  What the rows have in common cancels, as they are the
same: a difference is known far better than the figures themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.paired_mean import PairedMean
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluation import Evaluation, figures_of
from fewpass.pipeline.scoring.evaluation_job import problem_and_rule, scored_together
from fewpass.pipeline.scoring.figure_sums import (
    FigureSums,
    Measured,
    RowPredictions,
    row_predictions,
    sum_of_rows,
    with_rows,
)
from fewpass.pipeline.scoring.predictor import label_names
from fewpass.pipeline.scoring.reliability import errors_of
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.dataset import Dataset

Vector = NDArray[np.float64]

#: Figures of a row, by what models predict.
OF_LABELS, OF_PROBABILITIES, OF_NUMBERS = ("error",), ("error", "log_loss", "brier"), ("mae", "mse")
MOST_MODELS = 20


class Difference(NamedTuple):
    """A figure of a model, and how far it is from that of the first model."""

    metric: str
    value: float
    difference: float  # value - that of the first
    within: float  # 95 % interval: difference - within to difference + within


class ComparedModel(NamedTuple):
    """Figures of one model on the rows."""

    run: str
    evaluation: Evaluation
    differences: tuple[Difference, ...]


class ModelComparison(NamedTuple):
    """Figures of several models on the same rows; others are compared with the first."""

    rows: int
    models: tuple[ComparedModel, ...]
    positive: str | None  # the label that counts as +1; None for several labels, and for numbers


class Contestant(NamedTuple):
    """A model, ready to score rows."""

    model: Model
    problem: Problem
    measured: Measured
    names: tuple[str, ...]  # of the figures of a row

    @property
    def what(self) -> Sum:
        """The sum of all figures."""
        return sum_of_rows(self.measured)

    def scored(self, at: Weights, block: Block, part: FigureSums) -> tuple[FigureSums, Vector]:
        """Return the sums with those of a block's rows, and their figures (n, Q)."""
        figures = []
        for one in row_predictions(self.measured, self.problem, at, block):
            part = with_rows(self.measured, self.problem, one, part)
            figures.append(row_figures(self.names, one))
        return part, np.concatenate(figures)

    def figures_and_losses(self, block: Block) -> tuple[Vector, Vector]:
        """Return the figures (n, Q) and losses (n,) of a block, at the model's weights."""
        parts = row_predictions(self.measured, self.problem, self.model.weights, block)
        each = [(row_figures(self.names, one), one.losses) for one in parts]
        figures, losses = map(np.concatenate, zip(*each, strict=True))
        return figures, losses


class PairedPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    total: Vector  # (M, Q) weighted figures
    difference: PairedMean  # (M, Q) of them from those of the first model


def contestants(models: Sequence[Model], least: int = 2) -> list[Contestant]:
    """Make models ready; BadInput unless they predict the same."""
    if not least <= len(models) <= MOST_MODELS:
        raise BadInput(f"{len(models)} runs were named. Name 2 to {MOST_MODELS}.")
    first = models[0]
    for model in models[1:]:
        if not _are_alike(model, first):
            raise BadInput(
                f"{model.run.url} predicts {_in_words(model)}, and {first.run.url} "
                f"{_in_words(first)}. Compare models that predict the same."
            )
    measured = [Measured.of(model) for model in models]
    have_all = all(one.probabilities is not None for one in measured)
    names: tuple[str, ...] = OF_PROBABILITIES if have_all else OF_LABELS
    names = OF_NUMBERS if first.predicts_numbers else names
    return [_contestant(*pair, names) for pair in zip(models, measured, strict=True)]


def _contestant(model: Model, measured: Measured, names: tuple[str, ...]) -> Contestant:
    problem, _ = problem_and_rule(model.record, model.lam)
    return Contestant(model, problem, measured, names)


def _are_alike(one: Model, other: Model) -> bool:
    """Say whether both predict the same labels, tell the same one from all others, or numbers."""
    named = all(model.record.plan.positive is not None for model in (one, other))
    return _labels(one) == _labels(other) or (
        named and one.record.positive == other.record.positive
    )


def _labels(model: Model) -> tuple[str, ...]:
    """Return the labels that a model tells apart, of two the positive one last; () of numbers."""
    return () if model.predicts_numbers else tuple(map(label_text, label_names(model)))


def _in_words(model: Model) -> str:
    labels = _labels(model)
    return f"the labels {', '.join(labels[:20])}" if labels else "numbers"


def row_figures(names: tuple[str, ...], one: RowPredictions) -> Vector:
    """Return the figures of these names of every row, (n, Q)."""
    p, classes = one.p, one.rows.classes
    if names == OF_NUMBERS:
        error = one.predicted - one.rows.y
        return np.stack([np.abs(error), error**2], axis=1)
    columns = [(one.predicted != classes).astype(np.float64)]
    if names == OF_PROBABILITIES:
        assert p is not None, "all models have probabilities"
        brier, log_loss, *_ = errors_of(p, classes)
        columns += [log_loss, brier]
    return np.stack(columns, axis=1)


def paired(figures: Sequence[Vector], weight: Vector) -> PairedPart:
    """Return the sums of rows with figures (n, Q) of every model."""
    each = np.stack([one.T for one in figures])  # (M, Q, n)
    return PairedPart(each @ weight, PairedMean.of(each - each[0], weight))


def differences(total: PairedPart, names: tuple[str, ...], m: int) -> tuple[Difference, ...]:
    """Return the figures of model m, and how far they are from those of the first."""
    values, apart = total.total[m] / total.difference.weight, total.difference
    columns = (one.tolist() for one in (values, apart.mean[m], apart.within[m]))
    return tuple(Difference(*one) for one in zip(names, *columns, strict=True))


def comparison_of(
    those: Sequence[Contestant], sums: Sequence[Any], total: PairedPart
) -> ModelComparison:
    """Return what sums over the rows say of every model, and of its differences from the first."""
    models = []
    for m, (of, own) in enumerate(zip(those, sums, strict=True)):
        figures = figures_of(of.problem, of.model.record, of.model.weights, own)
        models.append(ComparedModel(of.model.run.url, figures, differences(total, of.names, m)))
    first = those[0].model.record
    return ModelComparison(models[0].evaluation.rows, tuple(models), first.positive)


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
    what = Sum("reduce-comparison", partial(_no_sums, bare), partial(_add_block, bare))
    sums, total = scored_together(models, dataset, executor, what, rules)
    return comparison_of(those, sums, total)


def _without_run(model: Model) -> Model:
    """Return a model without its weights, which workers read themselves."""
    empty = Weights(np.empty(0), 0.0)
    return model._replace(weights=empty, scale=None, shift=None)


def _no_sums(those: Sequence[Contestant], at: tuple[Weights, ...]) -> tuple[Any, PairedPart]:
    shape = len(those), len(those[0].names)
    none = PairedPart(np.zeros(shape), PairedMean.none(*shape))
    return tuple(of.what.zero(own) for of, own in zip(those, at, strict=True)), none


def _add_block(
    those: Sequence[Contestant], _problem: Problem, at: tuple[Weights, ...], block: Block,
    part: tuple[Any, PairedPart],
) -> tuple[Any, PairedPart]:  # fmt: skip
    """Add a block to the sums of every model, and to those of all differences."""
    each = zip(those, at, part[0], strict=True)
    sums, figures = zip(*(of.scored(own, block, sums) for of, own, sums in each), strict=True)
    return sums, add_parts(part[1], paired(figures, block.weight))
