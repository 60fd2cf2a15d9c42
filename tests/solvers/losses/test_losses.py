"""The losses against their definitions: differences, numeric suprema, brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.solvers.losses import (
    LOSSES,
    Hinge,
    Logistic,
    SmoothedHinge,
    SquaredHinge,
    conjugate,
    dual_step,
    sgd_slope,
    slope,
    steps_exactly,
    value,
)
from testing.oracles import phi

ELSEWHERE = {"quantile", "epsilon_insensitive", "poisson", "gamma"}  # test_number_losses.py
HERE = [kind for name, kind in LOSSES.items() if name not in ELSEWHERE]
NARROW = [kind(0.1) for kind in HERE if kind.parameters()]
ALL = [kind() for kind in HERE] + NARROW
MARGIN = [loss for loss in ALL if not loss.takes_numbers]
NAMES = {kind: name for name, kind in LOSSES.items()}
each = pytest.mark.parametrize("loss", ALL, ids=str)
each_margin = pytest.mark.parametrize("loss", MARGIN, ids=str)
signs = st.sampled_from([-1.0, 1.0])
margins = st.floats(-30.0, 40.0)


def kinks(loss):
    """y p, y being -1 or +1, at which the slope jumps (hinge) or bends."""
    width = getattr(loss, "smoothing", 0.0)
    return [1.0 - width, 1.0 + width] if loss.takes_numbers else [1.0 - width, 1.0]


def domain(loss):
    """Where a may lie; what is not bounded is cut at 5."""
    if loss.takes_numbers:
        width = getattr(loss, "smoothing", 5.0)
        return -width, width
    return 0.0, 5.0 if isinstance(loss, SquaredHinge) else 1.0


@each
@given(p=margins, y=signs)
def test_slope_is_the_difference_quotient(loss, p, y):
    h = 1e-6
    if min(abs(y * p - kink) for kink in kinks(loss)) < 2 * h:
        return
    quotient = (value(loss, p + h, y) - value(loss, p - h, y)) / (2 * h)
    # 3e-7 holds for values near 1; rounding of (p - y)^2 / 2 near 800 adds 1e-7 by itself
    assert slope(loss, p, y) == pytest.approx(quotient, abs=3e-7)


@each
@given(p=st.floats(-1e3, 1e3), y=signs)
def test_value_and_slope_match_the_reference(loss, p, y):
    width = getattr(loss, "smoothing", 1.0)
    expected_value, expected_slope = phi(NAMES[type(loss)], np.float64(p), y, width)
    assert value(loss, p, y) == pytest.approx(float(expected_value), rel=1e-12, abs=1e-300)
    assert slope(loss, p, y) == pytest.approx(float(expected_slope), rel=1e-12, abs=1e-300)


@each
@pytest.mark.parametrize("p", [-1000.0, 1000.0])
@pytest.mark.parametrize("y", [-1.0, 1.0])
def test_far_predictions_stay_finite(loss, p, y):
    assert math.isfinite(value(loss, p, y))
    assert math.isfinite(slope(loss, p, y))


def test_logistic_far_out():
    assert [value(Logistic(), p, 1.0) for p in (1000.0, -1000.0)] == [0.0, 1000.0]
    assert [slope(Logistic(), p, -1.0) for p in (-1000.0, 1000.0)] == [0.0, 1.0]
    assert value(Logistic(), 30.0, 1.0) == pytest.approx(math.exp(-30.0), rel=1e-12)


def test_hinge_has_slope_zero_at_its_kink():
    assert slope(Hinge(), 1.0, 1.0) == 0.0


@each_margin
def test_curvature_bounds_the_second_difference(loss):
    if math.isinf(loss.curvature):
        return
    z = np.linspace(-4.0, 4.0, 4001)
    slopes = np.array([slope(loss, p, 1.0) for p in z])
    assert np.diff(slopes).max() <= loss.curvature * (z[1] - z[0]) * (1 + 1e-9)


@given(p=margins, y=signs, width=st.floats(1e-3, 2.0))
def test_smoothed_hinge_lies_below_the_hinge_by_at_most_half_its_width(p, y, width):
    below = value(Hinge(), p, y) - value(SmoothedHinge(width), p, y)
    assert -1e-12 <= below <= width / 2 + 1e-12


@each
@given(p=st.floats(-20.0, 20.0), y=signs, at=st.floats(0.0, 1.0))
def test_fenchel_young(loss, p, y, at):
    low, high = domain(loss)
    a = low + at * (high - low)
    # margin losses are functions of z = y p; others of p, their y inside
    z = p if loss.takes_numbers else y * p
    assert value(loss, p, y) + conjugate(loss, a, y) + a * z >= -1e-12
    touching = -slope(loss, p, y) * (1.0 if loss.takes_numbers else y)
    equality = value(loss, p, y) + conjugate(loss, touching, y) + touching * z
    assert equality == pytest.approx(0.0, abs=1e-9)


@each
@pytest.mark.parametrize("at", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_conjugate_is_the_numeric_supremum(loss, at):
    low, high = domain(loss)
    a = low + at * (high - low)
    z = np.concatenate([np.linspace(-60.0, 60.0, 240_001), [1.0]])
    values = phi(NAMES[type(loss)], z, 1.0, getattr(loss, "smoothing", 1.0))[0]
    assert conjugate(loss, a, 1.0) == pytest.approx(np.max(-a * z - values), abs=2e-7)


@each_margin
def test_conjugate_is_infinite_outside_its_domain(loss):
    assert conjugate(loss, -1e-9, 1.0) == math.inf
    if not isinstance(loss, SquaredHinge):
        assert conjugate(loss, 1.0 + 1e-9, 1.0) == math.inf
    # A sum that rounding took across the edge is on it.
    assert conjugate(loss, -1e-16, 1.0) == conjugate(loss, 0.0, 1.0)
    assert conjugate(loss, 1.0 + 2.3e-16, 1.0) == pytest.approx(conjugate(loss, 1.0, 1.0))


def gain(loss, a, delta, p, y, q):
    z = p if loss.takes_numbers else y * p
    return -conjugate(loss, a + delta, y) - delta * z - 0.5 * q * delta * delta


@each
@given(
    at=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)),
    p=st.floats(-20.0, 20.0),
    y=signs,
    q=st.one_of(st.just(0.0), st.floats(-3.0, 3.0).map(lambda e: 10.0**e)),
)
def test_dual_step_beats_a_grid(loss, at, p, y, q):
    low, high = domain(loss)
    a = low + at * (high - low)
    delta = dual_step(loss, a, p, y, q)
    mine = gain(loss, a, delta, p, y, q)
    assert math.isfinite(mine)
    best = max(gain(loss, a, g - a, p, y, q) for g in np.linspace(low, high, 401))
    assert mine >= best - 1e-12 * max(1.0, abs(best))


def test_dual_step_of_the_hinge_without_curvature():
    assert [dual_step(Hinge(), 0.25, p, 1.0, 0.0) for p in (0.5, 1.0, 2.0)] == [0.75, 0.0, -0.25]


def test_dual_step_of_the_logistic_where_nothing_may_overflow():
    for p, q in [(1000.0, 1e6), (-1000.0, 1e-6), (1000.0, 0.0), (-1000.0, 1e9)]:
        for a in (0.0, 1e-300, 0.5, 1.0):
            new = a + dual_step(Logistic(), a, p, 1.0, q)
            assert 0.0 <= new <= 1.0


@given(p=margins, y=signs, q=st.floats(0.0, 1e6))
def test_the_exact_step_is_where_loss_and_step_balance(p, y, q):
    """The slope after the step, and that of a dual step from 0."""
    loss = SquaredHinge()
    g = sgd_slope(loss, p, y, q)
    assert g == pytest.approx(slope(loss, p - q * g, y), rel=1e-6, abs=1e-6 * (1.0 + abs(p)))
    assert g == pytest.approx(-y * dual_step(loss, 0.0, p, y, q), rel=1e-9)
    assert steps_exactly(loss)
    for other in ALL:
        if not isinstance(other, SquaredHinge):
            assert not steps_exactly(other)
            assert sgd_slope(other, p, y, q) == slope(other, p, y)
