"""Which columns of a table are what: label, weight, features, and those that are handed on."""

from __future__ import annotations

from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.columns import TableColumns, choose
from fewpass.pipeline.tables.readers.source import Expected, SplitBy, TableRows

#: Of the first rows, as they are written: bytes that tell at a first look whether a table is more
#: than numbers, and those that decide on a recipe.
LOOK_BYTES, SAMPLE_BYTES = 1 << 20, 64 << 20


def chosen_columns(rows: TableRows, options: SourceOptions, expected: Expected) -> TableColumns:
    """Find label, weight and features; BadInput where `columns.choose` does."""
    names = rows.names or tuple(f"x{k}" for k in range(len(rows.types)))
    dropped = tuple(name for name, kind in options.column.items() if kind == "drop")
    places = tuple(names.index(name) for name in dropped if name in names)
    changed: dict[str, Any] = {"drop": (*options.drop, *rows.index, *places)}
    if expected.schema is not None and expected.schema.encoding is not None:
        changed["n_features"] = None  # which counts what columns become
    options = options.model_copy(update=changed)
    return choose(rows.names, len(rows.types), options, rows.files[0].name, expected)


def name_of(columns: TableColumns, k: int) -> str:
    """Return what a column is called where it needs a name: x0, x1, ... without a header."""
    return columns.names[k] if columns.names else f"x{k}"


def position_of(columns: TableColumns, split: SplitBy, where: str) -> int:
    """Return the column that rows are held out by; BadInput where it is not there."""
    names = [name_of(columns, k) for k in range(columns.n_columns)]
    at = split.column
    if isinstance(at, str) and at in names:
        at = names.index(at)
    if isinstance(at, str) or not -len(names) <= at < len(names):
        raise BadInput(
            f"{where}: no column {split.column!r}, which `{split.setting}` names. The columns are: "
            f"{', '.join(map(repr, names[:20]))}."
        )
    if at % len(names) in (columns.label, columns.weight):
        raise BadInput(
            f"{where}: `{split.setting}={split.column}` is the label or the weight. Name another "
            "column."
        )
    return at % len(names)


def passed_columns(columns: TableColumns, expected: Expected, where: str) -> list[int]:
    """Return the columns whose cells are handed on; BadInput where one is not there."""
    names = [name_of(columns, k) for k in range(columns.n_columns)]
    for name in expected.passed:
        if name not in names:
            raise BadInput(
                f"{where}: no column {shown_name(name)}, which `keep` or `by` names. The columns "
                f"are: {', '.join(map(shown_name, names[:20]))}."
            )
    return [names.index(name) for name in expected.passed]


def used_columns(columns: TableColumns) -> list[int]:
    """Return the columns that are read."""
    return [*columns.features, *columns.single]
