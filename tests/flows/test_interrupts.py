"""Ctrl-C and SIGTERM of real processes: what is kept is said, and goes on to the same bits."""

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from fewpass.flows import cli
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.dataset import Dataset
from testing.datasets import make
from testing.far_away import far_away
from testing.prefect_server import patience

FEWPASS = str(Path(sys.executable).with_name("fewpass"))
NO_DASK = ["--scheduler", "none"]
KEPT, NOTHING = "goes on from its snapshot", "Nothing was kept"
NOT_BEGUN = "Nothing was trained; the same command again goes on"

LITTLE = ["--memory", "97MB"]  # the rows do not fit
METHODS = {
    "walk": ["--solver", "asgd", "--passes", "8", "--certify", *LITTLE],
    "reduce": ["--solver", "gd", "--passes", "8", "--tol", "1e-12", "--lam", "1e-5", *LITTLE],
    "duals": ["--solver", "sdca", "--passes", "8", "--tol", "1e-12", "--lam", "1e-5", *LITTLE],
    "simba": ["--solver", "simba", "--set", "solver.iterations=6000"],
}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A data set that may come slowly."""
    folder = tmp_path_factory.mktemp("interrupts")
    make(folder / "set", n=20000, d=50, chunk_rows=2000, layout="sparse")
    with far_away(folder / "set") as rows:
        yield rows


@pytest.fixture(scope="module")
def quiet(rows, tmp_path_factory):
    """What each method comes to when nothing disturbs it; trained once, when first asked for."""
    found = {}

    def sha256_of(method):
        if method not in found:
            run = str(tmp_path_factory.mktemp("quiet") / method)
            words = [*METHODS[method], *place(method)]
            found[method] = finished(["train", rows.url, run], run, words)
        return found[method]

    return sha256_of


def place(method, where=NO_DASK):
    return [] if method == "simba" else where


def finished(command, run, words):
    """What a command that nothing disturbs comes to; here, where the kernels are."""
    assert cli.main([*command, "-q", *words]) == 0
    return next(e for e in RunFolder(run).events() if e["event"] == "finish")["weights_sha256"]


def begin(words, rows):
    """Start a process in a group of its own, whose rows come slowly: it lasts."""
    rows.wait = 0.05
    return subprocess.Popen(
        [FEWPASS, *words],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip


def wait_for_event(process, run, kinds):
    while not any(event["event"] in kinds for event in RunFolder(str(run)).events()):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)


def end(process, rows):
    """What a process said until its end; from now on rows come at once."""
    said = process.communicate(timeout=patience(120))[1]
    rows.wait = 0.0
    return said


def last_line(said):
    """What was said in the end; Python may tell of what a process left after it."""
    return [line for line in said.splitlines() if line.startswith("fewpass: ")][-1]


@pytest.mark.parametrize(
    ("method", "where", "after", "number", "status"),
    [
        ("walk", NO_DASK, "span", signal.SIGTERM, 143),
        ("walk", ["--workers", "2"], "span", signal.SIGINT, 130),
        ("reduce", ["--scheduler", "local"], "reduce", signal.SIGINT, 130),
        ("reduce", ["--workers", "2"], "reduce", signal.SIGTERM, 143),
        ("duals", [], "span", signal.SIGINT, 130),
        ("simba", [], "span", signal.SIGTERM, 143),
    ],
)
def test_the_first_signal_takes_a_snapshot(
    rows, quiet, tmp_path, method, where, after, number, status
):
    run = tmp_path / "run"
    process = begin(["train", rows.url, str(run), *METHODS[method], *place(method, where)], rows)
    wait_for_event(process, run, [after])
    os.killpg(process.pid, number) if "--workers" in where and number == signal.SIGINT else (
        process.send_signal(number)
    )
    said = end(process, rows)
    assert process.returncode == status, said
    assert "--workers" in where or "Traceback" not in said  # worker processes may tell of theirs
    newest, _ = RunFolder(str(run)).snapshots.latest()
    line = last_line(said)
    assert line.startswith("fewpass: Interrupted. `fewpass resume")
    assert f"`fewpass resume {run}` {KEPT} {newest.name}" in line
    assert not newest.attributes["finished"]
    assert not (run / "lease.json").exists()
    assert finished(["resume", str(run)], str(run), place(method)) == quiet(method)


@pytest.mark.parametrize("where", [NO_DASK, ["--workers", "2"]])
def test_a_second_signal_stops_at_once_and_says_what_there_is(rows, quiet, tmp_path, where):
    run = tmp_path / "run"
    process = begin(["train", rows.url, str(run), *METHODS["walk"], *where], rows)
    wait_for_event(process, run, ["start"])
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    said = end(process, rows)
    assert process.returncode in (130, 143), said
    newest, _ = RunFolder(str(run)).snapshots.latest()
    if NOT_BEGUN in last_line(said):  # both came between the log's first line and the first event
        assert newest is None
    elif NOTHING in said:
        assert newest is None
        assert f"`fewpass resume {run}` begins at the first row." in last_line(said)
    else:
        assert f"{KEPT} {newest.name}" in last_line(said)
    assert finished(["resume", str(run)], str(run), NO_DASK) == quiet("walk")


def test_a_signal_before_anything_was_trained_promises_nothing(rows, tmp_path):
    run = tmp_path / "run"
    program = (
        "import signal, sys\n"
        "from fewpass.flows import cli\n"
        "from fewpass.pipeline.training import training_run as training\n"
        "begin = training.TrainingRun.start\n"
        "def interrupted(*given, **named):\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "    return begin(*given, **named)\n"
        "training.TrainingRun.start = interrupted\n"
        "sys.exit(cli.main(sys.argv[1:]))\n"
    )
    words = ["train", rows.url, str(run), *METHODS["walk"], *NO_DASK]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True)
    assert done.returncode == 143
    assert last_line(done.stderr) == (
        "fewpass: Interrupted. Nothing was trained; the same command again goes on with what is "
        "there."
    )
    assert not run.exists()


UNREAD = "Nothing of {} is kept yet; the same command again begins at the first row."
READ = "The rows of {} are read and lie in files; the same command again goes on with storing them."


@pytest.mark.parametrize(
    ("held", "at", "kept"),
    [(1 << 29, "write", UNREAD), (0, "partition", UNREAD), (0, "write", READ)],
)
def test_a_stopped_ingest_says_what_is_kept(tmp_path, monkeypatch, capsys, held, at, kept):
    @contextmanager
    def display(_terminal):
        yield lambda progress: progress.phase == at and signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Budget, "retained", held)
    monkeypatch.setattr("fewpass.pipeline.tables.ingest.progress.REPORT_EVERY", 0.0)
    (tmp_path / "rows.svm").write_text("1 1:0.5\n-1 2:0.5\n" * 500)
    words = ["ingest", str(tmp_path / "rows.svm"), data := str(tmp_path / "data"), "-q"]
    with monkeypatch.context() as stopped:
        stopped.setattr("fewpass.flows.display.ingest_display.ingest_display", display)
        assert cli.main(words) == 130
    assert last_line(capsys.readouterr().err) == f"fewpass: Interrupted. {kept.format(data)}"
    assert cli.main(words) == 0
    assert Dataset.open(data).n_rows == 1000


@pytest.mark.parametrize("again", [False, True], ids=["once", "twice"])
def test_what_an_interrupt_breaks_is_told_as_the_interrupt(again):
    # A library that is struck in the middle may make another error of it; a second signal comes
    # while that is told.
    code = """
