"""Penalties: every formula against what it is defined by, in plain Python and compiled."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2, ElasticNet, shrunk, strength
from fewpass.solvers.registry import L1_RATIOS, PENALTIES, penalty_class
from fewpass.solvers.tasks import Task
from tests.conftest import ROUNDING

MADE = [L2(0.3), ElasticNet(0.2), ElasticNet(0.2, 0.3), ElasticNet(1e-9, 0.3)]
by_penalty = pytest.mark.parametrize("penalty", MADE, ids=repr)


def column(penalty, w):
    return penalty.value(np.array([w]))


@by_penalty
def test_the_conjugate_is_the_supremum(penalty):
    for s in (-0.7, -0.2, -0.05, 0.0, 0.1, 0.2, 0.9):
        found = penalty.conjugate(np.array([s]))
        if np.isinf(found):
            assert abs(s) > penalty.l1
            continue
        best = minimize_scalar(lambda w, s=s: column(penalty, w) - s * w, bracket=(-5.0, 5.0))
        assert found == pytest.approx(-best.fun, abs=1e-7)


@by_penalty
def test_brackets_are_fenchel_youngs_and_vanish_at_the_pair(penalty):
    rng = np.random.default_rng(0)
    w, s = rng.standard_normal(30), 0.19 * rng.uniform(-1.0, 1.0, 30)
    w[::3] = 0.0
    direct = penalty.value(w) + penalty.conjugate(s) - s @ w
    assert penalty.brackets(w, s) == pytest.approx(direct, rel=1e-12)
    if strength(penalty) > 0.0:
        s *= 10.0
        pair = shrunk(penalty, s) / strength(penalty)
        assert penalty.brackets(pair, s) == pytest.approx(0.0, abs=ROUNDING)


@by_penalty
def test_shrunk_is_the_prox_compiled_and_plain(penalty):
    compiled = kernel(lambda p, u: shrunk(p, u))
    for u in (-1.0, -0.2, -0.1, 0.0, 0.15, 0.2, 3.0):
        plain = shrunk(penalty, u)
        assert compiled(penalty, u) == plain

        def charged(v, u=u):
            rest = column(penalty, v) - 0.5 * strength(penalty) * v * v
            return 0.5 * (v - u) ** 2 + rest

        assert charged(plain) <= min(charged(plain + e) for e in (-1e-4, 1e-4)) + ROUNDING
    assert kernel(lambda p: strength(p))(penalty) == strength(penalty)


@by_penalty
def test_what_is_scaled_most_is_just_feasible(penalty):
    s = np.array([0.3, -1.7, 0.0])
    theta = penalty.most_scale(s)
    assert np.isfinite(penalty.conjugate(theta * s))
    if theta < 1.0:
        assert np.isinf(penalty.conjugate(1.0001 * theta * s))


@by_penalty
def test_the_shortest_subgradient_is_zero_at_the_minimum(penalty):
    s = np.array([0.1, -0.15, 0.2, -0.6, 0.0])
    if strength(penalty) > 0.0:
        w = shrunk(penalty, s) / strength(penalty)
        assert np.abs(penalty.distance(w, -s)).max() < ROUNDING
    w, g, e = np.array([0.0, 0.0, 1.0, -2.0]), np.array([0.1, 0.5, 0.3, 0.1]), 1e-7
    slope = np.array(
        [
            max(
                0.0,
                max(
                    (column(penalty, a) - column(penalty, a + t * e)) / e - t * b
                    for t in (1.0, -1.0)
                ),
            )
            for a, b in zip(w, g, strict=True)
        ]
    )  # the steepest way down
    assert np.abs(penalty.distance(w, g)) == pytest.approx(slope, abs=1e-5)


def test_the_words_and_the_scale_are_scikit_learns():
    made = penalty_class("elasticnet").of(0.1, 0.3)
    assert made == ElasticNet(pytest.approx(0.03), pytest.approx(0.07))
    assert (made.name, made.total) == ("elasticnet", pytest.approx(0.1))
    for word in PENALTIES:
        kind = penalty_class(word)
        assert kind.of(0.1, L1_RATIOS[word]).name == word
    other = made.at(0.2)
    assert other == ElasticNet(pytest.approx(0.06), pytest.approx(0.14))


def test_tasks_keep_the_ratio():
    for penalty in MADE:
        problem = Problem(LOSSES["logistic"](), penalty, 1.0, 0.02)
        own = Task(-1, 0.5).problem(problem)
        assert own.penalty == penalty.at(0.5)
        scale = own.lam / problem.lam if problem.lam else 1.0
        assert own.lam_b == pytest.approx(0.02 * scale)
