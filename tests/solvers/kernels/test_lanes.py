"""Lanes: every one has the bits of the number alone, in compiled code; plain Python means the same."""

import math

import numpy as np
import pytest

from fewpass.solvers.kernels import lanes
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.lanes import Eight, Four, broadcast, load, store
from fewpass.solvers.kernels.simd.exp_log import exp_below, log_below, log_one_plus
from fewpass.solvers.losses import LOSSES, conjugate, dual_step, slope, value
from tests.conftest import ROUNDING


@kernel
def numbers(x, y, out):
    """Everything that lanes can do, a number at a time."""
    for i in range(x.shape[0]):
        out[0, i] = (x[i] + y[i]) * x[i] - 2.0 / (3.0 + abs(y[i]))
        out[1, i] = lanes.fma(x[i], y[i], 0.1)
        out[2, i] = lanes.sqrt(abs(x[i])) + -y[i]
        out[3, i] = lanes.where(x[i] > 0.3, y[i], 7.0)
        out[4, i] = lanes.where((x[i] <= y[i]) & (x[i] < 9.0), 1.0, x[i])
        out[5, i] = log_one_plus(exp_below(-abs(x[i])))
        out[6, i] = lanes.power(abs(x[i]), 0.7)
        out[7, i] = exp_below(-abs(x[i]))
        out[8, i] = log_below(0.5 * exp_below(-abs(y[i])))
        out[9, i] = lanes.maximum(x[i], y[i]) + lanes.clip(x[i], -0.5, 0.2)
        out[10, i] = lanes.exponent(abs(y[i])) + lanes.mantissa(abs(y[i]))


@kernel
def in_lanes(x, y, out, how):
    """The same, `how.width` at a time."""
    for i in range(0, x.shape[0], how.width):
        a, b = load(x, i, how), load(y, i, how)
        store(out[0], i, (a + b) * a - 2.0 / (3.0 + abs(b)))
        store(out[1], i, lanes.fma(a, b, 0.1))
        store(out[2], i, lanes.sqrt(abs(a)) + -b)
        store(out[3], i, lanes.where(a > 0.3, b, 7.0))
        store(out[4], i, lanes.where((a <= b) & (a < 9.0), broadcast(1.0, how), a))
        store(out[5], i, log_one_plus(exp_below(-abs(a))))
        store(out[6], i, lanes.power(abs(a), 0.7))
        store(out[7], i, exp_below(-abs(a)))
        store(out[8], i, log_below(0.5 * exp_below(-abs(b))))
        store(out[9], i, lanes.maximum(a, b) + lanes.clip(a, -0.5, 0.2))
        store(out[10], i, lanes.exponent(abs(b)) + lanes.mantissa(abs(b)))


@pytest.fixture
def pair():
    x, y = np.random.default_rng(0).standard_normal((2, 64)) * 3.0
    x[:4] = np.nan, np.inf, 0.0, -0.0
    return x, y


@pytest.mark.parametrize("how", [Four(), Eight()])
def test_lanes_have_the_bits_of_numbers(pair, how):
    alone, together = np.empty((11, 64)), np.empty((11, 64))
    numbers(*pair, alone)
    in_lanes(*pair, together, how)
    assert np.array_equal(alone, together, equal_nan=True)


def test_plain_python_means_the_same(pair):
    x, y = pair
    compiled, slow = np.empty((11, 64)), np.empty((11, 64))
    in_lanes(x, y, compiled, Eight())
    with np.errstate(invalid="ignore"):
        in_lanes.py_func(x, y, slow, Eight())
    np.testing.assert_allclose(slow, compiled, rtol=ROUNDING, atol=ROUNDING)


@kernel
def exps(x, out):
    for i in range(x.shape[0]):
        out[i] = exp_below(x[i])


def test_exp_is_within_two_units_in_the_last_place():
    x = -np.concatenate([np.linspace(0.0, 707.9, 100_001), np.geomspace(1e-300, 700.0, 100_001)])
    found, expected = np.empty_like(x), np.array([math.exp(q) for q in x])
    exps(x, found)
    assert np.max(np.abs(found - expected) / np.spacing(expected)) <= 2.0


