"""SIMBA: an SVM learnt from single rows and single columns, each step in less time than a pass.

    q = 1 (n,), z = 0 (d,)
    for t = 1, ..., T:
        p     <- q / sum q
        i     ~  p;                               z <- z + y_i x_i / R
        xi    <- 2 for the k rows of largest p, the allowance's rest for the next, 0 for the others
        b     <- sign(sum_i p_i y_i)              0 without a bias
        w     <- z / max(c_t, ||z||)              c_t = sqrt(2 t), or sqrt(2 T)
        j     ~  w_j^2 / ||w||^2
        v_i   <- y_i x_ij ||w||^2 / (R w_j) + xi_i + b y_i          for all i: column j
        q_i   <- q_i (1 - eta v + eta^2 v^2)      v = v_i clipped to +-1/eta_t
                                                  eta_t = sqrt(ln n / t), or sqrt(ln n / T)

One row and one column a step.  The model is the mean of all w and b with the best slack for it
(soft_margin.py).  This page is for dense data, where a step takes n + d numbers and as much time;
lazy.py has the steps for sparse data, whose time is that of the values touched.

Source: Hazan, Koren and Srebro 2011, Algorithm 1 with the bias of section 4.  Differs from the
paper in misprints (eta_t, u_0, which p) and in rates that adapt: docs/methods.md, "SIMBA".
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat

from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel
from fewpass.solvers.kernels.shapes import Matrix, PerRow
from fewpass.solvers.losses import Hinge
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Goal, Settings, Steps
from fewpass.solvers.simba.soft_margin import Mean, SoftMargin

STEPS = 29  # what a random generator is for
SLICE_STEPS = 1000  # steps whose random numbers are drawn together
PRACTICAL = 0.25  # T = (0.25 / eps)^2 ln n reaches eps in practice; the proof asks for 100

Uniforms = Matrix  # (steps, 2): random numbers in [0, 1), for a row and for a column
Drawn = NDArray[np.int64]  # (steps, 2): the row and the column drawn, -1 for none


class Simba(Settings):
    """SVM by single features: for data whose features are expensive to read one by one."""

    goal: ClassVar[Goal] = "steps"
    scale_free: ClassVar[bool] = True
    needs: ClassVar[Needs] = Needs(only_loss=Hinge, one_stream=" draws single rows")
    kind: Literal["simba"] = "simba"
    nu: NonNegativeFloat | None = None
    """Mean slack a row may have, in margins of unit rows; None: what a few passes of dual
    coordinate ascent with the plan's lam come to."""
    eps: float = Field(0.01, ge=1e-6, le=1.0)
    """Distance below the best margin to end at, about: sets the number of steps."""
    iterations: Steps | None = None
    """Steps; None: (0.25 / eps)^2 ln n."""
    rates: Literal["adaptive", "constant"] = "adaptive"
    """Rates that fall with the steps, or those of the proof."""
    hysteresis: NonNegativeFloat = 16.0
    """Sparse data: a row's weight must pass another's by this times eta_t, in logarithms, to get
    its slack."""
    pilot_passes: int = Field(3, ge=1, le=1000)
    """Passes of dual coordinate ascent that find nu."""
    beyond_memory: bool = False
    """Hold rows and columns in memory whatever the budget says."""

    def steps(self, n: int) -> int:
        """Return T for n rows."""
        return self.iterations or math.ceil((PRACTICAL / self.eps) ** 2 * math.log(max(n, 2)))


class DenseCopies(NamedTuple):
    """The same numbers by row and by column."""

    X: NDArray[np.floating]  # (n, d), C order
    columns: NDArray[np.floating]  # (d, n), C order


class SimbaState(NamedTuple):
    """Everything that changes."""

    log_q: NDArray[np.float64]  # (n,)
    z: NDArray[np.float64]  # (d,)
    w_sum: NDArray[np.float64]  # (d,)
    p_sum: NDArray[np.float64]  # (n,)
    draws: NDArray[np.int64]  # (n,) how often each row was drawn
    b_sum: float
    t: int
    accesses: int  # numbers read out of the data
    nu: float
    before: int  # values read to find nu


def first_state(of: SoftMargin, before: int = 0) -> SimbaState:
    """Return the state before the first step; `before`: values that were read to find nu."""
    return SimbaState(
        log_q=np.zeros(of.n), z=np.zeros(of.d), w_sum=np.zeros(of.d), p_sum=np.zeros(of.n),
        draws=np.zeros(of.n, np.int64), b_sum=0.0, t=0, accesses=0,
        nu=of.nu, before=before,
    )  # fmt: skip


def mean_of(state: SimbaState) -> Mean:
    """Read out the means; at least one step must have been made."""
    t = state.t
    return Mean(state.w_sum / t, state.b_sum / t, state.p_sum / t)