import os, signal, sys
from fewpass.flows import cli
def command(*_, **__):
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt as error:
        raise TypeError("a schema that cannot be built") from error
def told(error):
    if {again}:
        os.kill(os.getpid(), signal.SIGINT)
    return "Interrupted, once."
cli.run, cli.sentence = command, told
sys.exit(cli.main(["train"]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code.format(again=again)],
        capture_output=True,
        text=True,
        timeout=patience(60),
    )
    said = "fewpass: Interrupted.\n" if again else "fewpass: Interrupted, once.\n"
    assert (done.returncode, done.stderr) == (130, said)


AFTER_ITS_END = """
import os, signal
from fewpass.flows.signals import end_at_once, handling
end_at_once()
with handling(print, [signal.SIGINT]):
    pass
os.kill(os.getpid(), signal.SIGINT)
signal.pause()
"""


def test_a_ctrl_c_after_a_command_s_end_leaves_no_traceback():
    done = subprocess.run(
        [sys.executable, "-c", AFTER_ITS_END], capture_output=True, timeout=patience(60)
    )
    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, b"")


STRUCK = """
import signal, sys, time
from fewpass.flows import cli

class Struck:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def struck():
    Struck()
    time.sleep(60)

cli.require_output = struck
sys.exit(cli.main(["methods"]))
"""


def test_a_ctrl_c_in_a_finalizer_is_not_lost():
    done = subprocess.run(
        [sys.executable, "-c", STRUCK], capture_output=True, text=True, timeout=patience(60)
    )
    assert done.returncode == 130
    assert done.stderr == "fewpass: Interrupted.\n"
