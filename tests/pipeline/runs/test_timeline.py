"""A training as its events tell it: what a crash had done again counts once, and points add up."""

from itertools import pairwise

import pytest

from fewpass import train
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Cursor
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.solvers import loss_monitor
from testing.datasets import make
from testing.happened import happened


@pytest.mark.parametrize(
    ("solver", "layout", "classes"),
    [
        *((solver, "dense", 2) for solver in ("asgd", "onepass", "sdca", "psdca", "newton")),
        *((solver, "sparse", 3) for solver in ("asgd", "onepass", "sdca")),  # side by side
        ("sdca", "dense", 3),  # one after the other
        ("newton", "sparse", 3),
    ],
)
def test_a_pass_is_told_in_a_hundred_points_and_more(
    tmp_path, monkeypatch, solver, layout, classes
):
    how = {"layout": layout, "classes": classes}
    data = make(tmp_path / "data", n=6000, d=30, chunk_rows=1500, **how).folder.url
    curves, bits = {}, set()
    for rows in (16, 10**9):
        for least in ("LEAST_SECTION", "LEAST_NOTED"):
            monkeypatch.setattr(loss_monitor, least, rows)
        result = train(data, tmp_path / str(rows), lam="1/n", solver=solver, passes=2)
        curves[rows] = list(Timeline.of(RunFolder(result.run)).points)
        bits.add(result.weights_sha256)
    assert len(bits) == 1
    fine, coarse = curves[16], curves[10**9]
    assert len(fine) > 200 > len(coarse)
    assert all(a.passes < b.passes for a, b in pairwise(fine))
    at = {point.passes: point.average for point in fine}
    found, whole = [at[point.passes] for point in coarse], [point.average for point in coarse]
    assert found == pytest.approx(whole, rel=1e-12)  # dual methods add up stretch by stretch


WORK = {"rows": 50, "bytes_read": 0, "seconds": 1.0, "wait_s": 0.25, "peak_memory": 0}


def stepped(seen, loss_sum, *, rows=50, monitored=None, in_sweep=None):
    """A span that ended after so many rows."""
    metrics = {"loss_sum": loss_sum, "n_monitored": monitored or seen}
    cursor = Cursor(rows_seen=seen, rows_in_sweep=seen if in_sweep is None else in_sweep)
    return happened("span", cursor, **WORK | {"rows": rows}, windows=1, metrics=metrics)


def began(kind="start", seen=0):
    return happened(kind, Cursor(rows_seen=seen, rows_in_sweep=seen), n_rows=100, method="asgd")


def heard(events):
    timeline = Timeline(passes=2)
    for event in events:
        timeline.hear(event)
    return timeline


def curve(timeline):
    return [(p.passes, p.average, p.since_last) for p in timeline.points]


def test_the_loss_since_the_last_line():
    timeline = heard([began(), stepped(50, 30.0, monitored=10)])
    assert timeline.loss_since({}) == 3.0
    before = timeline.loss_sums
    for event in (stepped(100, 40.0, monitored=20), stepped(150, 50.0, monitored=30)):
        timeline.hear(event)
    assert (timeline.loss_since(before), timeline.passes, timeline.fraction) == (1.0, 1.5, 0.75)
    timeline.hear(happened("restart", Cursor(rows_seen=150)))
    timeline.hear(stepped(200, 4.0, monitored=2, in_sweep=50))
    assert (timeline.loss_since({}), timeline.fraction) == (2.0, 0.25)


def test_what_a_crash_had_done_again_counts_once():
    spans = [stepped(10, 30.0, rows=10), stepped(15, 35.0, rows=5), stepped(30, 50.0, rows=15)]
    quiet = [began(), *spans]
    crash = [*quiet[:3], began("resume", 10), *spans[1:]]
    assert curve(heard(quiet)) == curve(heard(crash))
    assert [p.since_last for p in heard(crash).points] == [3.0, 1.0, 1.0]
    restart = happened("restart", Cursor(rows_seen=30))
    timeline = heard([*crash, restart, stepped(40, 80.0, rows=10, in_sweep=10)])
    assert curve(timeline)[0][:2] == (0.1, 2.0)
    assert (timeline.resumed, timeline.restarts) == (1, 1)


@pytest.mark.parametrize("solver", ["s2gd+", "lbfgs", "sdca"])
def test_a_log_tells_what_its_events_told(tmp_path, solver):
    """Reductions are passes, too: of a method of reductions alone, and of one that does both."""
    data = make(tmp_path / "data", n=6000, d=30, chunk_rows=1500).folder.url
    live = Timeline()
    result = train(data, tmp_path / "run", solver=solver, tol=1e-4, on_event=live.hear)
    log = Timeline.of(RunFolder(result.run))
    assert log.passes == live.passes == result.passes
    assert log.proven == live.proven
    assert [c[:3] for c in log.certificates] == [c[:3] for c in live.certificates]
    passes = [point.passes for point in log.points]
    assert passes == sorted(passes)
    assert passes[-1] <= log.passes


def test_facts_of_another_kind_are_refused():
    with pytest.raises(TypeError, match="colour"):
        happened("finish", Cursor(), colour="red")
    assert Event.read({"event": "of a later version", "passes": 0.0}) is None
    assert Event.read({"event": "sweep", "passes": 0.0}) is None  # a field is missing
