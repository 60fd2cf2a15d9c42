"""Which column is what: by name or position, the same for CSV, Parquet and NPY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pipeline.errors import BadInput
from pipeline.sources.options import Column, SourceOptions

#: Names that a target column goes by, in any case.
_TARGET_NAMES = ("label", "target", "y", "class")
_LISTED = 20


class Columns(NamedTuple):
    """What every column of a source is used for."""

    names: tuple[str, ...] | None
    n_columns: int
    label: int | None
    weight: int | None
    features: tuple[int, ...]

    def title(self, column: int) -> str:
        """Column as a message calls it."""
        if self.names:
            return f"column '{self.names[column]}'"
        return f"column {column} (counting from 0)"

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features in their order."""
        return tuple(self.names[k] for k in self.features) if self.names else None

    def advice(self, column: int) -> str:
        """How to leave a column out, on the command line."""
        return f"--drop {self.names[column]!r}" if self.names else f"--drop {column}"


def choose(
    names: Sequence[str] | None,
    n_columns: int,
    options: SourceOptions,
    where: str,
    default_label: int | None = None,
) -> Columns:
    """Find the label, the weight and the features among the columns of the file `where`.

    Raises
    ------
    BadInput
        A column that is not there or named twice, no label, no feature, or a width other than
        `n_features`.
    """
    known = _Header(tuple(names) if names is not None else None, n_columns, where)
    label = _label(known, options, default_label)
    weight = None if options.weight is None else known.position(options.weight, "weight")
    dropped = {known.position(column, "drop") for column in options.drop}
    if weight is not None and weight == label:
        raise BadInput(f"{where}: column {options.weight!r} is label and weight. Name two columns.")
    if dropped & {label, weight}:
        raise BadInput(f"{where}: the label or the weight is also dropped. Drop other columns.")
    used = dropped | {label, weight}
    features = tuple(k for k in range(n_columns) if k not in used)
    _check_width(features, options, where)
    return Columns(known.names, n_columns, label, weight, features)


def _check_width(features: tuple[int, ...], options: SourceOptions, where: str) -> None:
    if not features:
        raise BadInput(
            f"{where}: no feature is left beside the label, the weight and what is dropped. "
            "Check --label and --drop, and the delimiter of a CSV file (--delimiter)."
        )
    if options.n_features not in {None, len(features)}:
        raise BadInput(
            f"{where}: {len(features)} feature columns, but {options.n_features} were asked for. "
            "Drop the other columns (--drop), or leave --features out."
        )


def _label(known: _Header, options: SourceOptions, default: int | None) -> int | None:
    if options.label is not None:
        absent = isinstance(options.label, str) and not known.has(options.label)
        if absent and not options.label_required:
            return None
        return known.position(options.label, "label")
    if default is not None:
        return default % known.n_columns if options.label_required else None
    fitting = [k for k, name in enumerate(known.names or ()) if name.lower() in _TARGET_NAMES]
    if len(fitting) == 1:
        return fitting[0]
    if not options.label_required:
        return None
    found = "has no header" if not known.names else f"has {len(fitting)} columns of such names"
    raise BadInput(
        f"{known.where}: no setting says which column holds the targets, and the file {found} "
        f"({', '.join(_TARGET_NAMES)}). Name it by --label, as a name or a position (-1: the last)."
    )


class _Header(NamedTuple):
    """Columns of one file, and its name for messages."""

    names: tuple[str, ...] | None
    n_columns: int
    where: str

    def has(self, name: str) -> bool:
        return name in (self.names or ()) or _as_position(name) is not None

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
        more = ", ..." if len(self.names) > _LISTED else ""
        return f"The columns are: {', '.join(map(repr, self.names[:_LISTED]))}{more}."


def _as_position(column: Column) -> int | None:
    """Number that stands for a position; text from a command line may hold one."""
    if isinstance(column, int):
        return column
    try:
        return int(column)
    except ValueError:
        return None
