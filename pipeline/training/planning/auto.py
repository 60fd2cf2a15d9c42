"""`auto`: which method a plan is trained with, and when to fall back on another.

Without a tolerance, or in one pass, the several learners of `onepass`: nothing comes nearer by
then.  Averaged SGD alone for very many models, and where their states do not fit into the memory.

To a tolerance, Newton's method where the loss is smooth and columns are few, whatever their scales,
unless dual ascent is predicted to take fewer passes and rows are read anew in every one, or to cost
clearly less arithmetic (row_costs.py); else dual
coordinate ascent with a proximal centre, which finds out by its certificate how hard the problem
is.  With an l1 penalty Newton's method, on a working set of columns, whatever their number.
S2GD+ goes before it only where rows stay in memory, are short relative to lam, and its
cheaper passes (solvers/estimates/expected_passes.py) are predicted to take less.  Where rows lie
sorted it does not: its averages count on a random order.  Plain SDCA takes less memory, and is
taken where that is short.

With an l1 penalty, and a smooth loss, Newton's method over a working set of columns, whatever their
number, and dual ascent behind it.

All of it follows from the plan and from what ingest measured, and is written down in the run's
record, so that a run goes on with what it began with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.pipeline.training.planning.rate import Marks, left_passes, rate
from fewpass.pipeline.training.planning.row_costs import (
    CLEARLY,
    dual_pass,
    dual_row,
    newton_pass,
    newton_row,
)
from fewpass.solvers.estimates.expected_passes import conditioning
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import takes
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import (
    DUAL,
    LOSS_OF_CLASSES,
    MOST_NEWTON_WEIGHTS,
    ONE_LEARNER,
    PRIMAL,
    SECOND_ORDER,
    SEVERAL_LEARNERS,
    SMALLER_DUAL,
    method_class,
)

FEW_MODELS = 4  # of onepass: each may have a streaming Newton, as one alone
MOST_MODELS = 64  # of onepass: beyond, averaged SGD, which takes a ninth of the time for many
FEW_COLUMNS = 500  # up to here a row's share of the matrix of columns by columns is bearable
MORE_COLUMNS = 1000  # the same where K is above HARD: there nothing else comes to a certificate
BEARABLE = 3e10  # ns of a pass of Newton's method that goes on where dual ascent does not arrive
HARD = 1e4
FORETELLS = 400.0  # K, up to which it tells the passes of dual ascent where columns are few
SHORT = 1.0  # K of rows that are short relative to lam
CHEAPER = 0.7  # a pass of s2gd+, to one of psdca in memory: half are reductions, which do not
# wait for each other's rows
FAR_BEHIND = 2.0  # times what is predicted to be left
PATIENCE = 2.0  # times what is predicted, before another method takes over
NOTHING = 1.0 - 1e-9  # relative gap
IN_GROUPS = "for some models at a time, as no method fits all of them into the memory"
KINKED = f"{DUAL}, as no gradient certifies a loss with a kink"


def method(word: str, **settings: Any) -> Method:
    """Return a method, its class imported only now: each brings kernels of its own."""
    made: Method = method_class(word)(**settings)
    return made


def smallest(problem: Problem) -> str:
    """Return the name of the method with the smallest state that takes a loss and penalty."""
    words = (ONE_LEARNER, SMALLER_DUAL, SECOND_ORDER, DUAL)
    return next((w for w in words if takes(method_class(w).needs, problem)), ONE_LEARNER)


class MethodChoice(BaseModel):
    """The choice of `auto`."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    methods: tuple[Method, ...]
    """The method to train with, then the one to fall back on, if there is one."""
    reason: str
    """A sentence."""

    def plan(self, plan: TrainingPlan, number: int = 0) -> TrainingPlan:
        """Return the plan with one of the methods in place of `auto`."""
        return plan.named(self.methods[number])


def choose(
    plan: TrainingPlan,
    problem: Problem,
    stats: ProblemStats,
    *,
    sorted_rows: bool,
    resident: bool,
    fits: Callable[[Method], bool],
    fits_in_groups: Callable[[Method], bool] = lambda _: False,
    models: int = 1,
    classes: int = 0,
) -> MethodChoice:
    """Choose a plan's method.

    Parameters
    ----------
    plan
        Tolerance and passes decide whether one pass is enough.
    problem, stats
        Loss, lam, rows, norms, streams: what the passes of a method follow from.
    sorted_rows
        Whether windows of rows do not stand for the whole set.
    resident
        Whether rows stay in memory from pass to pass.
    fits
        Whether a method's state fits into the plan's memory.
    fits_in_groups
        Whether it does where classes are trained in groups, one after the other.
    models
        How many are trained together: classes times values of lam.
    classes
        How many there are; 0 for two, and for numbers.
    """
    if (special := special_rule(problem)) is not None:
        return special(plan, problem, stats, fits, fits_in_groups)
    if plan.tol is None or plan.passes == 1:
        asked = "no tolerance" if plan.tol is None else "one pass"
        return for_each_class(for_one_pass(asked, stats, fits, models), classes)
    if not problem.loss.is_smooth:
        return for_a_kink(problem.loss.name, fits, fits_in_groups)
    if conditioning(problem, stats) is None:
        return MethodChoice(
            methods=(method(DUAL),), reason=f"{DUAL}, as lam is too small to predict more"
        )
    wanted = list(candidates(problem, stats, plan.tol, resident=resident, sorted_rows=sorted_rows))
    fitting = [one for one in wanted if fits(one)][:2]
    if not fitting:
        return where_memory_is_short(wanted, fits, fits_in_groups)
    usual = [passes_of(one, problem, stats, plan.tol) for one in fitting]
    reason = f"{fitting[0].kind}, usually about {format_passes(usual[0])} to {plan.tol:g}"
    if len(fitting) > 1:
        reason += f"; {fitting[1].kind} about {usual[1]:.0f}"
    return MethodChoice(methods=tuple(fitting), reason=reason)


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


