"""Plain NumPy references: what the kernels must agree with, written for reading, not for speed."""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq, minimize
from scipy.sparse import csr_matrix

from fewpass.solvers.gradient import add_gradient, certificate, no_gradient
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.papers import xu_2011
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, ColumnMoments, ProblemStats, Weights

INTERCEPTS = {"none": (0.0, 1.0), "regularised": (1.0, 1.0), "free": (1.0, 0.01)}


#: The rows that each loss is tested on.  A kernel is compiled for every kind of rows and every loss,
#: but the two meet only in calls of verbs: one loss is enough for sparse rows.  All go with dense ones
#: through every method in tests/solvers/test_cells.py, whose kernels these are.
ROWS_OF = {
    "hinge": DenseRows,
    "squared_hinge": DenseRows,
    "smoothed_hinge": DenseRows,
    "logistic": SparseRows,
    "squared": DenseRows,
    "huber": DenseRows,
}
#: A loss for each way that methods treat them: with a kink, with exact steps, of sides, of numbers.
PAIRS = [(loss, ROWS_OF[loss]) for loss in ("hinge", "squared_hinge", "logistic", "squared")]
SMOOTH_PAIRS = [pair for pair in PAIRS if pair[0] != "hinge"]


def problem_of(loss, lam, intercept="none"):
    column, share = INTERCEPTS[intercept]
    return Problem(LOSSES[loss](), L2(lam), column, share * lam)


def rows_of(n, d, loss, seed=0, density=0.4):
    """A sparse-ish dense matrix, targets of a noisy linear model, weights of mean about 1."""
    rng = np.random.default_rng(seed)
    X = single(rng.standard_normal((n, d)) * (rng.random((n, d)) < density))
    X[rng.random(n) < 0.1] = 0.0
    score = X @ rng.standard_normal(d) + 0.5 * rng.standard_normal(n)
    y = score if LOSSES[loss].takes_numbers else np.where(score > 0.0, 1.0, -1.0)
    return X, y, rng.choice([0.0, 0.5, 1.0, 2.0], n)


def single(X):
    """Numbers as float32 holds them, in float64: what is computed of them is exact in both."""
    return X.astype(np.float32).astype(np.float64)


def as_stored(values):
    """Values as float32 where that holds them all: the kernels of data sets as they are stored.

    Every kind of number is a kernel of its own to compile; the other one is for what needs it.
    """
    with np.errstate(over="ignore"):
        narrow = np.ascontiguousarray(values, np.float32)
    return narrow if np.array_equal(narrow, values) else np.ascontiguousarray(values)


def close(found, expected, tolerance):
    scale = max(np.abs(expected).max(), 1e-3)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=tolerance * scale)


def phi(name, p, y, width=1.0):
    """Value and slope of a loss, vectorised, straight from the table of section 1."""
    z = y * p
    m = 1.0 - z
    if name == "hinge":
        return np.maximum(0.0, m), np.where(m > 0.0, -y, 0.0)
    if name == "squared_hinge":
        return 0.5 * np.maximum(0.0, m) ** 2, -y * np.maximum(0.0, m)
    if name == "smoothed_hinge":
        middle = np.where(m < width, m**2 / (2 * width), m - width / 2)
        return np.where(m <= 0.0, 0.0, middle), -y * np.clip(m / width, 0.0, 1.0)
    if name == "logistic":
        return np.logaddexp(0.0, -z), -y * np.exp(-np.logaddexp(0.0, z))
    r = p - y
    if name == "huber":
        far = width * (np.abs(r) - width / 2)
        return np.where(np.abs(r) <= width, 0.5 * r**2, far), np.clip(r, -width, width)
    return 0.5 * r**2, r


def objective(name, problem, X, y, weight, w, b=0.0):
    """f(w, b) and its gradient (g, g_b)."""
    values, slopes = phi(name, X @ w + problem.intercept * b, y)
    up = b - problem.level
    f = np.mean(weight * values) + 0.5 * problem.lam * w @ w + 0.5 * problem.lam_b * up * up
    g = X.T @ (weight * slopes) / len(y) + problem.lam * w
    return f, g, problem.intercept * np.mean(weight * slopes) + problem.lam_b * up


def asgd(name, problem, X, y, weight, gamma0, a, c, t0, latest=0):
    """The paper's recursion for a loss by its name; the squared hinge takes exact steps."""
    exact, phi_of = name == "squared_hinge", partial(phi, name)
    return xu_2011.asgd(phi_of, problem, X, y, weight, (gamma0, a, c), t0, latest, exact=exact)


class AdaGrad(NamedTuple):
    """Where the implicit recursion ends, the constant column's weight last."""

    last: np.ndarray
    poly: np.ndarray
    losses: np.ndarray  # late-weighted sums of both
    weight: float


def implicit_slope(name, c, a, q, y):
    """g = c phi'(z, y) where z + q g = a: between the slopes where nothing moves and all does."""
    slope = lambda z: c * float(phi(name, z, y)[1])  # noqa: E731
    if q == 0.0 or slope(a) == 0.0:
        return slope(a)
    ends = sorted((a, a - (1.0 + 1e-9) * q * slope(a)))
    z = brentq(lambda z: z + q * slope(z) - a, *ends, xtol=1e-14, rtol=1e-14)
    return (a - z) / q  # at a kink the slope is in between


