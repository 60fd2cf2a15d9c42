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
from fewpass.pipeline.tables.readers.csv_rows import CsvRows
from fewpass.pipeline.tables.readers.encoding_choice import ColumnUse, asked_columns
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import naming
from fewpass.pipeline.tables.readers.lines import sample as sample_of_lines
from fewpass.pipeline.tables.readers.reader_classes import reader_class
from fewpass.pipeline.tables.readers.source import Expected, Piece, Source, TableReader
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.pipeline.tables.readers.table_source import TableSource
from fewpass.solvers.bad_input import MOST_WHOLE

Reader = TypeVar("Reader", bound=TableReader)


def open_table(
    word: str, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> Source:
    """Open a table, encoded where that is asked for or needed, or where curves are better."""
    reader: TableReader = reader_class(word)(addresses, options, expected)
    use, first = asked_columns(word, reader, options, expected), None
    curves = use != "recipe" and _may_be_curves(reader, addresses, options, expected)
    if use == "undecided" and not curves and isinstance(reader, CsvRows):
        use, first = _by_first_rows(reader, options, expected)
    if use == "numbers" and not curves:
        return TableSource(_stored(reader), options, expected, first=first)
    return _by_sample(reader, options, expected, use, curves=curves)


def _by_sample(
    reader: TableReader, options: SourceOptions, expected: Expected, use: ColumnUse, *,
    curves: bool,
) -> Source:  # fmt: skip
    """Draw a sample; encode what is not numbers for sure, and numbers where they get curves."""
    from fewpass.pipeline.tables.readers.fitted_table import FittedTable  # noqa: PLC0415 - Arrow, and SciPy
    from fewpass.pipeline.tables.readers.sampling import are_numbers  # noqa: PLC0415 - likewise
    from fewpass.pipeline.tables.readers.table_remarks import notes_on_form, remarks_on  # noqa: PLC0415 - likewise

    table = FittedTable(reader, options, expected)
    columns, undecided = table.columns, use == "undecided"
    if undecided:
        expected.budget.require_columns(len(columns.features), table.name, "typed")
    else:
        table.require_encodable()

    def is_enough(first: Any) -> bool:
        return not curves and undecided and are_numbers(reader, columns, first)

    drawn = table.sampled(is_enough)
    plain = use == "numbers"
    if undecided and not drawn.gaps & {*columns.feature_names}:
        plain = are_numbers(reader, columns, drawn.table)
    if plain and not curves:
        return TableSource(_stored(reader), options, expected, first=drawn.first)
    table.require_encodable()
    with naming(table.name, table.name):
        table.fit(drawn, plain=plain)
        if plain and table.recipe.additive is None:  # straight lines need no encoding
            source = TableSource(_stored(reader), options, expected, first=drawn.first)
            source.remarks = tuple(notes_on_form(table))
            return source
        source = TableSource(reader, options, expected, table, drawn)
        source.remarks = tuple(remarks_on(table, drawn.table)) if table.is_new else ()
    del drawn
    release_freed_memory()
    return source


def _stored(reader: Reader) -> Reader:
    """Return a reader of the same files, whose columns are as they are stored."""
    own = copy.copy(reader)
    own.use_stored_types()
    return own


# -- curves ----------------------------------------------------------------------------------------


def _may_be_curves(
    reader: TableReader, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> bool:
    """Say whether curves are tried on a table of plain numbers: asked for, or as `auto` means it.

    Unasked they are where columns have names, as those of tables do and those of matrices do not,
    and where columns and rows are neither few nor many (additive/rules.py).
    """
    if options.encode in ADDITIVE:
        return expected.schema is None
    unasked = options.encode == "auto" and expected.may_curve and expected.schema is None
    if not unasked or reader.names is None or addresses[0].name == STANDARD_INPUT:
        return False
    columns = chosen_columns(reader, options, expected)
    if columns.label is None or not 0 < len(columns.features) <= MANY_COLUMNS:
        return False
    return LEAST_UNASKED <= _rows_about(reader, addresses, expected) <= MOST_UNASKED


def _rows_about(reader: TableReader, addresses: Sequence[Address], expected: Expected) -> float:
    """Return the rows of files; of text about how many by the first lines of the first file."""
    if reader.n_rows is not None:
        return reader.n_rows
    first, whole = sample_of_lines(addresses[0], expected.longest_line)
    n_bytes = whole + sum(address.size or 0 for address in addresses[1:])
    if n_bytes > SAMPLE_BYTES:
        return float("inf")
    return n_bytes / max(1, first.bytes.size) * first.lines


# -- plain numbers of CSV --------------------------------------------------------------------------


def _by_first_rows(
    reader: CsvRows, options: SourceOptions, expected: Expected
) -> tuple[ColumnUse, Piece | None]:
    """Return how the columns of CSV are taken by its first rows, with the first piece of these.

    Numbers are rows that the fast reader takes, none far from all others nor whole and beyond those
    that doubles are exact for, while for long no cell is missing.
    """
    own = _stored(reader)
    columns = chosen_columns(own, options, expected)
    own.as_numbers(columns, options)
    if own.plain is not None and own.plain.are_numbers_in_words():
        return "recipe", None
    read, first = 0, None
    for piece in own.pieces(LOOK_BYTES, columns.read):
        plain = own.plain_rows(piece, options)
        if read == 0 and (plain is None or not _are_usual(plain.table)):
            return "undecided", None
        if plain is None and _has_gaps(own, piece, columns.features):
            return "recipe", None
        first, read = first or piece, read + piece.n_bytes
        if read >= SAMPLE_BYTES:
            break
    return ("numbers", first) if read else ("recipe", None)


def _has_gaps(reader: CsvRows, piece: Piece, features: Sequence[int]) -> bool:
    """Say whether a feature is missing, or no number, in some row of a piece."""
    from fewpass.pipeline.tables.encoding.applying import as_they_are  # noqa: PLC0415 - Arrow

    return bool(np.isnan(as_they_are(reader.cells(piece, features).columns).X).any())


def _are_usual(table: Any) -> bool:
    """Say whether dense rows are neither far from all others nor too large to be exact."""
    X = table.X
    if not len(X) or any(has_outliers(column.astype(np.float64)) for column in X.T):
        return False
    return bool(np.abs(X).max() < MOST_WHOLE)
