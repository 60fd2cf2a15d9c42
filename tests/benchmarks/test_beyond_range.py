"""Rows beyond the range: what is said of them, and that their page has it."""

from benchmarks.additive_page import page
from benchmarks.beyond_range import beyond_found


def row(name, figure, additive, boosting):
    sides = {"additive": additive, "boosting": boosting, "linear-form": 0.5}
    told = {side: {"beyond": value, "within": 0.5} for side, value in sides.items()}
    return {"table": name, "figure": figure} | told


def test_worse_is_a_lower_r2_and_a_higher_log_loss():
    beyond, within = beyond_found([row("a", "R2", 0.4, 0.3), row("b", "log loss", 0.4, 0.3)])
    assert beyond.startswith("Beyond the range curves and pairs are worse than boosting on 1 of 2")
    assert beyond.endswith("tables (b), than straight lines on 1 of 2 tables (a).")
    assert within.count("0 of 2 tables") == 2


def test_the_page_has_what_was_measured():
    made = page()
    assert made.count("Beyond the range curves and pairs are worse") == 1
    assert made.count("\n| diamonds |") >= 2
