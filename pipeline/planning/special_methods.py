"""The methods of losses and penalties that few methods take."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from fewpass.pipeline.planning.method_choice import (
    IN_GROUPS,
    MORE_COLUMNS,
    MethodChoice,
    for_one_pass,
    method,
    passes_of,
    where_memory_is_short,
)
from fewpass.pipeline.planning.row_costs import newton_pass
from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import takes
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import (
    DUAL,
    LOSS_OF_CLASSES,
    MOST_NEWTON_WEIGHTS,
    ONE_LEARNER,
    SECOND_ORDER,
    SEVERAL_LEARNERS,
    SMALLER_DUAL,
    method_class,
)

BEARABLE = 3e10  # ns of a pass of Newton's method that goes on where dual ascent does not arrive
KINKED = f"{DUAL}, as no gradient certifies a loss with a kink"


def special_rule(problem: Problem) -> Callable[..., MethodChoice] | None:
    """Return the rule of a loss or penalty that few methods take; None where most do."""
    if problem.loss.is_wide:
        return for_several_scores
    if not problem.penalty.is_smooth:
        return for_an_l1_penalty
    return for_a_steep_loss if problem.loss.is_steep else None


def for_several_scores(
    plan: TrainingPlan,
    problem: Problem,
    stats: ProblemStats,
    fits: Callable[[Method], bool],
    *_: Any,
) -> MethodChoice:
    """Choose the method of a loss of the scores of all classes."""
    if plan.tol is None or plan.passes == 1 or plan.source is not None:
        reason = f"{ONE_LEARNER}, one model of all classes, as no tolerance was asked for"
        return MethodChoice(methods=(method(ONE_LEARNER),), reason=reason)
    few = has_few_weights(problem, stats) and fits(method(SECOND_ORDER))
    wanted = (SECOND_ORDER, DUAL) if few else (DUAL,)
    why = f"{wanted[0]}, one model of all classes" + (", as they have few weights" if few else "")
    return MethodChoice(methods=tuple(method(word) for word in wanted), reason=why)


def has_few_weights(problem: Problem, stats: ProblemStats) -> bool:
    """Say whether one model of all classes can have a matrix of weights by weights."""
    few = problem.loss.width * (stats.d + 1) <= MOST_NEWTON_WEIGHTS
    return few and problem.loss.name == LOSS_OF_CLASSES


def for_a_steep_loss(
    plan: TrainingPlan,
    problem: Problem,
    stats: ProblemStats,
    fits: Callable[[Method], bool],
    fits_in_groups: Callable[[Method], bool],
) -> MethodChoice:
    """Choose among the methods that need no bound of slope and curvature."""
    several = method(SEVERAL_LEARNERS)
    if (plan.tol is None or plan.passes == 1) and stats.columns is not None and fits(several):
        asked = "no tolerance" if plan.tol is None else "one pass"
        return for_one_pass(asked, stats, fits, 1)
    wanted = [method(DUAL)]
    most = method_class(SECOND_ORDER).needs.most_columns
    if stats.d <= MORE_COLUMNS:
        wanted.insert(0, method(SECOND_ORDER))
    elif stats.d <= most and newton_pass(stats) <= BEARABLE:
        wanted.append(method(SECOND_ORDER))
    fitting = [one for one in wanted if fits(one)]
    if not fitting:
        return where_memory_is_short(wanted, fits, fits_in_groups)
    reason = f"{fitting[0].kind}, as the slope of the {problem.loss.name} loss has no bound"
    return MethodChoice(methods=tuple(fitting), reason=reason)


def for_a_kink(
    loss: str, fits: Callable[[Method], bool], fits_in_groups: Callable[[Method], bool]
) -> MethodChoice:
    """Choose among the methods whose certificate does not go by gradients."""
    kinked, smaller = (
        method(word, **method_class(word).better.get(loss, {})) for word in (DUAL, SMALLER_DUAL)
    )
    if fits(kinked):
        return MethodChoice(methods=(kinked,), reason=KINKED)
    if fits(smaller):
        reason = f"{SMALLER_DUAL}, as {DUAL} does not fit into the memory"
        return MethodChoice(methods=(smaller,), reason=reason)
    grouped = fits_in_groups(kinked)
    return MethodChoice(methods=(kinked,), reason=f"{DUAL}, {IN_GROUPS}" if grouped else KINKED)


def for_an_l1_penalty(
    plan: TrainingPlan, problem: Problem, stats: ProblemStats, fits: Callable[[Method], bool],
    fits_in_groups: Callable[[Method], bool],
) -> MethodChoice:  # fmt: skip
    """Choose for weights of which many will be 0: a working set of columns, or dual ascent."""
    words = (SECOND_ORDER, DUAL) if problem.loss.is_smooth else (DUAL,)
    able = [word for word in words if takes(method_class(word).needs, problem)]
    wanted = [method(word) for word in able or [DUAL]]
    fitting = [one for one in wanted if fits(one)]
    if not fitting:
        grouped = next((one for one in wanted if fits_in_groups(one)), wanted[-1])
        return MethodChoice(methods=(grouped,), reason=f"{grouped.kind}, {IN_GROUPS}")
    if plan.tol is None or plan.passes == 1:
        reason = f"{fitting[-1].kind}, whose first pass has zeros already"
        return MethodChoice(methods=(fitting[-1],), reason=reason)
    usual = passes_of(fitting[0], problem, stats, plan.tol)
    what = "an l1" if problem.penalty.by_column else "a group"
    reason = f"{fitting[0].kind}, for {what} penalty"
    if math.isfinite(usual):
        reason += f", usually about {format_passes(usual)} to {plan.tol:g}"
    if len(fitting) > 1:
        reason += f"; {fitting[1].kind} where too many weights are not 0"
    return MethodChoice(methods=tuple(fitting), reason=reason)
