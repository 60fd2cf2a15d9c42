"""`fewpass shapes`."""

# ruff: noqa: PLC0415

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from fewpass.flows.options import OUTPUT, Output, named, whole
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.sizes import counted

if TYPE_CHECKING:
    from fewpass.pipeline.reporting.model_shapes import ClassShapes
    from fewpass.pipeline.runs.model import Model
    from fewpass.pipeline.tables.encoding.additive_shapes import Function


def shapes(
    run: str,
    /,
    *,
    column: str | None = None,
    pair: str | None = None,
    top: Annotated[int, whole(1)] = 20,
    label: Annotated[str | None, named("--class")] = None,
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
        One class of a model of several [default: all, next to each other].
    pictures
        Draw these functions into the run's folder (report/); needs matplotlib.
    """
    from fewpass.flows.commands.shape_tables import function_tables, importance_tables
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.reporting.model_shapes import shapes_by_class
    from fewpass.pipeline.runs.model import load_model

    if column is not None and pair is not None:
        raise UsageError("--column and --pair are both given. Leave one of them out.")
    model = load_model(run_at(run))
    each = shapes_by_class(model, label)
    names = _asked(each, column, pair)
    terminal = Terminal(output)
    facts: dict[str, Any] = {"run": model.run.url, **_facts(each)}
    if pictures:
        facts["pictures"] = drawn(model, each, names or _most_important(each, top))
        terminal.say(
            f"{counted(len(facts['pictures']), 'picture is', 'pictures are')} in "
            f"{model.run.url}/report."
        )
    width = terminal.out.width
    tables = [table for name in names for table in function_tables(each, name, width)]
    tables = tables or importance_tables(each, top, width)
    for table in tables[:-1]:
        if not output.json:
            terminal.result({}, table)
    terminal.result(facts, tables[-1])
    return 0


def _asked(each: Sequence[ClassShapes], column: str | None, pair: str | None) -> list[str]:
    """Return the titles of the functions of a column or a pair; none where none is named."""
    from fewpass.pipeline.reporting.model_shapes import function_of_pair, functions_of_column
    from fewpass.pipeline.tables.encoding.additive_shapes import title_of

    if column is not None:
        return [*map(title_of, functions_of_column(each[0].shapes, column))]
    return [] if pair is None else [title_of(function_of_pair(each[0].shapes, pair))]


def _facts(each: Sequence[ClassShapes]) -> dict[str, Any]:
    """Return all functions as JSON has them: of one score, or of every class."""
    from fewpass.pipeline.explaining.function_figures import as_facts

    parts = [{"class": one.label, "additive": as_facts(one.shapes)} for one in each]
    return parts[0] if len(parts) == 1 else {"classes": parts}


def _most_important(each: Sequence[ClassShapes], top: int) -> list[str]:
    from fewpass.pipeline.explaining.function_figures import importances_of_all

    return [row.name for row in importances_of_all([one.shapes for one in each])[:top]]


def drawn(model: Model, each: Sequence[ClassShapes], names: Sequence[str]) -> list[str]:
    """Draw functions and the importances into a run's folder; return the addresses."""
    from fewpass.pipeline.explaining.function_figures import importances_of_all
    from fewpass.pipeline.reporting.report import can_draw

    if not can_draw():
        raise UsageError("Pictures need matplotlib. Install it: pip install 'fewpass[plots]'.")
    from fewpass.pipeline.reporting import shape_pictures

    folder, rows = model.run.folder, importances_of_all([one.shapes for one in each])
    folder.write("report/importance.png", shape_pictures.importance_bars(rows))
    keys = ["report/importance.png"]
    for k, (name, score, function) in enumerate(_to_draw(each, names)):
        key = f"report/{name}.png"
        key = f"report/{name}_{k}.png" if key in keys else key
        folder.write(key, shape_pictures.shape(function, f"added to {score}"))
        keys.append(key)
    return [folder.address(key) for key in keys]


def _to_draw(
    each: Sequence[ClassShapes], names: Sequence[str]
) -> Iterator[tuple[str, str, Function]]:
    """Yield what functions are called in a file's name, what they are added to, and them."""
    from fewpass.pipeline.tables.encoding.additive_shapes import Surface, title_of

    for one in each:
        by_name = {title_of(function): function for function in one.shapes.functions}
        score = "the score" if one.label is None else f"the score of {one.label}"
        for name in names:
            kind = "pair" if isinstance(by_name[name], Surface) else "shape"
            words = [kind, name] if len(each) == 1 else [kind, name, str(one.label)]
            yield re.sub(r"[^\w.-]+", "_", "_".join(words))[:86], score, by_name[name]
