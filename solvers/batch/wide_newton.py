"""Newton's method for a loss of several scores: few columns times classes, whatever their scales.

    x <- x + t p,     (H + lam I) p = -g,     t = 1, 1/4, 1/16, ... until f falls enough (Armijo)
    H = (1/n) sum_i c_i C_i (x) x_i x_i'      C_i (K, K) the second derivative at row i's scores

over all (d + 1) K weights, in one pass with the gradient that certifies them.  A step that fails
costs a pass.  H has the square of as many numbers, hence the limit.

Source: docs/methods.md, section 8.
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fewpass.solvers.batch.batch_method import Trial
from fewpass.solvers.gradient import SUFFICIENT_DECREASE, Bounds
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector, prefetch_row
from fewpass.solvers.kernels.shapes import Matrix, Order, PerRow
from fewpass.solvers.kernels.simd.lanes import Eight, load, store
from fewpass.solvers.kernels.simd.wide_rows import EndToEnd, PerClass, add_scores
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.wide_loss import LossOfScores, curvature_of_scores
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    ExpectedPasses,
    Method,
    Part,
    ProblemStats,
    Reduce,
    Sum,
    Weights,
    array_bytes,
)
from fewpass.solvers.registry import DUAL, MOST_NEWTON_WEIGHTS
from fewpass.solvers.wide_gradient import (
    WideGradientPart,
    add_wide_gradient,
    base_of,
    constant_scores,
    in_columns,
    no_wide_gradient,
    whole_wide_gradient,
    wide_certificate,
)

SHORTER = 0.25  # the next length, over one that failed
LEAST_LENGTH = 1e-8  # then the step is given up
ROUNDED = 1e-12  # of an objective: smaller rises are none
USUAL = 12.0  # passes


class WideNewtonState(NamedTuple):
    """The state; the next point is x + t p.  Of each class d weights, then the intercept."""

    x: NDArray[np.float64]  # (K (d + 1),)
    p: NDArray[np.float64]  # (K (d + 1),)
    bounds: Bounds  # at x
    t: float = 1.0
    slope: float = 0.0  # of f at x along p
    evaluations: int = 0


class WideCurvedPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    first: WideGradientPart
    H: NDArray[np.float64]  # (K (d + 1), K (d + 1)), lower halves of the blocks at and below it


def no_wide_curvature(at: Weights) -> WideCurvedPart:
    """Return the zero of the sums."""
    size = len(at.coef) * (at.coef.shape[1] + 1)
    return WideCurvedPart(no_wide_gradient(at), np.zeros((size, size)))


def add_wide_curvature(
    problem: Problem, at: Weights, block: Block, part: WideCurvedPart
) -> WideCurvedPart:
    """Add one block's loss, gradient and curvature at the given weights, in place."""
    base = base_of(np.asarray(at.intercept), problem.intercept)
    add_blocks(
        part.H, in_columns(at.coef).ravel(), base, problem.loss, problem.intercept, *block[:4]
    )
    return part._replace(first=add_wide_gradient(problem, at, block, part.first))


#: Objective, gradient and H at a point.
WIDE_CURVED = Sum("reduce-curvature", no_wide_curvature, add_wide_curvature)


