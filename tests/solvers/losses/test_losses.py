"""Every loss against the table of docs/methods.md: differences, numeric suprema, brute force."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import wrightomega, xlogy

from fewpass.solvers.kernels.lanes import Eight, load
from fewpass.solvers.losses import (
    LOSSES,
    Hinge,
    Logistic,
    SmoothedHinge,
    SquaredHinge,
    bracket,
    conjugate,
    curvature_at,
    direction,
    dual_step,
    sgd_slope,
    slope,
    steps_exactly,
    value,
)
from fewpass.solvers.losses.log_link import excess, log_of_root
from fewpass.solvers.losses.loss import at_scores
from testing import oracles

NEEDED = {"quantile": (0.5,)}
OTHERS = {"smoothed_hinge": 0.1, "huber": 0.1, "quantile": 0.9, "epsilon_insensitive": 0.0}
ALL = [kind(*NEEDED.get(name, ())) for name, kind in LOSSES.items()]
ALL += [LOSSES[name](width) for name, width in OTHERS.items()]
NUMBERS = [loss for loss in ALL if loss.takes_numbers]
POISSON, GAMMA = STEEP = [loss for loss in ALL if loss.is_steep]
#: Those that testing/oracles.py has the slopes of, too.
SPELT = [
    loss
    for loss in ALL
    if not loss.is_steep and loss.name not in ("quantile", "epsilon_insensitive")
]
TARGETS = [1e-3, 0.3, 1.0, 7.0, 1e6]
each, each_of_numbers, each_spelt, each_steep = (
    pytest.mark.parametrize("loss", losses, ids=str) for losses in (ALL, NUMBERS, SPELT, STEEP)
)
places = st.one_of(st.sampled_from([0.0, 1.0]), st.floats(0.0, 1.0))
curvatures = st.one_of(st.just(0.0), st.floats(-3.0, 3.0).map(lambda e: 10.0**e))
margins, signs = st.floats(-30.0, 40.0), st.sampled_from([-1.0, 1.0])


def phi(loss, p, y):
    """The table's values, in NumPy."""
    if loss is POISSON:
        return np.exp(p) - y * p + xlogy(y, y) - y
    if loss is GAMMA:
        return y * np.exp(-p) + p - np.log(y) - 1.0
    if loss.name == "quantile":
        return np.maximum(loss.quantile * (y - p), (loss.quantile - 1.0) * (y - p))
    if loss.name == "epsilon_insensitive":
        return np.maximum(0.0, np.abs(p - y) - loss.epsilon)
    return oracles.phi(loss.name, p, y, getattr(loss, "smoothing", 1.0))[0]


def targets(loss):
    return TARGETS if loss.takes_numbers else [-1.0, 1.0]


def middle(loss, y):
    """The prediction about which the loss of a target bends."""
    return math.log(y) if loss.is_steep else y


def domain(loss, y):
    """Where a may lie."""
    if loss.name == "quantile":
        return loss.quantile - 1.0, loss.quantile
    if loss.is_steep:
        return (-math.inf, y) if loss is POISSON else (-1.0, math.inf)
    if loss.takes_numbers:
        most = 1.0 if loss.name == "epsilon_insensitive" else getattr(loss, "smoothing", math.inf)
        return -most, most
    return 0.0, math.inf if isinstance(loss, SquaredHinge) else 1.0


def dual_at(loss, y, at):
    """A dual variable: from one end of the domain to the other, or to where that is cut."""
    low, high = domain(loss, y)
    most = 2.0 * y if loss is POISSON else 5.0
    low, high = max(low, -most), min(high, most)
    return low + at * (high - low)


@each
def test_slope_and_curvature_are_difference_quotients(loss):
    for y in targets(loss):
        for off in np.linspace(-4.0, 4.0, 41) + 1e-3:
            p, h = middle(loss, y) + off, 1e-4
            scale = max(1.0, abs(y) * (math.exp(abs(off)) if loss.is_steep else 1.0))
            assert value(loss, p, y) == pytest.approx(phi(loss, p, y), rel=1e-9, abs=1e-9 * scale)
            difference = (phi(loss, p + h, y) - phi(loss, p - h, y)) / (2 * h)
            assert slope(loss, p, y) == pytest.approx(difference, abs=1e-7 * scale)
            second = (slope(loss, p + h, y) - slope(loss, p - h, y)) / (2 * h)
            assert second <= loss.curvature * (1.0 + 1e-9) or scale > 1e5
            if loss.is_steep:
                assert curvature_at(loss, p, y) == pytest.approx(second, abs=1e-7 * scale)


