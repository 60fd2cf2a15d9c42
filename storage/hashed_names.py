"""Names of hashed columns, beside the manifest: those that a sample of the source had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, TypeAdapter

#: Where a data set keeps them.
KEY = "names.json"

#: Names by column, from 0; columns that no name of the sample was hashed to are not there.
HashedNames = Mapping[Annotated[int, Field(ge=0)], str]

_HASHED_NAMES: TypeAdapter[HashedNames] = TypeAdapter(HashedNames)


def written(names: HashedNames) -> bytes:
    """Return names as JSON."""
    return _HASHED_NAMES.dump_json(names)


def read(raw: bytes, n_features: int) -> HashedNames:
    """Read names of columns back.

    Raises
    ------
    ValueError
        When they are no names, or of columns beyond the `n_features`.
    """
    names = _HASHED_NAMES.validate_json(raw)
    require_columns(names, n_features)
    return names


def require_columns(names: HashedNames, n_features: int) -> None:
    """Refuse names of columns that there are not; ValueError."""
    last = max(names, default=-1)
    if last >= n_features:
        raise ValueError(f"it names column {last}, where there are {n_features}")
