"""Step size and start value of the intercept, where they are estimated.

The recursion treats the constant column like any other column, but every row has a value in it:
with rows of unit length it makes up half of each row's squared norm, and its noise limits the step
size of all columns.  Any other value of that column, with a matching lam_b, is the same problem
with another step size for the intercept.  A quarter of the root mean square norm of the rows makes
it a sixteenth of an average squared norm, whatever units the features have.

On five real data sets, with two losses and two values of lam, the excess after one pass was 0.73
(geometric mean) of the excess with a column of ones.
"""

from __future__ import annotations

import math

import numpy as np

from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, ProblemStats

LENGTH_SHARE = 0.25  # of the root mean square norm of the rows


def column_length(problem: Problem, stats: ProblemStats) -> float:
    """Return the value of the constant column: a power of 2, so that units convert exactly."""
    if problem.intercept == 0.0 or stats.mean_square == 0.0:
        return 1.0
    return float(2.0 ** round(math.log2(LENGTH_SHARE * math.sqrt(stats.mean_square))))


def with_column(problem: Problem, length: float) -> Problem:
    """Return the same problem with the intercept in units of `length`."""
    level = np.divide(problem.level, length).tolist()
    return problem._replace(
        intercept=length * problem.intercept, lam_b=length**2 * problem.lam_b,
        level=tuple(level) if isinstance(level, list) else level,
    )  # fmt: skip


def problem_from_level(problem: Problem) -> Problem:
    """Return the same problem with its level at 0, of scores and targets that count from there."""
    return problem._replace(loss=problem.loss.from_level(problem.level), level=0.0)


def from_level(problem: Problem, block: Block) -> tuple[Problem, Block]:
    """Return the same problem with its level at 0, and rows whose scores count from there.

    The intercept is then less by the level, and losses are the same.
    """
    loss, level = problem.loss, problem.level
    moved = problem_from_level(problem)
    if not level or not loss.takes_numbers:
        return moved, block
    seen = loss.at_offset(block.y, np.full(len(block.y), level))
    return moved, block._replace(y=seen.y, weight=block.weight * seen.weight)