@each_spelt
@given(p=st.floats(-1e3, 1e3), y=signs)
def test_value_and_slope_match_the_reference(loss, p, y):
    width = getattr(loss, "smoothing", 1.0)
    expected_value, expected_slope = oracles.phi(loss.name, np.float64(p), y, width)
    assert value(loss, p, y) == pytest.approx(float(expected_value), rel=1e-12, abs=1e-300)
    assert slope(loss, p, y) == pytest.approx(float(expected_slope), rel=1e-12, abs=1e-300)


@each
def test_far_predictions_have_slopes_and_steps(loss):
    """And values, but where they grow as exponentials do."""
    for y in targets(loss):
        for p in (-2e3, 2e3):
            assert math.isfinite(slope(loss, p, y))
            assert math.isfinite(dual_step(loss, 0.0, p, y, 1e-3))
            steep = loss.is_steep and (p > 0.0) == (loss is POISSON)
            assert math.isinf(value(loss, p, y)) == steep


def test_logistic_far_out():
    assert [value(Logistic(), p, 1.0) for p in (1000.0, -1000.0)] == [0.0, 1000.0]
    assert [slope(Logistic(), p, -1.0) for p in (-1000.0, 1000.0)] == [0.0, 1.0]
    assert value(Logistic(), 30.0, 1.0) == pytest.approx(math.exp(-30.0), rel=1e-12)


def test_hinge_has_slope_zero_at_its_kink():
    assert slope(Hinge(), 1.0, 1.0) == 0.0


@given(p=margins, y=signs, width=st.floats(1e-3, 2.0))
def test_smoothed_hinge_lies_below_the_hinge_by_at_most_half_its_width(p, y, width):
    below = value(Hinge(), p, y) - value(SmoothedHinge(width), p, y)
    assert -1e-12 <= below <= width / 2 + 1e-12


@each_of_numbers
def test_the_least_value_is_zero(loss):
    for y in TARGETS:
        best = middle(loss, y)
        assert value(loss, best, y) == pytest.approx(0.0, abs=1e-15 * y)
        assert slope(loss, best, y) == pytest.approx(0.0, abs=1e-15 * y)


@each
@pytest.mark.parametrize("at", [0.0, 0.03, 0.5, 0.97, 1.0])
def test_conjugate_is_the_numeric_supremum(loss, at):
    for y in targets(loss):
        a, about = dual_at(loss, y, at), middle(loss, y)
        found = minimize_scalar(
            lambda p: a * direction(loss, y) * p + phi(loss, p, y),
            bounds=(about - 40.0, about + 40.0), method="bounded", options={"xatol": 1e-10},
        )  # fmt: skip
        corners = about + np.array([0.0, -40.0, 40.0, 0.1, -0.1])
        supremum = max(-found.fun, *(-a * direction(loss, y) * corners - phi(loss, corners, y)))
        assert conjugate(loss, a, y) == pytest.approx(supremum, rel=1e-8, abs=1e-8 * max(1.0, y))


@each
def test_conjugate_is_infinite_outside_its_domain(loss):
    for end, out in zip(domain(loss, 1.0), (-1.0, 1.0), strict=True):
        if math.isfinite(end):
            assert conjugate(loss, end + out * 1e-6, 1.0) == math.inf
            # A sum that rounding took across the edge is on it.
            beyond = end + out * 2.3e-16 * max(0.5, abs(end))
            assert conjugate(loss, beyond, 1.0) == pytest.approx(conjugate(loss, end, 1.0))


@each
@given(at=places, which=st.integers(0, 9), off=st.floats(-20.0, 20.0), q=curvatures)
def test_dual_step_beats_a_grid(loss, at, which, off, q):
    y = targets(loss)[which % len(targets(loss))]
    a, p = dual_at(loss, y, at), middle(loss, y) + off

    def gain(new):
        z = direction(loss, y) * p
        return -conjugate(loss, new, y) - (new - a) * z - 0.5 * q * (new - a) ** 2

    mine = gain(a + dual_step(loss, a, p, y, q))
    ends = dual_at(loss, y, 0.0), dual_at(loss, y, 1.0)
    best = max(gain(new) for new in np.linspace(*ends, 401))
    size = max(1.0, abs(best), abs(y * p), q * (ends[1] - ends[0]) ** 2)
    assert mine >= best - (1e-11 if loss.takes_numbers else 1e-12) * size


def test_dual_step_of_the_hinge_without_curvature():
    assert [dual_step(Hinge(), 0.25, p, 1.0, 0.0) for p in (0.5, 1.0, 2.0)] == [0.75, 0.0, -0.25]


