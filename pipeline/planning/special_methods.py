"""The methods of losses and penalties that few methods take."""

from __future__ import annotations

import math

from fewpass.pipeline.planning.method_choice import (
    IN_GROUPS,
    MORE_COLUMNS,
    MethodChoice,
    MethodRequest,
    chosen,
    for_one_pass,
    method,
    where_memory_is_short,
)
from fewpass.pipeline.planning.row_costs import newton_pass
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


def for_several_scores(asked: MethodRequest) -> MethodChoice:
    """Choose the method of a loss of the scores of all classes."""
    if asked.one_pass is not None:
        reason = f"{ONE_LEARNER}, one model of all classes, as no tolerance was asked for"
        return chosen(reason, method(ONE_LEARNER))
    few = has_few_weights(asked.problem, asked.stats) and asked.fits(method(SECOND_ORDER))
    wanted = (SECOND_ORDER, DUAL) if few else (DUAL,)
    why = f"{wanted[0]}, one model of all classes" + (", as they have few weights" if few else "")
    return chosen(why, *map(method, wanted))


def has_few_weights(problem: Problem, stats: ProblemStats) -> bool:
    """Say whether one model of all classes can have a matrix of weights by weights."""
    few = problem.loss.width * (stats.d + 1) <= MOST_NEWTON_WEIGHTS
    return few and problem.loss.name == LOSS_OF_CLASSES


def for_a_steep_loss(asked: MethodRequest) -> MethodChoice:
    """Choose among the methods that need no bound of slope and curvature."""
    stats = asked.stats
    if asked.one_pass and stats.columns is not None and asked.fits(method(SEVERAL_LEARNERS)):
        return for_one_pass(asked._replace(models=1))
    wanted = [method(DUAL)]
    most = method_class(SECOND_ORDER).needs.most_columns
    if stats.d <= MORE_COLUMNS:
        wanted.insert(0, method(SECOND_ORDER))
    elif stats.d <= most and newton_pass(stats) <= BEARABLE:
        wanted.append(method(SECOND_ORDER))
    fitting = [one for one in wanted if asked.fits(one)]
    if not fitting:
        return where_memory_is_short(asked, wanted)
    loss = asked.problem.loss.name
    return chosen(f"{fitting[0].kind}, as the slope of the {loss} loss has no bound", *fitting)


def for_a_kink(asked: MethodRequest) -> MethodChoice:
    """Choose among the methods whose certificate does not go by gradients."""
    loss = asked.problem.loss.name
    kinked, smaller = (
        method(word, **method_class(word).better.get(loss, {})) for word in (DUAL, SMALLER_DUAL)
    )
    if asked.fits(kinked):
        return chosen(KINKED, kinked)
    if asked.fits(smaller):
        return chosen(f"{SMALLER_DUAL}, as {DUAL} does not fit into the memory", smaller)
    return chosen(f"{DUAL}, {IN_GROUPS}" if asked.fits_in_groups(kinked) else KINKED, kinked)


def for_an_l1_penalty(asked: MethodRequest) -> MethodChoice:
    """Choose for weights of which many will be 0: a working set of columns, or dual ascent."""
    words = (SECOND_ORDER, DUAL) if asked.problem.loss.is_smooth else (DUAL,)
    able = [word for word in words if takes(method_class(word).needs, asked.problem)]
    wanted = [method(word) for word in able or [DUAL]]
    fitting = [one for one in wanted if asked.fits(one)]
    if not fitting:
        grouped = next((one for one in wanted if asked.fits_in_groups(one)), wanted[-1])
        return chosen(f"{grouped.kind}, {IN_GROUPS}", grouped)
    if asked.one_pass is not None:
        return chosen(f"{fitting[-1].kind}, whose first pass has zeros already", fitting[-1])
    usual = asked.passes_of(fitting[0])
    what = "an l1" if asked.problem.penalty.by_column else "a group"
    reason = f"{fitting[0].kind}, for {what} penalty"
    if math.isfinite(usual):
        reason += f", usually about {format_passes(usual)} to {asked.tol:g}"
    if len(fitting) > 1:
        reason += f"; {fitting[1].kind} where too many weights are not 0"
    return chosen(reason, *fitting)
