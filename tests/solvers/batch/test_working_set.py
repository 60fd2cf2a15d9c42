"""Newton's method with an l1 penalty: its sums, its model, its certificate, its working set."""

from bz2 import BZ2File
from functools import lru_cache
from lzma import LZMAFile

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.datasets import load_svmlight_file

from fewpass.solvers.batch import working_set
from fewpass.solvers.batch.column_model import minimised, worst_of
from fewpass.solvers.batch.gathered_rows import gathered_rows
from fewpass.solvers.batch.working_set_newton import WorkingSetNewton
from fewpass.solvers.batch.working_set_sums import (
    SHORTER,
    add_losses,
    add_set_squares,
    add_sums,
    ends_of,
    no_sums,
    set_point,
)
from fewpass.solvers.drive import sweeps
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import LOSSES, Problem, conjugate, curvature_at, slope, value
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.penalties import ElasticNet
from fewpass.solvers.protocol import Diverged, Weights
from fewpass.solvers.scaled_gap import knots
from fewpass.solvers.tasks import Task
from testing import oracles
from testing.oracles import as_block, block, rows_of, sparse_rows, stats


def penalised(loss, l1, l2=0.0, column=1.0):
    curved = LOSSES[loss]()
    return Problem(curved, ElasticNet(l1, l2), column, l2 / 100 or 1e-4 * curved.curvature)


def least_objective(loss, problem, X, y, weight):
    """The optimum of w = p - q with p, q >= 0, where l1 is linear: by L-BFGS-B."""
    d, (l1, l2) = X.shape[1], problem.penalty
    smooth = problem._replace(penalty=problem.penalty._replace(l1=0.0))

    def f(v):
        w, b = v[:d] - v[d : 2 * d], v[-1]
        F, g, g_b = oracles.objective(loss, smooth, X, y, weight, w, b)
        return F + l1 * v[: 2 * d].sum(), np.concatenate([g + l1, l1 - g, [g_b]])

    assert smooth.lam == l2
    bounds = [(0.0, None)] * (2 * d) + [(None, None)]
    end = minimize(f, np.zeros(2 * d + 1), jac=True, method="L-BFGS-B", bounds=bounds,
                   options={"maxiter": 20_000, "maxfun": 40_000, "ftol": 0.0, "gtol": 1e-10})  # fmt: skip
    return end.fun


def objective(loss, problem, X, y, weight, w, b):
    smooth = problem._replace(penalty=problem.penalty._replace(l1=0.0))
    F = oracles.objective(loss, smooth, X, y, weight, w, b)[0]
    return F + problem.penalty.l1 * np.abs(w).sum()


def trained(problem, kind, X, y, weight, tol=1e-9, most=40):
    """Yield every state whose pass is over."""
    solver, measured = WorkingSetNewton(), stats(X, kind, weight, y)
    for moment in sweeps(solver, problem, measured, as_block(kind, X, y, weight)):
        found = solver.certificate(moment.state)
        if found is not None:
            yield moment.state, found
            if found.gap <= tol or moment.state.evaluations == most:
                return


@pytest.mark.parametrize(("loss", "kind"), oracles.SMOOTH_PAIRS)
@pytest.mark.parametrize(("l1", "l2"), [(0.05, 0.0), (0.01, 0.0), (0.02, 1e-4), (0.01, 0.01)])
def test_the_certificate_is_above_the_truth_in_every_pass_and_arrives(loss, kind, l1, l2):
    X, y, weight = rows_of(300, 12, loss, seed=2)
    problem = penalised(loss, l1, l2)
    best, seen = least_objective(loss, problem, X, y, weight), 0
    for state, found in trained(problem, kind, X, y, weight):
        w, b = state.x[:-1], state.x[-1]
        assert found.objective == pytest.approx(objective(loss, problem, X, y, weight, w, b), 1e-12)
        assert found.gap >= found.objective - best - 1e-9
        assert found.objective >= best - 1e-9
        seen += 1
    assert found.gap <= 1e-9
    assert seen <= (3 if loss == "squared" else 20)


