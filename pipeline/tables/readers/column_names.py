"""Columns by name or by number, as settings call them."""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import Column

_LISTED = 20


class ColumnNames(NamedTuple):
    """Columns of one file, and its name for messages."""

    names: tuple[str, ...] | None
    n_columns: int
    where: str

    def has(self, name: str) -> bool:
        """Say whether a column has that name, or the name is a position."""
        return name in (self.names or ()) or as_position(name) is not None

    def same_name(self, names: tuple[str, ...] | None, column: int | None) -> int | None:
        """Position of the column that has the name of another file's column; None without one."""
        if column is None or names is None or self.names is None:
            return None
        name = names[column]
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
        position = as_position(column)
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


def as_position(column: Column) -> int | None:
    """Number that stands for a position; text from a command line may hold one."""
    if isinstance(column, int):
        return column
    try:
        return int(column)
    except ValueError:
        return None
