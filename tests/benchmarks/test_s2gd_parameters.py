"""S2GD's parameters beside those of training: Theorem 6, section 7.1, and the formulas (27), (28)."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.papers.s2gd_parameters import best_parameters, best_uniform, simple_length_for
from fewpass.solvers.s2gd.inner_length import mean_inner_length
from fewpass.solvers.s2gd.theory import Curvature, length_for, plan_with_epochs, rate, step_for
from tests.conftest import ROUNDING

LAWS = ("geometric", "uniform")


def test_table_3_is_not_of_the_formula_in_its_caption():
    """The caption says (27); with it the headline is 2.204 n, not 2.12 n."""
    m = math.ceil(simple_length_for(1e3, 1e-3, "geometric"))
    assert 2 * (1 + 2e-9 * m) == pytest.approx(2.204, abs=5e-4)
    assert plan_with_epochs(Curvature(1e3, 1.0), 10**9, 1e-6, 2, "geometric").work == pytest.approx(
        2.1216e9, rel=5e-5
    )


@pytest.mark.parametrize("law", LAWS)
@given(
    log_kappa=st.floats(1e-3, 9), delta=st.floats(1e-3, 0.99), scale=st.sampled_from([1e-6, 1, 1e6])
)
def test_theorem_6_leaves_at_most_delta(law, log_kappa, delta, scale):
    of = Curvature(scale * 10.0**log_kappa, scale)
    nu = of.mu if law == "geometric" else 0.0
    h, m = step_for(of, delta), math.ceil(length_for(of.kappa, delta, law))
    assert rate(of, m, h, nu) <= delta * (1.0 + ROUNDING)
    h_best, m_best = best_uniform(of, delta)
    assert rate(of, m_best, h_best, 0.0) == pytest.approx(delta, rel=1e-9)
    if law == "uniform":
        assert m_best <= m
    if of.kappa >= 2.0:
        assert length_for(of.kappa, delta, law) <= simple_length_for(of.kappa, delta, law)


def test_section_7_1_is_found_again():
    n, of = 10**5, Curvature(1.0, 1e-4)
    found = best_parameters(of, n, "geometric")
    assert abs(found.m / 261_063 - 1.0) < 1e-3
    assert abs(1.0 / found.h - 11.43) < 0.05
    assert found.c == pytest.approx(0.3495, abs=5e-5)

    found = best_parameters(of, n, "uniform")
    assert abs(found.m / 500_023 - 1.0) < 1e-2
    assert found.c == pytest.approx(0.4879, abs=5e-5)
    m, h = 426_660, 1.0 / 12.7  # printed, and not the optimum: 2.3 % more work
    printed = (n + 2.0 * mean_inner_length(m, 0.0, h)) / -math.log(rate(of, m, h, 0.0))
    assert printed / found.work == pytest.approx(1.023, abs=5e-4)


@pytest.mark.parametrize("law", LAWS)
@given(
    n=st.integers(1, 10**9),
    log_kappa=st.floats(0.1, 9),
    near_m=st.floats(-0.5, 0.5),
    near_h=st.floats(-0.5, 0.5),
)
def test_no_pair_near_the_optimum_needs_less_work(law, n, log_kappa, near_m, near_h):
    of = Curvature(10.0**log_kappa, 1.0)
    nu = of.mu if law == "geometric" else 0.0
    best = best_parameters(of, n, law)
    m, h = max(1, round(best.m * math.exp(near_m))), best.h * math.exp(near_h)
    c = rate(of, m, h, nu)
    if c < 1.0:
        work = (n + 2.0 * mean_inner_length(m, nu, h)) / -math.log(c)
        assert best.work <= work * (1.0 + 1e-2 / best.m)  # m is a whole number