@pytest.mark.parametrize(("loss", "kind"), oracles.SMOOTH_PAIRS)
@pytest.mark.parametrize("column", [0.0, 1.0])
def test_the_sums_are_the_formulas_for_any_number_of_rows(loss, kind, column, rng):
    X, y, weight = rows_of(43, 7, loss, seed=3)
    problem, of = penalised(loss, 0.1, column=column), as_block(kind, X, y, weight)
    w, before, chosen = rng.standard_normal(7), rng.standard_normal(7), np.array([1, 3, 4])
    at = set_point(Weights(w, 0.3), Weights(before, -0.2), chosen, 0.6, 1)
    wide, phi = np.column_stack([X[:, chosen], np.full(43, column)]), problem.loss
    for rows in (0, 3, 16, 43):
        order = rng.permutation(43)[:rows]
        part = add_sums(problem, at, of._replace(order=order), no_sums(at))
        p, q, t, c = (
            X[order] @ w + 0.3 * column,
            X[order] @ before - 0.2 * column,
            y[order],
            weight[order],
        )
        each = lambda f, p: np.array([f(phi, *one) for one in zip(p, t, strict=True)])  # noqa: E731
        s = each(slope, p)
        close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)  # noqa: E731
        close(part.loss, c @ each(value, p))
        close(part.G, X[order].T @ (c * s))
        close(part.g_b, column * (c @ s))
        close(
            part.H[np.tril_indices(4)],
            ((wide[order].T * (c * each(curvature_at, p))) @ wide[order])[np.tril_indices(4)],
        )
        close(part.squares, c @ X[order][:, chosen] ** 2)
        close(part.shorter, [c @ each(value, q + step * (p - q)) for step in SHORTER])
        sides = np.ones(rows) if phi.takes_numbers else t
        expected = [
            c @ (each(value, p) + [conjugate(phi, -theta * a * o, u) for a, o, u in zip(s, sides, t, strict=True)] - theta * s * p)
            for theta in knots(0.6)
        ]  # fmt: skip
        close(part.brackets, expected)
        assert (part.rows, part.H_rows) == (rows, rows)


@pytest.mark.parametrize("kind", [DenseRows, None])
def test_plain_python_agrees_with_the_kernels(kind):
    X, y, weight = rows_of(21, 5, "logistic", seed=5)
    problem, of = penalised("logistic", 0.1), as_block(kind, X, y, weight)
    w, before, order = np.linspace(-1.0, 1.0, 5), np.zeros(5), np.arange(21)
    at = set_point(Weights(w, 0.1), Weights(before, 0.0), np.array([0, 2]), 0.5, 1)

    def sums(losses, squares):
        part, curved = no_sums(at), np.zeros(21)
        cut = gathered_rows(of.rows, order, at.place, ends_of(at))
        given = (at, part, problem, *of[:3], order, knots(0.5), curved, 1, np.empty(1), cut)
        both = losses(*given)
        if kind is DenseRows:
            squares(part.H, part.squares, at.chosen, 1.0, *of[:3], order, curved, order)
        arrays = [one for one in part if isinstance(one, np.ndarray)]
        return [np.array(both), curved, *map(np.tril, arrays)]

    for one, other in zip(
        sums(add_losses, add_set_squares),
        sums(add_losses.py_func, add_set_squares.py_func),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


def test_the_model_is_solved_where_columns_add_up_to_the_constant_one(rng):
    """Two words' indicators beside the constant column: coordinate descent alone stands still."""
    group = np.eye(3)[rng.integers(3, size=400)], np.eye(4)[rng.integers(4, size=400)]
    X = np.column_stack([*group, rng.standard_normal((400, 3)), np.ones(400)])
    A, u0, l1 = X.T @ X / 400, np.zeros(11), 0.02
    A[10, 10] += 1e-7
    r0 = -X.T @ (X @ rng.standard_normal(11) + rng.standard_normal(400)) / 400
    for solve in (minimised, minimised.py_func):
        r = r0.copy()
        u = solve(A, r, u0, l1, 1e-9)
        np.testing.assert_allclose(r, r0 + A @ u, atol=1e-12)
        assert worst_of(A, u, r, l1) <= 1e-9 * worst_of(A, u0, r0, l1)
        assert 0 < np.count_nonzero(u[:-1] == 0.0) < 10


def wide_rows(rng, n=200, d=600):
    X = oracles.single(rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.1))
    y = np.where(X[:, :8] @ rng.standard_normal(8) + 0.3 * rng.standard_normal(n) > 0.0, 1.0, -1.0)
    return X, y, np.ones(n)


