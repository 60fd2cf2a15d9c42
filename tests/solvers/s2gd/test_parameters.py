"""S2GD's parameters: the tables of the paper, Theorems 4 and 6, the law of the inner length."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.solvers.s2gd.inner_length import inner_length, mean_inner_length
from fewpass.solvers.s2gd.theory import (
    Curvature,
    plan_epochs,
    plan_with_epochs,
    rate,
)
from testing.published import TABLE_3
from tests.conftest import ROUNDING

LAWS = ("geometric", "uniform")

CELLS = [
    (eps, kappa, j, law, printed)
    for (eps, kappa), rows in TABLE_3.items()
    for j, row in rows.items()
    for law, printed in zip(LAWS, row, strict=True)
]


def as_printed(work, printed):
    """Cut `work` to the digits printed; of a power of ten only its order is told."""
    if printed.startswith("10^"):
        return f"10^{math.floor(math.log10(work))}"
    k = len(printed.partition(".")[2])
    return f"{math.floor(work * 10**k) / 10**k:.{k}f}"


def test_table_3_is_reproduced_in_every_cell():
    n = 10**9
    assert len(CELLS) == 90
    for eps, kappa, j, law, printed in CELLS:
        work = plan_with_epochs(Curvature(kappa, 1.0), n, eps, j, law).work / n
        assert as_printed(work, printed) == printed, (eps, kappa, j, law, work)


@pytest.mark.parametrize("law", LAWS)
@given(
    n=st.integers(1, 10**10),
    log_kappa=st.floats(1e-3, 14),
    log_eps=st.floats(-12, -0.1),
    gradients=st.sampled_from([1, 2]),
)
def test_no_other_number_of_epochs_is_cheaper(law, n, log_kappa, log_eps, gradients):
    of, eps = Curvature(10.0**log_kappa, 1.0), 10.0**log_eps
    every = [plan_with_epochs(of, n, eps, j, law, gradients) for j in range(1, 150)]
    chosen = plan_epochs(of, n, eps, law, gradients)
    assert chosen.work == min(plan.work for plan in every)
    assert chosen == every[chosen.j - 1]


@pytest.mark.parametrize("law", LAWS)
def test_no_accuracy_is_too_high_to_plan_for(law):
    usual, extreme = (plan_epochs(Curvature(1e9, 1.0), 10, e, law) for e in (1e-30, 1e-300))
    assert 8.0 * usual.work < extreme.work < 12.0 * usual.work


def test_the_rate_is_theorem_4_to_the_letter():
    L, mu, m = Fraction(1), Fraction(1, 50), 40
    h = Fraction(1, 12)
    for nu in (Fraction(0), Fraction(1, 100), mu):
        rho = 1 - nu * h
        beta = sum(rho ** (m - t) for t in range(1, m + 1))
        c = rho**m / (beta * mu * h * (1 - 2 * L * h)) + 2 * (L - mu) * h / (1 - 2 * L * h)
        found = rate(Curvature(float(L), float(mu)), m, float(h), float(nu))
        assert found == pytest.approx(float(c), rel=ROUNDING)


def test_a_step_below_the_printed_bound_can_still_be_too_large():
    of = Curvature(1.0, 0.01)
    assert rate(of, 10**9, 0.26, 0.0) > 1.0  # 1/(4L - 2 mu) = 0.2513 < 0.26 < 1/(2L)
    assert rate(of, 10**9, 0.25, 0.0) < 1.0
    assert rate(of, 10**9, 0.5, 0.0) == math.inf


def test_what_the_theory_does_not_cover_is_refused():
    for of in (Curvature(1.0, 1.0), Curvature(1.0, 0.0), Curvature(1.0, 2.0)):
        with pytest.raises(ValueError, match="0 < mu < L"):
            plan_epochs(of, 10, 0.1, "uniform")
    with pytest.raises(ValueError, match="between 0 and 1"):
        plan_epochs(Curvature(2.0, 1.0), 10, 1.0, "uniform")


# -- the law of the inner length ------------------------------------------------------------------


def distribution(m, nu_h):
    """P(t_j = t), t = 1 .. m, by equation (4)."""
    p = (1.0 - nu_h) ** np.arange(m - 1, -1, -1.0)
    return p / p.sum()


@pytest.mark.parametrize(("m", "nu_h"), [(7, 0.3), (1000, 1e-3), (10, 0.999), (1, 0.1), (7, 0.0)])
def test_a_draw_inverts_the_distribution(m, nu_h, rng):
    """In closed form as by adding up: r = m - t is the first with U <= P(r <= k)."""
    U = 1.0 - rng.random(40_000)
    cumulative = np.cumsum(distribution(m, nu_h)[::-1])
    expected = m - np.minimum(np.searchsorted(cumulative, U), m - 1)
    drawn = np.array([inner_length(m, nu_h, 1.0, u) for u in U])
    assert (drawn == expected).all()
    assert inner_length(m, nu_h, 1.0, 1.0) == 1
    assert inner_length(m, nu_h, 1.0, 2.0**-53) == m


@given(
    m=st.integers(1, 10**12),
    log_nu_h=st.floats(-300, -0.01),
    U=st.floats(0.0, 1.0, exclude_min=True),
)
def test_every_draw_is_a_length_and_a_flatter_law_draws_shorter_ones(m, log_nu_h, U):
    nu_h = 10.0**log_nu_h
    t = inner_length(m, nu_h, 1.0, U)
    assert 1 <= inner_length(m, 0.0, 1.0, U) <= t + 1e-9 * m
    assert t <= m


@pytest.mark.parametrize("m", [1, 2, 50, 1000])
@pytest.mark.parametrize("nu_h", [0.0, 1e-14, 1e-7, 1e-4, 9.9e-4, 0.01, 0.09, 0.3, 0.999])
def test_the_mean_is_the_sum(m, nu_h):
    exact = float(np.arange(1.0, m + 1.0) @ distribution(m, nu_h))
    assert mean_inner_length(m, nu_h, 1.0) == pytest.approx(exact, rel=ROUNDING)


def test_the_mean_of_a_long_loop():
    assert mean_inner_length(261_063, 8.77e-6, 1.0) == pytest.approx(176_478.57, abs=10.0)
    assert mean_inner_length(261_063, 1e-4, 1.0 / 11.4) == pytest.approx(176_478.57, abs=5e-3)


def test_a_law_that_is_none_is_refused():
    with pytest.raises(ValueError, match="at least one step"):
        inner_length(0, 0.1, 1.0, 0.5)
    with pytest.raises(ValueError, match="below 1/nu"):
        mean_inner_length(5, 1.0, 1.0)
    for U in (0.0, 1.1, math.nan):
        with pytest.raises(ValueError, match="from \\(0, 1\\]"):
            inner_length(5, 0.1, 1.0, U)
