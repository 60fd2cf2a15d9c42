"""The state of a pass with several learners, their outputs, and the end of the pass."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.intercept import problem_from_level
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Matrix, SideBySide
from fewpass.solvers.loss_monitor import MOST_LOSS, LossSum
from fewpass.solvers.losses import Problem
from fewpass.solvers.onepass.adagrad import G, U, W
from fewpass.solvers.onepass.streaming_newton import Proof, Summary, fitted, joined, weights_of
from fewpass.solvers.onepass.visit import ASGD, LEFT, OUTPUTS, POLY, StepConstants
from fewpass.solvers.protocol import ProblemStats, Weights
from fewpass.solvers.registry import ONE_LEARNER
from fewpass.solvers.sgd.averaged_state import IN_PAIRS, SgdState, has_exploded, read_out

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
PROVEN = 1e-6  # certified gap, over max(1, objective), below which streaming Newton is chosen


class ProgressiveLosses(NamedTuple):
    """Losses of rows before their steps, for the choice of an output and for the log."""

    sums: NDArray[np.float64]  # (2, 5) of every output: late-weighted, and plain
    charges: NDArray[np.float64]  # (6,) regularisation terms of the outputs after the last block
    mass_before: float = 0.0  # the state's mass before the first row that was counted
    reported: LossSum = LossSum()  # of the output that was best before each piece of rows


class Lead(NamedTuple):
    """The lead of the chosen output."""

    objective: float = 0.0  # its J
    runner_up: int = 0  # the output with the next larger one; itself if all others have left
    by: float = 0.0  # difference


class OnepassState(NamedTuple):
    """The state of a pass with several learners."""

    columns: NDArray[np.float64]  # (d + 1, 8): adagrad.py's records, the constant column's last
    sgd: SgdState
    newton: Summary  # empty if it is not run
    progressive: ProgressiveLosses
    t: int  # rows visited, including those of other data sets before
    rows_before: int  # of them in other data sets
    mass: float  # sum of (t/n)^5
    values_per_row: float  # mean, the constant included; 0 before the first block
    unit: float  # standard deviation of the targets; 1 for labels
    chosen: int  # best output
    lead: Lead
    proof: Proof  # of streaming Newton's, after a pass under the squared loss
    level: float = 0.0  # that the intercepts of all outputs count from (intercept.py: from_level)
    trailing: int = 0  # bits of the learners that trailed at the last look (leaving.py)

    @property
    def weight(self) -> float:
        """Sum of (t/n)^5 over the rows with counted losses."""
        return self.mass - self.progressive.mass_before


def output_weights(state: OnepassState, output: int) -> Weights:
    """Return the weights of an output, the intercept from the level on."""
    if output == NEWTON:
        return weights_of(state.newton)
    if output == ASGD:
        return read_out(state.sgd)[1]
    learner = output % POLY
    w = state.columns[:, W + learner].copy()
    if output >= POLY and state.mass > 0.0:
        w += state.columns[:, U + learner] / state.mass
    return Weights(w[:-1], float(w[-1]))


def late_losses(state: OnepassState) -> NDArray[np.float64]:
    """Return the late-weighted mean loss of every output, (6,).

    Infinite if not finite, for averaged SGD after divergence, and for streaming Newton if it is not
    run or has not predicted a row yet.
    """
    sums, weight, newton = state.progressive.sums[0].tolist(), state.weight or 1.0, state.newton
    each = [total / weight if total < LEFT else math.inf for total in sums]
    goes = newton.weight > 0.0 and not newton.left
    each.append(newton.late / newton.weight if goes else math.inf)
    if has_exploded(state.sgd):
        each[ASGD] = math.inf
    return np.array([loss if math.isfinite(loss) else math.inf for loss in each])


class WeightSquares(NamedTuple):
    """Sums of squared weights of the outputs, but for streaming Newton."""

    adagrad: NDArray[np.float64]  # (4, 2): ||w||^2 and b^2
    sgd: float  # ||w||^2 of averaged SGD's


def squares_of_weights(state: OnepassState) -> WeightSquares:
    """Return the squares of a state's weights, in one loop over the columns for each kind."""
    adagrad = squares_of(state.columns, inverse_mass(state))
    return WeightSquares(adagrad, square_of_sum(state.sgd.W, *sgd_factors(state.sgd)))


def charges(
    problem: Problem, state: OnepassState, losses: NDArray[np.float64], squares: WeightSquares
) -> NDArray[np.float64]:
    """Return the regularisation term of every output, (6,); 0 where the loss is infinite."""
    terms, adagrad = np.zeros(len(losses)), squares.adagrad
    terms[:ASGD] = 0.5 * (problem.lam * adagrad[:, 0] + problem.lam_b * adagrad[:, 1])
    b = intercept_of(state.sgd)
    terms[ASGD] = 0.5 * (problem.lam * squares.sgd + problem.lam_b * b * b)
    if np.isfinite(losses[NEWTON]):
        terms[NEWTON] = charge(problem, output_weights(state, NEWTON))
    terms[~np.isfinite(losses)] = 0.0
    return np.minimum(np.nan_to_num(terms, nan=MOST_LOSS), MOST_LOSS)


def inverse_mass(state: OnepassState) -> float:
    """Return what AdaGrad's averages are to be multiplied by."""
    return 1.0 / state.mass if state.mass > 0.0 else 0.0


