"""Results as JSON lines, and what a page makes of them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

Row = dict[str, Any]


def append(results: Path, row: Row) -> None:
    """Add a line to a file of results."""
    with results.open("a") as file:
        file.write(json.dumps(row) + "\n")


def newest(results: Path, names: tuple[str, ...], order: Iterable[tuple[Any, ...]]) -> list[Row]:
    """The last line of every row; `names` tell rows apart, `order` lists their values."""
    rows = [json.loads(text) for text in results.read_text().splitlines()]
    last = {tuple(row[name] for name in names): row for row in rows}
    return [last[key] for key in order if key in last]


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
    return f"Python {platform.python_version()}, {named}, {os.cpu_count()} cores"


def shown(value: float | None, form: str) -> str:
    """A number, short; one too large for the wanted form in powers of ten."""
    if value is None:
        return "not finite"
    return f"{value:.0e}" if abs(value) >= 1000.0 else format(value, form)
