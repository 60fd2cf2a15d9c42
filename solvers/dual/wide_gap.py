"""What a pass of dual ascent proves of a loss of several scores, and how it goes on from weights.

duality.py and warm_start.py for K scores a row; the formulas are theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import DualPoint, GapPart, constant_column, per_row
from fewpass.solvers.dual.proximal import at_pass_start
from fewpass.solvers.dual.sdca_state import RUNNING, START, SdcaState, note_begin
from fewpass.solvers.dual.warm_start import best_share
from fewpass.solvers.dual.wide_steps import sum_wide_brackets, write_wide_duals
from fewpass.solvers.kernels.simd.wide_rows import padded
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, Sum, Weights
from fewpass.solvers.wide_gradient import base_of, in_columns


def add_wide_gap(problem: Problem, at: DualPoint, block: Block, part: GapPart) -> GapPart:
    """Add one block's loss and brackets, dual variables read from its row state."""
    base = base_of(at.intercept, problem.intercept)
    V = in_columns(at.coef).ravel()
    loss, gap = sum_wide_brackets(
        problem.loss,
        V,
        base,
        at.shares,
        *block[:4],
        per_row(block),
    )
    return GapPart(part.loss + loss, part.gap + gap, part.rows + block.order.shape[0])


def no_wide_gap(_at: DualPoint) -> GapPart:
    """Return the sums over no rows."""
    return GapPart(0.0, 0.0, 0)


#: Loss and duality gap at given weights, every row's dual variables being read.
WIDE_GAP = Sum("reduce-gap", no_wide_gap, add_wide_gap, row_state="read")


class WideDualsPart(NamedTuple):
    """Sums over some rows, weighted; parts add."""

    loss: float
    worth: float  # of -phi*(-a)
    S: NDArray[np.float64]  # (d, wide) of x a'
    s_b: NDArray[np.float64]  # (wide,) of a times the constant column
    rows: int


def no_wide_duals(at: Weights) -> WideDualsPart:
    """Return the sums over no rows."""
    wide = padded(len(at.coef))
    return WideDualsPart(0.0, 0.0, np.zeros((at.coef.shape[1], wide)), np.zeros(wide), 0)


def add_wide_duals(
    problem: Problem, at: Weights, block: Block, part: WideDualsPart
) -> WideDualsPart:
    """Write the dual variables of one block's rows, and add up what goes with them."""
    base = base_of(at.intercept, problem.intercept)
    loss, worth = write_wide_duals(
        part.S.ravel(), part.s_b, problem.loss, problem.intercept, in_columns(at.coef).ravel(),
        base, *block[:4], per_row(block),
    )  # fmt: skip
    rows = part.rows + block.order.shape[0]
    return part._replace(loss=part.loss + loss, worth=part.worth + worth, rows=rows)


#: Slopes at some weights, kept as dual variables.
WIDE_SLOPES_AS_DUALS = Sum("reduce-duals", no_wide_duals, add_wide_duals, row_state="write")


def begin_at_wide_duals(
    problem: Problem, stats: ProblemStats, state: SdcaState, total: WideDualsPart, sweep: int
) -> SdcaState:
    """Begin the first pass of a state at its weights' dual variables, as many of them as help.

    The centre is where the dual variables are.  The weights given are the best certified ones until
    a pass finds better ones.
    """
    n, b, column = total.rows, np.asarray(state.centre.offset), constant_column(problem, stats)
    r, K, z = float(state.pull.r), len(state.best.intercept), state.pull.z
    left = column.left / r
    centre = (1.0 - left) * b + left * column.level
    v = np.concatenate([total.S, column.unit * total.s_b[None]]) / (problem.lam * n)
    charged = np.ravel(v[:-1]), v[-1] / np.sqrt(r)
    worth = (total.worth - float(total.s_b @ centre)) / n
    theta = best_share(worth, 0.5 * problem.lam * sum(float(own @ own) for own in charged))
    given = Weights(np.ascontiguousarray(state.W[:-1, START, :K].T), b[:K].copy())
    best = state.best.replaced(given, proven_of_given(problem, given, total))
    z[:] = theta * v
    z[-1] = 0.0
    state.W[:, START] = theta * v
    state.W[-1, START] /= r
    state.W[:, RUNNING] = state.W[:, START]
    state.shares[:] = 0.0
    state.shares[0] = theta
    begun = note_begin(state)._replace(
        centre=state.centre._replace(offset=centre), best=best, passes=1, row_version=sweep
    )
    return at_pass_start(problem, stats, begun)


def proven_of_given(problem: Problem, at: Weights, total: WideDualsPart) -> Certificate:
    """Return objective and gap of the weights that the slopes were taken at."""
    n, coef, level = total.rows, at.coef.ravel(), np.asarray(problem.level)
    up = at.intercept - level
    charged = 0.5 * problem.lam * float(coef @ coef) + 0.5 * problem.lam_b * float(up @ up)
    S, A = total.S.ravel(), (total.worth - float(np.sum(level * total.s_b[: len(up)]))) / n
    B = 0.5 * float(S @ S) / (problem.lam * n * n)
    B += 0.5 * float(total.s_b @ total.s_b) / (n * n * problem.lam_b)
    theta, objective = best_share(A, B), total.loss / n + charged
    return Certificate(objective, max(0.0, objective - theta * A + theta * theta * B))
