"""Sentences on a table: columns that most people would take for something else, and its form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow.compute as pc

from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.encoding import Kind
from fewpass.pipeline.tables.encoding.category_recipe import Hashed
from fewpass.pipeline.tables.encoding.cells import (
    CURRENCY,
    Floats,
    Read,
    as_array,
    is_numeric,
    is_text,
    read_numbers,
)
from fewpass.pipeline.tables.encoding.date_forms import look_like_dates
from fewpass.pipeline.tables.encoding.id_numbers import (
    are_ids,
    are_times,
    is_whole,
    unit_of,
    unit_since_1970,
)
from fewpass.pipeline.tables.encoding.inference import FEW, as_asked, infer
from fewpass.pipeline.tables.encoding.number_recipe import Bins
from fewpass.pipeline.tables.encoding.recipe import AnyColumn
from fewpass.pipeline.tables.readers.fitted_table import FittedTable
from fewpass.solvers.bad_input import MOST_WHOLE

_SHOWN = 40
#: A deviation that is less of the largest number is taken for none.
_TOLD = 1e-12
#: What stands next to a number and says what it counts, and currencies that have a sign as well.
_MARK = rf"(?P<mark>{CURRENCY}|%)"
_SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "INR": "₹"}
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
        name = table.columns.name_of(k)
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
    """Yield sentences on the form that was chosen, or why none was tried."""
    if table.untried:
        yield untried_form(table.untried)
    if table.formed is not None:
        from fewpass.pipeline.tables.additive.of_table import notes_on  # noqa: PLC0415 - solvers

        unasked = table.options.encode == "auto"
        yield from notes_on(table.formed, _dates(table), unasked=unasked)


def untried_form(why: str) -> str:
    """Return a sentence on a table that curves were not tried for."""
    return f"No curves were tried: {why}. `encode=additive` asks for them."


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
    """Yield a sentence on how to evaluate a model on later rows, where there are dates."""
    dates = _dates(table)
    if dates and table.expected.split is None:
        yield (
            f"Column {shown_name(dates[0])} holds dates. If later rows are to be predicted, "
            f"hold out the last ones (`test_by={dates[0]}`): rows drawn at random promise more."
        )


# -- a column --------------------------------------------------------------------------------------


def remark_on(name: str, cells: Any, kind: Kind, drop: str) -> str | None:
    """Return a warning about a column of an Arrow array of cells (n,), if there is one.

    Parameters
    ----------
    kind
        The inferred kind of the cells.
    drop
        The option that leaves the column out.
    """
    read = read_numbers(cells) if kind == "number" else None
    if read and _is_lost(cells, read.values):
        said = (
            "holds whole numbers that differ by less than a float of 64 bits can tell, which makes "
            f"them next to constant. Take it for words with `column={name}=category`, or subtract "
            "what they have in common."
        )
    elif read and read.bad is not None and (marks := _marks_in(cells)):
        said = (
            f"holds numbers of several kinds ({', '.join(marks)}), taken for one as they are "
            "written. Convert them into one kind first."
        )
    elif read and _look_like_times(name, cells, read):
        said = f"looks like times, counted since 1970. Take it for dates with `column={name}=date`."
    elif _name_rows(cells) if kind == "category" else read and _count_rows(cells, read.values):
        said = (
            "looks like an index or an id: it has another value in every row. Leave it out with "
            f"{drop}{_or_times(name, cells)}."
        )
    elif _look_like_ids(kind, cells):
        said = (
            "holds whole numbers with zeros in front, or too long for a double, and was taken for "
            f"words. If they are amounts, say `column={name}=number`{_or_times(name, cells)}."
        )
    elif _look_like_other_dates(kind, cells):
        first = cells.drop_null()[0].as_py()[:_SHOWN]
        said = (
            f"looks like dates, but in no form that can be told ({first!r}), and was taken for "
            "words. Write dates as in 2026-12-31."
        )
    else:
        return None
    return said


def _or_times(name: str, cells: Any) -> str:
    """Return further advice where numbers may count the time since 1970."""
    if unit_since_1970(cells) is None:
        return ""
    return f"; if they are times, counted since 1970, `column={name}=date`"


def _is_lost(cells: Any, numbers: Floats) -> bool:
    """Return whether whole numbers are different, and as floats next to the same."""
    if not (is_whole(cells.type) or is_text(cells.type)):
        return False
    present = numbers[~np.isnan(numbers)]
    largest = np.abs(present).max(initial=0.0)
    if largest <= MOST_WHOLE or pc.count_distinct(cells).as_py() < 2:
        return False
    shares = present / largest  # whose squares are numbers
    return bool((shares - shares[0]).std() <= _TOLD)


def _marks_in(cells: Any) -> list[str]:
    """Return the currencies and percents next to numbers that cannot be compared."""
    matches = pc.extract_regex(cells.drop_null(), _MARK)
    marks = {*pc.unique(pc.struct_field(matches, "mark")).to_pylist()}
    named = {_SIGNS.get(mark, mark) for mark in marks - {None}}
    if "%" in named and None in marks:
        named.add("none")
    return sorted(named) if len(named) > 1 else []


def _name_rows(cells: Any) -> bool:
    """Return whether words are others in every row."""
    if len(cells) < FEW or cells.null_count:
        return False
    return bool(pc.count_distinct(cells).as_py() == len(cells))


def _count_rows(cells: Any, numbers: Floats) -> bool:
    """Return whether numbers only count the rows."""
    if len(cells) < FEW or cells.null_count:
        return False
    whole = bool((numbers == np.round(numbers)).all())
    return whole and len(np.unique(numbers)) == len(numbers)


def _look_like_times(name: str, cells: Any, read: Read) -> bool:
    """Return whether numbers count the time since 1970, and not the rows.

    Where nothing says so but how large they are, those that are different in every row may be ids.
    """
    if not (is_numeric(cells.type) or is_text(cells.type)) or unit_of(read) is None:
        return False
    if np.nanmin(read.values) == np.nanmax(read.values):  # a default, or an id of all rows
        return False
    return are_times(name, cells) or not _count_rows(cells, read.values)


def _look_like_ids(kind: Kind, cells: Any) -> bool:
    """Return whether whole numbers were taken for words."""
    if kind != "category" or not (is_text(cells.type) or is_whole(cells.type)):
        return False
    return are_ids(cells.drop_null()) and read_numbers(cells).bad is None


def _look_like_other_dates(kind: Kind, cells: Any) -> bool:
    """Return whether words look like dates in a form that is not known."""
    if kind not in ("category", "text") or not is_text(cells.type):
        return False
    return look_like_dates(cells.drop_null())
