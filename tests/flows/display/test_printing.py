"""Labels, names and errors are other people's words: a terminal is given none that it obeys."""

import io
import json
import logging
import re

import pytest
from rich.console import Group
from rich.live import Live
from rich.table import Table

from fewpass.flows.cli import main
from fewpass.flows.display.console import (
    MOST_COLUMNS,
    Screen,
    Terminal,
    columns_table,
    facts_table,
    rows_table,
    titled_table,
)
from fewpass.flows.display.printing import log_printable, printable, printable_errors
from fewpass.flows.options import Output
from fewpass.flows.refusals import sentence
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import as_fixed, decimals_of, passes_of

RED, TITLE = "\x1b[31m", "\x1b]0;gone\x07"
OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"a{RED}b", r"a\x1b[31mb"),
        ("\x9b31m", r"\x9b31m"),
        ("over\rwritten\b", r"over\rwritten\x08"),
        ("txt.\u202exe", r"txt.\u202exe"),
        ("half \udc80", r"half \udc80"),
        ("kept\tas\nit is: ü 漢 🙂", "kept\tas\nit is: ü 漢 🙂"),
    ],
)
def test_what_a_terminal_obeys_is_written_out(text, shown):
    assert printable(text) == shown
    assert sentence(BadInput(text)) == shown
    out = io.StringIO()
    table = Table(title=text.replace("\n", " "))
    table.add_column(text.replace("\n", " "))
    table.add_row(text.replace("\n", " "))
    screen = Screen(file=out, width=200)
    screen.print(table)
    screen.print(text, markup=False)
    assert not OBEYED.search(out.getvalue())


def test_rich_itself_may_still_move_the_cursor():
    out = io.StringIO()
    with Live(
        "one", console=Screen(file=out, force_terminal=True, width=80, highlight=False)
    ) as live:
        live.update(f"two{RED}")
    assert r"two\x1b[31m" in out.getvalue()
    assert "\x1b[?25l" in out.getvalue()


def test_a_stranger_s_file_makes_a_terminal_obey_nothing(tmp_path, capfd):
    source = tmp_path / f"rows{TITLE}{RED}.csv"
    labels = [f"yes{RED}", f"no{TITLE}", "may\rbe"]
    rows = "\n".join(f'{k},{k % 7},"{labels[k % 3]}"' for k in range(300))
    source.write_text(f"a,b,label\n{rows}\n", newline="")
    bad = tmp_path / f"bad{RED}.csv"
    bad.write_text(f"a,b,label\n1,{RED}x,yes\n")
    data, run = str(tmp_path / "data"), str(tmp_path / "run")
    for words, status in (
        (["ingest", str(source), data, "--verbose"], 0),
        (["ingest", str(bad), str(tmp_path / "other"), "--debug"], 2),
        (["ingest", str(tmp_path / RED), str(tmp_path / "other")], 2),
        (["inspect", data], 0),
        (["train", data, run, "--scheduler", "none", "--memory", "97MB", "--verbose"], 0),
        (["evaluate", run, data, "--scheduler", "none"], 0),
        (["evaluate", run, data, "--scheduler", "none", "--json"], 0),
        (["inspect", run], 0),
        (["predict", run, str(source), str(tmp_path / "p.csv")], 0),
        (["predict", run, str(source), str(tmp_path / RED)], 2),
        (["train", data, run, "--positive", RED], 2),
        (["train", data, run, "--solver", RED], 2),
    ):
        found = main(words)
        said = capfd.readouterr()
        assert found == status, said.err
        assert not OBEYED.search(said.out), words
        assert not OBEYED.search(said.err), words


def test_errors_of_tasks_are_printable():
    @printable_errors
    def fail(error):
        raise error

    for error, shown in (
        (BadInput(f"no {RED} at http://host/x?token=canary"), r"no \x1b[31m at http://host/x"),
        (FileNotFoundError(2, "absent", f"a{RED}"), r"[Errno 2] absent: 'a\x1b[31m'"),
    ):
        with pytest.raises(type(error)) as caught:
            fail(error)
        assert str(caught.value).replace("\\\\", "\\") == shown