@kernel
def logs_one_plus(e, out):
    for i in range(e.shape[0]):
        out[i] = log_one_plus(e[i])


@kernel
def logs_below(x, out):
    for i in range(x.shape[0]):
        out[i] = log_below(x[i])


@pytest.mark.parametrize(
    ("log", "expected", "least", "most"),
    [(logs_one_plus, math.log1p, -0.5, 1.0), (logs_below, math.log, 1e-300, 0.5)],
)
def test_logs_are_within_two_units_in_the_last_place(log, expected, least, most):
    x = np.concatenate([np.linspace(least, most, 100_001), np.geomspace(1e-300, most, 100_001)])
    found, wanted = np.empty_like(x), np.array([expected(q) for q in x])
    log(x, found)
    assert np.max(np.abs(found - wanted) / np.spacing(np.abs(wanted))) <= 2.0


def test_log_of_nothing_is_finite():
    found = np.empty(1)
    logs_below(np.zeros(1), found)
    assert -800.0 < found[0] < -700.0


def test_exp_far_out():
    x, found = np.array([0.0, -0.0, -709.0, -1e300, -np.inf, np.nan]), np.empty(6)
    exps(x, found)
    assert np.array_equal(found, [1.0, 1.0, 0.0, 0.0, 0.0, np.nan], equal_nan=True)
    assert [exp_below(float(q)) for q in x[:4]] == [1.0, 1.0, 0.0, 0.0]


@kernel
def losses_alone(loss, p, y, a, q, out):
    for i in range(p.shape[0]):
        out[0, i], out[1, i] = value(loss, p[i], y[i]), slope(loss, p[i], y[i])
        out[2, i] = conjugate(loss, a[i], y[i])
        out[3, i] = dual_step(loss, a[i], p[i], y[i], q[i])


@kernel
def losses_in_lanes(loss, p, y, a, q, out, how):
    for i in range(0, p.shape[0], how.width):
        z, side = load(p, i, how), load(y, i, how)
        dual, curvature = load(a, i, how), load(q, i, how)
        store(out[0], i, value(loss, z, side))
        store(out[1], i, slope(loss, z, side))
        store(out[2], i, conjugate(loss, dual, side))
        store(out[3], i, dual_step(loss, dual, z, side, curvature))


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("how", [Four(), Eight()])
def test_losses_of_lanes_have_the_bits_of_numbers(pair, how, name):
    p, y = pair[0], np.where(pair[1] > 0.0, 1.0, -1.0)
    y = np.maximum(y, LOSSES[name].least_target)
    rng = np.random.default_rng(1)
    a, q = rng.uniform(size=64), 10.0 ** rng.uniform(-3.0, 4.0, 64)
    a[8:12], a[12:16], q[16:20] = 0.0, 1.0, 0.0
    alone, together = np.empty((4, 64)), np.empty((4, 64))
    losses_alone(LOSSES[name](), p, y, a, q, alone)
    losses_in_lanes(LOSSES[name](), p, y, a, q, together, how)
    assert np.array_equal(alone, together, equal_nan=True)


@kernel
def doubled(source, place, count, out, how):
    """Twice the first `count` lanes of what is there."""
    lanes.store_first(out, place, count, 2.0 * lanes.load_first(source, place, count, how))


@pytest.mark.parametrize("how", [Four(), Eight()])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_few_are_read_and_written_and_nothing_beside(how, dtype):
    source = np.arange(1.0, 20.0).astype(dtype)
    for run in (doubled, doubled.py_func):
        for place in range(3):
            for count in range(how.width + 1):
                out = np.full(19, -1.0)
                run(source, place, count, out, how)
                written = np.arange(19) - place
                inside = (written >= 0) & (written < count)
                assert np.array_equal(out, np.where(inside, 2.0 * source, -1.0))
