"""The words of `fewpass` alone: the whole way, and the next steps for what is in this folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import NamedTuple

START = """\
fewpass: linear and additive models on data larger than memory

  fewpass ingest FILE DATA --label NAME --test-fraction 0.2
      read a table once; hold out a fifth of its rows
  fewpass train DATA RUN
      train until a tolerance is proven
  fewpass evaluate RUN DATA-test
      test on the rows held out
  fewpass predict RUN FILE OUT.csv
      predict raw rows
  fewpass report RUN --html
      make a page to look at

  fewpass demo      all this on generated data
  fewpass --help    all commands
"""
MOST_LOOKED_AT = 1000  # names in the folder
MOST_TOLD = 6
LAST_BYTES = 1 << 16  # of a log, which hold its last line
FIRST_BYTES = b'{"format":"fewpass-dataset"'  # of a manifest: one of that name may be anybody's
HELD_OUT = "-test"  # what ingest puts behind a data set's name


class Step(NamedTuple):
    """A command that could come next, and why."""

    command: str
    why: str


def beginning(folder: Path) -> str:
    """Return the text."""
    steps = list(islice(next_steps(folder), MOST_TOLD))
    next_steps_text = "".join(f"  {step.command}\n      {step.why}\n" for step in steps)
    return f"{START}\nNext, in this folder:\n\n{next_steps_text}" if next_steps_text else START


def next_steps(folder: Path) -> Iterator[Step]:
    """Yield what could come next of the runs and data sets in a folder, newest first.

    Only names, the plans of runs and the ends of their logs are read.
    """
    folders = sorted(_folders(folder), key=lambda path: path.stat().st_mtime, reverse=True)
    runs = [path for path in folders if (path / "run.json").is_file()]
    trained = {name for run in runs if (name := _trained_on(run)) is not None}
    for run in runs:
        yield _after_training(run)
    for path in folders:
        if (
            _is_data_set(path)
            and not path.name.endswith(HELD_OUT)
            and str(path.resolve()) not in trained
        ):
            command = f"fewpass train {quote(path.name)} {quote(path.name)}-model"
            yield Step(command, "a data set that no run in this folder was trained on")


def _folders(folder: Path) -> list[Path]:
    try:
        return [path for path in islice(folder.iterdir(), MOST_LOOKED_AT) if path.is_dir()]
    except OSError:
        return []


def _is_data_set(folder: Path) -> bool:
    try:
        with (folder / "manifest.json").open("rb") as manifest:
            return manifest.read(len(FIRST_BYTES)) == FIRST_BYTES
    except OSError:
        return False


def _trained_on(run: Path) -> str | None:
    """Return where the data set of a run lies, if its plan can be read."""
    try:
        return str(Path(json.loads((run / "run.json").read_bytes())["plan"]["dataset"]).resolve())
    except (OSError, ValueError, KeyError, TypeError):
        return None  # fewpass check says what is wrong; here it is left out


def _after_training(run: Path) -> Step:
    """Say what comes after a run: its end, a look at it where rows were held out, its use."""
    name = quote(run.name)
    if not _is_finished(run):
        return Step(f"fewpass resume {name}", "a training that was interrupted")
    data = _trained_on(run)
    held_out = None if data is None else Path(f"{data}{HELD_OUT}")
    if (run / "report" / "report.html").is_file():
        return Step(f"fewpass predict {name} FILE OUT.csv", "predict new rows with a model")
    if held_out is not None and held_out.parent == run.resolve().parent and held_out.is_dir():
        command = f"fewpass evaluate {name} {quote(held_out.name)}"
        return Step(command, "a model; fewpass report --html makes a page of it")
    return Step(f"fewpass report {name} --html", "a model; this makes a page of it")


def _is_finished(run: Path) -> bool:
    """Return whether a run's log ends with its end."""
    try:
        with (run / "log.jsonl").open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - LAST_BYTES))
            lines = log.read().splitlines()
        return bool(lines) and json.loads(lines[-1])["event"] == "finish"
    except (OSError, ValueError, KeyError, TypeError):
        return False
