"""Newton's method over reductions: its matrix, its steps, and how few passes it takes."""

import numpy as np
import pytest

from fewpass.solvers.batch import newton
from fewpass.solvers.batch.cholesky import solved
from fewpass.solvers.batch.newton import Newton, add_squares, thinning
from fewpass.solvers.drive import sweeps
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import LOSSES, Problem, curvature_at, slope, value
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights
from testing import oracles
from testing.oracles import as_block, problem_of, rows_of, stats

SMOOTH = [name for name, kind in LOSSES.items() if kind.is_smooth and not kind.is_steep]


def passes_to(tol, problem, kind, X, y, weight, most=40, **known):
    """Sweeps until the certificate is tol, and the state then."""
    solver, measured = Newton(), stats(X, kind, weight, y)._replace(**known)
    for moment in sweeps(solver, problem, measured, as_block(kind, X, y, weight)):
        if solver.certificate(moment.state).gap <= tol or moment.passes >= most:
            return moment.passes, moment.state
    raise AssertionError("sweeps never end")


@pytest.mark.parametrize(("loss", "kind"), oracles.SMOOTH_PAIRS)
@pytest.mark.parametrize("intercept", ["none", "free"])
def test_columns_of_any_scale_are_done_in_a_dozen_passes(loss, intercept, kind):
    X, y, weight = rows_of(300, 6, loss, seed=2)
    X = oracles.single(X * 10.0 ** np.arange(-3.0, 3.0))
    problem = problem_of(loss, 1e-3, intercept)
    passes, state = passes_to(1e-10, problem, kind, X, y, weight)
    assert passes <= (2 if loss == "squared" else 20)
    found = Newton().certificate(state)
    true = oracles.objective(loss, problem, X, y, weight, *Newton().weights(state))[0]
    assert found.objective == pytest.approx(true, rel=1e-11)
    assert 0.0 <= found.gap <= 1e-10


@pytest.mark.parametrize(("loss", "kind"), oracles.SMOOTH_PAIRS)
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_the_matrix_is_the_formula_for_any_number_of_rows(loss, kind, column, rng):
    X, y, weight = rows_of(23, 5, loss, seed=3)
    problem, of = Problem(LOSSES[loss](), L2(0.1), column, 0.1), as_block(kind, X, y, weight)
    w, b = rng.standard_normal(5), 0.3
    wide = np.column_stack([X, np.full(23, column)])
    for rows in (0, 3, 4, 23):
        order = rng.permutation(23)[:rows]
        p = X[order] @ w + column * b
        c = weight[order] * [
            curvature_at(problem.loss, *both) for both in zip(p, y[order], strict=True)
        ]
        expected = np.tril((wide[order].T * c) @ wide[order])
        for add in (add_squares, add_squares.py_func):
            H = np.zeros((6, 6))
            add(H, w, b, problem, *of[:3], order)
            np.testing.assert_allclose(np.tril(H), expected, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("loss", SMOOTH)
def test_the_parabola_touches_the_loss_and_is_above_it_or_is_its_second_derivative(loss):
    phi, h = LOSSES[loss](), 1e-4
    for p in np.linspace(-3.0, 3.0, 61) + 1e-3:
        c = curvature_at(phi, p, 1.0)
        second = (slope(phi, p + h, 1.0) - slope(phi, p - h, 1.0)) / (2 * h)
        if not LOSSES[loss].parameters():
            assert c == pytest.approx(second, abs=1e-6)
            continue
        for q in np.linspace(-4.0, 4.0, 41):
            above = value(phi, p, 1.0) + slope(phi, p, 1.0) * (q - p) + 0.5 * c * (q - p) ** 2
            assert above >= value(phi, q, 1.0) - 1e-12 or p > 1.0


@pytest.mark.parametrize("d", [1, 7, 8, 9, 31, 33, 66, 291])  # tiles of 32, runs of 256, eights
def test_cholesky_solves_by_what_is_below_the_diagonal(d, rng):
    A = rng.standard_normal((2 * d, d))
    H, g = A.T @ A + np.eye(d), rng.standard_normal(d)
    below = np.where(np.tri(d, dtype=bool), H, np.nan)
    np.testing.assert_allclose(H @ solved(below, g), g, atol=1e-9)


def test_cholesky_of_equal_columns_is_finite_and_plain_python_agrees(rng):
    A = rng.standard_normal((90, 70))
    A[:, 40:] = A[:, :30]
    H, g = A.T @ A, A.T @ rng.standard_normal(90)
    x = solved(H.copy(), g)
    np.testing.assert_allclose(H @ x, g, atol=1e-6)
    np.testing.assert_allclose(H @ solved.py_func(H.copy(), g), g, atol=1e-6)


def test_rows_that_stand_for_all_do_and_where_they_do_not_all_are_asked(rng, monkeypatch):
    """Every second row knows nothing of half of the columns: the matrix of those is no use."""
    n, d = 40_000, 8
    X = rng.standard_normal((n, d)).astype(np.float32)
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(n) > 0.0, 1.0, -1.0)
    problem, weight = problem_of("logistic", 1e-4, "none"), np.ones(n)
    known = stats(X, DenseRows, weight, y)
    assert thinning(problem, known, known.d) == 2
    passes, state = passes_to(1e-9, problem, DenseRows, X, y, weight)
    with monkeypatch.context() as all_rows:
        all_rows.setattr(newton, "thinning", lambda *_: 1)
        every, alone = passes_to(1e-9, problem, DenseRows, X, y, weight)
    assert (state.thinned, alone.thinned) == (2, 1)
    assert every <= passes <= every + 3
    np.testing.assert_allclose(state.x, alone.x, rtol=0.0, atol=1e-3)
    X[::2, :4] = 0.0
    passes, state = passes_to(1e-9, problem, DenseRows, X, y, weight)
    assert state.thinned == 1
    assert state.shortened >= 1
    assert passes <= 15


def test_where_f_does_not_fall_the_step_is_halved_and_bounds_stay_true():
    """Far out the logistic loss is straight, and a whole step lands beyond all bounds."""
    X, y, weight = rows_of(60, 3, "logistic", seed=4)
    problem, solver = problem_of("logistic", 1e-6, "none"), Newton()
    known = stats(X, DenseRows, weight, y)
    state = solver.start_at(problem, known, Weights(np.full(3, 30.0), 0.0), 0)
    (reduce,), of = solver.program(1), as_block(DenseRows, X, y, weight)
    best, seen = oracles.optimum("logistic", problem, X, y, weight), []
    for k in range(60):
        at = reduce.at(state)
        total = reduce.sum.add(problem, at, of, reduce.sum.zero(at))
        state = reduce.absorb(problem, known, state, total, k)
        found = solver.certificate(state)
        seen.append(found.objective)
        assert found.gap >= max(0.0, found.objective - best - 1e-12)
        if found.gap <= 1e-9:
            break
    assert state.shortened > 0
    assert np.all(np.diff(seen) <= 1e-12)
    assert found.gap <= 1e-9


def test_a_step_that_a_log_link_makes_far_too_long_is_within_reach_after_a_trial(rng):
    """Counts of mean 200, and a column of ones for an intercept: the first step leads to e^300."""
    X = np.column_stack([0.3 * rng.standard_normal((500, 4)), np.ones(500)]).astype(np.float32)
    y = rng.poisson(np.exp(X @ np.array([0.5, -0.5, 0.2, 0.0, 5.3]))).astype(np.float64)
    problem, weight = problem_of("poisson", 1e-3, "none"), np.ones(500)
    _, state = passes_to(1e-8, problem, DenseRows, X, y, weight)
    assert state.shortened <= 3
