"""Opening a table: whether its columns get a recipe, or are numbers that are taken as they are."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.additive.rules import LEAST_UNASKED, MANY_COLUMNS, MOST_UNASKED
from fewpass.pipeline.tables.encoding.outliers import has_outliers
from fewpass.pipeline.tables.readers.column_roles import (
    LOOK_BYTES,
    SAMPLE_BYTES,
    chosen_columns,
)
from fewpass.pipeline.tables.readers.columns import TableColumns
from fewpass.pipeline.tables.readers.csv_rows import CsvRows
from fewpass.pipeline.tables.readers.encoding_choice import is_asked
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import naming
from fewpass.pipeline.tables.readers.lines import sample as sample_of_lines
from fewpass.pipeline.tables.readers.reader_classes import rows_class
from fewpass.pipeline.tables.readers.source import Expected, Piece, Source, TableRows
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.pipeline.tables.readers.table_source import TableSource
from fewpass.solvers.bad_input import MOST_WHOLE

Rows = TypeVar("Rows", bound=TableRows)


def open_table(
    word: str, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> Source:
    """Open a table, encoded where that is asked for or needed, or where curves are better."""
    rows = rows_class(word)(addresses, options, expected)
    encoded = is_asked(word, rows, options, expected)
    curves = encoded is not True and _may_be_curves(rows, addresses, options, expected)
    first: Piece | None = None
    if encoded is None and not curves and isinstance(rows, CsvRows):
        encoded, first = _by_first_rows(rows, options, expected)
    if encoded is False and not curves:
        return TableSource(_stored(rows), options, expected, first=first)
    lines = _as_lines(rows, options, expected) if curves and isinstance(rows, CsvRows) else None
    if lines is not None:  # rows are held out by pieces: those of plain numbers
        return _by_sample(lines, options, expected, encoded, curves=True, otherwise=rows)
    return _by_sample(rows, options, expected, encoded, curves=curves)


def _by_sample(
    rows: TableRows, options: SourceOptions, expected: Expected, encoded: bool | None, *,
    curves: bool, otherwise: TableRows | None = None,
) -> Source:  # fmt: skip
    """Draw a sample; encode what is not known to be numbers, and numbers where they get curves.

    Where rows that are read as numbers turn out to be more, they are read by `otherwise`.
    """
    from fewpass.pipeline.tables.readers.fitted_table import FittedTable  # noqa: PLC0415 - Arrow, and SciPy
    from fewpass.pipeline.tables.readers.sampling import are_numbers  # noqa: PLC0415 - likewise
    from fewpass.pipeline.tables.readers.table_remarks import notes_on_form, remarks_on  # noqa: PLC0415 - likewise

    table = FittedTable(rows, options, expected)
    columns = table.columns
    if encoded is None:
        expected.budget.require_columns(len(columns.features), table.name, "typed")
    else:
        table.require_encodable()

    def is_enough(first: Any) -> bool:
        return not curves and encoded is None and are_numbers(rows, columns, first)

    drawn = table.sampled(is_enough)
    gaps = drawn.gaps & {*columns.feature_names}
    plain = encoded is False
    if encoded is None and not gaps:
        plain = are_numbers(rows, columns, drawn.table)
    if not plain and otherwise is not None:
        return _by_sample(otherwise, options, expected, True, curves=False)
    if plain and not curves:
        return TableSource(_stored(rows), options, expected, first=drawn.first)
    table.require_encodable()
    with naming(table.name, table.name):
        table.fit(drawn, plain=plain)
        if plain and table.recipe.additive is None:  # straight lines need no encoding
            source = TableSource(_stored(rows), options, expected, first=drawn.first)
            source.remarks = tuple(notes_on_form(table))
            return source
        source = TableSource(rows, options, expected, table, drawn)
        source.remarks = tuple(remarks_on(table, drawn.table)) if table.is_new else ()
    del drawn
    release_freed_memory()
    return source


def _as_lines(rows: CsvRows, options: SourceOptions, expected: Expected) -> CsvRows | None:
    """Return a reader of whole lines of CSV; None where its first rows are no plain numbers."""
    own = copy.copy(rows)
    own.as_numbers(chosen_columns(own, options, expected), options)
    return own if own.by_lines else None


def _stored(rows: Rows) -> Rows:
    """Return a reader of the same files, whose columns are as they are stored."""
    own = copy.copy(rows)
    own.use_stored_types()
    return own


# -- curves ----------------------------------------------------------------------------------------


def _may_be_curves(
    rows: TableRows, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> bool:
    """Say whether curves are tried on a table of plain numbers: asked for, or as `auto` means it.

    Unasked they are where columns have names, as those of tables do and those of matrices do not,
    and where columns and rows are neither few nor many (additive/rules.py).
    """
    if options.encode in ADDITIVE:
        return expected.schema is None
    unasked = options.encode == "auto" and expected.may_curve and expected.schema is None
    if not unasked or rows.names is None or addresses[0].name == STANDARD_INPUT:
        return False
    columns = chosen_columns(rows, options, expected)
    if columns.label is None or not 0 < len(columns.features) <= MANY_COLUMNS:
        return False
    return LEAST_UNASKED <= _rows_about(rows, addresses, expected) <= MOST_UNASKED


def _rows_about(rows: TableRows, addresses: Sequence[Address], expected: Expected) -> float:
    """Return the rows of files; of text about how many by the first lines of the first file."""
    if rows.n_rows is not None:
        return rows.n_rows
    first, whole = sample_of_lines(addresses[0], expected.longest_line)
    n_bytes = whole + sum(address.size or 0 for address in addresses[1:])
    if n_bytes > SAMPLE_BYTES:
        return float("inf")
    return n_bytes / max(1, first.bytes.size) * first.lines


# -- plain numbers of CSV --------------------------------------------------------------------------


def _by_first_rows(
    rows: CsvRows, options: SourceOptions, expected: Expected
) -> tuple[bool | None, Piece | None]:
    """Say whether CSV is encoded by its first rows, with the first piece of these.

    Plain are rows that the fast reader takes, none far from all others nor whole and beyond those
    that doubles are exact for, while for long no cell is missing.  None: the sample tells.
    """
    own = _stored(rows)
    columns = chosen_columns(own, options, expected)
    own.as_numbers(columns, options)
    if own.plain is not None and own.plain.are_numbers_in_words():
        return True, None
    return _looked_through(own, columns, options)


def _looked_through(
    rows: CsvRows, columns: TableColumns, options: SourceOptions
) -> tuple[bool | None, Piece | None]:
    read, first = 0, None
    for piece in rows.pieces(LOOK_BYTES, columns.read):
        if not read and not getattr(piece.content, "lines", 1):  # the names of many columns
            continue
        plain = rows.plain_rows(piece, options)
        if read == 0 and (plain is None or not _are_usual(plain.table)):
            return None, None
        if plain is None and _has_gaps(rows, piece, columns.features):
            return True, None
        first, read = first or piece, read + piece.n_bytes
        if read >= SAMPLE_BYTES:
            break
    return (False, first) if read else (True, None)


def _has_gaps(rows: CsvRows, piece: Piece, features: Sequence[int]) -> bool:
    """Say whether a feature is missing, or no number, in some row of a piece."""
    from fewpass.pipeline.tables.encoding.applying import as_they_are  # noqa: PLC0415 - Arrow

    return bool(np.isnan(as_they_are(rows.cells(piece, features).columns).X).any())


def _are_usual(table: Any) -> bool:
    """Say whether dense rows are neither far from all others nor too large to be exact."""
    X = table.X
    if not len(X) or any(has_outliers(column.astype(np.float64)) for column in X.T):
        return False
    return bool(np.abs(X).max() < MOST_WHOLE)
