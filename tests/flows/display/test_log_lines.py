"""Lines of the log: one per pass, as text and as JSON; pipes that are closed early."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from fewpass.flows.display import pass_lines
from fewpass.flows.display.console import Terminal, facts_table
from fewpass.flows.display.ingest_display import IngestLines
from fewpass.flows.display.log_lines import json_line
from fewpass.flows.display.pass_lines import PassLines
from fewpass.flows.display.training_display import LEARNING, PROVING, aligned, fitting
from fewpass.flows.interrupts import Stopping
from fewpass.flows.options import Output
from fewpass.flows.orchestration.command import run_flow
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.reporting.learning import losses
from fewpass.pipeline.runs.timeline_points import Point
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.progress import IngestProgress
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make
from testing.prefect_server import patience

FEWPASS = str(Path(sys.executable).with_name("fewpass"))
NO_DASK = ["--scheduler", "none"]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make(tmp_path_factory.mktemp("lines") / "set", n=2000).folder.url


@pytest.mark.parametrize("solver", ["asgd", "sdca", "newton", "s2gd+"])
def test_a_line_for_every_pass(dataset, tmp_path, monkeypatch, solver):
    monkeypatch.setattr(pass_lines, "SHORTEST_S", 0.0)
    plan = TrainingPlan(
        dataset=dataset, solver={"kind": solver}, passes=5, memory="97MB", certify=True
    )
    lines, told, passed = PassLines(plan.passes), [], []
    for event in TrainingRun.start(plan, str(tmp_path / "run"), InProcess()):
        told += lines.take(event)
        passed.append(event.cursor.passes)
    found = [line for _, line in told if line.fields["event"] == "pass"]
    whole = {int(p) for p in passed if p >= 1}
    assert {int(line.fields["passes"]) for line in found} == whole
    assert found[-1].fields["above_optimum"] > 0.0
    for line in found:
        made = line.fields["passes"]
        assert line.text.startswith(f"pass {made} of 5" if made <= 5 else f"pass {made}, ")
    assert not any("{" in line.text for _, line in told)


def test_a_command_in_json(dataset, fewpass, tmp_path):
    words = ("train", dataset, tmp_path / "run", "--passes", "2", *NO_DASK, "--log-format", "json")
    status, _, err = fewpass(*words)
    assert status == 0
    lines = [json.loads(line) for line in err.splitlines()]
    assert {"time", "level", "message"} <= set(lines[0])
    *_, last = [line for line in lines if line.get("event") == "pass"]
    assert (last["passes"], last["of"]) == (2.0, 2)
    assert last["rows_per_s"] >= 0
    status, _, err = fewpass("train", tmp_path / "no", tmp_path / "r", "--log-format=json")
    assert (status, json.loads(err)["level"]) == (2, "error")


@pytest.mark.parametrize("told", ["postgresql://host/db", "https://host/rows?token=canary"])
def test_a_line_is_json_whatever_stands_behind_an_address(told, capsys):
    """A quote behind one was cut off with what was taken for a part of it."""
    said = {"why": f'see "{told}"', f'"{told}"': [f"{told}\\n"]}
    Terminal(Output(json=True)).result(said, "")
    for line in (json_line("info", f'see "{told}"', said), capsys.readouterr().out):
        assert "canary" not in line
        shown = told.partition("?")[0]
        assert json.loads(line)["why"] == f'see "{shown}"'


def test_an_ingest_has_a_line_now_and_then():
    now = IngestProgress("partition", 0.5, 10, None, 100, 200, 0, 1.0, 5.0)
    lines = IngestLines(every_s=1e9)
    assert not list(lines.take(now))
    (line,) = lines.take(now._replace(phase="done"))
    assert line.fields["rows"] == 10
    (line,) = IngestLines(every_s=0.0).take(now)
    assert line.fields["phase"] == "partition"
    assert "10 rows" in line.text


@pytest.mark.parametrize(
    "words", ["--help", "train --help", "--version", "methods", "methods sdca"]
)
def test_output_that_nobody_reads_ends_a_command_quietly(words):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as unread:
        done = subprocess.run(
            [FEWPASS, *words.split()], stdout=unread, stderr=subprocess.PIPE, timeout=patience(60)
        )
    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


@pytest.mark.parametrize("columns", [LEARNING, PROVING])
def test_lines_fit_and_numbers_never_run_together(columns):
    for width in (40, 60, 80, 120):
        kept = fitting(columns, width)
        heads = aligned(kept, kept)
        assert len(heads) <= width
        assert {"passes", "average" if columns == LEARNING else "objective"} <= set(kept)
    assert fitting(columns, 120) == columns
    huge = tuple("9" * 30 for _ in columns)
    assert aligned(columns, huge).split() == list(huge)


def test_a_method_of_reductions_tells_no_rows(dataset, fewpass, tmp_path):
    run = tmp_path / "newton"
    for words in (("train", dataset, run, "--solver", "newton", "--tol", "1e-6"), ("resume", run)):
        status, out, err = fewpass(*words, *NO_DASK)
        assert status == 0
        assert " 0 rows" not in out + err
    assert "Continuing" not in err
    assert "Running on" not in err
    assert "The training is finished" in err
    status, out, _ = fewpass("report", run)
    assert " 0 rows" not in out
    assert re.search(r"resumed +0 *$", out, re.MULTILINE)


def test_reductions_are_told_by_what_they_prove_and_end_with_nothing_left(
    dataset, fewpass, tmp_path
):
    run = tmp_path / "newton"
    _, _, err = fewpass("train", dataset, run, "--solver", "newton", "--passes", 1, *NO_DASK)
    heads = next(line for line in err.splitlines() if "passes" in line and "objective" in line)
    assert "rows " not in heads
    _, _, err = fewpass(
        "train", dataset, tmp_path / "sure", "--solver", "newton", "--tol", "1e-6", *NO_DASK
    )
    last = [line for line in err.splitlines() if re.match(r" +\d+\.00 ", line)][-1]
    assert last.endswith(" 0.0 s")  # of a hundred passes that might have been made


def test_a_dot_is_no_picture(dataset, as_json, fewpass, tmp_path):
    run = tmp_path / "newton"
    as_json("train", dataset, run, "--solver", "newton", "--passes", 1, *NO_DASK)
    assert "objective" in fewpass("report", run, "--html")[1]
    page = (run / "report/report.html").read_text()
    assert "Computed once, at the end." in page
    known = [Point(0.5, 0.25, 0.25)]
    assert "Loss 0.25 over 5 rows." in losses(known, 10)
    assert "svg" in losses([*known, Point(0.9, 0.2, 0.1)], 10)


@pytest.mark.parametrize("columns", ["40", "60", "200"])
def test_no_number_of_a_result_is_cut(dataset, fewpass, tmp_path, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    words = ("--lam", "0.0123456,1/n", "--held-out", dataset, "--tol", "1e-3", "--solver", "sdca")
    _, out, _ = fewpass("train", dataset, tmp_path / "run", *words, *NO_DASK)
    _, report, _ = fewpass("report", tmp_path / "run")
    assert "…" not in out + report
    assert "0.0123456" in out


def test_tables_and_signals_are_objects_too(capfd):
    terminal = Terminal(Output(log_format="json"))
    terminal.show(facts_table("Predictions", {"rows": 3}))
    stopping = Stopping(terminal)
    stopping.training = SimpleNamespace(stop=lambda: None)
    stopping.handle(signal.SIGTERM)
    said = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert said[0]["message"].split() == ["Predictions", "rows", "3"]
    assert said[1]["message"].startswith("Stopping: ")


def test_a_flow_that_is_refused_is_an_object_where_lines_are(monkeypatch, capsys):
    monkeypatch.setenv("FEWPASS_LOG_FORMAT", "json")
    assert run_flow("nosuch", ()) == 2
    assert json.loads(capsys.readouterr().err)["message"].startswith("There is no flow")
