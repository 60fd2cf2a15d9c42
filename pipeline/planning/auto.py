"""`auto`: which method a plan is trained with.

Without a tolerance, or in one pass, the several learners of `onepass`: nothing comes nearer by
then.  Averaged SGD alone for very many models, and where their states do not fit into the memory.

To a tolerance, Newton's method where the loss is smooth and columns are few, whatever their scales,
unless dual ascent is predicted to take fewer passes and rows are read anew in every one, or to cost
clearly less arithmetic (row_costs.py); else dual coordinate ascent with a proximal centre, which
finds out by its certificate how hard the problem is.  S2GD+ goes before it only where rows stay in
memory, are short relative to lam, and its cheaper passes (solvers/estimates/expected_passes.py) are
predicted to take less.  Where rows lie sorted it does not: its averages count on a random order.
Plain SDCA takes less memory, and is taken where that is short.

With an l1 penalty, and a smooth loss, Newton's method over a working set of columns, whatever their
number, and dual ascent behind it (special_methods.py, as for other losses and penalties that few
methods take).

All of it follows from the plan and from what ingest measured, and is written down in the run's
record, so that a run goes on with what it began with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fewpass.pipeline.planning.method_choice import (
    MORE_COLUMNS,
    MethodChoice,
    for_each_class,
    for_one_pass,
    method,
    passes_of,
    where_memory_is_short,
)
from fewpass.pipeline.planning.row_costs import CLEARLY, dual_row, newton_row
from fewpass.pipeline.planning.special_methods import for_a_kink, special_rule
from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.solvers.estimates.expected_passes import conditioning
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import DUAL, PRIMAL, SECOND_ORDER

FEW_COLUMNS = 500  # up to here a row's share of the matrix of columns by columns is bearable
HARD = 1e4  # K, above which there may be MORE_COLUMNS
FORETELLS = 400.0  # K, up to which it tells the passes of dual ascent where columns are few
SHORT = 1.0  # K of rows that are short relative to lam
#: A pass of s2gd+, to one of psdca in memory: half are reductions, which do not wait for each
#: other's rows.
CHEAPER = 0.7


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
