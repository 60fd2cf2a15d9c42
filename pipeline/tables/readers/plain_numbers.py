"""Whether delimited text (CSV) is nothing but usual numbers, which the fast reader takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.outliers import has_outliers
from fewpass.pipeline.tables.readers.column_roles import (
    LOOK_BYTES,
    SAMPLE_BYTES,
    chosen_columns,
    used_columns,
)
from fewpass.pipeline.tables.readers.csv_numbers import CsvNumbers, PlainRows
from fewpass.pipeline.tables.readers.csv_rows import CsvRows
from fewpass.pipeline.tables.readers.source import Expected, NumberRows
from fewpass.solvers.bad_input import MOST_WHOLE

Look = Literal["numbers", "more", "perhaps more"]


def first_look(
    as_numbers: Callable[[], NumberRows], options: SourceOptions, expected: Expected
) -> Look:
    """Say whether the first rows are nothing but usual numbers, and then for long none is missing.

    Usual: neither far from all others, nor whole and beyond those that doubles are exact for.  Of
    what the fast reader does not take, the sample of a recipe tells what it is.  `as_numbers` opens
    the table.
    """
    try:
        rows = cast("CsvRows", as_numbers())
        columns = chosen_columns(rows, options, expected)
        numbers = rows.numbers(columns, options)
        if numbers.are_numbers_in_words():
            return "more"
        return _look(rows, numbers, used_columns(columns), options)
    except BadInput:  # what reads all kinds of cells knows more headers, and says it otherwise
        return "more"


def _look(rows: CsvRows, numbers: CsvNumbers, used: list[int], options: SourceOptions) -> Look:
    read = 0
    for piece in rows.pieces(LOOK_BYTES, used):
        if not read and not getattr(piece.content, "lines", 1):  # the names of many columns
            continue
        plain = numbers.read_plain(piece, options)
        if read == 0 and (plain is None or not _are_usual(plain)):
            return "perhaps more"
        if plain is None and numbers.has_gaps(piece):
            return "more"
        read += piece.n_bytes
        if read >= SAMPLE_BYTES:
            break
    return "numbers" if read else "more"


def _are_usual(plain: PlainRows) -> bool:
    """Say whether numbers (n, d) are neither far from all others nor too large to be exact."""
    X = plain.X
    if not len(X) or any(has_outliers(column.astype(np.float64)) for column in X.T):
        return False
    return bool(np.abs(X).max() < MOST_WHOLE)
