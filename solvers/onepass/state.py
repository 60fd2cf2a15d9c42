"""Everything that changes in a pass of several learners, and what each of them offers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.loss_monitor import LossSum
from solvers.losses import Problem
from solvers.onepass.adagrad import U, W
from solvers.onepass.streaming_newton import Proof, Summary, weights_of
from solvers.onepass.visit import ASGD, OUTPUTS, POLY
from solvers.protocol import Weights
from solvers.sgd.state import SgdState, has_exploded, read_out

#: The outputs, in the order of visit.py.
NAMES = (
    "adagrad of step 1",
    "adagrad of step 4",
    "averaged adagrad of step 1",
    "averaged adagrad of step 4",
    "asgd",
    "streaming newton",
)
NEWTON = OUTPUTS


class ProgressiveLosses(NamedTuple):
    """Losses of rows before their steps: what outputs are chosen by, and what is told meanwhile."""

    sums: NDArray[np.float64]  # (2, 5) of every output: late-weighted, and as they are
    weight: float = 0.0  # sum of (t/n)^5 over the rows so far
    told: LossSum = LossSum()  # of the output that was ahead before each block


class Lead(NamedTuple):
    """By how much the output is ahead that was chosen."""

    objective: float = 0.0  # its J
    runner_up: int = 0  # the output with the next larger one
    by: float = 0.0  # larger by so much


class OnepassState(NamedTuple):
    """Everything that changes."""

    columns: NDArray[np.float64]  # (d + 1, 8): adagrad.py's records, the constant column's last
    sgd: SgdState
    newton: Summary  # of no size where it is not run
    progressive: ProgressiveLosses
    t: int  # rows visited, those before this data set included
    rows_before: int  # learnt from in another data set
    mass: float  # sum of (t/n)^5
    values_per_row: float  # mean, the constant included; 0 before the first block
    unit: float  # how far targets are from their level; 1 for labels
    chosen: int  # output that is ahead
    lead: Lead
    proof: Proof  # of streaming Newton's, after a pass under the squared loss


def offer(state: OnepassState, output: int) -> Weights:
    """Return the weights of an output."""
    if output == NEWTON:
        return weights_of(state.newton)
    if output == ASGD:
        return read_out(state.sgd)[1]
    learner = output % POLY
    w = state.columns[:, W + learner].copy()
    if output >= POLY and state.mass > 0.0:
        w += state.columns[:, U + learner] / state.mass
    return Weights(w[:-1], float(w[-1]))


def progressive_objectives(problem: Problem, state: OnepassState) -> NDArray[np.float64]:
    """J of every output, (6,): late-weighted losses before each row's step, and what w is charged.

    Infinite for what is not finite, for averaged SGD once it exploded, and for streaming Newton
    where it is not run or has not predicted a row yet.
    """
    progressive, newton = state.progressive, state.newton
    found = np.append(
        progressive.sums[0] / (progressive.weight or 1.0), newton.late / (newton.weight or 1.0)
    )
    if has_exploded(state.sgd):
        found[ASGD] = np.inf
    if not newton.weight:
        found[NEWTON] = np.inf
    for k in np.flatnonzero(np.isfinite(found)):
        found[k] += charge(problem, offer(state, int(k)))
    return np.where(np.isfinite(found), found, np.inf)


def charge(problem: Problem, w: Weights) -> float:
    """lam/2 ||w||^2 + lam_b/2 b^2."""
    return 0.5 * (problem.lam * float(w.coef @ w.coef) + problem.lam_b * float(w.intercept) ** 2)
