"""Where the time goes: parts that add up, out of made and real logs."""

import json

import pytest

from flows.reporting import times
from pipeline.pictures import time_bars
from pipeline.report import draw_report
from pipeline.streaming.executor import Execution, open_executor
from pipeline.streaming.in_process import InProcess
from pipeline.time_table import BESIDE, PARTS, time_table, totals
from pipeline.training.plan import TrainingPlan
from pipeline.training.run_folder import RunFolder
from pipeline.training.training_run import TrainingRun
from tests.datasets import make


def span(**changes):
    told = {
        "event": "span", "rows": 10, "seconds": 1.0, "read_s": 0.6, "fetch_s": 0.1,
        "permute_s": 0.2, "wait_s": 0.6, "step_s": 0.3, "ahead": False,
    }  # fmt: skip
    return told | changes


def sweep(**changes):
    told = {"event": "sweep", "name": "walk", "seconds": 3.0, "spans_s": 2.5, "between_s": 0.2}
    return told | changes


def parts(**given):
    return pytest.approx(dict.fromkeys(PARTS, 0.0) | given)


def test_reading_before_the_steps_is_time_and_beside_them_is_not():
    first = [span(), span(), {"event": "snapshot", "seconds": 0.1}, sweep()]
    second = [span(ahead=True, wait_s=0.4), sweep(name="gather", seconds=1.5, spans_s=1.25)]
    alone, ahead = time_table(first + second)
    assert alone.parts == parts(
        read=0.2, decode=0.6, permute=0.4, step=0.6, span=0.2, dask=0.5, between=0.2, save=0.1,
        other=0.2,
    )  # fmt: skip
    assert not any(alone.beside.values())
    assert ahead.parts == parts(step=0.3, wait=0.4, span=0.3, dask=0.25, between=0.2, other=0.05)
    assert ahead.beside == pytest.approx({"read": 0.1, "decode": 0.3, "permute": 0.2})
    assert (alone.rows, ahead.rows) == (20, 10)


def test_spans_that_ran_side_by_side_count_by_share():
    (found,) = time_table([span(event="gather") for _ in range(5)] + [sweep()])
    assert sum(found.parts.values()) == pytest.approx(3.0)
    assert found.parts["step"] == pytest.approx(0.75)
    assert found.parts["dask"] == 0.0


def test_what_a_crash_cut_short_counts_for_no_sweep():
    broken = [span(), {"event": "snapshot", "seconds": 9.0}, {"event": "resume"}]
    (found,) = time_table([*broken, span(), sweep()])
    assert (found.rows, found.parts["save"]) == (10, 0.0)


def test_totals_add_up_sweeps_of_a_name():
    one = [span(), sweep()]
    found = totals(time_table([*one, span(), sweep(name="gather"), *one]))
    assert [(f.name, f.rows, f.seconds) for f in found] == [("walk", 20, 6.0), ("gather", 10, 3.0)]
    assert found[0].parts["step"] == pytest.approx(0.6)


def test_older_logs_tell_of_no_sweep_and_still_make_a_report(tmp_path):
    run = trained(tmp_path, {"kind": "asgd"}, InProcess())
    new = ("permute_s", "step_s", "ahead", "fetch_s", "worker")
    events = [e for e in run.events() if e["event"] != "sweep"]
    old = [{name: value for name, value in e.items() if name not in new} for e in events]
    run.folder.write("log.jsonl", "".join(json.dumps(e) + "\n" for e in old).encode())
    report = draw_report(run)
    assert (report.sweeps, report.time) == ([], None)
    assert report.last_loss is not None


def trained(tmp_path, solver, executor):
    dataset = make(tmp_path / "set", n=3000, layout="sparse")
    plan = TrainingPlan(dataset=dataset.folder.url, solver=solver, passes=4, certify=True)
    run = TrainingRun.start(plan, str(tmp_path / "run"), executor)
    assert list(run)[-1].kind == "finish"
    return RunFolder(str(tmp_path / "run"))


@pytest.mark.parametrize("workers", [None, 2])
@pytest.mark.parametrize("kind", ["asgd", "s2gd+"])
def test_a_real_runs_parts_add_up_and_are_shown(tmp_path, kind, workers):
    with open_executor(Execution(workers=workers, threads=1)) as executor:
        run = trained(tmp_path, {"kind": kind}, executor)
    sweeps = time_table(run.events())
    for one in sweeps:
        assert sum(one.parts.values()) == pytest.approx(one.seconds)
        assert one.parts["step"] > 0.0
        assert min(one.parts.values()) > -1e-3  # clocks are read one after the other
        assert set(one.parts) == set(PARTS)
        assert set(one.beside) == set(BESIDE)
    assert len(sweeps) >= 4
    report = draw_report(run)
    assert sum(one["passes"] for one in report.sweeps) >= 4.0
    assert run.folder.read("report/time.png") == time_bars(sweeps, "run")
    table = times(report.sweeps)
    assert table.row_count >= len(PARTS) + 1
    assert len(table.columns) == len(report.sweeps) + 2
