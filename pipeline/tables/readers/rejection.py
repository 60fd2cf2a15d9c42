"""Bad rows: refused with an error, or skipped with a record."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.label_texts import LabelTexts
from fewpass.pipeline.tables.readers.source import LISTED, BadRow
from fewpass.storage.table import Table, take

#: Characters of an offending value that a message shows.
_SHOWN = 40

#: Stands in a fact for what a row holds; no name of a column, as messages have it, has it.
FOUND = "\0"
SKIP_ADVICE = "or drop such rows (`on_bad_row=skip`)."


class Fault(NamedTuple):
    """Rows with one kind of fault."""

    rows: NDArray[np.bool_]  # (n,)
    fact: str
    advice: str
    cells: Any = None  # (n,) what the rows hold there, for which FOUND stands in the fact


class GoodRows(NamedTuple):
    """The good rows of a table, with a list and the number of the bad ones."""

    table: Table
    skipped: tuple[BadRow, ...]  # the first of them
    n_skipped: int
    texts: LabelTexts | None = None  # see `ParsedRows`
    rows: NDArray[np.int64] | None = None  # which of the table they are; None: all


def shown(value: str | bytes) -> str:
    """Value as a message quotes it: on one line, printable, not too long."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    quoted = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"'{quoted[:_SHOWN]}...'" if len(quoted) > _SHOWN else f"'{quoted}'"


def _quoted(cell: Any) -> str:
    """Return a cell, an Arrow scalar, as a message quotes it."""
    return shown(str(cell)) if cell.is_valid else "missing"


def refuse_or_list(
    faults: Iterable[tuple[int, str, str]],
    file: str,
    mode: Literal["refuse", "skip"],
    unit: Literal["line", "row"] = "line",
) -> tuple[BadRow, ...]:
    """Refuse the first of the faults (line, fact, advice), or list them.

    Raises
    ------
    BadInput
        When there is one, and `mode` is refuse.
    """
    listed: list[BadRow] = []
    for line, fact, advice in faults:
        if mode == "refuse":
            raise BadInput(f"{file}, {unit} {line}: {fact}. {advice}")
        if len(listed) == LISTED:
            break
        listed.append(BadRow(file, line, fact))
    return tuple(listed)


def without_bad_rows(
    table: Table,
    faults: Sequence[Fault],
    file: str,
    mode: Literal["refuse", "skip"],
    unit: Literal["line", "row"],
    lines: Callable[[], NDArray[np.int64]],
    others: Sequence[tuple[int, str, str]] = (),
    texts: LabelTexts | None = None,
) -> GoodRows:
    """Refuse the first bad row of a table, or leave all of them out, with a list and their number.

    Parameters
    ----------
    table, faults
        Rows (n,), and what is wrong with some; of several faults of a row the first is reported.
    file, mode, unit
        See `refuse_or_list`.
    lines
        Returns where each row is, (n,).
    others
        Rows that are not in the table: line, fact, advice.
    texts
        Of targets that may be no floats.
    """
    bad = np.zeros(table.n_rows, np.bool_)
    for fault in faults:
        bad |= fault.rows
    rows = np.flatnonzero(bad)
    if not rows.size and not others:
        return GoodRows(table, (), 0, texts)
    reports = [(line, fact, f"{advice} {SKIP_ADVICE}") for line, fact, advice in others]
    where = lines() if rows.size else np.zeros(0, np.int64)
    for row in rows[: 1 if mode == "refuse" else LISTED].tolist():
        first = next(fault for fault in faults if fault.rows[row])
        fact = first.fact
        if first.cells is not None:
            fact = fact.replace(FOUND, f"{_quoted(first.cells[row])},")
        reports.append((int(where[row]), fact, f"{first.advice} {SKIP_ADVICE}"))
    skipped = refuse_or_list(sorted(reports), file, mode, unit)
    n_skipped = rows.size + len(others)
    if not rows.size:
        return GoodRows(table, skipped, n_skipped, texts)
    good = np.flatnonzero(~bad)
    left = None if texts is None else texts.subset(good)
    return GoodRows(take(table, good), skipped, n_skipped, left, good)