def test_dual_step_of_the_logistic_where_nothing_may_overflow():
    for p, q in [(1000.0, 1e6), (-1000.0, 1e-6), (1000.0, 0.0), (-1000.0, 1e9)]:
        for a in (0.0, 1e-300, 0.5, 1.0):
            new = a + dual_step(Logistic(), a, p, 1.0, q)
            assert 0.0 <= new <= 1.0


@each
@given(at=places, which=st.integers(0, 9), off=st.floats(-20.0, 20.0))
def test_a_bracket_is_never_negative_and_zero_at_the_slope(loss, at, which, off):
    y = targets(loss)[which % len(targets(loss))]
    a, p = dual_at(loss, y, at), middle(loss, y) + off

    def of(a):
        return bracket(loss, a, p, y, value(loss, p, y), conjugate(loss, a, y))

    plain = phi(loss, p, y) + conjugate(loss, a, y) + a * direction(loss, y) * p
    scale = max(1.0, y, phi(loss, p, y), abs(a * p))
    assert of(a) >= -1e-15 * (0.0 if loss.is_steep else scale)
    assert of(a) == pytest.approx(plain, rel=1e-9, abs=1e-9 * scale)
    assert of(-slope(loss, p, y) * direction(loss, y)) <= 1e-14 * scale


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


@given(log_q=st.floats(-300.0, 300.0), r=st.floats(-1e5, 1e5))
def test_the_root_is_wrights_omega(log_q, r):
    q = math.exp(log_q)
    t = log_of_root(q, r)
    omega = float(wrightomega(r + log_q))
    assert q * math.exp(min(t, 700.0)) == pytest.approx(omega, rel=1e-9, abs=1e-290)
    assert t + omega == pytest.approx(r, rel=1e-11, abs=1e-9)


def test_excess_is_exact_near_zero():
    for u in (1e-12, -1e-8, 1e-3, -0.5, 0.5):
        series = sum(u**k / math.factorial(k) for k in range(2, 25))
        assert excess(u) == pytest.approx(series, rel=1e-14)


@each
def test_lanes_are_numbers(loss, rng):
    """In plain Python; that compiled lanes are plain Python is tested where they are stepped."""
    y = rng.choice(targets(loss)[:4], 8)
    q, p = 10.0 ** rng.uniform(-3.0, 3.0, 8), rng.standard_normal(8)
    a = np.array([dual_at(loss, one, at) for one, at in zip(y, rng.random(8), strict=True)])
    for formula, args in (
        (value, (p, y)), (slope, (p, y)), (conjugate, (a, y)), (dual_step, (a, p, y, q)),
    ):  # fmt: skip
        lanes = formula(loss, *(load(v, 0, Eight()) for v in args))
        numbers = [formula(loss, *one) for one in zip(*args, strict=True)]
        np.testing.assert_array_equal(lanes, numbers)


@pytest.mark.parametrize(
    "loss", [one for one in ALL if type(one) in curvature_at.bodies()], ids=str
)
@pytest.mark.parametrize("n", [0, 3, 19])
def test_all_of_given_predictions_are_those_of_each(loss, n, rng):
    y, p = rng.choice(targets(loss)[:4], n), rng.standard_normal(2 * n)[::2]
    found = at_scores(loss, p, y)
    for formula, own in zip((value, slope, curvature_at), found, strict=True):
        expected = np.array([formula(loss, *one) for one in zip(p, y, strict=True)])
        np.testing.assert_allclose(own, expected, rtol=1e-13, atol=1e-15)


@each_of_numbers
def test_an_offset_is_a_row_of_another_target_and_weight(loss):
    y, offset = np.array(TARGETS), np.linspace(-1.0, 2.0, len(TARGETS))
    taken = loss.at_offset(y, offset)
    for p in (-2.0, 0.0, 1.5):
        for k in range(len(y)):
            expected = phi(loss, p + offset[k], y[k])
            found = taken.weight[k] * value(loss, p, taken.y[k])
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-9 * y[k])


@given(p=margins, y=signs, q=st.floats(0.0, 1e6))
def test_the_exact_step_is_where_loss_and_step_balance(p, y, q):
    """The slope after the step, and that of a dual step from 0."""
    loss = SquaredHinge()
    g = sgd_slope(loss, p, y, q)
    assert g == pytest.approx(slope(loss, p - q * g, y), rel=1e-6, abs=1e-6 * (1.0 + abs(p)))
    assert g == pytest.approx(-y * dual_step(loss, 0.0, p, y, q), rel=1e-9)
    assert steps_exactly(loss)
    for other in SPELT:
        if not isinstance(other, SquaredHinge):
            assert not steps_exactly(other)
            assert sgd_slope(other, p, y, q) == slope(other, p, y)
