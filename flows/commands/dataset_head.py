"""`fewpass inspect --rows`: the first rows of a data set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table

from fewpass.flows.display.console import Terminal, titled_table
from fewpass.flows.display.printing import printable
from fewpass.pipeline.tables.showing.dataset_table import DatasetTable, ShownColumn

#: Letters of a cell that a terminal shows, and blanks behind a column.
WIDEST, _BETWEEN = 40, 2

_Laid = tuple[str, list[str]]  # a column: title and cells


def show_first_rows(terminal: Terminal, dataset: str, rows: int) -> None:
    """Show the first rows of a data set: kept columns, features, label and weight."""
    table = DatasetTable(dataset)
    first = table.head(rows).to_pylist()
    facts = {
        "dataset": table.dataset,
        "rows": table.shape[0],
        "generation": table.generation,
        "columns": [column._asdict() for column in table.columns],
        "head": [{name: _plain(cell) for name, cell in row.items()} for row in first],
    }
    terminal.result(facts, _rows_shown(table.columns, first, terminal.out.width))


def _rows_shown(columns: tuple[ShownColumn, ...], rows: list[dict[str, Any]], width: int) -> Group:
    """Lay rows out; features that one column became are together in one, those that are not 0.

    Columns that do not fit next to each other are shown below, the rows by their number.
    """
    shown = []
    for name, members in _groups(columns):
        origin = members[0].origin
        said = f"\n({origin})" if origin in ("feature", "kept") else ""
        own = ([(one.name, row[one.name]) for one in members] for row in rows)
        cells = [_cell(one[0][1]) if len(one) == 1 else _features(name, one) for one in own]
        shown.append((f"{printable(name)}{said}", cells))
    parts = _in_parts(shown, width)
    numbers = ("row", [f"{k}" for k in range(1, len(rows) + 1)])
    return Group(*(_side_by_side([numbers, *p] if len(parts) > 1 else p) for p in parts))


def _in_parts(columns: list[_Laid], width: int) -> list[list[_Laid]]:
    """Return columns in parts that are at most so wide, and have one at least."""
    parts: list[list[_Laid]] = [[]]
    left = width
    for title, cells in columns:
        lines = "\n".join((title, *cells)).split("\n")
        needs = min(WIDEST, max(map(cell_len, lines))) + _BETWEEN
        if needs > left and parts[-1]:
            parts.append([])
            left = width - len("row") - _BETWEEN
        parts[-1].append((title, cells))
        left -= needs
    return parts


def _side_by_side(columns: list[_Laid]) -> Table:

    table = titled_table()
    for title, _ in columns:
        table.add_column(title, overflow="fold", max_width=WIDEST)
    for cells in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*cells)
    return table


def _groups(columns: tuple[ShownColumn, ...]) -> list[tuple[str, list[ShownColumn]]]:
    """Return columns with a title: each of its own, but features of one column together."""
    groups: list[tuple[str, list[ShownColumn]]] = []
    for column in columns:
        last = groups[-1][1] if groups else []
        if column.origin == "feature" and last and last[-1][1:] == column[1:]:
            last.append(column)
        else:
            groups.append((column.of, [column]))
    return groups


def _features(of: str, named: list[tuple[str, Any]]) -> str:
    """List the features of a column that are not 0, without its name before each."""
    shown = ((name.removeprefix(of).lstrip() or name, value) for name, value in named if value)
    return _listed(shown)


def _cell(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.7g}"
    if isinstance(cell, list):
        return _listed((entry["feature"], entry["value"]) for entry in cell)
    return printable(str(cell))


def _listed(entries: Iterable[tuple[str, float]]) -> str:
    said = " ".join(f"{name}:{value:.4g}" for name, value in entries)
    return printable(said if len(said) <= 3 * WIDEST else f"{said[: 3 * WIDEST]}...")


def _plain(cell: Any) -> Any:
    """Return a cell as JSON has it: a number that is none is null."""
    return None if isinstance(cell, float) and cell != cell else cell  # noqa: PLR0124 - NaN
