"""Dual ascent of one model on rows in memory: many passes in one call of a kernel.

The steps are SDCA's (sdca.py), the rows of every round in a new random order
(rounds_in_memory.py).  Where a pass costs no more than its arithmetic, this makes it cheap:

- A row is predicted once, by the running weights.  The sum of the brackets of a round is about the
  gap that it began with, and only where that is near the tolerance, a reading of all rows certifies
  the weights (duality.py).
- Between two rounds over all rows are rounds over active ones: a row is shrunk where it
  does not move, and under smooth losses where its bracket is a small part of what is left.
- Two passes' visits later all dual variables go on in the direction that they went, as far as D
  rises by it.
- Nothing returns to Python before there is a gap to certify.

The intercept is a constant column with a centre that follows after every round (duality.py), a
shorter column than SDCA's: rounds over few rows are many, and all rows share it.  Where rounds
bring too little, as with rows of very different length, this ends without a proof, and a proximal
centre is called for (psdca.py).

Source: the shrinking of Hsieh et al. 2008, "A Dual Coordinate Descent Method for Large-scale Linear
SVM", section 3.2, without its bounds: shrunk rows are looked at in the next round over all.
docs/methods.md, section 7.13.
"""

from __future__ import annotations

import math

import numpy as np

from fewpass.solvers.certificate import LEAST_SHARE
from fewpass.solvers.certified_minimum import AfterReading, Minimum, Sizes
from fewpass.solvers.dual.duality import DualPoint, add_gap, column_of_rows, gap_certificate, no_gap
from fewpass.solvers.dual.rounds_in_memory import (
    CHECKED,
    Aim,
    Ascent,
    GivenRows,
    Round,
    ascend_until,
    row_squares,
    seems_small,
)
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, Weights

SHRINK = 0.3  # under smooth losses: see Aim
CHARGE = 4.0  # for the intercept's distance from its centre, at least, in lam
FLEXIBLE = 0.02  # of the loss's curvature: at most, so that the centre follows quickly
AT_A_TIME = 1 << 25  # values that a call reads before it asks whether to stop
DRAWN = 47  # what a random generator is for


def ascend(
    problem: Problem, sizes: Sizes, block: Block, tol: float, most: float, seed: int = 0,
    after_reading: AfterReading = lambda _passes, _certified: None,
) -> Minimum:  # fmt: skip
    """Maximise the dual until the relative gap is at most `tol`, or it is seen to take too long.

    Parameters
    ----------
    problem
        The penalty must be l2.
    sizes
        Numbers of rows and columns, and F_0.
    block
        All rows, with weights of mean 1.
    most
        Passes, at most or little more, each of as many visits as there are rows.
    seed
        Of the order of rows.
    after_reading
        Called between rounds with the passes so far, and the certificate if there is a new one; an
        exception that it raises ends the ascent.
    """
    n, here, readings = sizes.n, Round(), 0
    given = _given(problem, sizes, block, tol)
    at, pause = _beginning(given, sizes.d, seed), _visits_at_a_time(block)
    while True:
        here = Round(*ascend_until(at, given, here, most * n, pause))
        certified: Certificate | None = None
        over = here.visits >= most * n or _is_slow(here, sizes, given.aim, most)
        if over or seems_small(here.brackets, here.before, here.objective, n, given.aim):
            weights, certified = _certified(given, at, block)
            certified, readings = certified.with_constants(sizes.constants), readings + 1
            over = over or certified.relative <= tol
        after_reading(here.visits / n + readings, certified)
        if over:
            assert certified is not None, "every end is certified"
            return Minimum(weights, certified, here.visits / n + readings)


def _given(problem: Problem, sizes: Sizes, block: Block, tol: float) -> GivenRows:
    """Measure the rows."""
    squares = np.empty(sizes.n)
    row_squares(block.rows, squares)
    charge = min(CHARGE * problem.lam, FLEXIBLE * problem.loss.rate(1.0))
    column = column_of_rows(problem, float(squares.mean()), charge)
    squares += column.value**2
    shrink = SHRINK if problem.loss.is_smooth else 0.0
    aim = Aim(float(tol), LEAST_SHARE * max(sizes.constants, default=0.0), shrink, problem.lam)
    return GivenRows(problem, column, aim, squares, block.rows, block.y, block.weight)


def _beginning(given: GivenRows, d: int, seed: int) -> Ascent:
    """Return zero dual variables."""
    n, problem = len(given.y), given.problem
    drawn = np.random.SeedSequence([seed, DRAWN]).generate_state(1, np.uint64) | np.uint64(1)
    return Ascent(
        w=np.zeros(d + 1), duals=np.zeros((n, 1)), order=np.arange(n),
        offset=np.array([problem.level * problem.intercept]), random=drawn,
        w_before=np.empty(d + 1), duals_before=np.empty(n),
    )  # fmt: skip


def _visits_at_a_time(block: Block) -> int:
    """Return the visits of a call of the kernel, by the length of rows."""
    return 1 + AT_A_TIME * len(block.y) // max(1, block.rows[0].size)


def _is_slow(here: Round, sizes: Sizes, aim: Aim, most: float) -> bool:
    """Say whether what is left takes more than `most` passes, at the rates so far."""
    gap, wanted = here.brackets / sizes.n, aim.tol * max(here.objective, aim.least)
    if here.rounds % CHECKED or gap <= wanted:
        return False
    from_zero = (gap / max(sizes.constants)) ** (1.0 / here.rounds)
    left = min(1.0 - 1e-9, from_zero, here.brackets / here.before)
    rounds = math.log(gap / max(wanted, 1e-300)) / -math.log(max(left, 1e-9))
    return here.visits / sizes.n * (1.0 + rounds / here.rounds) > most


def _certified(given: GivenRows, at: Ascent, block: Block) -> tuple[Weights, Certificate]:
    """Return the weights, and what a reading of all rows proves of them."""
    v, column = float(at.w[-1]), given.column
    b = column.unit * v + float(at.offset[0])
    point = DualPoint(at.w[:-1], b, np.ones(1))
    rows = block._replace(order=np.arange(len(block.y)), row_state=at.duals)
    total = add_gap(given.problem, point, rows, no_gap(point))
    proven = gap_certificate(given.problem, point, column.under_lam_b(v), total)
    return Weights(at.w[:-1].copy(), b), proven
