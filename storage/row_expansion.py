"""The maker of rows out of stored codes: the recipe of a schema, which others know.

Storage reads bytes and knows no recipes, so the package that has both says here how codes are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from fewpass.storage.column_schema import Schema


class RowExpansion(Protocol):
    """The contract of what makes rows of codes."""

    n_codes: int
    n_outputs: int

    def expand(
        self, codes: NDArray[Any], indptr: NDArray[Any], indices: NDArray[Any], data: NDArray[Any]
    ) -> int:
        """Write the values of rows, codes (m, n), that are not 0; return how many.

        -1 where there is no room for all.
        """


_makers: list[Callable[[Schema], RowExpansion]] = []


def expand_by(made_of: Callable[[Schema], RowExpansion]) -> None:
    """Have codes expanded by what a function makes of a schema."""
    _makers[:] = [made_of]


def expansion_of(schema: Schema) -> RowExpansion:
    """Return what makes rows of codes."""
    return _makers[0](schema)
