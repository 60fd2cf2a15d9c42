"""The group lasso: its formulas, the model of its groups, and Newton's method with it."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.optimize import minimize

from fewpass.solvers.batch import group_model, working_set
from fewpass.solvers.batch.group_model import descended, worst_group
from fewpass.solvers.batch.working_set_newton import WorkingSetNewton
from fewpass.solvers.drive import sweeps
from fewpass.solvers.kernels.rows import DenseRows, SparseRows
from fewpass.solvers.losses import LOSSES, Problem, slope, value
from fewpass.solvers.penalties import ElasticNet, GroupLasso
from testing import oracles
from testing.oracles import block, rows_of, stats

SIZES = (1, 3, 4, 2, 1, 6)


def groups_of(sizes=SIZES, order=None):
    groups = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    return groups if order is None else groups[order]


def rows(loss, n=400, seed=0, sizes=SIZES):
    """Indicators of groups' categories, which add up to the constant column; groups in disorder."""
    rng = np.random.default_rng(seed)
    parts = [
        rng.standard_normal((n, 1)) if s == 1 else np.eye(s)[rng.integers(s, size=n)] for s in sizes
    ]
    order = rng.permutation(sum(sizes))
    X = np.hstack(parts)[:, order]
    w = rng.standard_normal(X.shape[1]) * (groups_of(sizes, order) % 2 == 1)
    p = X @ w + 0.3 * rng.standard_normal(n)
    y = np.exp(np.clip(p, -2, 2)) if loss in ("poisson", "gamma") else p
    y = y if LOSSES[loss]().takes_numbers else np.where(p > np.median(p), 1.0, -1.0)
    weight = rng.uniform(0.5, 1.5, n)
    return oracles.single(X), y, weight / weight.mean(), groups_of(sizes, order)


def least(problem, X, y, weight):
    """The optimum over weights and the groups' norms, which are above those of their weights."""
    penalty, d = problem.penalty, X.shape[1]
    charged, G = penalty.l1 * penalty.roots, len(penalty.roots)

    def f(v):
        w, b = v[:d], v[d]
        p = X @ w + b
        r = weight * slope(problem.loss, p, y) / len(y)
        F = (
            weight @ value(problem.loss, p, y) / len(y)
            + 0.5 * penalty.l2 * w @ w
            + charged @ v[d + 1 :]
        )
        up = b - problem.level
        g = [X.T @ r + penalty.l2 * w, [r.sum() + problem.lam_b * up], charged]
        return F + 0.5 * problem.lam_b * up * up, np.concatenate(g)

    member = (penalty.groups[:, None] == np.arange(G)).astype(float)
    above = {
        "type": "ineq",
        "fun": lambda v: v[d + 1 :] ** 2 - np.square(v[:d]) @ member,
        "jac": lambda v: np.hstack(
            [-2.0 * (v[:d, None] * member).T, np.zeros((G, 1)), np.diag(2.0 * v[d + 1 :])]
        ),
    }
    start = np.concatenate([np.full(d, 0.1), [0.0], penalty.norms(np.full(d, 0.1)) + 0.1])
    bounds = [(None, None)] * (d + 1) + [(0.0, None)] * G
    ends = []
    for _ in range(5):  # it stops early
        end = minimize(f, start, jac=True, method="SLSQP", bounds=bounds, constraints=[above],
                       options={"maxiter": 1000, "ftol": 1e-15})  # fmt: skip
        ends.append(end.fun)
        norms = penalty.norms(end.x[:d])
        start = np.concatenate([end.x[: d + 1], norms + 1e-4])
    return min(ends)


def trained(problem, X, y, weight, kind=DenseRows, most=25, tol=1e-10):
    """Yield the state and the certificate of every pass."""
    stored = oracles.stored(kind, X)
    solver = WorkingSetNewton()
    known = stats(X, kind, weight, y)._replace(columns=lambda: oracles.moments(X))
    for moment in sweeps(solver, problem, known, block(stored, y, weight)):
        if (found := solver.certificate(moment.state)) is not None:
            yield moment.state, found
            if found.relative <= tol or moment.state.evaluations == most:
                return


@pytest.mark.parametrize("l2", [0.0, 0.01])
@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson"])
def test_the_certificate_is_above_the_truth_in_every_pass_and_arrives(loss, l2):
    X, y, weight, groups = rows(loss)
    problem = Problem(LOSSES[loss](), GroupLasso(0.02, l2, groups), 1.0, 1e-5)
    lowest = least(problem, X, y, weight)
    for state, found in trained(problem, X, y, weight):
        assert found.objective >= lowest - 1e-7
        assert found.gap >= found.objective - lowest - 1e-7
    assert found.relative <= 1e-10
    norms = problem.penalty.norms(state.x[:-1])
    assert 0 < np.count_nonzero(norms) < len(norms)
    zero = np.count_nonzero(state.x[:-1] == 0.0)
    assert 0 < found.zeros <= zero or loss == "poisson"  # no bound on curvature proves it


def test_groups_of_one_column_are_the_lasso():
    X, y, weight = rows_of(200, 8, "logistic", seed=3)
    both = [ElasticNet(0.02, 0.001), GroupLasso(0.02, 0.001, np.arange(8, dtype=np.int32))]
    ends = []
    for penalty in both:
        problem = Problem(LOSSES["logistic"](), penalty, 1.0, 1e-5)
        *_, (state, found) = trained(problem, X, y, weight, tol=1e-12)
        ends.append((state.x, found.zeros))
    np.testing.assert_allclose(ends[0][0], ends[1][0], atol=1e-6)
    assert np.array_equal(ends[0][0] == 0.0, ends[1][0] == 0.0)


