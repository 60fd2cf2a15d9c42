"""Quantile, epsilon-insensitive, Poisson and gamma losses against their definitions."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import wrightomega, xlogy

from fewpass.solvers.kernels.simd.lanes import Eight, load
from fewpass.solvers.losses import (
    LOSSES,
    bracket,
    conjugate,
    curvature_at,
    direction,
    dual_step,
    slope,
    value,
)
from fewpass.solvers.losses.log_link import excess, log_of_root

QUANTILE, NARROW = LOSSES["quantile"](0.5), LOSSES["quantile"](0.9)
EPSILON, POISSON, GAMMA = LOSSES["epsilon_insensitive"](), LOSSES["poisson"](), LOSSES["gamma"]()
ALL = [QUANTILE, NARROW, EPSILON, LOSSES["epsilon_insensitive"](0.0), POISSON, GAMMA]
STEEP = [POISSON, GAMMA]
KINKS = (0.0, -40.0, 0.1, -0.1)
TARGETS = [1e-3, 0.3, 1.0, 7.0, 1e6]
each = pytest.mark.parametrize("loss", ALL, ids=str)
each_steep = pytest.mark.parametrize("loss", STEEP, ids=str)
curvatures = st.one_of(st.just(0.0), st.floats(-3.0, 3.0).map(lambda e: 10.0**e))


def phi(loss, p, y):
    """The table of docs/methods.md, in NumPy."""
    if loss is POISSON:
        return np.exp(p) - y * p + xlogy(y, y) - y
    if loss is GAMMA:
        return y * np.exp(-p) + p - np.log(y) - 1.0
    if "quantile" in loss._fields:
        return np.maximum(loss.quantile * (y - p), (loss.quantile - 1.0) * (y - p))
    return np.maximum(0.0, np.abs(p - y) - loss.epsilon)


def domain(loss, y):
    """Where a may lie; what is not bounded is cut at 3 y, or 3."""
    if loss in STEEP:
        return (-2.0 * y, y) if loss is POISSON else (-1.0, 3.0)
    return (loss.quantile - 1.0, loss.quantile) if "quantile" in loss._fields else (-1.0, 1.0)


@each
@pytest.mark.parametrize("y", TARGETS)
def test_value_slope_and_curvature(loss, y):
    middle = math.log(y) if loss in STEEP else y
    for p in middle + np.linspace(-4.0, 4.0, 41) + 1e-3:
        assert value(loss, p, y) == pytest.approx(phi(loss, p, y), rel=1e-9, abs=1e-9 * y)
        h, scale = 1e-4, max(1.0, y * math.exp(abs(p - middle)))
        difference = (phi(loss, p + h, y) - phi(loss, p - h, y)) / (2 * h)
        assert slope(loss, p, y) == pytest.approx(difference, abs=1e-7 * scale)
        if loss in STEEP:
            second = (slope(loss, p + h, y) - slope(loss, p - h, y)) / (2 * h)
            assert curvature_at(loss, p, y) == pytest.approx(second, abs=1e-7 * scale)


@each
def test_the_least_value_is_zero(loss):
    for y in TARGETS:
        best = math.log(y) if loss in STEEP else y
        assert value(loss, best, y) == pytest.approx(0.0, abs=1e-15 * y)
        assert slope(loss, best, y) == pytest.approx(0.0, abs=1e-15 * y)


@each
@pytest.mark.parametrize("y", TARGETS)
@pytest.mark.parametrize("at", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_conjugate_is_the_numeric_supremum(loss, y, at):
    low, high = domain(loss, y)
    a = low + at * (high - low)
    middle = math.log(y) if loss in STEEP else y
    found = minimize_scalar(
        lambda p: a * p + phi(loss, p, y), bounds=(middle - 40.0, middle + 40.0),
        method="bounded", options={"xatol": 1e-10},
    )  # fmt: skip
    corners = [-a * p - phi(loss, p, y) for p in middle + np.array(KINKS)]
    supremum = max(-found.fun, *corners)
    assert conjugate(loss, a, y) == pytest.approx(supremum, rel=1e-8, abs=1e-8 * max(1.0, y))


@each
def test_conjugate_is_infinite_outside_its_domain(loss):
    low, high = domain(loss, 1.0)
    assert conjugate(loss, high + 1e-6, 1.0) == math.inf or loss is GAMMA
    assert conjugate(loss, low - 1e-6, 1.0) == math.inf or loss is POISSON
    assert math.isfinite(conjugate(loss, (high if loss is not GAMMA else low) * (1 + 1e-16), 1.0))


@each
@given(
    at=st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0)), y=st.sampled_from(TARGETS),
    off=st.floats(-20.0, 20.0), q=curvatures,
)  # fmt: skip
def test_dual_step_beats_a_grid(loss, at, y, off, q):
    low, high = domain(loss, y)
    a, p = low + at * (high - low), (math.log(y) if loss in STEEP else y) + off

    def gain(delta):
        return -conjugate(loss, a + delta, y) - delta * p - 0.5 * q * delta * delta

    mine = gain(dual_step(loss, a, p, y, q))
    best = max(gain(g - a) for g in np.linspace(low, high, 401))
    size = max(1.0, abs(best), y * abs(p), q * (high - low) ** 2)
    assert mine >= best - 1e-11 * size


@each
@given(
    at=st.floats(0.0, 1.0), y=st.sampled_from(TARGETS), off=st.floats(-20.0, 20.0),
)  # fmt: skip
def test_a_bracket_is_never_negative_and_zero_at_the_slope(loss, at, y, off):
    low, high = domain(loss, y)
    a, p = low + at * (high - low), (math.log(y) if loss in STEEP else y) + off

    def of(a):
        return bracket(loss, a, p, y, value(loss, p, y), conjugate(loss, a, y))

    plain = phi(loss, p, y) + conjugate(loss, a, y) + a * direction(loss, y) * p
    scale = max(1.0, y, phi(loss, p, y), abs(a * p))
    assert of(a) >= -1e-15 * (0.0 if loss in STEEP else scale)
    assert of(a) == pytest.approx(plain, rel=1e-9, abs=1e-9 * scale)
    assert of(-slope(loss, p, y)) <= 1e-14 * scale


@each_steep
def test_a_bracket_does_not_cancel(loss):
    """a is wrong by a millionth: the bracket is a square of that, and rounding is far larger."""
    y, p = 1e6, math.log(1e6)
    a = -slope(loss, p + 1e-6, y)
    m = y - a if loss is POISSON else 1.0 + a
    u = p - math.log(m) if loss is POISSON else math.log(y) - p - math.log(m)
    found = bracket(loss, a, p, y, value(loss, p, y), conjugate(loss, a, y))
    assert found == pytest.approx(0.5 * m * u * u, rel=1e-3)
    assert found < 1e-6


def test_counts_of_zero():
    assert value(POISSON, -3.0, 0.0) == pytest.approx(math.exp(-3.0), rel=1e-12)
    assert [conjugate(POISSON, a, 0.0) for a in (0.0, -1.0)] == pytest.approx([0.0, -1.0])
    new = dual_step(POISSON, 0.0, -3.0, 0.0, 0.0)
    assert new == pytest.approx(-math.exp(-3.0), rel=1e-12)
    assert bracket(POISSON, new, -3.0, 0.0, 0.0, 0.0) == pytest.approx(0.0, abs=1e-15)
    assert bracket(POISSON, 0.0, -3.0, 0.0, 0.0, 0.0) == pytest.approx(math.exp(-3.0))


@each_steep
def test_far_predictions_are_infinite_and_slopes_are_numbers(loss):
    far = 2e3 if loss is POISSON else -2e3
    assert value(loss, far, 1.0) == math.inf
    for p in (far, -far):
        assert math.isfinite(slope(loss, p, 1.0))
        assert math.isfinite(dual_step(loss, 0.0, p, 1.0, 1e-3))


@given(log_q=st.floats(-300.0, 300.0), r=st.floats(-1e5, 1e5))
def test_the_root_is_wrights_omega(log_q, r):
    q = math.exp(log_q)
    t = log_of_root(q, r)
    omega = float(wrightomega(r + log_q))
    assert q * math.exp(min(t, 700.0)) == pytest.approx(omega, rel=1e-9, abs=1e-290)
    assert t + omega == pytest.approx(r, rel=1e-11, abs=1e-9)


@each
def test_lanes_are_numbers(loss, rng):
    """In plain Python; that compiled lanes are plain Python is tested where they are stepped."""
    y, q = rng.uniform(0.1, 9.0, 8), 10.0 ** rng.uniform(-3.0, 3.0, 8)
    low, high = domain(loss, 0.1)
    a, p = rng.uniform(low, high, 8), rng.standard_normal(8)
    for formula, args in (
        (value, (p, y)), (slope, (p, y)), (conjugate, (a, y)), (dual_step, (a, p, y, q)),
    ):  # fmt: skip
        lanes = formula(loss, *(load(v, 0, Eight()) for v in args))
        numbers = [formula(loss, *one) for one in zip(*args, strict=True)]
        np.testing.assert_array_equal(lanes, numbers)


def test_excess_is_exact_near_zero():
    for u in (1e-12, -1e-8, 1e-3, -0.5, 0.5):
        series = sum(u**k / math.factorial(k) for k in range(2, 25))
        assert excess(u) == pytest.approx(series, rel=1e-14)


@each
def test_an_offset_is_a_row_of_another_target_and_weight(loss):
    y, offset = np.array(TARGETS), np.linspace(-1.0, 2.0, len(TARGETS))
    taken = loss.at_offset(y, offset)
    for p in (-2.0, 0.0, 1.5):
        for k in range(len(y)):
            expected = phi(loss, p + offset[k], y[k])
            found = taken.weight[k] * value(loss, p, taken.y[k])
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * y[k])
