"""Advice where a problem is beyond what the passes can do, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from fewpass.pipeline.planning.conditioning import conditioning
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import method_class

HEAVY_TAIL = 50.0  # largest over mean smoothness, or square of a row's norm
UNIT_ROWS = "unit-rows"
#: K, per pass, beyond which steps of one size learn from the largest columns alone.
HOPELESS = 1000.0


class Columns(NamedTuple):
    """The scales of a source's columns, and their remedy."""

    size_ratio: Callable[[], float | None]  # of the largest to the smallest; None: alike
    remedy: str  # the scaling that makes them alike
    say: str = "Ingest with"  # how it is asked for


def ill_conditioned(
    problem: Problem, stats: ProblemStats, kind: str, passes: float, columns: Columns
) -> list[str]:
    """Say that kappa is beyond what the passes can do, and what helps.

    A loss with a kink has no kappa; there the rows' squares over lam n say as much.
    """
    cond = conditioning(problem, stats)
    smooth = not math.isinf(problem.loss.curvature)
    sharp = not problem.penalty.is_smooth  # what steps are scaled by is not lam then
    if method_class(kind).scale_free or sharp or (cond is None and smooth):
        return []
    K = cond.slowness(stats.n) if cond else stats.mean_square / (problem.lam * stats.n)
    if HOPELESS * passes >= K:
        return []
    what = f"kappa is {cond.kappa:.2g} and the mean curvature" if cond else "The mean square norm"
    within = "one pass" if passes == 1 else f"{passes:g} passes"
    fact = f"{what} over lam {'' if cond else 'is '}{K:.2g} times the number of rows, beyond "
    fact += f"what {kind} does in {within}"
    ratio = columns.size_ratio()
    if ratio is not None:
        fact += f": columns differ in size by a factor of {ratio:.2g}"
        return [f"{fact}. {columns.say} `{columns.remedy}`."]
    largest, mean = (cond.largest, cond.mean) if cond else (stats.max_square, stats.mean_square)
    if largest > HEAVY_TAIL * mean:
        return [f"{fact}: a few rows are very long. {columns.say} `scale={UNIT_ROWS}`."]
    return [f"{fact}. {columns.say} `{columns.remedy}`, or choose a larger `lam`."]
