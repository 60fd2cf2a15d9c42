"""A model as a whole: its functions or weights, and how important its columns are."""

# ruff: noqa: PLC0415

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from csv import writer as csv_writer
from typing import TYPE_CHECKING, Any

from fewpass.flows.display.console import Terminal, titled_table
from fewpass.flows.display.printing import printable
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.reporting.largest_weights import (
    MOST_LISTED,
    NO_NAMES,
    NamedWeight,
    largest_weights,
)
from fewpass.pipeline.reporting.model_shapes import (
    ClassShapes,
    function_of_pair,
    functions_of_column,
    shapes_by_class,
)
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import classes_of
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.additive_shapes import Shapes, title_of

if TYPE_CHECKING:
    from rich.table import Table


def show_weights(
    terminal: Terminal,
    model: Model,
    label: str | None,
    top: int | None,
    names: str | None,
    *,
    csv: bool,
) -> None:
    """Show the largest weights of a model, of each class where it has several."""
    labels = (label,) if label is not None else classes_of(model) or (None,)
    given_names = _names(model, names)
    rows = [
        (of, weight)
        for of in labels
        for weight in largest_weights(model, top or MOST_LISTED, of, given_names)
    ]
    intercept = model.weights.intercept
    facts = {
        "run": model.run.url,
        "intercept": getattr(intercept, "tolist", lambda: intercept)(),
        "weights": [{"label": of} | weight._asdict() for of, weight in rows],
    }
    terminal.result(facts, _as_csv(rows) if csv else weights_table(rows))


def show_columns(terminal: Terminal, model: Model, held_out: str | None, top: int | None) -> None:
    """Show the columns by their importance on held-out rows, or on those of the training."""
    from fewpass.flows.commands.evaluation_tables import importance_facts, importance_table
    from fewpass.flows.commands.report_tables import held_out_rows
    from fewpass.flows.display.bars import rows_display
    from fewpass.pipeline.explaining.importance import importance
    from fewpass.pipeline.planning.engines import engine_for_pass
    from fewpass.pipeline.settings.execution import Execution
    from fewpass.storage.dataset import Dataset

    plan = model.record.plan
    data = held_out_rows(model.record, held_out)
    if data is None:
        if plan.source is not None:
            raise UsageError("No rows were stored: --held-out DATASET names some.")
        terminal.say("There are no held-out rows: those that were learnt from.", style="yellow")
        data = Dataset.open(plan.dataset)
    with (
        engine_for_pass(Execution(), data) as executor,
        rows_display(terminal, "Columns", data.n_rows) as count,
    ):
        figures = importance(model, data, executor, count)
    facts = {"run": model.run.url, "dataset": data.folder.url} | importance_facts(figures)
    terminal.result(facts, importance_table(figures, top or MOST_LISTED))


def _names(model: Model, source: str | None) -> Mapping[int, str]:
    """Return names of hashed columns by more of the text than the model remembers."""
    if source is None:
        return NO_NAMES
    if model.record.columns is not None:
        raise UsageError("--names is for Vowpal Wabbit text, but this model knows its columns.")
    from fewpass.pipeline.tables.readers.vw import names_in  # Arrow, for this alone

    return names_in(source, model.record.n_features)


def weights_table(rows: Sequence[tuple[str | None, NamedWeight]]) -> Table:
    """Lay weights out, one below the other, each with its class where there are several."""
    table = titled_table("Largest weights")
    several = any(of is not None for of, _ in rows)
    for name in ["class"] * several + ["feature"]:
        table.add_column(name, style="cyan", overflow="fold")
    table.add_column("weight", justify="right")
    units = any(weight.per_unit not in (None, weight.weight) for _, weight in rows)
    if units:
        table.add_column("per unit of the source", justify="right")
    for of, weight in rows:
        per_unit = "" if weight.per_unit is None else f"{weight.per_unit:.6g}"
        cells = [printable(weight.feature), f"{weight.weight:+.6g}", *([per_unit] * units)]
        table.add_row(*([printable(of or "")] * several), *cells)
    return table


def _as_csv(rows: Sequence[tuple[str | None, NamedWeight]]) -> str:
    text = io.StringIO()
    writer = csv_writer(text, lineterminator="\n")
    writer.writerow(("class", "feature", "weight", "per_unit"))
    for of, weight in rows:
        writer.writerow((of or "", *weight))
    return text.getvalue().rstrip("\n")


def show_shapes(
    terminal: Terminal,
    model: Model,
    label: str | None,
    top: int | None,
    function: str | None,
    *,
    html: bool,
) -> None:
    """Show the functions of an additive model: by importance, or those of a column or a pair."""
    from fewpass.flows.commands.shape_tables import function_tables, importance_tables

    each = shapes_by_class(model, label)
    names = _asked(each[0].shapes, function)
    facts: dict[str, Any] = {"run": model.run.url, **_facts(each)}
    if html:
        from fewpass.pipeline.reporting.shape_cards import write_functions

        shown = names or _most_important(each, top or MOST_LISTED)
        facts["page"] = write_functions(model, each, shown)
        terminal.say(f"{counted(len(shown), 'function is', 'functions are')} in {facts['page']}.")
    width = terminal.out.width
    tables = [table for name in names for table in function_tables(each, name, width)]
    tables = tables or importance_tables(each, top or MOST_LISTED, width)
    for table in tables[:-1]:
        if not terminal.output.json:
            terminal.result({}, table)
    terminal.result(facts, tables[-1])


def _asked(shapes: Shapes, function: str | None) -> list[str]:
    """Return the titles of the functions of a column, or of a pair A:B; none of nothing."""
    if function is None:
        return []
    names = {name for one in shapes.columns for name in (one.variable.column, one.variable.title)}
    if ":" in function and function not in names:
        return [title_of(function_of_pair(shapes, function))]
    return [*map(title_of, functions_of_column(shapes, function))]


def _facts(each: Sequence[ClassShapes]) -> dict[str, Any]:
    """Return all functions as JSON has them: of one score, or of every class."""
    from fewpass.pipeline.explaining.plain_shapes import ModelShapes

    parts = [{"class": one.label, "additive": ModelShapes.of(one.shapes).data()} for one in each]
    return parts[0] if len(parts) == 1 else {"classes": parts}


def _most_important(each: Sequence[ClassShapes], top: int) -> list[str]:
    from fewpass.pipeline.explaining.plain_shapes import importances

    return [row.name for row in importances([one.shapes for one in each])[:top]]