class WideNewton(Method):
    """Newton's method, for several scores."""

    needs: ClassVar[Needs] = Needs(several_scores=True, loss="smooth")
    states: ClassVar[tuple[type, ...]] = (WideNewtonState,)
    scale_free: ClassVar[bool] = True
    kind: str
    width: PositiveInt
    """K, the number of scores."""

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Refuse more weights than H may have, and losses whose second derivative is not known."""
        super().refuse_unfit(problem, stats)
        size = self.width * (stats.d + 1)
        if size > MOST_NEWTON_WEIGHTS:
            raise ValueError(
                f"{self.kind} keeps a matrix of weights by weights, and {self.width} classes of "
                f"{stats.d} columns have {size} weights, more than {MOST_NEWTON_WEIGHTS}. Take "
                f"`solver={DUAL}`, or `classes=ovr`."
            )
        if type(problem.loss) not in curvature_of_scores.bodies():
            raise ValueError(
                f"{self.kind} needs second derivatives, and {problem.loss.name} has none. Take "
                f"`solver={DUAL}`."
            )

    def program(self, epoch: int) -> tuple[Reduce, ...]:  # noqa: ARG002
        """Return one reduction."""
        return (Reduce(WIDE_CURVED, self.newest, self.absorb),)

    def first_state(self, problem: Problem, stats: ProblemStats) -> WideNewtonState:
        """Return the best constant."""
        x = as_long(constant_scores(problem, stats.d))
        return WideNewtonState(x, np.zeros(len(x)), Bounds())

    def start_at(
        self,
        problem: Problem,
        stats: ProblemStats,
        weights: Weights,
        rows_before: int,  # noqa: ARG002
    ) -> WideNewtonState:
        """Return a state at given weights."""
        state: WideNewtonState = self.init(problem, stats)
        return state._replace(x=as_long(weights))

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of the state, with those of H."""
        return array_bytes(self.init(problem, stats)) + 8 * (self.width * (stats.d + 1)) ** 2

    def expected_passes(
        self, _problem: Problem, _stats: ProblemStats, _tol: float
    ) -> ExpectedPasses:
        """Few, whatever the columns are."""
        return ExpectedPasses(usual=USUAL, reductions=1.0)

    def newest(self, state: WideNewtonState) -> Weights:
        """Return the point to try."""
        return self._read(state.x + state.t * state.p)

    def certificate(self, state: WideNewtonState) -> Certificate | None:
        """Return what the passes so far proved of the newest accepted point."""
        return state.bounds.certificate if state.evaluations > 0 else None

    def weights(self, state: WideNewtonState) -> Weights:
        """Return the newest accepted point."""
        return self._read(state.x)

    def _read(self, x: NDArray[np.float64]) -> Weights:
        each = x.reshape(self.width, -1)
        return Weights(np.ascontiguousarray(each[:, :-1]), each[:, -1].copy())

    def absorb(
        self,
        problem: Problem,
        stats: ProblemStats,  # noqa: ARG002
        state: WideNewtonState,
        total: Part,
        sweep: int,  # noqa: ARG002
    ) -> WideNewtonState:
        """Accept the point and choose a step from there, or a shorter step from the old one."""
        at = self.newest(state)
        g = whole_wide_gradient(problem, at, total.first)
        trial = Trial(at, g, wide_certificate(problem, at, total.first))
        state = state._replace(evaluations=state.evaluations + 1)
        if state.evaluations > 1 and not fell(state, trial.certificate.objective):
            bounds = state.bounds.stayed(trial.certificate)
            return state._replace(t=SHORTER * state.t, bounds=bounds)
        p = newton_direction(problem, total, as_long(g), self.width)
        bounds = state.bounds.moved(trial.certificate) if state.evaluations > 1 else Bounds(
            trial.certificate.objective, trial.certificate.gap
        )  # fmt: skip
        return state._replace(x=as_long(at), p=p, t=1.0, slope=float(as_long(g) @ p), bounds=bounds)


def as_long(weights: Weights) -> NDArray[np.float64]:
    """Return coef (K, d) and intercept (K,) as one vector, class by class."""
    return np.column_stack([weights.coef, weights.intercept]).ravel()


def fell(state: WideNewtonState, objective: float) -> bool:
    """Whether a trial is good enough; one too short to tell is."""
    wanted = state.bounds.objective + SUFFICIENT_DECREASE * state.t * state.slope
    size = ROUNDED * abs(state.bounds.objective)
    return bool(objective <= wanted + size) or state.t < LEAST_LENGTH


def newton_direction(
    problem: Problem, total: WideCurvedPart, g: NDArray[np.float64], K: int
) -> NDArray[np.float64]:
    """Return p with (H + lam I) p = -g."""
    size = len(g) // K
    H = whole(total.H, K) / total.first.rows
    charge = np.full(size, problem.lam)
    charge[-1] = problem.lam_b if problem.intercept else 1.0
    H[np.diag_indices_from(H)] += np.tile(charge, K)
    return np.asarray(np.linalg.solve(H, -g))


def whole(H: NDArray[np.float64], K: int) -> NDArray[np.float64]:
    """Return the matrix whose blocks at and below the diagonal have their lower halves in H."""
    size = len(H) // K
    full = np.empty_like(H)
    for k in range(K):
        for m in range(k + 1):
            rows, columns = slice(k * size, (k + 1) * size), slice(m * size, (m + 1) * size)
            lower = H[rows, columns]
            both = lower + np.tril(lower, -1).T
            full[rows, columns] = full[columns, rows] = both
    return full


@kernel
def add_blocks(
    H: Matrix, V: EndToEnd, base: PerClass, loss: LossOfScores, intercept: float, rows: Rows,
    y: PerRow, weight: PerRow, order: Order,
) -> None:  # fmt: skip
    """H += sum of weighted C_i (x) x_i x_i', the lower halves of blocks at and below its own."""
    wide, K, how = base.shape[0], loss.n_classes, Eight()
    size = H.shape[0] // K
    v, g, C, x = np.empty(wide), np.empty(wide), np.zeros((K, K)), np.zeros(size)
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, weight, order, r)
        for k in range(0, wide, 8):
            store(v, k, load(base, k, how))
        add_scores(rows, i, V, wide, 0, v)
        curvature_of_scores(loss, v, int(y[i]), g, C)
        x[:] = 0.0
        add_vector(rows, i, 1.0, x[: size - 1])
        x[size - 1] = intercept
        for k in range(K):
            for m in range(k + 1):
                add_block(H, k * size, m * size, weight[i] * C[k, m], x)


@kernel
def add_block(H: Matrix, k: int, m: int, c: float, x: EndToEnd) -> None:
    """Add c x x' to the lower half of the block of H that begins at (k, m)."""
    for a in range(x.shape[0]):
        if x[a] != 0.0:
            at = c * x[a]
            for b in range(a + 1):
                H[k + a, m + b] += at * x[b]
