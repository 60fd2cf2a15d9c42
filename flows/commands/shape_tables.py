"""The functions of an additive model as tables of a terminal, those of several classes in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from fewpass.flows.display.console import titled_table
from fewpass.flows.display.printing import printable
from fewpass.pipeline.explaining.plain_shapes import importances
from fewpass.pipeline.reporting.model_shapes import ClassShapes
from fewpass.pipeline.reporting.shown_shapes import cell_words, points_of, shown_map
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    LevelSteps,
    Surface,
    deviation_of,
    title_of,
)

#: Names take this part of a line at most, and go on below where they are longer.
NAMES = 3
GAP = 2  # between columns


class Grid(NamedTuple):
    """Words that are laid out by row and by column."""

    title: str
    corner: str
    down: Sequence[str]
    across: Sequence[str]
    words: Sequence[Sequence[str]]  # (down, across)


def importance_tables(each: Sequence[ClassShapes], top: int, width: int) -> list[Table]:
    """Lay out how much functions move scores: of all classes together, and of each."""
    rows = importances([one.shapes for one in each])[:top]
    classes = [
        {title_of(function): deviation_of(function) for function in one.shapes.functions}
        for one in each
        if one.label is not None
    ]
    title = f"Importance, over all {len(classes)} classes" if len(classes) > 1 else "Importance"
    across = ["is a", "moves scores by", "share"]
    across += [str(one.label) for one in each] if len(classes) > 1 else []
    words = [
        [
            row.kind, f"{row.importance:.4g}", f"{100 * row.share:.1f} %",
            *[f"{spread[row.name]:.4g}" for spread in classes if len(classes) > 1],
        ]
        for row in rows
    ]  # fmt: skip
    return side_by_side(Grid(title, "", [row.name for row in rows], across, words), width)


def function_tables(each: Sequence[ClassShapes], name: str, width: int) -> list[Table]:
    """Lay out a function by its title: a column's for all classes in one, a pair's one by one."""
    own = [
        (one.label, function)
        for one in each
        for function in one.shapes.functions
        if title_of(function) == name
    ]
    single = [(label, function) for label, function in own if not isinstance(function, Surface)]
    if single:
        return _column_tables([label for label, _ in single], [of for _, of in single], width)
    return [
        table
        for label, function in own
        if isinstance(function, Surface)
        for table in _pair_tables(label if len(each) > 1 else None, function, width)
    ]


def _column_tables(
    labels: Sequence[str | None], functions: Sequence[ColumnCurve | LevelSteps], width: int
) -> list[Table]:
    points = [points_of(function) for function in functions]
    adds = [f"adds to {label}" for label in labels] if len(labels) > 1 else ["adds"]
    words = [
        [*(f"{one.adds:+.6g}" for one in each), f"{each[0].rows:,.0f}"]
        for each in zip(*points, strict=True)
    ]
    across = [*adds, "rows of the sample"]
    names = [point.name for point in points[0]]
    return side_by_side(Grid(title_of(functions[0]), "at", names, across, words), width)


def _pair_tables(label: str | None, function: Surface, width: int) -> list[Table]:
    """Lay out a pair's function; cells without rows are empty."""
    shown = shown_map(function, max(function.table.shape))
    one, other = shown.titles
    title = f"{one} (down) and {other} (across), added to what each adds alone"
    title += "" if label is None else f" to the score of {label}"
    words = [
        [word if mass > 0.0 else "" for word, mass in zip(line, masses, strict=True)]
        for line, masses in zip(cell_words(shown.values), shown.masses, strict=True)
    ]
    return side_by_side(Grid(title, "", shown.down, shown.across, words), width)


def side_by_side(grid: Grid, width: int) -> list[Table]:
    """Lay words out in tables, each of as many columns as fit into a line of `width`."""
    first = min(max(map(len, grid.down), default=0), width // NAMES)
    wide = [GAP + max(map(len, column)) for column in zip(grid.across, *grid.words, strict=True)]
    starts, taken = [0], first + GAP
    for k, one in enumerate(wide):
        if k > starts[-1] and taken + one > width:
            starts.append(k)
            taken = first + GAP
        taken += one
    parts = map(slice, starts, [*starts[1:], len(wide)])
    return [_part_of(grid, own, first, None if own.start else grid.title) for own in parts]


def _part_of(grid: Grid, own: slice, first: int, title: str | None) -> Table:
    table = titled_table(title)
    table.add_column(grid.corner, style="cyan", overflow="fold", min_width=first)
    for name in grid.across[own]:
        table.add_column(printable(name), justify="right", no_wrap=True)
    for name, line in zip(grid.down, grid.words, strict=True):
        table.add_row(printable(name), *line[own])
    return table
