"""Every loss with every penalty by every method: certified against another optimum, or refused."""

import numpy as np
import pytest
from scipy.optimize import minimize

from fewpass.solvers.drive import sweeps
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import Problem, slope, value
from fewpass.solvers.multi_model import appraisal
from fewpass.solvers.needs import able_methods
from fewpass.solvers.registry import (
    L1_RATIOS,
    LOSSES,
    METHODS,
    PENALTIES,
    fit_for,
    loss_class,
    method_class,
    penalty_class,
)
from testing import oracles

LAM = 0.03
ALONE = [word for word in LOSSES if loss_class(word)().width == 1]


def rows(loss, n=60, d=6, seed=1):
    rng = np.random.default_rng(seed)
    X = oracles.single(rng.standard_normal((n, d)) * rng.lognormal(0.0, 0.5, d))
    s = X @ rng.standard_normal(d) / np.sqrt(d) + 0.3 * rng.standard_normal(n)
    y = s if loss.takes_numbers else np.where(s > 0.0, 1.0, -1.0)
    y = np.exp(np.clip(s, -2.0, 2.0)) if loss.is_steep else y
    weight = rng.uniform(0.5, 1.5, n)
    return X, y, weight / weight.mean()


def least(problem, X, y, weight):
    """The optimum over w = p - q and, of a loss with a kink, its losses as variables of their own."""
    if not problem.penalty.by_column:
        return least_by_groups(problem, X, y, weight)
    (n, d), penalty = X.shape, problem.penalty
    l1, l2 = getattr(penalty, "l1", 0.0), problem.lam

    def parts(v):
        w, b = v[:d] - v[d : 2 * d], v[2 * d]
        return w, b, X @ w + b

    def charged(v, w, b):
        F = l1 * v[: 2 * d].sum() + 0.5 * l2 * w @ w + 0.5 * problem.lam_b * b * b
        g = np.concatenate([l1 + l2 * w, l1 - l2 * w, [problem.lam_b * b]])
        return F, g

    if problem.loss.is_smooth:

        def f(v):
            w, b, p = parts(v)
            F, g = charged(v, w, b)
            r = weight * slope(problem.loss, p, y) / n
            g += np.concatenate([X.T @ r, -X.T @ r, [r.sum()]])
            return F + weight @ value(problem.loss, p, y) / n, g

        bounds, v = [(0.0, None)] * (2 * d) + [(None, None)], np.zeros(2 * d + 1)
        for _ in range(3):
            v = minimize(f, v, jac=True, method="L-BFGS-B", bounds=bounds,
                         options={"maxiter": 10_000, "ftol": 0.0, "gtol": 1e-11}).x  # fmt: skip
        return f(v)[0]

    # the loss is the largest of two lines in p, and with epsilon of a third one, 0
    (A, c), Z = lines(problem.loss, y), np.hstack([X, -X, np.ones((n, 1))])

    def g(v):
        w, b, _ = parts(v)
        F, slopes = charged(v, w, b)
        return F + weight @ v[2 * d + 1 :] / n, np.concatenate([slopes, weight / n])

    above = [
        {
            "type": "ineq",
            "fun": lambda v, a=a, k=k: v[2 * d + 1 :] - a * parts(v)[2] - k,
            "jac": lambda _v, a=a: np.hstack([-a[:, None] * Z, np.eye(n)]),
        }
        for a, k in zip(A, c, strict=True)
    ]
    bounds = [(0.0, None)] * (2 * d) + [(None, None)] + [(0.0, None)] * n
    start = np.concatenate([np.zeros(2 * d + 1), value(problem.loss, np.zeros(n), y)])
    end = minimize(g, start, jac=True, method="SLSQP", bounds=bounds, constraints=above,
                   options={"maxiter": 500, "ftol": 1e-13})  # fmt: skip
    return end.fun


def least_by_groups(problem, X, y, weight):
    """The optimum by gradient steps that shrink groups, until nothing moves."""
    w, b, penalty, step = np.zeros(X.shape[1]), 0.0, problem.penalty, 1.0

    def smooth(w, b):
        charged = 0.5 * (problem.lam * w @ w + problem.lam_b * b * b)
        return weight @ value(problem.loss, X @ w + b, y) / len(y) + charged

    for _ in range(3000):
        r = weight * slope(problem.loss, X @ w + b, y) / len(y)
        g, g_b, here = X.T @ r + problem.lam * w, r.sum() + problem.lam_b * b, smooth(w, b)
        while True:
            t = w - step * g
            most = step * penalty.l1 * penalty.roots / np.maximum(penalty.norms(t), 1e-300)
            new, new_b = np.maximum(0.0, 1.0 - most)[penalty.groups] * t, b - step * g_b
            move, far = g @ (new - w) + g_b * (new_b - b), (new - w) @ (new - w) + (new_b - b) ** 2
            if smooth(new, new_b) <= here + move + far / (2.0 * step) + 1e-15:
                break
            step *= 0.5
        w, b, step = new, new_b, 1.2 * step
        if far < 1e-24:
            break
    return smooth(w, b) + penalty.l1 * penalty.size(w)


def lines(loss, y):
    """Slopes and constants of the lines that a loss with a kink is the largest of, beside 0."""
    ones = np.ones(len(y))
    if loss.name == "hinge":
        return [-y], [ones]
    if loss.name == "quantile":
        t = loss.quantile
        return [-t * ones, (1.0 - t) * ones], [t * y, (t - 1.0) * y]
    e = loss.epsilon
    return [ones, -ones], [-y - e, y - e]


@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ALONE)
def test_each_method_certifies_the_optimum_or_refuses_by_name(loss, penalty):
    made = penalty_class(penalty).of(LAM, L1_RATIOS[penalty])
    made = made.with_groups(np.array([0, 1, 1, 2, 2, 2], np.int32))
    problem = Problem(loss_class(loss)(), made, 1.0, 0.01)
    X, y, weight = rows(problem.loss)
    able = able_methods(loss, penalty)
    lowest = least(problem, X, y, weight) if able else None
    known = oracles.stats(X, DenseRows, weight, y)._replace(columns=lambda: oracles.moments(X))
    assert able or penalty == "group_lasso", "nothing takes it"
    for word in METHODS:
        if method_class(word).goal == "steps":
            continue  # of single features: tests/solvers/simba
        method = fit_for(method_class(word)(), 1, smooth=made.is_smooth)
        if word not in able:
            with pytest.raises(ValueError, match=rf"{word}|this method|has a kink|No method takes"):
                method.init(problem, known)
            continue
        found = certified(method, problem, known, oracles.block(oracles.dense_rows(X), y, weight))
        excess = found.objective - lowest
        assert excess > -1e-7 * max(1.0, lowest), word
        assert found.gap >= excess - 1e-7 * max(1.0, lowest), word
        assert excess < 0.5 * max(lowest, 0.1), word


def certified(method, problem, known, block, passes=15):
    """What is proven of the last weights: by the method, or by their gradient."""
    end = None
    for moment in sweeps(method, problem, known, block):
        end = moment.state
        if moment.passes >= passes:
            break
    found = method.certificate(end)
    if found is None:
        what, point, prove, _ = appraisal(method)
        at = point(end)
        found = prove(problem, at, what.add(problem, at, block, what.zero(at)))
    return found
