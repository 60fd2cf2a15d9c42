"""Sentences on a table: columns that most people would take for something else, and its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.encoding import Kind
from fewpass.pipeline.tables.encoding.category_recipe import Hashed
from fewpass.pipeline.tables.encoding.cells import as_array
from fewpass.pipeline.tables.encoding.inference import as_asked, infer
from fewpass.pipeline.tables.encoding.number_recipe import Bins
from fewpass.pipeline.tables.encoding.recipe import AnyColumn
from fewpass.pipeline.tables.encoding.remarks import remark_on
from fewpass.pipeline.tables.readers.column_roles import name_of
from fewpass.pipeline.tables.readers.fitted_table import FittedTable

MOST_ROWS = 10_000  # that are looked at


def remarks_on(table: FittedTable, sample: Any) -> Iterator[str]:
    """Yield what somebody should look at, by a sample that the recipe was fitted to."""
    for name, why in table.ids.items():
        yield (
            f"Column {shown_name(name)} was left out: {why}. Keep it with "
            f"`column={name}=category`, or =number."
        )
    rows = sample.slice(0, min(sample.num_rows, MOST_ROWS))
    for k, recipe in zip(table.columns.features, table.recipe.columns, strict=True):
        name = name_of(table.columns, k)
        cells = as_array(rows.column(name))
        asked = table.options.column.get(name)
        kind = _kind(table, recipe, cells)
        if asked and asked.partition(":")[0] != kind:
            continue
        said = remark_on(name, cells, kind, table.columns.advice(k))
        if said is not None:
            yield f"C{table.columns.title(k)[1:]} {said}"
    yield from notes_on_form(table)
    yield from _hint(table)


def notes_on_form(table: FittedTable) -> Iterator[str]:
    """Yield sentences on the form that was chosen, where one was."""
    if table.formed is not None:
        from fewpass.pipeline.tables.additive.of_table import notes_on  # noqa: PLC0415 - solvers

        unasked = table.options.encode == "auto"
        yield from notes_on(table.formed, _dates(table), unasked=unasked)


def _dates(table: FittedTable) -> list[str]:
    return [column.name for column in table.recipe.columns if column.kind == "date"]


def _kind(table: FittedTable, recipe: AnyColumn, cells: Any) -> Kind:
    """Return what the cells of a column hold, as they tell themselves."""
    name, asked = recipe.name, table.options.column
    if asked.get(name) == "number":
        return as_asked(name, "number", cells).kind
    if name in asked:
        return infer(name, cells).kind
    if isinstance(recipe, Bins):
        return "number"
    return "category" if isinstance(recipe, Hashed) else recipe.kind


def _hint(table: FittedTable) -> Iterator[str]:
    """Yield a sentence on how to judge a model on later rows, where there are dates."""
    dates = _dates(table)
    if dates and table.expected.split is None:
        yield (
            f"Column {shown_name(dates[0])} holds dates. If later rows are to be predicted, "
            f"hold out the last ones (`test_by={dates[0]}`): rows drawn at random promise more."
        )