def uniforms(seed: int, number: int, steps: int) -> NDArray[np.float64]:
    """Return the random numbers (steps, 2) of one slice: a row's and a column's for each."""
    return np.random.default_rng([seed, STEPS, number]).random((SLICE_STEPS, 2))[:steps]


def dense_slice(
    solver: Simba,
    of: SoftMargin,
    data: DenseCopies,
    y: NDArray[np.float64],
    state: SimbaState,
    u: NDArray[np.float64],
) -> tuple[SimbaState, NDArray[np.int64]]:
    """Make len(u) steps in place; return the state and the rows and columns drawn (steps, 2).

    Parameters
    ----------
    y
        Labels (n,), -1 and +1.
    u
        Random numbers in [0, 1), (steps, 2).
    """
    drawn = np.empty((len(u), 2), np.int64)
    adaptive = solver.rates == "adaptive"
    moved = dense_steps(state, data, y, of, of.k, of.rest, adaptive, u, drawn)
    return state._replace(**moved._asdict()), drawn


class DenseSums(NamedTuple):
    """The numbers of a state that its steps change; its arrays change in place."""

    b_sum: float
    t: int
    accesses: int


@kernel
def dense_steps(
    state: SimbaState, data: DenseCopies, y: PerRow, of: SoftMargin, k: int, rest: float,
    adaptive: bool, u: Uniforms, drawn: Drawn,
) -> DenseSums:  # fmt: skip
    """Algorithm 1, line by line."""
    X, columns = data.X, data.columns
    log_q, z, w_sum, p_sum = state.log_q, state.z, state.w_sum, state.p_sum
    b_sum, t, accesses = state.b_sum, state.t, state.accesses
    n, d = X.shape
    p, xi, squares = np.empty(n), np.empty(n), np.empty(d)
    for s in range(u.shape[0]):
        t += 1
        now = t if adaptive else of.iterations
        eta, c = math.sqrt(math.log(n) / now), math.sqrt(2.0 * now)

        total = weights_of(log_q, p)
        i = draw(p, u[s, 0] * total)
        for j in range(d):  # z <- z + y_i x_i / R
            z[j] += y[i] * of.unit * X[i, j]
        give_slack(p, k, rest, xi)
        b = sign_of(p, y) if of.biased else 0.0

        square = 0.0
        for j in range(d):
            squares[j] = z[j] * z[j]
            square += squares[j]
        size = 1.0 / max(c, math.sqrt(square))  # w = size z
        for j in range(d):
            w_sum[j] += size * z[j]

        j = draw(squares, u[s, 1] * square) if square > 0.0 else -1
        ratio = of.unit * size * square / z[j] if j >= 0 else 0.0  # ||w||^2 / (R w_j)
        for r in range(n):
            x = y[r] * ratio * columns[j, r] if j >= 0 else 0.0
            log_q[r] += log_factor(x + xi[r] + b * y[r], eta)
            p_sum[r] += p[r] / total
        b_sum += b
        state.draws[i] += 1
        accesses += d + (n if j >= 0 else 0)
        drawn[s, 0], drawn[s, 1] = i, j
    return DenseSums(b_sum, t, accesses)


@called_by_kernels
def log_factor(v: float, eta: float) -> float:
    """Logarithm of what q is multiplied by: its argument lies between 3/4 and 3."""
    step = min(1.0, max(-1.0, eta * v))
    return math.log(1.0 - step + step * step)


@called_by_kernels
def weights_of(log_q: PerRow, p: PerRow) -> float:
    """Fill p with q over its largest value; return the sum."""
    top, total = log_q.max(), 0.0
    for i in range(p.shape[0]):
        p[i] = math.exp(log_q[i] - top)
        total += p[i]
    return total


@called_by_kernels
def draw(p: PerRow, target: float) -> int:
    """Return the first index whose running sum exceeds the target, never one of weight 0."""
    last = -1
    for i in range(p.shape[0]):
        if p[i] > 0.0:
            last = i
            target -= p[i]
            if target < 0.0:
                break
    return last


@called_by_kernels
def give_slack(p: PerRow, k: int, rest: float, xi: PerRow) -> None:
    """xi = argmax of p . xi over slacks within the allowance; ties go to the first rows."""
    n = p.shape[0]
    xi[:] = 2.0
    if k >= n:
        return
    level = np.partition(p, n - k - 1)[n - k - 1]  # the (k + 1)-th largest
    above = 0
    for i in range(n):
        above += p[i] > level
    left, over = k - above, rest
    for i in range(n):
        if p[i] > level:
            continue
        xi[i] = 0.0
        if p[i] == level and left > 0:
            xi[i] = 2.0
            left -= 1
        elif p[i] == level:
            xi[i] = over
            over = 0.0


@called_by_kernels
def sign_of(p: PerRow, y: PerRow) -> float:
    """Return the sign of sum p_i y_i: the best b in [-1, 1]."""
    balance = 0.0
    for i in range(p.shape[0]):
        balance += p[i] * y[i]
    return np.sign(balance)  # type: ignore[no-any-return]
