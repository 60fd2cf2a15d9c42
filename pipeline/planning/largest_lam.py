"""lam as a share of the largest that is worth a try: the smallest at which all weights are 0.

With weights 0, the best intercept b and G = (1/n) sum_i weight_i phi'(b, y_i) x_i, its l1 part is
max_j |G_j|, of groups max_g ||G_g|| / sqrt(d_g).  One pass over the rows adds up what G is made of:
of labels the rows of either side, of numbers under the squared loss the rows with and without their
target.  Both are exact.  For other losses of numbers b is the best for a sample of the rows.

Source: Friedman, Hastie and Tibshirani 2010, "Regularization Paths for Generalized Linear Models
via Coordinate Descent", section 2.5; docs/methods.md, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.column_groups import with_groups
from fewpass.pipeline.planning.problem import problem_of, training_rule
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.gradient import GradientPart, add_gradient, no_gradient
from fewpass.solvers.losses import Loss, Problem, Squared, slope
from fewpass.solvers.losses.constant_prediction import best_constants
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights
from fewpass.storage.dataset import Dataset

FARTHEST = 1e9  # that a best intercept is
KINK_WIDTH = 1e-12  # of an intercept: to either side of a kink


class RowSums(NamedTuple):
    """Weighted sums over some rows."""

    X: NDArray[np.float64]  # (d,) of the rows
    weight: float


def with_largest_lam(plan: TrainingPlan, dataset: Dataset) -> TrainingPlan:
    """Return the plan with shares of the largest lam as numbers; reads all rows if it has any.

    Raises
    ------
    BadInput
        When no lam makes all weights 0, or the sums of all classes do not fit into the memory.
    """
    if not plan.lam.has("max"):
        return plan
    as_numbers = plan.model_copy(update={"lam": plan.lam.resolved("max", 1.0)})
    problem = problem_of(as_numbers, dataset.manifest)
    problem = with_groups(problem, dataset.feature_groups)
    rule = training_rule(plan, dataset.manifest, problem.loss)
    if problem.loss.width > 1:
        return plan.model_copy(update={"lam": plan.lam.resolved("max", 1.0)})  # no method takes it
    taken = max(rule.n_classes, 2) * dataset.n_features * 8
    if taken > plan.memory:
        raise BadInput(
            f"lam is {plan.lam}, and to find the largest takes {format_bytes(taken)} for the sums "
            f"of all classes, but the memory is {format_bytes(plan.memory)}. Give a number."
        )
    largest = largest_slope(dataset, problem, rule) / plan.l1_share
    if not largest > 0.0:
        raise BadInput(
            f"lam is {plan.lam}, but the best weights of {plan.dataset} are 0 whatever lam is. "
            "Give a number, or check the targets."
        )
    return plan.model_copy(update={"lam": plan.lam.resolved("max", largest)})


def largest_slope(dataset: Dataset, problem: Problem, rule: TargetRule) -> float:
    """Return max_j |G_j| at weights 0 and the best intercept, the largest of all classes."""
    if problem.loss.takes_numbers:
        return largest_of_numbers(dataset, problem, rule)
    codes: Sequence[float] = range(rule.n_classes) if rule.n_classes else (1.0, -1.0)
    sides = sums_by_side(dataset, rule, codes)
    total = RowSums(
        np.sum([one.X for one in sides], axis=0), float(sum(one.weight for one in sides))
    )
    ours = sides if rule.n_classes else sides[:1]
    return max(largest_of_side(problem, one, total, dataset.n_rows) for one in ours)


def sums_by_side(dataset: Dataset, rule: TargetRule, codes: Sequence[float]) -> list[RowSums]:
    """Return the sums of the rows with each of these targets."""
    is_row = Problem(Squared(), L2(1.0), 1.0, 1.0)  # its slope at 0 is the target, negative
    targets = [lambda y, k=k: (y == k).astype(np.float64) for k in codes]
    at = [Weights(np.zeros(dataset.n_features), 0.0)] * len(codes)
    return [RowSums(-one.G, -one.g_b) for one in summed(dataset, is_row, rule, targets, at)]


def largest_of_side(problem: Problem, ours: RowSums, total: RowSums, n: int) -> float:
    """Return the least l1 for the rows of one class against all others."""
    weights = np.array([ours.weight, total.weight - ours.weight])
    g = balanced_slopes(problem, np.array([1.0, -1.0]), weights)
    G = g[0] * ours.X + g[1] * (total.X - ours.X)
    return float(problem.penalty.slopes(G).max(initial=0.0)) / n


def largest_of_numbers(dataset: Dataset, problem: Problem, rule: TargetRule) -> float:
    """Return the least l1 for targets that are numbers."""
    loss, table = problem.loss, dataset.sample(MOST_ROWS)
    sample = dataset_block(table, dataset, rule)
    b = best_intercept(loss, sample.y, sample.weight) if problem.intercept else 0.0
    at = [Weights(np.zeros(dataset.n_features), start) for start in (b, b + 1.0)]
    at = at if loss.is_quadratic and problem.intercept else at[:1]
    parts = list(summed(dataset, problem, rule, [np.asarray] * len(at), at))
    G = parts[0].G
    if len(parts) > 1 and parts[1].g_b != parts[0].g_b:  # both are linear in b
        G = G - parts[0].g_b / (parts[1].g_b - parts[0].g_b) * (parts[1].G - G)
    return float(problem.penalty.slopes(G).max(initial=0.0)) / dataset.n_rows


def summed(
    dataset: Dataset,
    problem: Problem,
    rule: TargetRule,
    targets: Sequence[Callable[[NDArray[np.float64]], NDArray[np.float64]]],
    at: Sequence[Weights],
) -> Iterator[GradientPart]:
    """Yield the gradients' sums for several targets and weights, from one reading of all rows."""
    parts = [no_gradient(one) for one in at]
    for chunk in range(dataset.n_chunks):
        block = dataset_block(dataset.read_stored(chunk), dataset, rule)
        for k, (read, one) in enumerate(zip(targets, at, strict=True)):
            own = block._replace(y=np.ascontiguousarray(read(block.y)))
            parts[k] = add_gradient(problem, one, own, parts[k])
    yield from parts


# -- the best intercept alone ----------------------------------------------------------------------


def slopes_at(loss: Loss, b: float, y: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return phi'(b, y), (n,)."""
    slopes: NDArray[np.float64] = slope(loss, np.full(len(y), b), y)
    return slopes


def best_intercept(loss: Loss, y: NDArray[np.float64], weight: NDArray[np.float64]) -> float:
    """Return the intercept with the least mean loss, to rounding."""
    (b,) = best_constants(loss, y, weight[None], intercept=True, close=0.0).scores
    return float(np.clip(b, -FARTHEST, FARTHEST))


def balanced_slopes(
    problem: Problem, y: NDArray[np.float64], weight: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the slopes at the best intercept; at a kink those between that add up to 0."""
    if not problem.intercept:
        return slopes_at(problem.loss, 0.0, y)
    b = best_intercept(problem.loss, y, weight)
    width = KINK_WIDTH * (1.0 + abs(b))
    below, above = (slopes_at(problem.loss, b + side, y) for side in (-width, width))
    low, high = float(weight @ below), float(weight @ above)
    share = -low / (high - low) if high > low else 0.5
    return below + share * (above - below)
