"""Names of hashed columns, next to the manifest: those in a sample of the source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import ConfigDict, Field, TypeAdapter

#: Key of the names in a data set.
KEY = "names.json"

#: Names by column, from 0; columns without a name in the sample are missing.
HashedNames = Mapping[Annotated[int, Field(ge=0)], str]

_HASHED_NAMES: TypeAdapter[HashedNames] = TypeAdapter(
    HashedNames, config=ConfigDict(defer_build=True)
)


def written(names: HashedNames) -> bytes:
    """Return names as JSON."""
    return _HASHED_NAMES.dump_json(names)


def read(raw: bytes, n_features: int) -> HashedNames:
    """Read names from JSON.

    Raises
    ------
    ValueError
        They are not names, or of columns beyond `n_features`.
    """
    names = _HASHED_NAMES.validate_json(raw)
    require_columns(names, n_features)
    return names


def require_columns(names: HashedNames, n_features: int) -> None:
    """Refuse names of columns that do not exist; ValueError."""
    last = max(names, default=-1)
    if last >= n_features:
        raise ValueError(f"it names column {last}, where there are {n_features}")