def test_log_lines_are_printable():
    before = logging.getLogRecordFactory()
    try:
        log_printable()
        log_printable()
        out = io.StringIO()
        handler = logging.StreamHandler(out)
        logger = logging.getLogger("prefect.canary")
        logger.addHandler(handler)
        try:
            raise BadInput(f"label {RED} at http://user:canary@host/x")
        except BadInput:
            logger.exception("of %s", f"http://host/x?token=canary {TITLE}")
        logger.removeHandler(handler)
    finally:
        logging.setLogRecordFactory(before)
    assert not OBEYED.search(out.getvalue())
    assert "canary@" not in out.getvalue()
    assert "token" not in out.getvalue()
    assert r"label \x1b[31m at http://host/x" in out.getvalue()


def test_of_many_columns_the_first_are_shown_and_what_has_the_others():
    out = io.StringIO()
    columns = {f"c{k}": "number" for k in range(MOST_COLUMNS + 2)}
    Screen(file=out).print(columns_table(columns, rest="; fewpass inspect data shows them"))
    *_, before, last = out.getvalue().split("\n")[:-1]
    assert before.split() == [f"c{MOST_COLUMNS - 1}", "number"]
    assert last.strip() == "...  2 more; fewpass inspect data shows them"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_very_long_name_leaves_room_for_what_is_said_of_the_column(width):
    """Both are whole, in as many lines as they take, and short names stay on one."""
    name, told = "averylongname" * 30, "number, clipped to -2.2211 ... 2.67823, standardised"
    out = io.StringIO()
    Screen(file=out, width=width).print(columns_table({name: told, "b": "date"}))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    start = lines[-1].index("date")
    assert start <= 0.6 * width
    names, texts = zip(*((line[:start], line[start:]) for line in lines[1:-1]), strict=True)
    assert "".join(names).replace(" ", "") == name
    assert " ".join("".join(texts).split()) == told


@pytest.mark.parametrize(
    ("number", "told"),
    [(0.693147181, "0.69314718"), (1234.5, "1234.50000000"), (1.2345678912e14, "1.2345679e+14"),
     (-98765.4321, "-98765.432"), (None, "-")],
)  # fmt: skip
def test_large_objectives_have_eight_digits(number, told):
    assert as_fixed(number, 8) == told


def test_small_losses_have_six_digits():
    """Of counts for a unit of exposure."""
    assert decimals_of([0.5, 2.0]) == decimals_of([0.0, 0.1]) == decimals_of([]) == 6
    losses = [0.000204482, 0.000204173]
    assert [as_fixed(one, decimals_of(losses)) for one in losses] == ["0.000204482", "0.000204173"]


def test_names_in_tables_and_their_titles_are_no_markup(capsys):
    terminal = Terminal(Output())
    terminal.result({}, facts_table("run[/b] on [red]rows", {"[red]a": "[/b]"}))
    terminal.show(facts_table(f"run[/b]{RED}", {"a": "[red]b"}))
    shown = capsys.readouterr()
    assert re.search(r"run\[/b\] on \[red\]rows\s+\[red\]a  \[/b\]", shown.out)
    assert re.search(r"run\[/b\]\\x1b\[31m\s+a  \[red\]b", shown.err)


def test_a_number_that_json_has_no_word_for_is_null(capsys):
    Terminal(Output(json=True)).result({"loss": float("inf"), "r2": [-0.5, float("nan")]}, "")
    assert json.loads(capsys.readouterr().out) == {"loss": None, "r2": [-0.5, None]}


def test_passes_beyond_those_allowed_are_not_said_to_be_of_them():
    assert passes_of(3.0, 10, "g") == "3 of 10 passes"
    assert passes_of(1.0, 1, ".1f", "of at most") == "1.0 of at most 1 pass"
    assert passes_of(11.4, 10, ".4g") == "11.4 passes"


@pytest.mark.parametrize("width", [20, 40, 60])
def test_a_narrow_terminal_cuts_no_number_and_loses_no_name(width, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", str(width))
    row = {"slice": "north", "loss": "0.17461 +- 0.074", "error": "9.57% (5.43% to 16.32%)"}
    table = titled_table("Weights")
    for name in ("feature", "weight"):
        table.add_column(name)
    table.add_row("a", "+4.1448812345")
    Terminal(Output()).result({}, Group(rows_table("By region", [row]), table))
    shown = capsys.readouterr().out
    assert all(word in shown for word in ("slice", *row.values(), "+4.1448812345"))
