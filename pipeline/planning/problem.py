"""The problem of a plan on a data set: loss, lam and intercept."""

from __future__ import annotations

from typing import Protocol

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import TargetRule, target_rule
from fewpass.pipeline.settings.training_plan import FREE_SHARE, TrainingPlan
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.penalties import Penalty, strength
from fewpass.solvers.registry import (
    LOSS_OF_AMOUNTS,
    LOSS_OF_CLASSES,
    LOSS_OF_LABELS,
    LOSS_OF_NUMBERS,
    loss_class,
    penalty_class,
)
from fewpass.storage.column_schema import Schema
from fewpass.storage.manifest import Labels, Manifest, Values

#: Of the loss's curvature: charged for the intercept where the penalty has no squares in it.
LEAST_CHARGE = 1e-6


class TrainingData(Protocol):
    """The rows and targets of a data set; a manifest has them, and so has a run's record."""

    @property
    def n_rows(self) -> int:
        """Rows."""

    @property
    def targets(self) -> Labels | Values:
        """Labels or numbers."""


def loss_word(plan: TrainingPlan, targets: Labels | Values) -> str:
    """Return the word of the loss that the plan names, or of the one that suits the targets.

    Of two classes the softmax is the logistic loss; of more the logistic may be the softmax,
    unless the sizes of weights are charged, which no method takes with it.
    """
    word = plan.named_loss or (LOSS_OF_LABELS if isinstance(targets, Labels) else LOSS_OF_NUMBERS)
    if word not in (LOSS_OF_LABELS, LOSS_OF_CLASSES):
        return word
    several = isinstance(targets, Labels) and len(targets.labels) > 2 and plan.positive is None
    together = word == LOSS_OF_CLASSES or (plan.is_multinomial and not plan.l1_share)
    return LOSS_OF_CLASSES if several and together else LOSS_OF_LABELS


def with_loss_of_exposures(plan: TrainingPlan, schema: Schema | None) -> TrainingPlan:
    """Return a plan without a loss with that of counts, where these are in proportion to a column.

    Its logarithm is an offset, which only predictions that are exponentials have a use for.
    """
    is_open = plan.named_loss is None and plan.start_from is None
    if not is_open or schema is None or schema.exposure is None:
        return plan
    return plan.model_copy(update={"loss": LOSS_OF_AMOUNTS})


def loss_of(plan: TrainingPlan, data: TrainingData) -> Loss:
    """Return the loss that the plan names, or the one that suits the targets."""
    labelled = isinstance(data.targets, Labels)
    kind = loss_class(loss_word(plan, data.targets))
    given = {name: getattr(plan, name) for name in kind.parameters()}
    loss = kind(len(data.targets.labels)) if kind.is_wide else kind(**given)  # type: ignore[call-arg, union-attr]
    if not labelled and not loss.takes_numbers:
        raise BadInput(
            f'The loss "{plan.loss}" needs labels, but the targets of {plan.dataset} are numbers. '
            f"Use `loss={LOSS_OF_NUMBERS}`, or ingest again with `task=classification`."
        )
    return loss


def problem_of(plan: TrainingPlan, data: TrainingData, lam: float | None = None) -> Problem:
    """Return the problem of a plan on a data set, with that lam, or the hardest of several.

    Its level is that of best_constant.py, or of a run's record.
    """
    loss = loss_of(plan, data)
    penalty = penalty_of(plan, lam or min(plan.lam.values(data.n_rows)))
    return Problem(
        loss=loss,
        penalty=penalty,
        intercept=0.0 if plan.intercept == "none" else 1.0,
        lam_b=intercept_charge(plan, loss, data, strength(penalty)),
    )


def training_rule(plan: TrainingPlan, manifest: Manifest, loss: Loss) -> TargetRule:
    """Return how a training reads targets; rows with offsets become rows without any.

    Raises BadInput where targets do not fit the loss, or it takes no offsets.
    """
    rule = target_rule(manifest, loss, plan.positive, plan.class_weight)
    if manifest.offsets is None:
        return rule
    if rule.positive >= 0 or rule.n_classes or not loss.takes_numbers:
        raise BadInput(
            f"The rows have offsets, and the {loss.name} loss takes none: they are for losses of "
            "numbers, such as counts. Ingest the rows without `offset` and `exposure`."
        )
    return rule._replace(folds=loss)


def penalty_of(plan: TrainingPlan, lam: float) -> Penalty:
    """Return the penalty of a plan with this lam."""
    return penalty_class(plan.charged).of(lam, plan.l1_share)


def intercept_charge(plan: TrainingPlan, loss: Loss, data: TrainingData, squares: float) -> float:
    """Return lam_b: what the weights' squares are charged, or next to nothing where none are."""
    if squares > 0.0:
        return squares * FREE_SHARE if plan.intercept == "free" else squares
    mean = data.targets.mean if isinstance(data.targets, Values) else 1.0
    return LEAST_CHARGE * loss.rate(mean)