def test_dense_and_sparse_rows_agree_on_working_sets_of_whole_groups(monkeypatch):
    monkeypatch.setattr(working_set, "ALL_COLUMNS", 0)
    monkeypatch.setattr(working_set, "LEAST_SET", 5)
    monkeypatch.setattr(working_set, "PER_NONZERO", 1.2)
    X, y, weight, groups = rows("logistic", n=600, sizes=SIZES * 4)
    problem = Problem(LOSSES["logistic"](), GroupLasso(0.015, 0.0, groups), 1.0, 1e-5)
    ends = []
    for kind in (DenseRows, SparseRows):
        for state, found in trained(problem, X, y, weight, kind):
            chosen = state.chosen
            assert np.array_equal(problem.penalty.whole(chosen), chosen)
        ends.append(state.x)
        assert found.relative <= 1e-10
        assert np.count_nonzero(chosen) < len(chosen)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-5)


def test_the_model_is_solved_compiled_and_plain():
    rng = np.random.default_rng(2)
    starts = np.append(0, np.cumsum([1, 3, 4, 2]))
    X = np.column_stack(
        [rng.standard_normal(300), *(np.eye(s)[rng.integers(s, size=300)] for s in (3, 4, 2)), np.ones(300)]
    )  # fmt: skip
    A, charges = X.T @ X / 300, 0.04 * np.sqrt([1.0, 3.0, 4.0, 2.0])
    A[-1, -1] += 1e-7
    r0 = -X.T @ (X @ rng.standard_normal(11) + rng.standard_normal(300)) / 300
    ends = []
    for solve in (descended, descended.py_func):
        r, u0 = r0.copy(), np.zeros(11)
        u = solve(A, r, u0, starts, charges, 1e-9)
        np.testing.assert_allclose(r, r0 + A @ u, atol=1e-11)
        assert worst_group(A, u, r, starts, charges) <= 1e-9 * worst_group(
            A, u0, r0, starts, charges
        )
        ends.append(u)
    np.testing.assert_allclose(ends[0], ends[1], atol=1e-9)


def test_a_step_whose_factors_take_long_ends_lower_than_it_began(monkeypatch):
    """What is left is left to the next pass, which proves how far it is."""
    rng = np.random.default_rng(2)
    X = np.column_stack([*(np.eye(s)[rng.integers(s, size=300)] for s in (3, 4, 2)), np.ones(300)])
    starts, charges = np.array([0, 3, 7, 9]), 0.01 * np.sqrt([3.0, 4.0, 2.0])
    A, r = X.T @ X / 300, -X.T @ (X @ rng.standard_normal(10) + rng.standard_normal(300)) / 300
    r0, u0 = r.copy(), np.zeros(10)
    monkeypatch.setattr(group_model, "MOST_PRODUCTS", -1.0)
    u = descended.py_func(A, r, u0, starts, charges, 1e-12)
    np.testing.assert_allclose(r, r0 + A @ u, atol=1e-11)
    norms = [np.linalg.norm(u[a:b]) for a, b in pairwise(starts)]
    assert r0 @ u + 0.5 * u @ A @ u + charges @ norms < 0.0
    worst, least = (worst_group(A, *at, starts, charges) for at in ((u0, r0), (u, r)))
    assert 1e-12 * worst < least < worst


@pytest.mark.parametrize("penalty", [GroupLasso(0.3), GroupLasso(0.3, 0.2)], ids=str)
def test_the_formulas_are_those_they_are_defined_by(penalty):
    rng = np.random.default_rng(4)
    penalty = penalty.with_groups(groups_of(order=rng.permutation(17)))
    groups, roots = penalty.groups, np.sqrt(SIZES)
    w, s = rng.standard_normal(17), rng.standard_normal(17)
    w[groups % 2 == 0] = 0.0
    norm = lambda v: np.array([np.linalg.norm(v[groups == g]) for g in range(6)])  # noqa: E731
    assert penalty.value(w) == pytest.approx(
        0.3 * roots @ norm(w) + 0.5 * penalty.l2 * w @ w, rel=1e-12
    )
    theta = penalty.most_scale(s)
    inside = 0.999 * (theta if theta < 1.0 else 0.3 / (norm(s) / roots).max()) * s
    if penalty.l2 == 0.0:
        assert np.isinf(penalty.conjugate(1.001 * theta * s))
        assert penalty.conjugate(inside) == 0.0
    else:  # the supremum is at the minimum of R(w) - s . w, which shrinks every group
        left = np.maximum(0.0, 1.0 - 0.3 * roots / norm(s))[groups]
        best = left * s / penalty.l2
        assert penalty.conjugate(s) == pytest.approx(s @ best - penalty.value(best), rel=1e-10)
        assert penalty.brackets(best, s) == pytest.approx(0.0, abs=1e-12)
        assert np.abs(penalty.distance(best, -s)).max() < 1e-12
    for v in (w, 0.0 * w):
        direct = penalty.value(v) + penalty.conjugate(inside) - inside @ v
        assert penalty.brackets(v, inside) == pytest.approx(direct, rel=1e-9, abs=1e-12)
    # the sum of shortest subgradients is the steepest way down
    g, e = rng.standard_normal(17), 1e-7
    way = -penalty.distance(w, g)
    fall = (penalty.value(w + e * way) - penalty.value(w)) / e + g @ way
    assert fall == pytest.approx(-way @ way, rel=1e-4)


def test_penalties_of_other_groups_are_others():
    one, other = (GroupLasso(0.1, 0.0, groups_of(s)) for s in ((1, 2), (2, 1)))
    assert one == GroupLasso(0.1, 0.0, groups_of((1, 2)))
    assert hash(one) == hash(GroupLasso(0.1, 0.0, groups_of((1, 2))))
    assert one != other
    assert one != ElasticNet(0.1, 0.0)
