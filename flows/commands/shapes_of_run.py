"""`fewpass shapes`."""

# ruff: noqa: PLC0415

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.flows.refusals import UsageError

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.pipeline.reporting.model_shapes import ShapeImportance
    from fewpass.pipeline.runs.model import Model
    from fewpass.pipeline.tables.encoding.additive_shapes import Function, Shapes, Surface


def shapes(
    run: str,
    /,
    *,
    column: str | None = None,
    pair: str | None = None,
    top: Annotated[int, whole(1)] = 20,
    label: Annotated[str | None, Parameter(name="--class")] = None,
    pictures: bool = False,
    output: Output = OUTPUT,
) -> int:
    """List what the columns and pairs of an additive model add to its scores.

    A score is a constant, a function of every column and one of every chosen pair; all of them are
    centred, and a pair's function has nothing of its columns alone.  With --json all functions are
    written, point by point.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    column
        A column whose function to print.
    pair
        A pair whose function to print, as A:B.
    top
        How many of the most important ones [default: 20].
    label
        The class whose scores are meant, of a model of several.
    pictures
        Draw these functions into the run's folder (report/); needs matplotlib.
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.models.refresh.publications import run_at
    from fewpass.pipeline.reporting.model_shapes import (
        as_facts,
        function_of_pair,
        functions_of_column,
        importances,
        model_shapes,
    )
    from fewpass.pipeline.runs.model import load_model

    if column is not None and pair is not None:
        raise UsageError("--column and --pair are both given. Leave one of them out.")
    model = load_model(run_at(run))
    own = model_shapes(model, label)
    rows = importances(own)[:top]
    terminal = Terminal(output)
    facts: dict[str, Any] = {"run": model.run.url, "class": label, "additive": as_facts(own)}
    chosen: Sequence[Function]
    if column is not None:
        chosen = functions_of_column(own, column)
    elif pair is not None:
        chosen = [function_of_pair(own, pair)]
    else:
        chosen = _most_important(own, rows)
    if pictures:
        facts["pictures"] = drawn(model, own, chosen)
        terminal.say(f"{len(facts['pictures'])} pictures are in {model.run.url}/report.")
    single = [] if column is None and pair is None else chosen
    tables = [_table_of(function) for function in single] or [importance_table(rows)]
    for table in tables[:-1]:
        if not output.json:
            terminal.result({}, table)
    terminal.result(facts, tables[-1])
    return 0


def _most_important(own: Shapes, rows: Sequence[ShapeImportance]) -> list[Function]:
    from fewpass.pipeline.tables.encoding.additive_shapes import title_of

    by_name = {title_of(function): function for function in own.functions}
    return [by_name[row.name] for row in rows]


def drawn(model: Model, own: Shapes, functions: Sequence[Function]) -> list[str]:
    """Draw functions and their importances into a run's folder; return the addresses."""
    from fewpass.pipeline.reporting.model_shapes import importances
    from fewpass.pipeline.reporting.report import can_draw

    if not can_draw():
        raise UsageError("Pictures need matplotlib. Install it: pip install 'fewpass[plots]'.")
    from fewpass.pipeline.reporting import shape_pictures
    from fewpass.pipeline.tables.encoding.additive_shapes import Surface, title_of

    folder = model.run.folder
    folder.write("report/importance.png", shape_pictures.importance_bars(importances(own)))
    keys = ["report/importance.png"]
    for k, function in enumerate(functions):
        kind = "pair" if isinstance(function, Surface) else "shape"
        name = re.sub(r"[^\w.-]+", "_", title_of(function))[:80]
        key = f"report/{kind}_{name}.png"
        key = f"report/{kind}_{name}_{k}.png" if key in keys else key
        folder.write(key, shape_pictures.shape(function, "added to the score"))
        keys.append(key)
    return [folder.address(key) for key in keys]


def importance_table(rows: Sequence[ShapeImportance]) -> Table:
    """Lay out how much functions move scores."""
    from fewpass.flows.display.console import titled_table

    table = titled_table("Importance")
    table.add_column("", style="cyan", overflow="fold")
    table.add_column("is a")
    for name in ("moves scores by", "share"):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = f"{row.importance:.4g}", f"{100 * row.share:.1f} %"
        table.add_row(printable(row.name), row.kind, *numbers)
    return table


def _table_of(function: Function) -> Table:
    from fewpass.pipeline.tables.encoding.additive_shapes import Surface

    if isinstance(function, Surface):
        return _pair_table(function)
    return _column_table(function)


def _column_table(function: Function) -> Table:
    from fewpass.flows.display.console import titled_table
    from fewpass.pipeline.reporting.model_shapes import points_of
    from fewpass.pipeline.tables.encoding.additive_shapes import title_of

    table = titled_table(printable(title_of(function)))
    table.add_column("at", style="cyan", overflow="fold")
    table.add_column("adds", justify="right")
    table.add_column("rows of the sample", justify="right")
    for at, adds, mass in points_of(function):
        table.add_row(printable(at), f"{adds:+.6g}", f"{mass:,.0f}")
    return table


def _pair_table(function: Surface) -> Table:
    from fewpass.flows.display.console import titled_table

    one, other = function.table.of
    title = f"{one.title} (down) and {other.title} (across), added to what each adds alone"
    table = titled_table(printable(title))
    table.add_column("", style="cyan", overflow="fold")
    for name in function.table.b.names:
        table.add_column(printable(name), justify="right")
    for name, values, masses in zip(
        function.table.a.names, function.values, function.masses, strict=True
    ):
        each = (
            f"{value:+.4g}" if mass > 0.0 else ""
            for value, mass in zip(values, masses, strict=True)
        )
        table.add_row(printable(name), *each)
    return table
