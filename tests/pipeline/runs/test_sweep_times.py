"""Where the time goes: parts that add up, out of made and real logs."""

import pytest

from fewpass.pipeline.runs.events import KINDS
from fewpass.pipeline.runs.sweep_times import PARTS, SweepTimes, totals


def span(kind="span", **changes):
    told = {
        "rows": 10, "seconds": 1.0, "read_s": 0.6, "fetch_s": 0.1, "permute_s": 0.2, "wait_s": 0.6,
        "step_s": 0.3, "ahead": False, "bytes_read": 0, "peak_memory": 0,
    }  # fmt: skip
    return KINDS[kind](**told | changes)


def sweep(**changes):
    told = {"name": "walk", "seconds": 3.0, "spans_s": 2.5, "between_s": 0.2}
    return KINDS["sweep"](**told | changes)


def saved(seconds):
    return KINDS["snapshot"]("name", seconds)


def times(facts):
    heard = SweepTimes()
    for each in facts:
        heard.hear(each)
    return heard.each


def parts(**given):
    return pytest.approx(dict.fromkeys(PARTS, 0.0) | given)


def test_reading_before_the_steps_is_time_and_during_them_is_not():
    first = [span(), span(), saved(0.1), sweep()]
    second = [span(ahead=True, wait_s=0.4), sweep(name="reduce", seconds=1.5, spans_s=1.25)]
    alone, ahead = times(first + second)
    assert alone.parts == parts(
        read=0.2, decode=0.6, permute=0.4, step=0.6, span=0.2, tasks=0.5, between=0.2, save=0.1,
        other=0.2,
    )  # fmt: skip
    assert not any(alone.meanwhile.values())
    assert ahead.parts == parts(step=0.3, wait=0.4, span=0.3, tasks=0.25, between=0.2, other=0.05)
    assert ahead.meanwhile == pytest.approx({"read": 0.1, "decode": 0.3, "permute": 0.2})
    assert (alone.rows, ahead.rows) == (20, 10)


def test_spans_that_ran_side_by_side_count_by_share():
    (found,) = times([span("reduce") for _ in range(5)] + [sweep()])
    assert sum(found.parts.values()) == pytest.approx(3.0)
    assert found.parts["step"] == pytest.approx(0.75)
    assert found.parts["tasks"] == 0.0


def test_what_a_crash_cut_short_counts_for_no_sweep():
    broken = [span(), saved(9.0), KINDS["resume"](n_rows=20, method="asgd")]
    (found,) = times([*broken, span(), sweep()])
    assert (found.rows, found.parts["save"]) == (10, 0.0)


def test_totals_add_up_sweeps_of_a_name():
    one = [span(), sweep()]
    found = totals(times([*one, span(), sweep(name="reduce"), *one]))
    assert [(f.name, f.rows, f.seconds) for f in found] == [("walk", 20, 6.0), ("reduce", 10, 3.0)]
    assert found[0].parts["step"] == pytest.approx(0.6)
