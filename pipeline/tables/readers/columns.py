"""Roles of columns: by name or position, the same for CSV, Parquet and NPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import (
    listed,
    refuse_missing,
    refuse_nameless,
    refuse_unknown,
    require_distinct,
    shown_name,
)
from fewpass.pipeline.settings.source_options import Column, SourceOptions
from fewpass.pipeline.tables.readers.source import Expected, TableReader
from fewpass.storage.column_schema import Schema

#: Names that a target column goes by, in any case.
_TARGET_NAMES = ("label", "target", "y", "class")
_MOST_LISTED = 20
#: What columns are that are no features.
ROLES = ("label", "weight", "offset", "exposure")


class TableColumns(NamedTuple):
    """The use of every column of a source."""

    names: tuple[str, ...] | None
    n_columns: int
    label: int | None
    weight: int | None
    features: tuple[int, ...]  # in the order of the rows' features
    left_out: tuple[str, ...] = ()  # names of columns that the schema lacks
    offset: int | None = None
    exposure: int | None = None
    passed: tuple[int, ...] = ()  # whose cells are handed on as they are
    split: int | None = None  # that rows are held out by
    dropped: frozenset[int] = frozenset()

    def name_of(self, column: int) -> str:
        """Return what a column is called where it needs a name: x0, x1, ... without a header."""
        return self.names[column] if self.names else f"x{column}"

    @property
    def feature_names(self) -> list[str]:
        """Return what the features are called."""
        return [*map(self.name_of, self.features)]

    @property
    def read(self) -> list[int]:
        """Return all columns that are read, features first."""
        split = [] if self.split is None else [self.split]
        return list(dict.fromkeys([*self.features, *self.single, *self.passed, *split]))

    @property
    def single(self) -> tuple[int, ...]:
        """The columns that are no features and are read."""
        roles = (getattr(self, role) for role in ROLES)
        return tuple(k for k in roles if k is not None)

    def schema(self, types: Sequence[str]) -> Schema:
        """Describe the columns, of these types (n_columns,)."""
        used = {*self.single, *self.features}
        return Schema(
            names=self.names,
            types=tuple(types),
            label=self.label,
            weight=self.weight,
            offset=self.offset,
            exposure=self.exposure,
            dropped=tuple(k for k in range(self.n_columns) if k not in used),
        )

    def title(self, column: int) -> str:
        """Column as a message calls it."""
        if self.names:
            return f"column {shown_name(self.names[column])}"
        return f"column {column} (counting from 0)"

    def advice(self, column: int) -> str:
        """Return the way to leave a column out, on the command line."""
        return f"`drop={self.names[column]!r}`" if self.names else f"`drop={column}`"


class _Header(NamedTuple):
    """Columns of one file, and its name for messages."""

    names: tuple[str, ...] | None
    n_columns: int
    where: str

    def has(self, name: str) -> bool:
        """Say whether a column has that name, or the name is a position."""
        return name in (self.names or ()) or _as_position(name) is not None

    def place_of(self, role: str, options: SourceOptions, schema: Schema | None) -> int | None:
        """Position of the column that is asked for, or else has the name of the schema's."""
        if (asked := getattr(options, role)) is not None:
            return self.position(asked, role)
        column = None if schema is None else getattr(schema, role)
        if column is None or schema is None or schema.names is None or self.names is None:
            return None
        name = schema.names[column]
        return self.names.index(name) if name in self.names else None

    def position(self, column: Column, setting: str) -> int:
        """Position of a column, which must exist and be the only one of its name."""
        count = self.names.count(column) if self.names and isinstance(column, str) else 0
        if self.names and count == 1:
            return self.names.index(str(column))
        if count > 1:
            raise BadInput(
                f"{self.where}: {count} columns are named {column!r}, `{setting}` means one. "
                "Give its position (from 0)."
            )
        position = _as_position(column)
        if position is None or not -self.n_columns <= position < self.n_columns:
            raise BadInput(
                f"{self.where}: no column {column!r}, which `{setting}` names. {self._listed()}"
            )
        return position % self.n_columns

    def _listed(self) -> str:
        if not self.names:
            return f"The file has {self.n_columns} columns and no header; give a position (from 0)."
        more = ", ..." if len(self.names) > _MOST_LISTED else ""
        return f"The columns are: {', '.join(map(repr, self.names[:_MOST_LISTED]))}{more}."


