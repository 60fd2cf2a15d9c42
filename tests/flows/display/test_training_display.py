"""Displays of work under way: sound at every width, nothing where no terminal is, and time left."""

import io
import re
import time

import pytest

import fewpass
from fewpass.flows.display import training_display as display
from fewpass.flows.display.bars import work_display
from fewpass.flows.display.console import Screen, Terminal
from fewpass.flows.display.ingest_display import ingest_display
from fewpass.flows.display.seldom_sentences import seldom_sentences
from fewpass.flows.display.training_display import live_timeline, training_display
from fewpass.flows.options import Output
from fewpass.pipeline.runs.events import Start
from fewpass.pipeline.runs.saved import Cursor
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.progress import IngestProgress
from testing.datasets import make
from testing.happened import happened

COLOURS, MOVES = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
STARTED = {
    "finished": False, "engine": "threads", "why": "foreseen to take 3.2 s", "dashboard": None,
    "n_rows": 1_000_000, "method": "psdca", "memory": 1 << 30, "chosen": None, "damaged": [],
}  # fmt: skip
WORK = {"bytes_read": 0, "seconds": 1.0, "wait_s": 0.0, "peak_memory": 0}
LEARNT = WORK | {
    "rows": 500_000,
    "windows": 1,
    "metrics": {"loss": 0.5, "loss_sum": 1e6, "n_monitored": 2_000_000},
}
SUMMED = WORK | {"rows": 250_000, "counts": False}
EVENTS = [
    happened("start", Cursor(), **STARTED),
    happened("span", Cursor(rows_seen=10**9, rows_in_sweep=500_000, bytes_read=10**12), **LEARNT),
    happened(
        "certificate",
        Cursor(passes=1.0),
        objective=0.31415926,
        gap=1e-3,
        relative_gap=1e-3,
        left_passes=3.0,
    ),
    happened("reduce", Cursor(passes=1.0), **SUMMED),
]
INGESTED = [
    IngestProgress("partition", 0.5, 10**9, None, 10**12, None, 0, 100.0, 1234.0),
    IngestProgress("write", 0.25, 10**9, 10**10, 10**12, None, 10**12, 200.0, 1234.0),
]


def terminal_of(width, *, is_terminal=True, output=None):
    terminal = Terminal(output or Output())
    terminal.err = Screen(
        file=io.StringIO(), force_terminal=is_terminal, width=width, highlight=False
    )
    return terminal


def lines_of(terminal):
    """All lines that were ever drawn."""
    written = COLOURS.sub("", terminal.err.file.getvalue())
    return MOVES.sub("\n", written).replace("\r", "\n").splitlines()


@pytest.fixture(autouse=True)
def every_event_is_drawn(monkeypatch):
    monkeypatch.setattr(display, "REDRAW_S", 0.0)


def train(terminal, **plan):
    with training_display(terminal, TrainingPlan(dataset="d", **plan)) as show:
        for event in EVENTS:
            show(event)


def ingest(terminal):
    with ingest_display(terminal) as show:
        for now in INGESTED:
            show(now)


def predict(terminal):
    with work_display(terminal, "Evaluating on held-out rows") as show:
        show(0.5, "123,456,789,012 of 246,913,578,024 rows")


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize(
    ("work", "told"),
    [
        (lambda terminal: train(terminal, tol=1e-6), ["above optimum", "50%"]),
        (lambda terminal: train(terminal, passes=2), ["average", "50%"]),
        (ingest, ["2 of 2, writing chunks", "25%"]),
        (predict, ["Evaluating on held-out rows", "50%"]),
    ],
)
def test_displays_fit_the_terminal(width, work, told):
    terminal = terminal_of(width)
    work(terminal)
    lines = lines_of(terminal)
    assert max(map(len, lines)) <= width
    assert all(any(word in line for line in lines) for word in told), lines


def test_the_certificate_is_told_on_its_way_to_the_tolerance():
    terminal = terminal_of(80)
    train(terminal, tol=1e-6)
    assert "certified: 1.0e-03, wanted: 1.0e-06; certifying, 25% of the rows read" in lines_of(
        terminal
    )


def test_a_finished_training_draws_no_table():
    terminal = terminal_of(80)
    done = STARTED | {"finished": True, "snapshot": "000001"}
    with training_display(terminal, TrainingPlan(dataset="d", tol=1e-6)) as show:
        show(happened("resume", Cursor(passes=3.0), **done))
        show(happened("finish", Cursor(passes=3.0)))
    assert lines_of(terminal) == [
        "The training is finished (snapshot 000001): nothing is left to do.",
    ]


@pytest.mark.parametrize(("page", "advice"), [("/fewpass", 0), ("/status", 1)])
def test_a_scheduler_without_the_page_is_told_how_to_have_it(page, advice):
    facts = Start(n_rows=9, method="asgd", engine="dask", dashboard=f"http://127.0.0.1:8787{page}")
    assert display.engine_line(facts).count("--preload fewpass.pipeline.dashboard.routes") == advice