def test_more_columns_than_rows_and_a_set_of_few_of_them(rng, monkeypatch):
    """The same optimum, whether W may hold 12 columns, 200, or all of them."""
    X, y, weight = wide_rows(rng)
    problem, found = penalised("logistic", 0.02), []
    for least, per, all_of_them in ((12, 1.5, 0), (200, 2.0, 500), (200, 2.0, 1000)):
        with monkeypatch.context() as small:
            small.setattr(working_set, "LEAST_SET", least)
            small.setattr(working_set, "PER_NONZERO", per)
            small.setattr(working_set, "ALL_COLUMNS", all_of_them)
            *_, (state, certified) = trained(problem, None, X, y, weight, tol=1e-10)
        assert certified.gap <= 1e-10
        proven, zeros = (
            WorkingSetNewton().certificate(state).zeros,
            np.count_nonzero(state.x[:-1] == 0.0),
        )
        assert 0.9 * zeros < proven <= zeros
        found.append(state.x)
    for one in found[1:]:
        np.testing.assert_allclose(one, found[0], atol=1e-5)
        np.testing.assert_array_equal(one != 0.0, found[0] != 0.0)


def test_dense_and_sparse_rows_make_the_same_model_and_several_lam_each_their_own(rng):
    X, y, weight = wide_rows(rng, n=120, d=30)
    problem, known = penalised("logistic", 0.02), stats(X, DenseRows, weight, y)
    tasks = tuple(Task(lam=lam) for lam in (0.05, 0.02, 0.01))
    many = MultiModel(WorkingSetNewton(), tasks)
    together = sweeps(many, problem, known, as_block(DenseRows, X, y, weight))
    after = [next(together).state for _ in range(6)][-1]
    for task, state in zip(tasks, after.models, strict=True):
        alone = sweeps(
            WorkingSetNewton(), task.problem(problem), known, as_block(DenseRows, X, y, weight)
        )
        one = [next(alone).state for _ in range(6)][-1]
        np.testing.assert_array_equal(state.x, one.x)
        *_, (sparse, _) = trained(task.problem(problem), None, X, y, weight, tol=1e-11)
        np.testing.assert_allclose(sparse.x, one.x, atol=1e-5)


def test_a_step_that_is_too_long_costs_one_pass_and_bounds_stay_true():
    """Far out the logistic loss is straight: the model's minimum is beyond all bounds."""
    X, y, weight = rows_of(60, 3, "logistic", seed=4)
    problem, solver = penalised("logistic", 1e-3, column=0.0), WorkingSetNewton()
    known = stats(X, DenseRows, weight, y)
    state = solver.start_at(problem, known, Weights(np.array([30.0, -40.0, 35.0]), 0.0), 0)
    (reduce,), of = solver.program(1), as_block(DenseRows, X, y, weight)
    best, seen = least_objective("logistic", problem, X, y, weight), []
    for k in range(40):
        at = reduce.at(state)
        total = reduce.sum.add(problem, at, of, reduce.sum.zero(at))
        state = reduce.absorb(problem, known, state, total, k)
        found = solver.certificate(state)
        seen.append(found.objective)
        assert found.gap >= found.objective - best - 1e-10
        if found.gap <= 1e-9:
            break
    assert state.shortened > 0
    assert np.all(np.diff(seen) <= 1e-12)
    assert len(seen) <= 20


