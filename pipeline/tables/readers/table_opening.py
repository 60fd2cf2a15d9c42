"""Opening a table: whether its columns get a recipe, or are numbers that are taken as they are."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import release_freed_memory
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.settings.formats import PLAIN
from fewpass.pipeline.settings.source_options import SourceOptions, contradiction
from fewpass.pipeline.tables.additive.rules import against_curves
from fewpass.pipeline.tables.encoding.outliers import has_outliers
from fewpass.pipeline.tables.readers.columns import LOOK_BYTES, SAMPLE_BYTES, chosen_columns
from fewpass.pipeline.tables.readers.csv_rows import CsvRows
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import naming
from fewpass.pipeline.tables.readers.lines import sample as sample_of_lines
from fewpass.pipeline.tables.readers.source import Expected, Piece, Source, TableReader
from fewpass.pipeline.tables.readers.standard_input import STANDARD_INPUT
from fewpass.pipeline.tables.readers.table_source import TableSource
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.storage.column_schema import Schema

Reader = TypeVar("Reader", bound=TableReader)


def open_table(
    word: str, kind: type[TableReader], addresses: Sequence[Address], options: SourceOptions,
    expected: Expected,
) -> Source:  # fmt: skip
    """Open a table, encoded where that is asked for or needed, or where curves are better."""
    reader = kind(addresses, options, expected)
    use, first = asked_columns(word, reader, options, expected), None
    curves = CurvesOfNumbers(tried=False)
    if use != "recipe":
        curves = _curves_of_numbers(reader, addresses, options, expected)
    if use == "undecided" and not curves.tried and isinstance(reader, CsvRows):
        use, first = _by_first_rows(reader, options, expected)
    if use == "numbers" and not curves.tried:
        return _plain_source(reader, options, expected, first, curves.against)
    return _by_sample(reader, options, expected, use, curves)


def _plain_source(
    reader: TableReader, options: SourceOptions, expected: Expected, first: Piece | None, why: str
) -> TableSource:
    """Return a table of numbers that are taken as they are; `why` no curves were tried."""
    source = TableSource(_stored(reader), options, expected, first=first)
    if why:
        from fewpass.pipeline.tables.readers.table_remarks import untried_form  # noqa: PLC0415 - Arrow

        source.remarks = (untried_form(why),)
    return source


def _by_sample(
    reader: TableReader, options: SourceOptions, expected: Expected, use: ColumnUse,
    curves: CurvesOfNumbers,
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
        return not curves.tried and undecided and are_numbers(reader, columns, first)

    drawn = table.sampled(is_enough)
    plain = use == "numbers"
    if undecided and not drawn.gaps & {*columns.feature_names}:
        plain = are_numbers(reader, columns, drawn.table)
    if plain and not curves.tried:
        return _plain_source(reader, options, expected, drawn.first, curves.against)
    table.require_encodable()
    with naming(table.name, table.name):
        table.fit(drawn, plain=plain)
        if plain and table.recipe.leaves_numbers:  # straight lines need no encoding
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


class CurvesOfNumbers(NamedTuple):
    """The choice whether curves are tried on a table of plain numbers."""

    tried: bool
    against: str = ""  # why not, where nobody asked for any and the rest of the table speaks for it


def _curves_of_numbers(
    reader: TableReader, addresses: Sequence[Address], options: SourceOptions, expected: Expected
) -> CurvesOfNumbers:
    """Say whether curves are tried on a table of plain numbers: asked for, or as `auto` means it.

    Unasked they are where columns have names, as those of tables do and those of matrices do not,
    and where columns and rows are neither few nor many (additive/rules.py).
    """
    if options.encode in ADDITIVE:
        return CurvesOfNumbers(expected.schema is None)
    unasked = options.encode == "auto" and expected.may_curve and expected.schema is None
    if not unasked or reader.names is None:
        return CurvesOfNumbers(tried=False)
    columns = chosen_columns(reader, options, expected)
    if columns.label is None or not columns.features:
        return CurvesOfNumbers(tried=False)
    counted = addresses[0].name != STANDARD_INPUT
    n_rows = _rows_about(reader, addresses, expected) if counted else None
    against = against_curves(["number"] * len(columns.features), n_rows)
    return CurvesOfNumbers(not against, against)


def _rows_about(
    reader: TableReader, addresses: Sequence[Address], expected: Expected
) -> int | None:
    """Return the rows of files; of text about how many by the first lines of the first file.

    None of long text, whose rows are more than a sample.
    """
    if reader.n_rows is not None:
        return reader.n_rows
    first, whole = sample_of_lines(addresses[0], expected.longest_line)
    n_bytes = whole + sum(address.size or 0 for address in addresses[1:])
    if n_bytes > SAMPLE_BYTES:
        return None
    return int(n_bytes / max(1, first.bytes.size) * first.lines)


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

    numbers = as_they_are(reader.cells(piece, features).columns)
    return any(np.isnan(column).any() for column in numbers.columns)


def _are_usual(table: Any) -> bool:
    """Say whether dense rows are neither far from all others nor too large to be exact."""
    X = table.X
    if not len(X) or any(has_outliers(column.astype(np.float64)) for column in X.T):
        return False
    return bool(np.abs(X).max() < MOST_WHOLE)


#: Columns are taken by a recipe, or as the numbers that they are; undecided: their rows decide.
ColumnUse = Literal["recipe", "numbers", "undecided"]


def asked_columns(
    word: str, reader: TableReader, options: SourceOptions, expected: Expected
) -> ColumnUse:
    """Return how columns are taken: as was asked for, or was done before."""
    name = reader.files[0].name
    _require_additive(options)
    asked = options.is_encoded or options.asks_of_encoded
    if options.encode == "none" and options.asks_of_encoded:
        raise BadInput("`column`, `cross` and `bins` are for encoding. Leave `encode=none` out.")
    if expected.schema is not None:
        before = _as_before(asked, options, expected)
        if not before:
            _require_plain(word, name)
        return "recipe" if before else "numbers"
    by_name = options.names_offset or expected.split is not None
    if options.encode == "none":
        _require_no_roles(options, expected)
        _require_plain(word, name, ", or say `encode=auto`")
        return "numbers"
    if word not in PLAIN or options.asks_of_encoded or options.encode == "always" or by_name:
        return "recipe"
    if options.missing == "zero":
        return "recipe" if options.encode in ADDITIVE else "numbers"
    return "recipe" if reader.has_folders else "undecided"


def _require_no_roles(options: SourceOptions, expected: Expected) -> None:
    """Refuse columns that only an encoded table is asked for, where plain numbers are wanted."""
    if expected.split is not None:
        raise BadInput(
            f"`{expected.split.setting}` reads the column as an encoded table does. Leave "
            "`encode=none` out."
        )
    if options.names_offset:
        raise BadInput("`offset` and `exposure` are for encoding. Leave `encode=none` out.")


def _require_plain(word: str, name: str, otherwise: str = "") -> None:
    """Refuse a format that is read as encoded columns alone, where plain numbers are wanted."""
    if word not in PLAIN:
        raise BadInput(
            f"{name}: columns of {word} files are always encoded, and plain numbers were expected. "
            f"Write the rows as CSV or Parquet{otherwise}."
        )


def _require_additive(options: SourceOptions) -> None:
    """Refuse settings of additive models where none is asked for."""
    names = ("pairs", "knots", "pair_bins")
    given = [name for name in names if getattr(options, name) is not None]
    if given and options.encode not in ADDITIVE:
        raise BadInput(
            f"`{given[0]}` is of additive models, and encode is {options.encode}. Say "
            "`encode=additive`, or leave it out."
        )
    if options.encode == "splines" and {"pairs", "pair_bins"} & set(given):
        raise BadInput("`encode=splines` has no pairs. Say `encode=additive`, or leave pairs out.")


def _as_before(asked: bool, options: SourceOptions, expected: Expected) -> bool:
    assert expected.schema is not None, "columns are known"
    encoded = expected.schema.encoding is not None
    if (asked and not encoded) or (encoded and options.encode == "none"):
        now, before = ("are to be", "are not") if asked else ("are not to be", "are")
        raise BadInput(
            f"The columns {now} encoded, but those of {expected.whose} {before}. Leave `encode`, "
            "`column`, `cross` and `bins` out."
        )
    if encoded and options.encode == "linear" and _is_additive(expected.schema):
        raise BadInput(
            f"The columns are to be without curves, but those of {expected.whose} have some. Leave "
            "`encode` out."
        )
    if encoded and options.encode in ADDITIVE and not _is_additive(expected.schema):
        raise BadInput(
            f"The columns are to be those of an additive model, but those of {expected.whose} are "
            "not. Leave `encode` out."
        )
    other = contradiction(options, expected.schema.reading) if encoded else None
    if other is not None:
        name, now, before = other
        raise BadInput(
            f"`{name}` is {_in_words(now)}, but it was {_in_words(before)} when the recipe of "
            f"{expected.whose} was made, which is used as it is. Leave `{name}` out."
        )
    return encoded


def _is_additive(schema: Schema) -> bool:
    return schema.encoding is not None and "additive" in schema.encoding.recipe


def _in_words(setting: Any) -> str:
    """Return a setting in words."""
    if isinstance(setting, dict):
        setting = [f"{name}={kind}" for name, kind in setting.items()]
    if isinstance(setting, list):
        return ", ".join(setting) or "left out"
    return "left out" if setting is None else str(setting)
