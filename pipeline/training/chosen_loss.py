"""The loss of numbers from 0 where nobody gave one: squared, or one of amounts (poisson).

Effects on amounts often multiply: a carat adds more to the price of a clear stone.  The loss of
amounts has exp(score) for its prediction, of which that is a sum.  Both losses have the mean for
their best prediction, so models of both, each with a lam of its own, are compared by the squared
errors of held-out rows.  Where few large targets decide these, and they do not tell the models
apart, the deviance of the loss of amounts does, which counts errors in proportion.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from fewpass.pipeline.passes.blas import one_blas_thread
from fewpass.pipeline.planning.default_memory import require_memory
from fewpass.pipeline.rows.targets import Targeted, TargetRule, clipped, range_of
from fewpass.pipeline.runs.grid import LamOrigin, LossChoice
from fewpass.pipeline.scoring.probabilities import block_scores, responses
from fewpass.pipeline.scoring.row_losses import RowLosses
from fewpass.pipeline.settings.regularisation import AUTO
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.chosen_lam import with_chosen_lam
from fewpass.pipeline.training.lam_comparison import LamComparison
from fewpass.solvers.losses import Problem, value
from fewpass.solvers.protocol import Block, Weights
from fewpass.solvers.registry import LOSS_OF_AMOUNTS, LOSS_OF_NUMBERS, loss_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Values

LEAST_ROWS, MOST_COLUMNS = 100, 50_000  # of more, such as words, every model takes long
VARIES = 0.2  # of the mean: of targets that differ less a logarithm is nearly a line
LOWER = 0.01  # squared errors by which it is worth a logarithm
MUCH, SURE = 0.1, 2.0  # deviance, and standard errors of it, where squared errors do not tell
FLOOR = 0.01  # of the mean target: a prediction of 0 is infinitely far from any other target


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
    if not isinstance(targets, Values) or targets.minimum < 0.0 or dataset.manifest.has_offset:
        return False
    plain = plan.metric == "loss" and not plan.l1_share and plan.intercept != "none"
    narrow = dataset.n_features <= MOST_COLUMNS
    by_rows = not (encoding and encoding.grouped) and dataset.n_rows >= LEAST_ROWS
    varies = targets.variance >= (VARIES * targets.mean) ** 2 > 0.0
    return plain and narrow and by_rows and varies


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
    predicted = responses(problem.loss, block_scores(problem, at, block))
    predicted = clipped(predicted, range_of(data, problem.loss, None) if plan.clip else None)
    scores = np.log(np.maximum(predicted, FLOOR * data.targets.mean))
    of_amounts = value(loss_class(LOSS_OF_AMOUNTS)(), scores, block.y)
    return RowLosses(np.array([np.square(predicted - block.y), of_amounts]), None, block.weight)


def loss_choice(of_numbers: RowLosses, of_amounts: RowLosses) -> LossChoice:
    """Return which loss is taken by the errors of both's predictions."""
    both = of_numbers.with_models(of_amounts)
    means = both.mean()
    (square, square_error), (deviance, deviance_error) = (
        (means[k + 2] / means[k] - 1.0, both.standard_errors(k)[k + 2] / means[k]) if means[k] > 0.0
        else (0.0, 0.0)
        for k in (0, 1)
    )  # fmt: skip
    lower = square <= -max(LOWER, square_error)
    unsure = abs(square) <= square_error
    nearer = unsure and deviance <= -max(MUCH, SURE * deviance_error)
    word = LOSS_OF_AMOUNTS if lower or nearer else LOSS_OF_NUMBERS
    figures = (square, square_error, deviance, deviance_error)
    return LossChoice(word, LOSS_OF_NUMBERS, *map(float, figures))
