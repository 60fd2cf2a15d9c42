"""What most people would have something else made of: a sentence for a column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc

from fewpass.pipeline.tables.encoding.cells import is_text, read_numbers
from fewpass.pipeline.tables.encoding.codes import (
    LARGEST_EXACT,
    are_codes,
    are_times,
    is_whole,
    unit_since_1970,
)
from fewpass.pipeline.tables.encoding.date_forms import look_like_dates
from fewpass.pipeline.tables.encoding.inference import FEW, Inferred

_SHOWN = 40
#: A deviation that is less of the largest number is taken for none.
_TOLD = 1e-12


def remark_on(name: str, cells: Any, inferred: Inferred, drop: str) -> str | None:
    """Return a sentence on a column of an Arrow array of cells (n,), if there is one to say.

    Parameters
    ----------
    held
        What the cells hold, as they tell themselves.
    drop
        What leaves the column out.
    """
    if inferred.kind == "number" and _is_lost(cells):
        said = (
            "holds whole numbers that differ by less than a float of 64 bits can tell, which makes "
            f"them next to constant. Take it for words with `column={name}=category`, or subtract "
            "what they have in common."
        )
    elif _look_like_times(name, inferred, cells):
        said = f"looks like times, counted since 1970. Take it for dates with `column={name}=date`."
    elif _look_like_ids(inferred, cells):
        said = (
            "looks like an index or an id: it has another value in every row. Leave it out with "
            f"{drop}{_or_times(name, cells)}."
        )
    elif _look_like_codes(inferred, cells):
        said = (
            "holds whole numbers with zeros in front, or longer than 15 digits, and was taken for "
            f"words. If they are amounts, say `column={name}=number`{_or_times(name, cells)}."
        )
    elif _look_like_other_dates(inferred, cells):
        first = cells.drop_null()[0].as_py()[:_SHOWN]
        said = (
            f"looks like dates, but in no form that can be told ({first!r}), and was taken for "
            "words. Write dates as in 2026-12-31."
        )
    else:
        return None
    return said


def _or_times(name: str, cells: Any) -> str:
    """Return what else helps where numbers may count the time since 1970."""
    if unit_since_1970(cells) is None:
        return ""
    return f"; if they are times, counted since 1970, `column={name}=date`"


def _is_lost(cells: Any) -> bool:
    """Say whether whole numbers are different, and as floats next to the same."""
    if not (is_whole(cells.type) or is_text(cells.type)) or pc.count_distinct(cells).as_py() < 2:
        return False
    numbers = read_numbers(cells).values
    present = numbers[~np.isnan(numbers)]
    largest = np.abs(present).max(initial=0.0)
    if largest <= LARGEST_EXACT:
        return False
    shares = present / largest  # whose squares are numbers
    return bool((shares - shares[0]).std() <= _TOLD)


def _look_like_ids(inferred: Inferred, cells: Any) -> bool:
    """Say whether a column only counts the rows, or names each of them."""
    if len(cells) < FEW or cells.null_count:
        return False
    if inferred.kind == "category":
        return bool(pc.count_distinct(cells).as_py() == len(cells))
    if inferred.kind != "number":
        return False
    numbers, _ = read_numbers(cells)
    whole = bool((numbers == np.round(numbers)).all())
    return whole and len(np.unique(numbers)) == len(numbers)


def _look_like_times(name: str, inferred: Inferred, cells: Any) -> bool:
    """Say whether numbers count the time since 1970, and not the rows.

    Where nothing says so but how large they are, those that are different in every row may be ids.
    """
    if inferred.kind != "number" or unit_since_1970(cells) is None:
        return False
    return are_times(name, cells) or not _look_like_ids(inferred, cells)


def _look_like_codes(inferred: Inferred, cells: Any) -> bool:
    """Say whether whole numbers were taken for words."""
    if inferred.kind != "category" or not (is_text(cells.type) or is_whole(cells.type)):
        return False
    return are_codes(cells.drop_null()) and read_numbers(cells).bad is None


def _look_like_other_dates(inferred: Inferred, cells: Any) -> bool:
    """Say whether words look like dates in a form that is not known."""
    if inferred.kind not in ("category", "text") or not is_text(cells.type):
        return False
    return look_like_dates(cells.drop_null())