def sgd_factors(sgd: SgdState) -> tuple[float, float]:
    """Return u and uh: averaged SGD's weights are u W[:, 0] + uh W[:, 1]."""
    (_, tau, beta), averages = sgd.bar, sgd.t > sgd.t0 >= 0
    return (tau / beta, 1.0 / beta) if averages else (1.0 / sgd.theta.alpha, 0.0)


def intercept_of(sgd: SgdState) -> float:
    """Return averaged SGD's intercept."""
    return sgd.bar.b if sgd.t > sgd.t0 >= 0 else sgd.theta.b


@kernel
def squares_of(columns: Matrix, inverse_mass: float) -> Matrix:
    """Return ||w||^2 and b^2 of AdaGrad's outputs, (4, 2)."""
    squares, d = np.zeros((ASGD, 2)), columns.shape[0] - 1
    for j in range(d + 1):
        for k in range(POLY):
            w = columns[j, W + k]
            average = w + columns[j, U + k] * inverse_mass
            part = 1 if j == d else 0
            squares[k, part] += w * w
            squares[POLY + k, part] += average * average
    return squares


@kernel
def square_of_sum(W: SideBySide, u: float, uh: float) -> float:
    """Return ||u W[:, 0] + uh W[:, 1]||^2."""
    total = 0.0
    for j in range(W.shape[0]):
        w = u * W[j, 0] + uh * W[j, 1]
        total += w * w
    return total


def leading_output(state: OnepassState) -> int:
    """Return the best output by the losses so far and the last regularisation terms."""
    return int(np.argmin(late_losses(state) + state.progressive.charges))


def charge(problem: Problem, w: Weights) -> float:
    """Return lam/2 ||w||^2 + lam_b/2 b^2."""
    return 0.5 * (problem.lam * float(w.coef @ w.coef) + problem.lam_b * float(w.intercept) ** 2)


def pace_of(stats: ProblemStats, state: OnepassState) -> StepConstants:
    """Return the constants of steps and late weights."""
    return StepConstants(
        float(stats.stream_rows + state.rows_before), math.sqrt(state.values_per_row)
    )


def with_choice(
    problem: Problem, state: OnepassState, squares: WeightSquares | None = None
) -> OnepassState:
    """Return the state with the output of the least J as chosen, or a proven optimum.

    `squares` are those of its weights, where they lie elsewhere.
    """
    losses, (objective, gap) = late_losses(state), state.proof
    charged = charges(problem, state, losses, squares or squares_of_weights(state))
    J, progressive = losses + charged, state.progressive._replace(charges=charged)
    proven = 0.0 <= gap <= PROVEN * max(1.0, objective)
    chosen = NEWTON if proven else int(np.argmin(J))
    second = int(np.argmin(np.where(np.arange(len(J)) == chosen, np.inf, J)))
    return state._replace(progressive=progressive, chosen=chosen, lead=lead_of(J, chosen, second))


def lead_of(J: NDArray[np.float64], chosen: int, second: int) -> Lead:
    """Return the lead over the second output, if there is one."""
    if not np.isfinite(J[chosen]):
        return Lead()
    if not np.isfinite(J[second]):
        return Lead(float(J[chosen]), chosen)
    return Lead(float(J[chosen]), second, float(J[second] - J[chosen]))


def join(problem: Problem, stats: ProblemStats, states: list[OnepassState]) -> OnepassState:
    """Fit Newton to its last rows; average the learners of the streams, and choose.

    As in every step, scores count from the problem's level.
    """
    problem = problem_from_level(problem)
    states = [closed(problem, stats, s, several=len(states) > 1) for s in states]
    newton, proof = states[0].newton, Proof()
    if newton.used:
        newton, proof = joined(problem, [s.newton for s in states])
    one = together(problem, stats, states) if len(states) > 1 else states[0]
    return with_choice(problem, one._replace(newton=newton, proof=proof))


def together(problem: Problem, stats: ProblemStats, states: list[OnepassState]) -> OnepassState:
    """Average the learners' weights and losses over several streams."""
    first, columns = states[0], states[0].columns
    averages = [s.columns[:, W : W + 2] + s.columns[:, U : U + 2] / (s.mass or 1.0) for s in states]
    for part in (slice(W, W + 2), slice(G, G + 2)):
        columns[:, part] = np.mean([s.columns[:, part] for s in states], axis=0)
    columns[:, U : U + 2] = first.mass * (np.mean(averages, axis=0) - columns[:, W : W + 2])
    progressive = first.progressive._replace(
        sums=np.mean([s.progressive.sums for s in states], axis=0),
        mass_before=first.mass - float(np.mean([s.weight for s in states])),
    )
    exploded = max(s.sgd.monitor.diverged for s in states)
    sgd = IN_PAIRS.join(problem, stats, [s.sgd for s in states])
    sgd = sgd._replace(monitor=sgd.monitor._replace(diverged=exploded))
    return first._replace(progressive=progressive, sgd=sgd)


def closed(
    problem: Problem, stats: ProblemStats, state: OnepassState, *, several: bool
) -> OnepassState:
    """Return the state with Newton fitted to all rows, of all streams."""
    if not state.newton.used:
        return state
    horizon, closing = pace_of(stats, state).horizon, several or problem.loss.is_quadratic
    return state._replace(newton=fitted(problem, state.newton, horizon, closing=closing))