def adagrad(name, problem, X, y, weight, eta, unit=1.0, start=0.0, pull=1.0):
    """The implicit AdaGrad learner as its module's docstring has it, with dense vectors."""
    n = len(y)
    share, square = moments(X)
    constant = float(problem.intercept != 0.0)
    X = np.column_stack([X, np.full(n, problem.intercept)])
    f, S = np.append(share, 1.0), np.sqrt(np.append(square, 1.0))
    R = np.append(np.full(len(share), problem.lam), problem.lam_b) / np.where(f > 0.0, f, 1.0)
    N = share.sum() + constant
    centre = np.zeros(len(f))  # from where weights are charged: b_0 of the intercept, 0 of others
    centre[-1] = start
    w = centre.copy()
    G, bar, mass = np.full(len(f), 1e-3 * pull), np.zeros(len(f)), 0.0
    losses = np.zeros(2)
    for t in range(1, n + 1):
        j = np.flatnonzero(X[t - 1])
        x, c, late = X[t - 1, j], weight[t - 1], (t / n) ** 5
        average = bar if mass > 0.0 else w
        for k, at in enumerate((w, average)):
            losses[k] += late * c * phi(name, x @ at[j], y[t - 1])[0]
        g0 = c * phi(name, x @ w[j], y[t - 1])[1]
        G[j] += (g0 * x / S[j]) ** 2
        D = eta * unit / (np.sqrt(N) * S[j] ** 2 * np.sqrt(G[j]))
        e = 1.0 / (1.0 + D * R[j])
        o = centre[j]
        g = implicit_slope(name, c, x @ (o + (w[j] - o) * e), (D * x**2) @ e, y[t - 1])
        w[j] = o + (w[j] - o - D * g * x) * e
        mass += late
        bar = bar + late / mass * (w - bar)
    return AdaGrad(w, bar, losses, mass)


def optimum(name, problem, X, y, weight):
    """The least objective, to about 1e-13."""
    d = X.shape[1]

    def f(v):
        value, g, g_b = objective(name, problem, X, y, weight, v[:d], v[d])
        return value, np.append(g, g_b)

    end = minimize(f, np.zeros(d + 1), jac=True, method="L-BFGS-B",
                   options={"maxiter": 10_000, "ftol": 0.0, "gtol": 1e-11})  # fmt: skip
    return end.fun


def sparse_rows(X):
    """A SciPy CSR matrix as kernels see it."""
    return SparseRows(as_stored(X.data), X.indices.astype(np.uint32), X.indptr.astype(np.int64))


def block(rows, y, weight=None, order=None):
    """Rows, targets, weights 1 and stored order unless given."""
    n = len(y)
    weight = np.ones(n) if weight is None else weight
    order = np.arange(n) if order is None else order
    return Block(rows, np.asarray(y, float), weight, order, np.zeros(n))


def stored(kind, X):
    """The rows of the dense matrix X as that kind of rows."""
    return dense_rows(X) if kind is DenseRows else sparse_rows(csr_matrix(X))


def as_block(kind, X, y, weight=None):
    """The rows of the dense matrix X as a block of that kind of rows."""
    return block(stored(kind, X), y, weight)


def visit(solver, problem, X, y, weight, kind=DenseRows, cuts=(), state=None, known=None):
    """Run a method over all rows in stored order, cut into blocks where told."""
    rows, known = stored(kind, X), known or stats(X, kind, weight, y)
    state = solver.init(problem, known) if state is None else state
    for order in np.split(np.arange(len(y)), cuts):
        state = solver.step(problem, known, state, block(rows, y, weight, order))
    return state


def stats(X, rows_kind, weight=None, y=None):
    """What ingest would measure of the dense matrix X."""
    X = np.asarray(X, float)
    squares = (X**2).sum(axis=1)
    largest = 1.0 if weight is None else float(np.max(weight))
    return ProblemStats(
        n=len(squares), d=X.shape[1], rows_kind=rows_kind, mean_square=float(squares.mean()),
        max_square=float(squares.max()), max_weight=largest, stream_rows=len(squares),
        shuffled=True, target_square=1.0 if y is None else float(np.mean(np.square(y))),
        sigma_square=float(np.linalg.norm(X, 2) ** 2 / len(X)), streams=1, seed=0,
        columns=lambda: moments(X),
    )  # fmt: skip


def moments(X):
    """Share of the rows that have a value in a column, and mean square of the values."""
    count = (X != 0.0).sum(axis=0)
    return ColumnMoments(count / len(X), (X**2).sum(axis=0) / np.maximum(count, 1))


def dense_rows(X):
    return DenseRows(as_stored(X))


def objective_at(problem, w, block):
    """The objective at weights without an intercept."""
    at = Weights(w, 0.0)
    return certificate(problem, at, gradient_part(problem, at, block)).objective


def gradient_part(problem, at, block):
    """The gradient's sums over one block alone."""
    return add_gradient(problem, at, block, no_gradient(at))