def test_a_terminal_breaks_sentences_between_words_and_commands_nowhere():
    terminal = terminal_of(20)
    terminal.say("at most 5.21e-05 above the optimum")
    terminal.command("fewpass report run --html")
    assert [line.rstrip() for line in lines_of(terminal)] == [
        "at most 5.21e-05", "above the optimum", "  $ fewpass report run --html",
    ]  # fmt: skip
    piped = terminal_of(20, is_terminal=False)
    piped.say("at most 5.21e-05 above the optimum")
    assert lines_of(piped) == ["at most 5.21e-05 above the optimum"]


@pytest.mark.parametrize("work", [ingest, predict, lambda terminal: train(terminal, tol=1e-6)])
@pytest.mark.parametrize("output", [Output(), Output(log_format="json")])
def test_nothing_is_redrawn_where_no_terminal_is(work, output):
    terminal = terminal_of(80, is_terminal=output.log_format == "json", output=output)
    work(terminal)
    written = terminal.err.file.getvalue()
    assert "\x1b" not in written
    assert "━" not in written


def test_rows_that_are_added_up_count_where_they_are_a_pass():
    timeline = live_timeline(passes=4, tol=1e-3)
    timeline.hear(happened("start", Cursor(), **STARTED))
    for counts in (True, False):
        timeline.hear(happened("reduce", Cursor(), **SUMMED | {"counts": counts}))
        assert timeline.passes == 0.25
        assert timeline.certifying == (0.0 if counts else 0.25)
    told = {"objective": 1.0, "gap": 0.1, "relative_gap": 0.1, "left_passes": None}
    timeline.hear(happened("certificate", Cursor(passes=1.0), **told))
    assert (timeline.passes, timeline.certifying) == (1.0, 0.0)
    assert timeline.fraction == pytest.approx(1 / 3)  # of three digits one is there
    time.sleep(0.01)
    timeline.hear(happened("certificate", Cursor(passes=1.5), **told))
    assert timeline.lately.per_second(timeline.lately.rows) > 0.0
    assert timeline.left_s is None  # nobody knows how fast the certificate falls
    nearer = told | {"gap": 0.01, "relative_gap": 0.01, "left_passes": 1.0}
    timeline.hear(happened("certificate", Cursor(passes=2.0), **nearer))
    passes_per_s = timeline.lately.per_second(timeline.lately.passes)
    assert timeline.left_s == pytest.approx(1.0 / passes_per_s)  # sooner than the two passes left
    timeline.hear(happened("finish", Cursor(passes=2.0)))
    assert timeline.left_s == 0.0


def test_passes_of_groups_of_classes_are_counted_together():
    timeline = live_timeline(passes=10, tol=1e-2)
    told = {"objective": 1.0, "gap": 0.1, "relative_gap": 0.1, "left_passes": 3.0}
    timeline.hear(happened("start", Cursor(), **STARTED | {"groups": 2}))
    assert (timeline.fraction, timeline.most_passes) == (0.0, 20)
    timeline.hear(happened("certificate", Cursor(passes=2.0), **told))
    assert timeline.fraction == pytest.approx(1 / 4)  # one digit of two, of one group of two
    timeline.hear(happened("group", Cursor(passes=6.0)))
    assert (timeline.fraction, timeline.proven) == (0.5, None)
    assert timeline.most_passes == 16  # the second group may take ten as well
    resumed = STARTED | {"groups": 2, "groups_trained": 1, "passes_before": 6.0}
    again = live_timeline(passes=10, tol=1e-2)
    again.hear(happened("resume", Cursor(passes=8.0), **resumed))
    assert (again.most_passes, again.fraction) == (16, pytest.approx(0.6))


@pytest.mark.parametrize("tol", [1.0, 5.0])
def test_a_tolerance_that_asks_for_no_digit_can_be_shown_and_reached(tol, tmp_path):
    timeline = live_timeline(passes=4, tol=tol)
    told = {"objective": 1.0, "gap": 0.1, "relative_gap": 0.1, "left_passes": None}
    timeline.hear(happened("start", Cursor(), **STARTED))
    timeline.hear(happened("certificate", Cursor(passes=1.0), **told))
    assert timeline.fraction == 1.0
    rows = make(tmp_path / "set", 300, 5, 100).folder.url
    assert fewpass.train(rows, tmp_path / "run", tol=tol, lam=0.1, verbose=0).converged


@pytest.mark.parametrize("name", ["gamma0", "step"])
def test_the_step_that_a_method_begins_again_with_is_told_whatever_it_calls_it(name):
    """That of SAG was 0."""
    event = happened("restart", Cursor(), metrics={"loss": 1.0, name: 0.25})
    ((text, is_warning),) = seldom_sentences(event)
    assert text.endswith("with the step 0.25.") and is_warning