def _as_position(column: Column) -> int | None:
    """Number that stands for a position; text from a command line may hold one."""
    if isinstance(column, int):
        return column
    try:
        return int(column)
    except ValueError:
        return None


def choose(
    names: Sequence[str] | None,
    n_columns: int,
    options: SourceOptions,
    where: str,
    expected: Expected,
    default_label: int | None = None,
) -> TableColumns:
    """Find the label, the weight and the features among the columns of the file `where`.

    Raises
    ------
    BadInput
        A column that is not there or named twice, no label, no feature, a width other than
        `n_features`, or other columns than are expected.
    """
    header = _Header(tuple(names) if names is not None else None, n_columns, where)
    by_name = _is_by_name(header, options, expected)
    columns = _roles(header, options, expected.schema, default_label, by_name=by_name)
    _check_roles(columns, where)
    _require_offset(columns, expected, where)
    used = columns.dropped | {*columns.single}
    columns = columns._replace(features=tuple(k for k in range(n_columns) if k not in used))
    if header.names:
        names_left = [name for k, name in enumerate(header.names) if k not in columns.dropped]
        require_distinct(names_left, where)
    if by_name:
        columns = _in_expected_order(columns, options, expected, where)
    _check_width(columns.features, options, where)
    return columns


def _is_by_name(header: _Header, options: SourceOptions, expected: Expected) -> bool:
    """Return whether features are found by their names; BadInput when only one side has some."""
    schema = expected.schema
    if not header.names:
        refuse_nameless(schema, header.where, expected.whose, options)
    return bool(schema and schema.names and header.names) and not options.by_position


def _roles(
    header: _Header, options: SourceOptions, schema: Schema | None, default_label: int | None, *,
    by_name: bool,
) -> TableColumns:  # fmt: skip
    """Find what the options ask for; else columns by the schema's names, or those of its number."""
    is_asked = any(getattr(options, role) is not None for role in ROLES) or options.drop
    if schema and not by_name and not is_asked and header.n_columns == len(schema.types):
        roles, dropped = [getattr(schema, role) for role in ROLES], frozenset(schema.dropped)
    else:
        like = schema if by_name else None
        roles = [header.place_of(role, options, like) for role in ROLES[1:]]
        if options.weight is None and not options.label_required:
            roles[0] = None
        roles = [_label(header, options, like, default_label), *roles]
        dropped = frozenset(header.position(column, "drop") for column in options.drop)
    label, weight, offset, exposure = roles
    return TableColumns(
        header.names, header.n_columns, label, weight, (), offset=offset, exposure=exposure,
        dropped=dropped,
    )  # fmt: skip


def _name(schema: Schema, column: int | None) -> str:
    return "" if column is None or schema.names is None else shown_name(schema.names[column])


def _check_roles(roles: TableColumns, where: str) -> None:
    own = {role: getattr(roles, role) for role in ROLES}
    for k in roles.single:
        named = [role for role, column in own.items() if column == k]
        if len(named) > 1:
            raise BadInput(f"{where}: column {k} is {' and '.join(named)}. Name two columns.")
    if roles.dropped & {*roles.single}:
        raise BadInput(
            f"{where}: the label, the weight or the offset is also dropped. Drop other columns."
        )
    if roles.offset is not None and roles.exposure is not None:
        raise BadInput(
            f"{where}: both an offset and an exposure are named. Add the logarithm of the exposure "
            "to the offset, and leave `exposure` out."
        )


def _require_offset(roles: TableColumns, expected: Expected, where: str) -> None:
    """Refuse rows without the offsets that those before had."""
    schema = expected.schema
    has_offset = roles.offset is not None or roles.exposure is not None
    if has_offset and schema is not None and schema.offset is None and schema.exposure is None:
        raise BadInput(
            f"{where}: an offset or an exposure is named, and {expected.whose} has none. Leave it "
            "out."
        )
    for role in ("offset", "exposure") if schema else ():
        column = getattr(schema, role)
        if column is not None and not has_offset:
            assert schema is not None, "it has a column"
            raise BadInput(
                f"{where} has no {role} column {_name(schema, column)}, which the rows of "
                f"{expected.whose} have. Name its own (`{role}`)."
            )


