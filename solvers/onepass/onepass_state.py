"""Everything that changes in a pass of several learners, and what each of them offers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Matrix, SideBySide
from fewpass.solvers.loss_monitor import LossSum
from fewpass.solvers.losses import Problem
from fewpass.solvers.onepass.adagrad import U, W
from fewpass.solvers.onepass.streaming_newton import Proof, Summary, weights_of
from fewpass.solvers.onepass.visit import ASGD, MOST_LOSS, OUTPUTS, POLY, StepConstants
from fewpass.solvers.protocol import ProblemStats, Weights
from fewpass.solvers.registry import ONE_LEARNER
from fewpass.solvers.sgd.averaged_state import SgdState, has_exploded, read_out

#: The outputs, in the order of visit.py.
NAMES = (
    "adagrad of step 1",
    "adagrad of step 4",
    "averaged adagrad of step 1",
    "averaged adagrad of step 4",
    ONE_LEARNER,
    "streaming newton",
)
NEWTON = OUTPUTS
PROVEN = 1e-6  # a certified relative gap that ends the choice


class ProgressiveLosses(NamedTuple):
    """Losses of rows before their steps: what outputs are chosen by, and what is told meanwhile."""

    sums: NDArray[np.float64]  # (2, 5) of every output: late-weighted, and as they are
    charges: NDArray[np.float64]  # (6,) what the weights of each were charged after the last block
    mass_before: float = 0.0  # the state's mass before the first row that was counted
    told: LossSum = LossSum()  # of the output that was ahead before each piece of rows


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

    @property
    def weight(self) -> float:
        """Sum of (t/n)^5 over the rows whose losses were counted."""
        return self.mass - self.progressive.mass_before


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
    losses = late_losses(state)
    return losses + charges(problem, state, losses)


def late_losses(state: OnepassState) -> NDArray[np.float64]:
    """Return the late-weighted mean loss of every output, (6,), infinite for what cannot be had."""
    progressive, newton = state.progressive, state.newton
    found = np.append(
        progressive.sums[0] / (state.weight or 1.0), newton.late / (newton.weight or 1.0)
    )
    if has_exploded(state.sgd):
        found[ASGD] = np.inf
    if not newton.weight:
        found[NEWTON] = np.inf
    return np.where(np.isfinite(found), found, np.inf)


def charges(
    problem: Problem, state: OnepassState, losses: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return what the weights of every output are charged, (6,): 0 where its loss is infinite."""
    found = np.zeros(len(losses))
    found[:ASGD], found[ASGD] = adagrad_charges(problem, state), asgd_charge(problem, state.sgd)
    if np.isfinite(losses[NEWTON]):
        found[NEWTON] = charge(problem, offer(state, NEWTON))
    found[~np.isfinite(losses)] = 0.0
    return np.minimum(np.nan_to_num(found, nan=MOST_LOSS), MOST_LOSS)


def adagrad_charges(problem: Problem, state: OnepassState) -> NDArray[np.float64]:
    """Return what `charge` says of the outputs before averaged SGD's, (4,), in one reading."""
    squares = squares_of(state.columns, 1.0 / state.mass if state.mass > 0.0 else 0.0)
    return 0.5 * (problem.lam * squares[:, 0] + problem.lam_b * squares[:, 1])


@kernel
def squares_of(columns: Matrix, inverse_mass: float) -> Matrix:
    """||w||^2 and b^2 of the last weights and of the average at both step sizes, (4, 2)."""
    found, d = np.zeros((ASGD, 2)), columns.shape[0] - 1
    for j in range(d + 1):
        for k in range(POLY):
            w = columns[j, W + k]
            average = w + columns[j, U + k] * inverse_mass
            part = 1 if j == d else 0
            found[k, part] += w * w
            found[POLY + k, part] += average * average
    return found


def asgd_charge(problem: Problem, sgd: SgdState) -> float:
    """Return what `charge` says of averaged SGD's weights, which are not read out for it."""
    (b, alpha), (b_bar, tau, beta) = sgd.theta, sgd.bar
    u, uh, b = (tau / beta, 1.0 / beta, b_bar) if sgd.t > sgd.t0 >= 0 else (1.0 / alpha, 0.0, b)
    return 0.5 * (problem.lam * square_of_sum(sgd.W, u, uh) + problem.lam_b * b * b)


@kernel
def square_of_sum(W: SideBySide, u: float, uh: float) -> float:
    """||u W[:, 0] + uh W[:, 1]||^2."""
    found = 0.0
    for j in range(W.shape[0]):
        w = u * W[j, 0] + uh * W[j, 1]
        found += w * w
    return found


def ahead(state: OnepassState) -> int:
    """Return the output that is ahead by the losses so far, charged as after the last block."""
    return int(np.argmin(late_losses(state) + state.progressive.charges))


def charge(problem: Problem, w: Weights) -> float:
    """lam/2 ||w||^2 + lam_b/2 b^2."""
    return 0.5 * (problem.lam * float(w.coef @ w.coef) + problem.lam_b * float(w.intercept) ** 2)


def pace_of(stats: ProblemStats, state: OnepassState) -> StepConstants:
    """Return what steps and late weights follow from."""
    return StepConstants(
        float(stats.stream_rows + state.rows_before), math.sqrt(state.values_per_row)
    )


def judged(problem: Problem, state: OnepassState) -> OnepassState:
    """Take note of the output with the smallest progressive objective, or of a proven optimum."""
    losses = late_losses(state)
    charged, (objective, gap) = charges(problem, state, losses), state.proof
    found, progressive = losses + charged, state.progressive._replace(charges=charged)
    proven = 0.0 <= gap <= PROVEN * max(1.0, objective)
    chosen = NEWTON if proven else int(np.argmin(found))
    second = int(np.argmin(np.where(np.arange(len(found)) == chosen, np.inf, found)))
    known = np.isfinite(found[[chosen, second]]).all()
    lead = Lead(float(found[chosen]), second, float(found[second] - found[chosen]))
    return state._replace(progressive=progressive, chosen=chosen, lead=lead if known else Lead())
