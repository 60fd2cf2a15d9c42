"""The best constant prediction and its loss: closed forms, and an independent minimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fewpass.solvers.certificate import LEAST_SHARE, Certificate
from fewpass.solvers.losses import LOSSES, value
from fewpass.solvers.losses.constant_prediction import ROUNDED, best_constants


@pytest.mark.parametrize("name", LOSSES)
def test_no_constant_is_better(name, rng):
    loss = LOSSES[name]()
    y = rng.normal(3.0, 2.0, 60) if loss.takes_numbers else rng.choice([-1.0, 1.0], 60)
    y = np.abs(y) if loss.least_target > -np.inf else y
    weight = rng.uniform(0.1, 3.0, (2, 60))
    found = best_constants(loss, y, weight, intercept=True)
    for own, b, f0 in zip(weight, *found, strict=True):

        def mean(b, own=own):
            return float(np.average(value(loss, np.full(60, b), y), weights=own))

        best = minimize_scalar(
            mean, bounds=(-20.0, 20.0), method="bounded", options={"xatol": 1e-9}
        )
        assert f0 == pytest.approx(min(best.fun, mean(0.0)), rel=2e-3)
        assert mean(b) == pytest.approx(f0, rel=2e-3)
    at_zero = best_constants(loss, y, weight, intercept=False)
    expected = np.average(np.tile(value(loss, np.zeros(60), y), (2, 1)), axis=1, weights=weight)
    np.testing.assert_allclose(at_zero.losses, expected, rtol=1e-12)
    assert at_zero.scores == (0.0, 0.0)


def test_known_forms():
    sides, share = np.array([-1.0, 1.0]), np.array([[0.9, 0.1]])
    entropy = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    logistic = best_constants(LOSSES["logistic"](), sides, share, intercept=True)
    assert logistic.losses == pytest.approx((entropy,), rel=2e-3)
    assert logistic.scores == pytest.approx((np.log(1.0 / 9.0),), rel=1e-12)
    hinge = best_constants(LOSSES["hinge"](), sides, share, intercept=True)
    assert hinge.losses == pytest.approx((0.2,), rel=2e-3)


@pytest.mark.parametrize(
    "name", [n for n, of in LOSSES.items() if of.takes_numbers and not of.is_steep]
)
@pytest.mark.parametrize("up", [1e6, 1e9])
def test_it_moves_with_the_targets(name, up, rng):
    loss, one = LOSSES[name](), np.ones((1, 40))
    y = rng.normal(size=40)
    (at_zero, f0), (moved, f1) = (
        np.ravel(best_constants(loss, targets, one, intercept=True)) for targets in (y, y + up)
    )
    assert abs(moved - up - at_zero) < 0.2  # of a deviation
    assert f1 == pytest.approx(f0, rel=2e-3, abs=2.0 * ROUNDED * up)


def test_a_gap_is_compared_with_the_objective_or_a_thousandth_of_the_constant_s():
    assert Certificate(0.2, 0.01).relative == pytest.approx(0.05)
    assert Certificate(1e-6, 1e-7, constants=(0.5,)).relative == 1e-7 / (LEAST_SHARE * 0.5)
    both = Certificate(0.6, 0.1, ((1.0, 0.1), (0.2, 0.05)), (0.7, 0.7))
    assert both.relative == pytest.approx(0.25)  # of the second model, whose gap is not the largest
    assert Certificate(0.3, 0.3).proves_nothing
    assert not Certificate(1e-6, 1e-6, constants=(0.5,)).proves_nothing  # far below any constant
    assert Certificate(0.0, 0.0).relative == 0.0