def test_some_rows_stand_for_all_in_the_matrix_and_the_optimum_is_that_of_all(rng, monkeypatch):
    X = oracles.single(rng.standard_normal((30_000, 8)))
    y = np.where(X[:, 0] - X[:, 1] + rng.standard_normal(30_000) > 0.0, 1.0, -1.0)
    problem, weight = penalised("logistic", 0.02), np.ones(30_000)
    *_, (some, certified) = trained(problem, DenseRows, X, y, weight, tol=1e-9)
    assert some.thinned == 2
    assert certified.gap <= 1e-9
    monkeypatch.setattr(working_set, "thinning", lambda *_: 1)
    *_, (every, _) = trained(problem, DenseRows, X, y, weight, tol=1e-9)
    assert every.thinned == 1
    assert every.evaluations <= some.evaluations <= every.evaluations + 3
    np.testing.assert_allclose(some.x, every.x, atol=1e-4)


def test_where_too_many_weights_are_not_zero_another_method_is_named(rng, monkeypatch):
    X, y, weight = wide_rows(rng)
    for name, number in (("MOST_SET", 10), ("LEAST_SET", 10), ("ALL_COLUMNS", 0)):
        monkeypatch.setattr(working_set, name, number)
    with pytest.raises(Diverged, match="psdca"):
        list(trained(penalised("logistic", 1e-3), None, X, y, weight, most=100))


def test_the_first_rows_are_a_start_and_given_weights_make_one_needless(rng):
    X, y, weight = rows_of(4000, 5, "logistic", seed=9)
    problem, known = penalised("logistic", 0.01), stats(X, DenseRows, weight, y)
    moments = sweeps(WorkingSetNewton(), problem, known, as_block(DenseRows, X, y, weight))
    first, second = next(moments), next(moments)
    assert first.passes == 500 / 4000
    assert WorkingSetNewton().certificate(first.state) is None
    assert second.passes == 1.125
    zero = Problem(LOSSES["logistic"](), problem.penalty, 1.0, problem.lam_b)
    at_zero = oracles.objective(
        "logistic", zero._replace(penalty=ElasticNet(0.0, 0.0)), X, y, weight, np.zeros(5)
    )[0]
    assert WorkingSetNewton().certificate(second.state).objective < at_zero
    given = WorkingSetNewton().start_at(problem, known, Weights(np.ones(5), 0.5), 0)
    assert WorkingSetNewton().program(0)[0].skips(given)
    np.testing.assert_array_equal(given.x, [1.0] * 5 + [0.5])


@lru_cache(1)
def known_set(path):
    """Rows in a random order, as an ingest stores them; the last set is kept."""
    opened = LZMAFile if path.suffix == ".xz" else BZ2File
    X, y = load_svmlight_file(opened(path))
    order = np.random.default_rng(1).permutation(len(y))
    rows = sparse_rows(X[order].astype(np.float32).tocsr())
    squares = np.sqrt(X.multiply(X).sum(axis=1).A1)[:, None]
    y = np.where(y[order] > 0.0, 1.0, -1.0)
    return block(rows, y), oracles.stats(squares, None, y=y)._replace(d=X.shape[1])


def largest_l1(loss, of, known):
    """max_j |G_j| at the best intercept alone, which Newton's method finds with a vast l1."""
    problem = Problem(loss, ElasticNet(1e3), 1.0, 1e-6 * loss.curvature)
    for moment in sweeps(WorkingSetNewton(), problem, known, of):
        if WorkingSetNewton().certificate(moment.state) and moment.state.evaluations >= 8:
            at = WorkingSetNewton().weights(moment.state)
            G = oracles.gradient_part(problem, at, of).G / known.n
            return np.abs(G).max()
    raise AssertionError("sweeps never end")


