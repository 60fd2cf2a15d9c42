"""Results as JSON lines, how a script that measures public sets records them, and tables of them.

A line is a row of one part of the page of evidence (`part`), or what the part was measured with
(`about`) and what came out of it, in sentences (`found`).  benchmarks/evidence.py makes the page.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]

PROJECT = Path(__file__).parents[1]
EVIDENCE = PROJECT / "docs/evidence.jsonl"
FIGURES = PROJECT / "docs/figures"


def study_options(doc: str | None, names: Iterable[str]) -> ArgumentParser:
    """Return the options of every script that measures public sets."""
    names = list(names)
    options = ArgumentParser(description=(doc or "").partition("\n")[0])
    options.add_argument("--sets", nargs="*", default=names, help="some of: " + "; ".join(names))
    options.add_argument("--results", type=Path, default=EVIDENCE, help="file of JSON lines")
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real",
        help="where data sets and optima are kept for the next time",
    )  # fmt: skip
    return options


def recorded(
    results: Path, part: str, rows: Iterable[Row], told: Callable[[Row], str]
) -> list[Row]:
    """Print and append rows as they are measured, and return them all."""
    kept = []
    for row in rows:
        print(told(row), flush=True)
        append(results, {"part": part} | row)
        kept.append(row)
    return kept


def conclude(results: Path, part: str, found: list[str], packages: tuple[str, ...]) -> None:
    """Append what the rows of a part were measured with, and what came out; print the latter.

    With no sets (`--sets`), that is of all sets, measured one by one before.
    """
    options = [] if sys.argv[1:] == ["--sets"] else sys.argv[1:]
    about = {
        "command": shlex.join(["python", "-m", module_of(sys.argv[0]), *options]),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit(),
        "machine": f"{os.cpu_count()} cores",
        "versions": versions(*packages),
    }
    append(results, {"part": part, "about": about, "found": found})
    print("\n".join(found))


def module_of(script: str) -> str:
    """Return the name of the module that is run, by its file."""
    return ".".join(Path(script).resolve().relative_to(PROJECT).with_suffix("").parts)


def commit(checkout: Path = PROJECT) -> str:
    """Return the commit that a work tree is at, short."""
    told = subprocess.run(
        ["git", "-C", str(checkout), "rev-parse", "--short", "HEAD"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return told.stdout.strip()


def append(results: Path, row: Row) -> None:
    """Add a line to a file of results."""
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")


def newest(results: Path, names: tuple[str, ...], order: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The last line of every row; `names` tell rows apart, `order` lists their values."""
    rows = [json.loads(text) for text in results.read_text().splitlines()]
    last = {tuple(row[name] for name in names): row for row in rows}
    return [last[key] for key in order if key in last]


def rows_of_part(results: Path, part: str, key: tuple[str, ...]) -> list[Row]:
    """Return a part's rows; of several lines about one, which `key` tells apart, the last."""
    lines = [json.loads(text) for text in results.read_text(encoding="utf-8").splitlines()]
    mine = [row for row in lines if row["part"] == part and "about" not in row]
    return list({tuple(row[name] for name in key): row for row in mine}.values())


def as_json(value: float) -> float | None:
    """JSON knows no infinity."""
    return float(value) if np.isfinite(value) else None


def table(head: tuple[str, ...], rows: list[list[str]], text: tuple[str, ...]) -> str:
    """A Markdown table; columns are numbers but for those named in `text`."""
    rule = ["---" if name in text else "---:" for name in head]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [list(head), rule, *rows])


def versions(*packages: str) -> str:
    """What the numbers were measured with."""
    named = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"Python {platform.python_version()}, {named}"


def shown(value: float | None, form: str) -> str:
    """A number, short; one too large for the wanted form in powers of ten."""
    if value is None:
        return "not finite"
    return f"{value:.0e}" if abs(value) >= 1000.0 else format(value, form)
