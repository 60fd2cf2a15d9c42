"""The softmax loss: its formulas against SciPy, its dual step against a slow exact one."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax, xlogy

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.simd.wide_rows import padded
from fewpass.solvers.losses import SoftmaxLoss
from fewpass.solvers.losses.wide_loss import (
    PADDED,
    SCRATCH,
    best_duals,
    loss_and_bracket,
    loss_and_slopes,
    worth_of,
)
from testing.softmax_oracles import best_p
from tests.conftest import ROUNDING

WIDTHS = [3, 8, 11]


@kernel
def all_formulas(loss, v, a, y, q, g, new, scratch):
    value = loss_and_slopes(loss, v, y, g)
    same, bracket = loss_and_bracket(loss, v, a, y, scratch)
    again = best_duals(loss, a, v, y, q, new, scratch)
    return value, same, bracket, again, worth_of(loss, a, y)


def drawn(K, seed, spread=3.0):
    """Scores, a dual variable and a label."""
    rng = np.random.default_rng(seed)
    y = int(rng.integers(K))
    p = softmax(spread * rng.standard_normal(K))
    return spread * rng.standard_normal(K), np.eye(K)[y] - p, p, y


def evaluated(run, K, v, a, y, q):
    """Return numbers, slopes and new dual variables of a row."""
    wide = padded(K)
    scores, duals = np.full(wide, PADDED), np.zeros(wide)
    scores[:K], duals[:K] = v, a
    g, new = np.zeros(wide), np.zeros(wide)
    numbers = run(SoftmaxLoss(K), scores, duals, y, q, g, new, np.zeros((SCRATCH, wide)))
    assert not g[K:].any()
    assert not new[K:].any()
    return numbers, g[:K], new[:K]


@pytest.mark.parametrize("K", WIDTHS)
@pytest.mark.parametrize("spread", [1.0, 30.0])
def test_values_slopes_and_brackets(K, spread):
    for seed in range(8):
        v, a, p, y = drawn(K, seed, spread)
        (value, same, bracket, again, worth), g, _ = evaluated(all_formulas, K, v, a, y, 0.3)
        expected = logsumexp(v) - v[y]
        assert (value, same, again) == pytest.approx((expected,) * 3, abs=1e-12, rel=1e-12)
        np.testing.assert_allclose(g, softmax(v) - np.eye(K)[y], atol=1e-14)
        assert worth == pytest.approx(-xlogy(p, p).sum(), abs=ROUNDING)
        assert bracket == pytest.approx(expected - worth + a @ v, abs=1e-11 * (1 + abs(v).max()))
        assert bracket >= -1e-12


@pytest.mark.parametrize("K", WIDTHS)
@pytest.mark.parametrize("q", [0.0, 1e-3, 0.3, 10.0, 1e4])
def test_the_step_is_the_best_one(K, q):
    def worth(p, p0, v):
        return -xlogy(p, p).sum() + v @ p - 0.5 * q * np.sum((p - p0) ** 2)

    for seed in range(3):
        v, a, p0, y = drawn(K, seed, spread=4.0)
        _, _, new = evaluated(all_formulas, K, v, a, y, q)
        p, best = np.eye(K)[y] - new, best_p(p0, v, q)
        assert p.sum() == pytest.approx(1.0, abs=ROUNDING)
        np.testing.assert_allclose(p, best, atol=1e-5)
        assert worth(p0, p0, v) <= worth(p, p0, v) <= worth(best, p0, v) + 1e-12
        assert worth(p, p0, v) == pytest.approx(worth(best, p0, v), abs=1e-7)


def test_a_row_far_on_the_wrong_side_is_no_trouble():
    for scale in (1e2, 1e4, 1e6):
        v = scale * np.array([1.0, -1.0, 0.0, -0.5])
        _, _, new = evaluated(all_formulas, 4, v, np.zeros(4), 1, 1e-9)
        p = np.eye(4)[1] - new
        assert p[0] == pytest.approx(1.0)
        assert p.sum() == pytest.approx(1.0, abs=ROUNDING)


def test_python_computes_what_kernels_do():
    for seed in range(5):
        v, a, _, y = drawn(6, seed)
        for own, oracle in zip(
            evaluated(all_formulas, 6, v, a, y, 0.7),
            evaluated(all_formulas.py_func, 6, v, a, y, 0.7),
            strict=True,
        ):
            np.testing.assert_allclose(own, oracle, rtol=1e-12, atol=1e-13)


def test_probabilities_are_the_softmax_and_nothing_else():
    scores = np.random.default_rng(0).standard_normal((20, 7)) * 50.0
    np.testing.assert_allclose(
        SoftmaxLoss(7).probabilities(scores), softmax(scores, axis=1), rtol=1e-14
    )