def for_each_class(choice: MethodChoice, classes: int) -> MethodChoice:
    """Say of a choice that it trains a model for each class, where there are several."""
    if not classes:
        return choice
    return choice.model_copy(update={"reason": f"{choice.reason}; a model for each class"})


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


def where_memory_is_short(
    wanted: list[Method], fits: Callable[[Method], bool], fits_in_groups: Callable[[Method], bool]
) -> MethodChoice:
    """Choose where none of the wanted methods fits: a smaller state, or fewer classes at a time."""
    if fits(method(SMALLER_DUAL)):
        reason = f"{SMALLER_DUAL}, as {DUAL} does not fit into the memory"
        return MethodChoice(methods=(method(SMALLER_DUAL),), reason=reason)
    for one in wanted:
        if fits_in_groups(one):
            return MethodChoice(methods=(one,), reason=f"{one.kind}, {IN_GROUPS}")
    return MethodChoice(
        methods=(method(ONE_LEARNER),),
        reason=f"{ONE_LEARNER}, as no other method fits into the memory",
    )


def for_one_pass(
    asked: str,
    stats: ProblemStats,
    fits: Callable[[Method], bool],
    models: int,
    memory_for: Callable[[Method], str] = lambda _: "",
) -> MethodChoice:
    """Choose several learners side by side, averaged SGD alone where they cannot be run.

    Streaming Newton is left out where that of all models would be too much work together.
    `memory_for` says in words which memory a method that does not fit would do with.
    """
    most_work = method_class(SEVERAL_LEARNERS).most_work
    bearable = models <= FEW_MODELS or models * stats.n * stats.d**2 <= most_work
    learners: dict[str, Any] = {} if bearable else {"newton_columns": 0}
    if models > MOST_MODELS:
        why = f"is not taken for {models} models"
    elif stats.columns is None:
        why = "needs statistics of the columns"
    elif not fits(method(SEVERAL_LEARNERS, **learners)):
        learnt = method(SEVERAL_LEARNERS, **learners)
        why = f"does not fit into the memory{memory_for(learnt)}"
    else:
        return MethodChoice(
            methods=(method(SEVERAL_LEARNERS, **learners),),
            reason=f"{SEVERAL_LEARNERS}, as {asked} was asked for",
        )
    return MethodChoice(
        methods=(method(ONE_LEARNER),),
        reason=f"{ONE_LEARNER}, as {asked} was asked for, and {SEVERAL_LEARNERS} {why}",
    )


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


def candidates(
    problem: Problem, stats: ProblemStats, tol: float, *, resident: bool, sorted_rows: bool
) -> Iterator[Method]:
    """Yield the methods for a smooth loss, first choice first."""
    cond = conditioning(problem, stats)
    assert cond is not None, "asked before"
    K, dual, primal = cond.slowness(stats.n), method(DUAL), method(PRIMAL)
    few = stats.d <= (MORE_COLUMNS if K > HARD else FEW_COLUMNS)
    if few:
        columns = method(SECOND_ORDER)
        by_dual, by_columns = (passes_of(one, problem, stats, tol) for one in (dual, columns))
        cheaper = CLEARLY * by_dual * dual_row(stats) < by_columns * newton_row(stats)
        foretold = K <= FORETELLS and not problem.loss.is_quadratic  # of which H of one pass holds
        first = (cheaper and foretold) or (by_dual < by_columns and not resident)
        yield from (dual, columns) if first else (columns, dual)
        return
    if resident and not sorted_rows and K < SHORT:
        cost = CHEAPER * passes_of(primal, problem, stats, tol)
        if cost < passes_of(dual, problem, stats, tol):
            yield primal
    yield dual


def passes_of(solver: Method, problem: Problem, stats: ProblemStats, tol: float) -> float:
    """Return the passes that a method usually takes; infinitely many where it has no estimate."""
    usual = solver.expected_passes(problem, stats, min(tol, NOTHING)).usual
    return math.inf if usual is None else usual


def far_behind(
    choice: MethodChoice,
    problem: Problem,
    stats: ProblemStats,
    tol: float,
    marks: Marks,
    most: float,
) -> str | None:
    """Say in a sentence why the second method should go on; None while it should not.

    It should when the last three passes brought so little that what is left, at that rate, is
    twice what was predicted and more than all that the other usually takes, which must be among the
    passes that may be made.  What gradients prove may stand still for long before it falls: so
    patience.  Where nothing was predicted, it should when what is left is more than may be made, or
    costs more than all of the other.
    """
    first, second = choice.methods
    if (gained := rate(marks)) is None:
        return None
    now, left = marks[-1], left_passes(marks, tol)
    whole, other = (passes_of(one, problem, stats, tol) for one in choice.methods)
    if now.passes < PATIENCE * (whole if math.isfinite(whole) else other) or other > most:
        return None
    if left is not None and math.isfinite(whole):
        so_far = passes_of(first, problem, stats, 10.0**-now.digits)
        if left < FAR_BEHIND * (whole - so_far) or left < 1.0 + other:
            return None
    elif (
        left is not None
        and left <= most - now.passes
        and (left * dual_pass(stats) <= other * newton_pass(stats))
    ):
        return None
    return (
        f"{first.kind} gained {gained:.2g} digits a pass in the last three passes, too few for the "
        f"{-math.log10(tol) - now.digits:.2g} that are missing; {second.kind} goes on from there."
    )
