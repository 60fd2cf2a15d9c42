"""Which columns of a table are what: label, weight, features, and those that are handed on."""

from __future__ import annotations

from typing import Any

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.columns import TableColumns, choose
from fewpass.pipeline.tables.readers.source import Expected, SplitBy, TableReader

#: Of the first rows, as they are written: bytes that tell at a first look whether a table is more
#: than numbers, and those that decide on a recipe.
LOOK_BYTES, SAMPLE_BYTES = 1 << 20, 64 << 20


def chosen_columns(rows: TableReader, options: SourceOptions, expected: Expected) -> TableColumns:
    """Find label, weight, features, and other columns that are read.

    BadInput where `columns.choose` has it, or where one that is asked for is not there.
    """
    names = rows.names or tuple(f"x{k}" for k in range(len(rows.types)))
    dropped = tuple(name for name, kind in options.column.items() if kind == "drop")
    places = tuple(names.index(name) for name in dropped if name in names)
    changed: dict[str, Any] = {"drop": (*options.drop, *rows.index, *places)}
    if expected.schema is not None and expected.schema.encoding is not None:
        changed["n_features"] = None  # which counts what columns become
    options = options.model_copy(update=changed)
    where = rows.files[0].name
    columns = choose(rows.names, len(rows.types), options, where, expected)
    columns = columns._replace(passed=_passed_columns(columns, expected, where))
    if expected.split is None:
        return columns
    return columns._replace(split=_position_of(columns, expected.split, where))


def _position_of(columns: TableColumns, split: SplitBy, where: str) -> int:
    """Return the column that rows are held out by; BadInput where it is not there."""
    names = [*map(columns.name_of, range(columns.n_columns))]
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


def _passed_columns(columns: TableColumns, expected: Expected, where: str) -> tuple[int, ...]:
    """Return the columns whose cells are handed on; BadInput where one is not there."""
    names = [*map(columns.name_of, range(columns.n_columns))]
    for name in expected.passed:
        if name not in names:
            raise BadInput(
                f"{where}: no column {shown_name(name)}, which `keep` or `by` names. The columns "
                f"are: {', '.join(map(shown_name, names[:20]))}."
            )
    return tuple(names.index(name) for name in expected.passed)
