"""Options of reading a source: the same words for every format."""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fewpass.pipeline.decimal_text import DECIMAL
from fewpass.pipeline.settings.encoding import ADDITIVE, Encoding, several
from fewpass.pipeline.settings.formats import Format
from fewpass.pipeline.settings.matching_options import Matching

Column = str | int


def _checked_null(word: str) -> str:
    if re.fullmatch(DECIMAL, word):
        raise ValueError(f"{word!r} is a number, which is one in every column. Name words.")
    return word


def _checked_charset(word: str | None) -> str | None:
    if word is None:
        return None
    try:
        "".encode(codecs.lookup(word).name)
    except LookupError as error:
        raise ValueError(
            f"{word!r} is no charset. Write for example latin-1, cp1252 or utf-16."
        ) from error
    return word


_VERSION = r"^\d{1,19}(/\d{1,9})?$"


def _checked_version(word: str) -> str:
    if not re.fullmatch(_VERSION, word):
        raise ValueError("it should be a whole number of at least 0, as the table's log has it")
    return word


#: Ids of snapshots have more digits than numbers of JSON may have.
TableVersion = Annotated[
    str, BeforeValidator(lambda given: str(given) if type(given) is int else given),
    AfterValidator(_checked_version), Field(json_schema_extra={"pattern": _VERSION}),
]  # fmt: skip


class SourceOptions(Matching, Encoding):
    """Options of reading files, and of matching and encoding their columns."""

    format: Format = "auto"
    """Format of the files; auto: recognised by name and first bytes."""
    label: Column | None = None
    """Column of the targets, by name or position from 0 (-1: the last) [default: in CSV and Parquet
    the only column called label, target, y or class; in NPY the last].  LIBSVM and NPZ have a fixed
    place for it and refuse the setting."""
    label_required: bool = True
    """False: rows without a target are read too, with NaN as target.  For predictions."""
    weight: Column | None = None
    """Column of the row weights (>= 0), by name or position; rows of weight 0 are not learnt from
    [default: every row counts once]."""
    offset: Column | None = None
    """Column of numbers that are added to every row's score, by name or position: of tables, for
    losses of numbers.  Predictions need it, too."""
    exposure: Column | None = None
    """Column of what counts are in proportion to (> 0), such as time or population: its logarithm
    is the offset."""
    drop: Annotated[tuple[Column, ...], BeforeValidator(several)] = ()
    """Column to leave out, by name or position; may be repeated."""
    n_features: int | None = Field(default=None, ge=1)
    """Width of the rows; a wider row is refused [default: as wide as the data]."""
    zero_based: bool = False
    """LIBSVM indices start at 0 instead of 1."""
    on_bad_row: Literal["refuse", "skip"] = "refuse"
    """Stop at a bad row, or skip it, count it and say why."""
    missing: Literal["refuse", "zero"] = "refuse"
    """A missing feature (an empty cell, NA, NaN, null, none, ?) makes its row a bad one, or is read
    as zero.  Targets and weights may never be missing."""
    null_values: Annotated[
        tuple[Annotated[str, AfterValidator(_checked_null)], ...] | None, BeforeValidator(several)
    ] = None
    """Word that stands for a missing value in place of the usual ones; may be repeated, "" alone
    means empty cells [default: NA, n/a, NaN, null, None, ? and the like]."""
    dtype: Literal["float32", "float64"] = "float32"
    """Type of the stored features.  Numbers are read as float64 and then rounded to it."""
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    """Character between CSV cells; a space stands for any run of blanks [default: tab for .tsv,
    else the most frequent of , ; | and tab in the first line; blanks if it has none of them]."""
    quote: Literal["auto", "double", "none"] = "auto"
    """What encloses CSV cells that contain delimiters or line breaks: double quotes, or nothing, so
    that quotes are part of the text; auto: double quotes, unless the first lines show otherwise."""
    charset: Annotated[str | None, AfterValidator(_checked_charset)] = None
    """Character encoding of text, such as latin-1 or utf-16 [default: UTF-8; UTF-16 if the text
    begins with its mark; Windows-1252 if the first lines of a table are not UTF-8]."""
    header: bool | None = None
    """Whether the first CSV line names the columns [default: it does if no cell is a number]."""
    query: str | None = Field(default=None, min_length=1)
    """Rows of a database: the name of a table, or a SELECT; end it with ORDER BY and a unique
    column, so that rows come in the same order again [default: an SQLite file's only table]."""
    table_version: TableVersion | None = None
    """Version of a Delta Lake table, or id of the snapshot of an Iceberg one, with the columns that
    it had [default: the newest when it is opened, with the table's columns of now]."""

    @property
    def is_encoded(self) -> bool:
        """True if columns are encoded whatever they hold."""
        return self.encode == "always" or self.encode in ADDITIVE

    @property
    def asks_of_encoded(self) -> bool:
        """True if a setting makes sense for columns that are encoded only."""
        return bool(self.column or self.cross or self.bins)

    @property
    def names_offset(self) -> bool:
        """True if a column is an offset or an exposure."""
        return self.offset is not None or self.exposure is not None


#: Settings that hold for every file like one that was read with them.
REMEMBERED = ("missing", "delimiter", "quote", "header", "charset")
#: Settings that a recipe is fitted by, and that no file read with the recipe can change.
OF_RECIPE = (
    "column", "cross", "idf", "hash_bits", "ranks", "bins", "pairs", "knots", "pair_bins",
    "null_values",
)  # fmt: skip


def unusual(options: SourceOptions) -> dict[str, Any]:
    """Return the settings, as JSON has them, that a data set remembers of how it was read."""
    names = {*REMEMBERED, *OF_RECIPE}
    return options.model_dump(mode="json", include=names, exclude_defaults=True)


def contradiction(
    options: SourceOptions, reading: Mapping[str, Any]
) -> tuple[str, Any, Any] | None:
    """Find a setting that a recipe was fitted with otherwise: its name, what it is, what it was."""
    now, usual = unusual(options), SourceOptions().model_dump(mode="json")
    for name in (*OF_RECIPE, "missing"):
        before = reading.get(name, usual[name])
        if name in now and now[name] != before:
            return name, now[name], before
    return None


def as_remembered(options: SourceOptions, reading: Mapping[str, Any]) -> SourceOptions:
    """Return settings with those of an earlier reading where nothing else was said."""
    fields = SourceOptions.model_fields
    usual = {name for name in REMEMBERED if getattr(options, name) == fields[name].default}
    remembered = {name: value for name, value in reading.items() if name in usual}
    return (
        SourceOptions.model_validate(options.model_dump() | remembered) if remembered else options
    )
