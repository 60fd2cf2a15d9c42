"""Streaming Newton: exact under the squared loss, its own recursion under others."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.loss_monitor import MOST_LOSS
from fewpass.solvers.onepass.onepass import Onepass
from fewpass.solvers.onepass.onepass_state import (
    NEWTON,
    join,
    late_losses,
    output_weights,
)
from fewpass.solvers.onepass.streaming_newton import (
    LARGEST_BLOCK,
    LEAST_START,
    first_summary,
    fitted,
    next_end,
    scaled,
    take,
    with_columns,
)
from fewpass.solvers.protocol import Weights, copy_state
from testing import oracles
from testing.oracles import block, close, dense_rows, problem_of, rows_of, stats, stored


def one_pass(problem, X, y, weight, kind=DenseRows, cuts=(), streams=1, at=None):
    """Visit all rows, cut into blocks where told, in streams of neighbours; return the state."""
    solver, known = Onepass(), stats(X, kind, weight, y)
    known = known._replace(streams=streams, stream_rows=len(y) // streams)
    rows = stored(kind, X)
    ends = []
    for part in np.array_split(np.arange(len(y)), streams):
        state = solver.start_at(problem, known, *at) if at else solver.init(problem, known)
        for order in np.split(part, [c for c in cuts if c < len(part)]):
            state = solver.step(problem, known, state, block(rows, y, weight, order))
        ends.append(state)
    return join(problem, known, ends)


def ridge(problem, X, y, weight):
    """The optimum under the squared loss, constant column last."""
    A = np.column_stack([X, np.full(len(y), problem.intercept)])
    charge = np.append(np.full(X.shape[1], problem.lam), problem.lam_b) * len(y)
    return np.linalg.solve(A.T @ (A * weight[:, None]) + np.diag(charge), A.T @ (weight * y))


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@pytest.mark.parametrize("streams", [1, 3])
def test_squared_loss_ends_at_the_ridge_optimum_with_its_certificate(kind, streams):
    X, y, weight = rows_of(9000, 7, "squared", seed=2)
    X[:, 3] *= 2.0**13
    X[:, 4] = oracles.single(X[:, 4] + 3.0 * X[:, 5])
    y = 5.0 * y + 300.0
    problem = problem_of("squared", 1e-3, "free")
    state = one_pass(problem, X, y, weight, kind, cuts=[1, 40, 2900], streams=streams)
    expected = ridge(problem, X, y, weight)
    found = np.append(*Onepass().weights(state))
    np.testing.assert_allclose(found[:-1], expected[:-1], rtol=1e-5)
    assert found[-1] == pytest.approx(expected[-1], rel=1e-6)
    proven = Onepass().certificate(state)
    value, g, g_b = oracles.objective("squared", problem, X, y, weight, found[:-1], found[-1])
    assert proven.objective == pytest.approx(value, rel=1e-9)
    gap = g @ g / (2.0 * problem.lam) + g_b**2 / (2.0 * problem.lam_b)
    assert proven.gap <= 1e-9 * value
    assert gap <= 1e-9 * value


def test_passes_of_streams_prove_what_is_true_of_a_number_of_rows_that_they_do_not_divide():
    X, y, weight = rows_of(1001, 3, "squared", seed=3)
    solver, problem = Onepass(), problem_of("squared", 0.1, "free")
    known = stats(X, DenseRows, weight, y)._replace(streams=2, stream_rows=500)
    state = solver.init(problem, known)
    for _pass in range(2):
        parts = (block(dense_rows(X), y, weight, o) for o in np.split(np.arange(1001), [500]))
        ends = [solver.step(problem, known, copy_state(state), part) for part in parts]
        state = join(problem, known, ends)
    expected, proven = ridge(problem, X, y, weight), solver.certificate(state)
    np.testing.assert_allclose(np.append(*solver.weights(state)), expected, rtol=1e-9)
    value, *_ = oracles.objective("squared", problem, X, y, weight, expected[:-1], expected[-1])
    assert proven.objective == pytest.approx(value, rel=1e-9)


def quadratics(loss, problem, X, y, weight):
    """The recursion as it is written down, blocks fitted by SciPy."""
    n, d = X.shape
    scale = np.sqrt(np.mean(X**2, axis=0))
    Z = np.column_stack([X / scale, np.full(n, problem.intercept)])
    L = np.append(problem.lam / scale**2, problem.lam_b)
    A, r, w = np.zeros((d + 1, d + 1)), np.zeros(d + 1), np.zeros(d + 1)
    t = summed = 0
    late = np.zeros(2)
    while t < n:
        end = min(n, next_end(t, max(LEAST_START, 2 * (d + 1))))
        share = (np.arange(t + 1, end + 1) / n) ** 5
        late += share @ (weight[t:end] * oracles.phi(loss, Z[t:end] @ w, y[t:end])[0]), share.sum()
        t, T = end, slice(summed, end)

        def Q(w, t=t, T=T):  # noqa: N802
            value, slope = oracles.phi(loss, Z[T] @ w, y[T])
            own = 0.5 * w @ A @ w - r @ w + weight[T] @ value + 0.5 * t * L @ w**2
            return own, A @ w - r + Z[T].T @ (weight[T] * slope) + t * L * w

        found = minimize(Q, w, jac=True, method="BFGS", options={"gtol": 1e-9 * t})
        w = found.x
        if t >= LEAST_START:
            p = Z[T] @ w
            e = 1e-4
            after, before = (oracles.phi(loss, p + s, y[T])[1] for s in (e, -e))
            H = (Z[T].T * (weight[T] * (after - before) / (2 * e))) @ Z[T]
            A, r = A + H, r + H @ w - Z[T].T @ (weight[T] * oracles.phi(loss, p, y[T])[1])
            summed = t
    return Weights(w[:-1] / scale, w[-1]), late


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
def test_logistic_loss_is_the_recursion(kind):
    X, y, weight = rows_of(7000, 5, "logistic", seed=3)
    X[:, 1] *= 2.0**-10
    problem = problem_of("logistic", 1e-3, "free")
    state = one_pass(problem, X, y, weight, kind, cuts=[1000, 1001, 5000])
    expected, (late, shares) = quadratics("logistic", problem, X, y, weight)
    close(np.append(*output_weights(state, NEWTON)), np.append(*expected), 1e-4)
    np.testing.assert_allclose([state.newton.late, state.newton.weight], [late, shares], rtol=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_smooth_losses_end_near_the_optimum_however_columns_are_scaled(loss):
    X, y, weight = rows_of(20_000, 6, loss, seed=4)
    problem = problem_of(loss, 1e-3, "free")
    for scale in (1.0, 10.0 ** np.arange(6)):
        own = oracles.single(X * scale)
        w = output_weights(one_pass(problem, own, y, weight), NEWTON)
        found = oracles.objective(loss, problem, own, y, weight, *w)[0]
        zero = oracles.objective(loss, problem, own, y, weight, np.zeros(6))[0]
        best = oracles.optimum(loss, problem, X, y, weight) if np.isscalar(scale) else None
        if best is not None:
            assert found - best <= 1e-4 * (zero - best)
        # Invariant but for lam: the smaller columns are dear, the larger ones all but free.
        assert found < zero


def test_streams_are_nearly_as_good_as_one():
    X, y, weight = rows_of(20_000, 6, "logistic", seed=5)
    problem = problem_of("logistic", 1e-3, "free")
    best = oracles.optimum("logistic", problem, X, y, weight)
    excess = []
    for streams in (1, 4):
        w = output_weights(one_pass(problem, X, y, weight, streams=streams), NEWTON)
        excess.append(oracles.objective("logistic", problem, X, y, weight, *w)[0] - best)
    assert excess[1] <= 20.0 * excess[0] + 1e-6


def test_rows_before_count_as_if_they_were_like_these():
    X, y, weight = rows_of(6000, 4, "squared", seed=6)
    problem = problem_of("squared", 1e-2, "free")
    old, new = slice(0, 3000), slice(3000, 6000)
    before = ridge(problem, X[old], y[old], weight[old])
    at = Weights(before[:-1], before[-1]), 3000
    w = output_weights(one_pass(problem, X[new], y[new], weight[new], at=at), NEWTON)
    alone = ridge(problem, X[new], y[new], weight[new])
    whole = ridge(problem, X, y, weight)
    assert np.linalg.norm(np.append(*w) - whole) < np.linalg.norm(alone - whole)


def test_it_runs_where_rows_are_enough_and_the_loss_has_a_curvature():
    X, y, weight = rows_of(1000, 20, "logistic", seed=7)
    for loss, most, n, runs in (
        ("logistic", 512, 1000, True),
        ("logistic", 512, 999, False),
        ("logistic", 19, 1000, False),
        ("hinge", 512, 1000, False),
        ("logistic", 512, 50_000_000, True),
        ("logistic", 512, 50_000_001, False),
    ):
        known = stats(X, DenseRows, weight, y)._replace(stream_rows=n)
        state = Onepass(newton_columns=most).init(problem_of(loss, 0.1), known)
        assert state.newton.used == runs
        assert np.isinf(late_losses(state)[NEWTON])


def test_numbers_beyond_all_bounds_leave_the_choice():
    X, y, weight = rows_of(3000, 3, "squared", seed=8)
    X[1500:] *= 1e200
    rows, problem = dense_rows(X), problem_of("squared", 0.1)
    summary = take(problem, first_summary(3), block(rows, y, weight), float(len(y)))
    summary = fitted(problem, summary, float(len(y)), closing=True)
    assert summary.late >= MOST_LOSS * summary.weight
    assert all(np.isfinite(part).all() for part in (summary.A, summary.r, summary.w))


@pytest.mark.parametrize("come_at", [300, 5000])  # in the first block, and after some
def test_columns_that_come_later_are_as_if_they_had_been_there(come_at):
    X, y, weight = rows_of(9000, 6, "logistic", seed=11)
    X[:come_at, 4:] = 0.0
    problem, scale = problem_of("logistic", 1e-3, "free"), np.sqrt(np.mean(X**2, axis=0))
    whole, narrow = scaled(first_summary(6), scale), scaled(first_summary(4), scale[:4])
    early, late = np.arange(come_at), np.arange(come_at, len(y))
    whole = take(problem, whole, block(dense_rows(X), y, weight), 9000.0)
    narrow = take(problem, narrow, block(dense_rows(X[:, :4]), y, weight, early), 9000.0)
    grown = take(
        problem, with_columns(narrow, scale), block(dense_rows(X), y, weight, late), 9000.0
    )
    assert grown.rows == whole.rows
    assert grown.start == whole.start
    np.testing.assert_allclose(grown.w, whole.w, rtol=1e-9, atol=1e-12)
    assert grown.late == pytest.approx(whole.late, rel=1e-9)


def test_blocks_double_up_to_a_bound():
    ends, t = [], 0
    while t < 12_000:
        t = next_end(t, 1100)
        ends.append(t)
    assert ends[:8] == [32, 64, 128, 256, 512, 1024, 1100, 2200]
    assert max(np.diff(ends)) == LARGEST_BLOCK


@pytest.mark.parametrize("counts", [{"filled": 5000}, {"rows": 1500, "filled": 2048}])
def test_counts_of_a_snapshot_that_do_not_fit_the_rows_are_refused(counts):
    X, y, weight = rows_of(100, 3, "logistic", seed=8)
    lying = first_summary(3)._replace(**counts)
    with pytest.raises(ValueError, match="do not go with"):
        take(problem_of("logistic", 0.1), lying, block(dense_rows(X), y, weight), 100.0)