@pytest.mark.public_data
@pytest.mark.parametrize(
    ("name", "loss", "largest", "share", "passes", "nonzeros", "optimum"),
    [
        ("reuters/reuters.trn.bz2", "logistic", 0.0047372, 0.5, (5, 6, 6), 6, None),
        ("reuters/reuters.trn.bz2", "logistic", 0.0047372, 0.1, (6, 7, 8), 20, None),
        ("reuters/reuters.trn.bz2", "logistic", 0.0047372, 0.01, (12, 13, 14), 139, 0.056835818),
        ("reuters/reuters.trn.bz2", "squared_hinge", None, 0.5, (2, 2, 3), 5, None),
        ("reuters/reuters.trn.bz2", "squared_hinge", None, 0.1, (4, 5, 6), 24, None),
        ("reuters/reuters.trn.bz2", "squared_hinge", None, 0.01, (7, 8, 9), 159, None),
        ("a9a/a9a.xz", "logistic", 0.094765, 0.01, (4, 4, 5), 39, 0.345916095),
        ("w8a/w8a.xz", "logistic", 0.0052078, 0.01, (8, 9, 10), 175, 0.057152177),
        ("imdb/imdb_bigram.train.svm.xz", "logistic", None, 0.5, (3, 3, 4), 4, None),
        ("imdb/imdb_bigram.train.svm.xz", "logistic", None, 0.1, (4, 5, 5), 98, None),
        ("imdb/imdb_bigram.train.svm.xz", "logistic", None, 0.01, (6, 7, 7), 904, None),
    ],
)  # fmt: skip
def test_public_sets_take_the_passes_that_they_should(
    data_file, name, loss, largest, share, passes, nonzeros, optimum
):
    of, known = known_set(data_file(name))
    curved = LOSSES[loss]()
    l1 = largest_l1(curved, of, known)
    if largest is not None:
        assert l1 == pytest.approx(largest, rel=2e-5)
    problem = Problem(curved, ElasticNet(share * l1), 1.0, 1e-6 * curved.curvature)
    taken, certified = {}, None
    for moment in sweeps(WorkingSetNewton(), problem, known, of):
        certified = WorkingSetNewton().certificate(moment.state)
        if certified is None:
            continue
        if optimum is not None:
            assert certified.objective - certified.gap <= optimum + 5e-10
            assert certified.objective >= optimum - 5e-10
        for tol in (1e-2, 1e-4, 1e-6):
            if certified.gap / max(1.0, certified.objective) <= tol:
                taken.setdefault(tol, moment.state.evaluations)
        if len(taken) == 3:
            break
    assert all(n <= 1.3 * most + 1.0 for n, most in zip(taken.values(), passes, strict=True))
    weights = WorkingSetNewton().weights(moment.state)
    assert abs(np.count_nonzero(weights.coef) - nonzeros) <= 2
    if optimum is not None:
        assert certified.objective == pytest.approx(optimum, abs=1e-6)


@pytest.mark.public_data
def test_the_optimum_of_reuters_is_that_of_celer_and_skglm(data_file):
    """Theirs, without an intercept, at a tenth of the largest l1: 0.490703977 to nine digits."""
    of, known = known_set(data_file("reuters/reuters.trn.bz2"))
    loss, at_zero = LOSSES["logistic"](), Weights(np.zeros(known.d), 0.0)
    problem = Problem(loss, ElasticNet(1.0), 0.0, 0.0)
    largest = np.abs(oracles.gradient_part(problem, at_zero, of).G / known.n).max()
    problem = problem._replace(penalty=ElasticNet(0.1 * largest))
    for moment in sweeps(WorkingSetNewton(), problem, known, of):
        proven = WorkingSetNewton().certificate(moment.state)
        if proven is not None:
            assert proven.objective - proven.gap <= 0.490703977 + 5e-10 <= proven.objective + 1e-9
            if proven.gap <= 1e-9:
                break
    assert proven.objective == pytest.approx(0.490703977, abs=1e-9)
