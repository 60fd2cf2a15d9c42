"""Whether the columns of a table are encoded, or read as plain numbers."""

from __future__ import annotations

from typing import Any, Literal

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import ADDITIVE
from fewpass.pipeline.settings.formats import PLAIN
from fewpass.pipeline.settings.source_options import SourceOptions, contradiction
from fewpass.pipeline.tables.readers.source import Expected, TableReader
from fewpass.storage.column_schema import Schema

#: Columns are taken by a recipe, or as the numbers that they are; undecided: their rows decide.
ColumnUse = Literal["recipe", "numbers", "undecided"]


def asked_columns(
    word: str, reader: TableReader, options: SourceOptions, expected: Expected
) -> ColumnUse:
    """Return how columns are taken: as was asked for, or was done before."""
    name = reader.files[0].name
    _require_additive(options)
    asked = is_wanted(options) or asks_of_encoded(options)
    if options.encode == "none" and asks_of_encoded(options):
        raise BadInput("`column`, `cross` and `bins` are for encoding. Leave `encode=none` out.")
    if expected.schema is not None:
        before = _as_before(asked, options, expected)
        if not before:
            _require_plain(word, name)
        return "recipe" if before else "numbers"
    by_name = names_offset(options) or expected.split is not None
    if options.encode == "none":
        _require_no_roles(options, expected)
        _require_plain(word, name, ", or say `encode=auto`")
        return "numbers"
    if word not in PLAIN or asks_of_encoded(options) or options.encode == "always" or by_name:
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
    if names_offset(options):
        raise BadInput("`offset` and `exposure` are for encoding. Leave `encode=none` out.")


def _require_plain(word: str, name: str, otherwise: str = "") -> None:
    """Refuse a format that is read as encoded columns alone, where plain numbers are wanted."""
    if word not in PLAIN:
        raise BadInput(
            f"{name}: columns of {word} files are always encoded, and plain numbers were expected. "
            f"Write the rows as CSV or Parquet{otherwise}."
        )


def is_wanted(options: SourceOptions) -> bool:
    """Say whether columns are encoded whatever they hold."""
    return options.encode == "always" or options.encode in ADDITIVE


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


def asks_of_encoded(options: SourceOptions) -> bool:
    """Say whether a setting makes sense for columns that are encoded only."""
    return bool(options.column or options.cross or options.bins)


def names_offset(options: SourceOptions) -> bool:
    """Say whether a column is an offset or an exposure."""
    return options.offset is not None or options.exposure is not None


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
