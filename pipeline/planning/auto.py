"""`auto`: which method a plan is trained with.

Without a tolerance, or in one pass, the several learners of `onepass`: nothing comes nearer by
then.  Averaged SGD alone for very many models, and where their states do not fit into the memory.

To a tolerance, Newton's method where the loss is smooth and columns are few, whatever their scales,
unless dual ascent is predicted to take fewer passes and rows are read anew in every one, or to cost
clearly less arithmetic (row_costs.py); else dual coordinate ascent with a proximal centre, which
finds out by its certificate how hard the problem is.  S2GD+ goes before it only where rows stay in
memory, are short relative to lam, and its cheaper passes (expected_passes.py) are
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

from fewpass.pipeline.planning.conditioning import conditioning
from fewpass.pipeline.planning.method_choice import (
    MORE_COLUMNS,
    MethodChoice,
    MethodRequest,
    chosen,
    for_one_pass,
    method,
    where_memory_is_short,
)
from fewpass.pipeline.planning.row_costs import CLEARLY, dual_row, newton_row
from fewpass.pipeline.planning.special_methods import (
    for_a_kink,
    for_a_steep_loss,
    for_an_l1_penalty,
    for_several_scores,
)
from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.sizes import format_passes
from fewpass.solvers.registry import DUAL, PRIMAL, SECOND_ORDER

FEW_COLUMNS = 500  # up to here a row's share of the matrix of columns by columns is bearable
HARD = 1e4  # K, above which there may be MORE_COLUMNS
FORETELLS = 400.0  # K, up to which it tells the passes of dual ascent where columns are few
SHORT = 1.0  # K of rows that are short relative to lam
#: A pass of s2gd+, to one of psdca in memory: half are reductions, which do not wait for each
#: other's rows.
CHEAPER = 0.7


def for_little_lam(_: MethodRequest) -> MethodChoice:
    """Choose where lam is so small that no passes are predicted."""
    return chosen(f"{DUAL}, as lam is too small to predict more", method(DUAL))


def for_a_smooth_loss(asked: MethodRequest) -> MethodChoice:
    """Choose the first two candidates that fit."""
    wanted = list(candidates(asked))
    fitting = [one for one in wanted if asked.fits(one)][:2]
    if not fitting:
        return where_memory_is_short(asked, wanted)
    usual = [asked.passes_of(one) for one in fitting]
    reason = f"{fitting[0].kind}, usually about {format_passes(usual[0])} to {asked.tol:g}"
    if len(fitting) > 1:
        reason += f"; {fitting[1].kind} about {usual[1]:.0f}"
    return chosen(reason, *fitting)


def candidates(asked: MethodRequest) -> Iterator[Method]:
    """Yield the methods for a smooth loss, first choice first."""
    problem, stats = asked.problem, asked.stats
    cond = conditioning(problem, stats)
    assert cond is not None, "asked before"
    K, dual, primal = cond.slowness(stats.n), method(DUAL), method(PRIMAL)
    if stats.d <= (MORE_COLUMNS if K > HARD else FEW_COLUMNS):
        columns = method(SECOND_ORDER)
        by_dual, by_columns = asked.passes_of(dual), asked.passes_of(columns)
        cheaper = CLEARLY * by_dual * dual_row(stats) < by_columns * newton_row(stats)
        foretold = K <= FORETELLS and not problem.loss.is_quadratic  # of which H of one pass holds
        first = (cheaper and foretold) or (by_dual < by_columns and not asked.resident)
        yield from (dual, columns) if first else (columns, dual)
        return
    cheap = asked.resident and not asked.sorted_rows and K < SHORT
    if cheap and CHEAPER * asked.passes_of(primal) < asked.passes_of(dual):
        yield primal
    yield dual


Applies = Callable[[MethodRequest], bool]
Rule = Callable[[MethodRequest], MethodChoice]
#: The first rule that applies chooses.
RULES: tuple[tuple[Applies, Rule], ...] = (
    (lambda asked: asked.problem.loss.is_wide, for_several_scores),
    (lambda asked: not asked.problem.penalty.is_smooth, for_an_l1_penalty),
    (lambda asked: asked.problem.loss.is_steep, for_a_steep_loss),
    (lambda asked: asked.one_pass is not None, for_one_pass),
    (lambda asked: not asked.problem.loss.is_smooth, for_a_kink),
    (lambda asked: conditioning(asked.problem, asked.stats) is None, for_little_lam),
    (lambda _: True, for_a_smooth_loss),
)


def choose(asked: MethodRequest) -> MethodChoice:
    """Choose the method of a plan that leaves it open."""
    return next(rule(asked) for applies, rule in RULES if applies(asked))
