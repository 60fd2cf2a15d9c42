"""Columns that name or count the rows, of which nothing can be learnt: they are left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.applying import columns_of
from fewpass.pipeline.tables.encoding.cells import is_text, read_numbers, words_of
from fewpass.pipeline.tables.encoding.id_numbers import are_times, says_id
from fewpass.pipeline.tables.encoding.inference import FEW, infer

#: Different values among the cells that are not missing, from which words name the rows.
ALL_DIFFERENT = 0.995
#: Range of whole numbers, in rows, up to which those of all rows count them.
_GAPS = 1.02


def ids_in(sample: Any, kinds: Mapping[str, str], n_rows: int | None = None) -> dict[str, str]:
    """Return the columns of a sample, an Arrow table, that are ids, and why; never all columns.

    Words are ids where next to every row has its own; so are whole numbers that count the rows, or
    whose column's name says so.

    Parameters
    ----------
    kinds
        What columns hold where that was said: these are no ids.
    n_rows
        Rows of the table; None where nobody knows.
    """
    names = [name for name in sample.column_names if name not in kinds]
    pairs = zip(names, columns_of(sample, names), strict=True)
    ids = {name: why for name, cells in pairs if (why := _why(name, cells, n_rows))}
    return ids if len(ids) < sample.num_columns else {}


def _why(name: str, cells: Any, n_rows: int | None) -> str | None:
    """Return why a column is an id; None where it is none."""
    whole_or_words = is_text(cells.type) or pa.types.is_integer(cells.type)
    if not whole_or_words or len(cells) < FEW:
        return None
    n, different = len(cells) - cells.null_count, pc.count_distinct(cells).as_py()
    if n < max(FEW, ALL_DIFFERENT * len(cells)) or different < ALL_DIFFERENT * n:
        return None
    inferred = infer(name, cells)
    if inferred.kind == "category":
        spaces = pc.mean(pc.count_substring(words_of(cells), " ")).as_py() or 0.0
        is_id = spaces < 1.0
    else:
        is_id = inferred.kind == "number" and _count_rows(name, cells, n_rows)
    return f"an id: {different:,} different values in {counted(n, 'row')}" if is_id else None


def _count_rows(name: str, cells: Any, n_rows: int | None) -> bool:
    """Return whether numbers, next to all different, count the rows, or are ids by their name."""
    numbers = read_numbers(cells).values
    numbers = numbers[~np.isnan(numbers)]
    if not len(numbers) or (numbers != np.round(numbers)).any() or are_times(name, cells):
        return False
    if says_id(name):
        return True
    return bool(numbers.max() - numbers.min() < _GAPS * (n_rows or len(cells)))