def _in_expected_order(
    columns: TableColumns, options: SourceOptions, expected: Expected, where: str
) -> TableColumns:
    """Put the features in the order of the schema; its other columns are no features here."""
    schema, names = expected.schema, columns.names
    assert schema is not None, "both sides have names"
    assert names is not None, "both sides have names"
    wanted = schema.feature_names or ()
    places = {names[k]: k for k in columns.features}
    refuse_missing(wanted, list(places), where, expected.whose)
    all_names = schema.other_names.union(wanted, expected.passed)
    extra = tuple(name for name in places if name not in all_names)
    refuse_unknown(extra, where, expected.whose, options)
    return columns._replace(features=tuple(places[name] for name in wanted), left_out=extra)


def _check_width(features: tuple[int, ...], options: SourceOptions, where: str) -> None:
    if not features:
        raise BadInput(
            f"{where}: no feature is left beside the label, the weight and what is dropped. "
            "Check `label` and `drop`, and the delimiter of a CSV file (`delimiter`)."
        )
    if options.n_features not in {None, len(features)}:
        raise BadInput(
            f"{where}: {len(features)} feature columns, but {options.n_features} were asked for. "
            "Drop the other columns (`drop`), or leave `n_features` out."
        )


def _label(
    header: _Header, options: SourceOptions, like: Schema | None, default: int | None
) -> int | None:
    if options.label is None and like is not None:
        label = header.place_of("label", options, like)
        if label is None and options.label_required:
            raise BadInput(
                f"{header.where} has no label column {_name(like, like.label)}, as there was "
                "before. Name its own (`label`)."
            )
        return label
    if options.label is not None:
        absent = isinstance(options.label, str) and not header.has(options.label)
        if absent and not options.label_required:
            return None
        return header.position(options.label, "label")
    if default is not None:
        return default % header.n_columns if options.label_required else None
    fitting = [k for k, name in enumerate(header.names or ()) if name.lower() in _TARGET_NAMES]
    if len(fitting) == 1:
        return fitting[0]
    if not options.label_required:
        return None
    if not header.names:
        reason = "the file has no header"
    elif fitting:
        reason = f"it could be any of {listed([header.names[k] for k in fitting])}"
    else:
        reason = f"none is called {' or '.join(_TARGET_NAMES)}; they are {listed(header.names)}"
    raise BadInput(
        f"{header.where}: which column holds the targets? No setting says so, and {reason}. "
        "Name it by `label`, as a name or a position (-1: the last)."
    )


#: Of the first rows, as they are written: bytes that tell at a first look whether a table is more
#: than numbers, and those that decide on a recipe.
LOOK_BYTES, SAMPLE_BYTES = 1 << 20, 64 << 20


def chosen_columns(rows: TableReader, options: SourceOptions, expected: Expected) -> TableColumns:
    """Find label, weight, features, and other columns that are read.

    BadInput where `choose` has it, or where one that is asked for is not there.
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
    split = expected.split
    if split is None:
        return columns
    header = _Header(tuple(map(columns.name_of, range(columns.n_columns))), len(rows.types), where)
    at = header.position(split.column, split.setting)
    if at in (columns.label, columns.weight):
        raise BadInput(
            f"{where}: `{split.setting}={split.column}` is the label or the weight. Name another "
            "column."
        )
    return columns._replace(split=at)


def _passed_columns(columns: TableColumns, expected: Expected, where: str) -> tuple[int, ...]:
    """Return the columns whose cells are handed on; BadInput where one is not there."""
    names = [*map(columns.name_of, range(columns.n_columns))]
    for name in expected.passed:
        if name not in names:
            raise BadInput(
                f"{where}: no column {shown_name(name)}, which `keep` or `by` names. The columns "
                f"are: {', '.join(map(shown_name, names[:20]))}."
            )
    passed = tuple(names.index(name) for name in expected.passed)
    return (*passed, *columns.features) if expected.passes_features else passed
