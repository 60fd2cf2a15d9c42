"""The loss of numbers from 0 where nobody gave one: squared, or one of amounts (poisson).

Effects on amounts often multiply: a carat adds more to the price of a clear stone.  The loss of
amounts has exp(score) for its prediction, of which that is a sum.  Both losses have the mean for
their best prediction, so models of both, each with a lam of its own, are compared by how they
predict held-out rows (rows/amounts.py).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fewpass.pipeline.passes.blas import one_blas_thread
from fewpass.pipeline.planning.default_memory import require_memory
from fewpass.pipeline.rows.amounts import (
    LEAST_ROWS,
    AmountsAgainstNumbers,
    may_multiply,
    prediction_errors,
)
from fewpass.pipeline.rows.targets import Targeted, TargetRule, clipped, range_of
from fewpass.pipeline.runs.grid import LamOrigin, LossChoice
from fewpass.pipeline.scoring.probabilities import responses, scored_parts
from fewpass.pipeline.scoring.row_losses import RowLosses
from fewpass.pipeline.settings.regularisation import AUTO
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.chosen_lam import with_chosen_lam
from fewpass.pipeline.training.lam_comparison import LamComparison
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Weights
from fewpass.solvers.registry import LOSS_OF_AMOUNTS, LOSS_OF_NUMBERS
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Values

MOST_COLUMNS = 50_000  # of more, such as words, every model takes long


def with_chosen_loss(
    plan: TrainingPlan, dataset: Dataset, held_out: Dataset | None = None, *, near: bool = True
) -> tuple[TrainingPlan, LamOrigin | None]:
    """Return the plan with loss and lam chosen where they are "auto", and how; as with_chosen_lam.

    The loss is chosen where lam is, too, of numbers from 0 that differ by a fifth of their mean.
    """
    if plan.loss != AUTO:
        return with_chosen_lam(plan, dataset, held_out, near=near)
    if not _may_multiply(plan, dataset):
        usual = plan.model_copy(update={"loss": None})
        return with_chosen_lam(usual, dataset, held_out, near=near)
    require_memory(plan, dataset, near=near)
    compared = LamComparison.on(plan, dataset, held_out, again=True)
    words = LOSS_OF_NUMBERS, LOSS_OF_AMOUNTS
    plans = [plan.model_copy(update={"loss": word}) for word in words]
    each = [with_chosen_lam(one, dataset, near=near, compared=compared) for one in plans]
    with one_blas_thread():
        choice = loss_choice(*(compared.losses(own, errors_of_predictions) for own, _ in each))
    chosen, origin = each[words.index(choice.loss)]
    return chosen, origin and origin._replace(loss=choice)


def _may_multiply(plan: TrainingPlan, dataset: Dataset) -> bool:
    """Say whether a loss of amounts may be nearer to the targets, and costs little to try."""
    targets, encoding = dataset.manifest.targets, dataset.schema and dataset.schema.encoding
    if not isinstance(targets, Values) or dataset.manifest.has_offset:
        return False
    plain = plan.metric == "loss" and not plan.l1_share and plan.intercept != "none"
    narrow = dataset.n_features <= MOST_COLUMNS
    by_rows = not (encoding and encoding.grouped) and dataset.n_rows >= LEAST_ROWS
    may = may_multiply(targets.minimum, targets.mean, targets.variance)
    return plain and narrow and by_rows and may


def errors_of_predictions(
    plan: TrainingPlan,
    data: Targeted,
    problem: Problem,
    _rule: TargetRule,
    block: Block,
    models: Iterable[Weights],
) -> RowLosses:
    """Return the squared errors of a model's predictions, and their loss as amounts, (2, n)."""
    (at,) = models
    assert isinstance(data.targets, Values), "numbers are predicted"
    predicted = responses(
        problem.loss, np.concatenate([s.scores for s in scored_parts(problem, at, block)])
    )
    predicted = clipped(predicted, range_of(data, problem.loss, None) if plan.clip else None)
    return RowLosses(prediction_errors(predicted, block.y, data.targets.mean), None, block.weight)


def loss_choice(of_numbers: RowLosses, of_amounts: RowLosses) -> LossChoice:
    """Return which loss is taken by the errors of both's predictions."""
    both = of_numbers.with_models(of_amounts)
    means = both.mean()
    square, deviance = (
        (means[k + 2] / means[k] - 1.0, both.standard_errors(k)[k + 2] / means[k]) if means[k] > 0.0
        else (0.0, 0.0)
        for k in (0, 1)
    )  # fmt: skip
    above = AmountsAgainstNumbers(*map(float, (*square, *deviance)))
    word = LOSS_OF_AMOUNTS if above.are_nearer else LOSS_OF_NUMBERS
    return LossChoice(word, LOSS_OF_NUMBERS, *above)
