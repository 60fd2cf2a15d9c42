"""The columns of a source, as recorded in data sets and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, JsonValue, model_validator

#: Key of the schema in a data set: separate from the manifest, as there may be a million names.
KEY = "schema.json"

Role = Literal["feature", "label", "weight", "offset", "exposure", "dropped"]
Position = Annotated[int, Field(ge=0)]


class SourceColumn(NamedTuple):
    """One column of a source."""

    name: str | None  # None: the source names no columns
    type: str  # as in the source; "number" and "text" in CSV
    role: Role


class FeatureRange(NamedTuple):
    """Features that follow one another."""

    first: Position
    number: Annotated[int, Field(ge=1)]


class GroupedChoice(NamedTuple):
    """A lam that was chosen by groups of rows, each held out as a whole."""

    by: str  # the column of groups
    lam: Annotated[float, Field(gt=0.0)]  # of 1/n
    loss: float  # mean over the held-out rows
    rows: Annotated[int, Field(ge=1)]  # that models learnt from
    held_out_rows: Annotated[int, Field(ge=1)]


Groups = NDArray[np.int32]


def groups_of(n_features: int, ranges: Iterable[FeatureRange]) -> Groups:
    """Return the group of every feature (n_features,): ranges, and each other feature alone."""
    begins = np.ones(n_features, np.int32)
    for one in ranges:
        begins[one.first + 1 : one.first + one.number] = 0
    return np.cumsum(begins, dtype=np.int32) - np.int32(1)


class EncodingRecord(BaseModel):
    """The encoding of columns as features, if they are not features themselves."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    n_features: Annotated[int, Field(ge=1)]
    """Number of features."""
    recipe: dict[str, Any]
    """Encoding of each column, as defined by the pipeline."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """Columns that were left out without being asked to, and why."""
    groups: tuple[FeatureRange, ...] = ()
    """Features that one column became, first and number of them, where these belong together."""
    reach: Annotated[float, Field(ge=1.0)] = 1.0
    """Times the largest number of a column that its line reaches, where one goes on."""
    grouped: GroupedChoice | None = None
    """The lam that whole groups of rows chose; None: they did not."""
    form_lam: Annotated[float, Field(gt=0.0)] | None = None
    """The lam, of 1/n, that held-out rows chose with curves and pairs; None: there are none."""


class Schema(BaseModel):
    """All columns of a source, in the source's order.

    Stored as one array per property, as there may be a million columns.  Names are as in the
    source, with any characters.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    names: tuple[str, ...] | None
    """(n,) None: the source names no columns."""
    types: tuple[str, ...]
    """(n,) as in the source."""
    label: Position | None = None
    weight: Position | None = None
    offset: Position | None = None
    """The number added to every row's score."""
    exposure: Position | None = None
    """The number that counts are in proportion to: its logarithm is the offset."""
    dropped: tuple[Position, ...] = ()
    """Columns that are not used."""
    encoding: EncodingRecord | None = None
    """None: every column that is neither label, weight, offset, exposure nor dropped is a
    feature."""
    reading: dict[str, JsonValue] = Field(default_factory=dict)
    """Settings with which the source was read, except defaults."""

    @model_validator(mode="after")
    def _adds_up(self) -> Schema:
        n = len(self.types)
        if self.names is not None and len(self.names) != n:
            raise ValueError(f"it has {len(self.names)} names and {n} types of columns")
        others = self._others
        if len(set(others)) < len(others) or any(k >= n for k in others) or len(others) >= n:
            raise ValueError("its columns have roles that they cannot have")
        names = self.feature_names
        if names is not None and len(set(names)) < len(names):
            raise ValueError("two of its features have the same name")
        return self

    @property
    def _others(self) -> tuple[int, ...]:
        single = (self.label, self.weight, self.offset, self.exposure)
        return (*(k for k in single if k is not None), *self.dropped)

    @cached_property
    def features(self) -> tuple[int, ...]:
        """Positions of the columns that are features, or are encoded as features; ascending."""
        others = set(self._others)
        return tuple(k for k in range(len(self.types)) if k not in others)

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.encoding.n_features if self.encoding else len(self.features)

    @property
    def feature_groups(self) -> Groups | None:
        """The group of every feature (d,); None where no column became several."""
        if self.encoding is None or not self.encoding.groups:
            return None
        return groups_of(self.n_features, self.encoding.groups)

    def written(self) -> bytes:
        """Return the schema as JSON."""
        absent = [name for name in ("encoding", "reading") if not getattr(self, name)]
        absent += [name for name in ("offset", "exposure") if getattr(self, name) is None]
        return self.model_dump_json(exclude=set(absent)).encode()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns in `features`, in their order."""
        return None if self.names is None else tuple(self.names[k] for k in self.features)

    @property
    def other_names(self) -> frozenset[str]:
        """Names of the columns that are not features."""
        return frozenset() if self.names is None else frozenset(self.names[k] for k in self._others)

    @property
    def columns(self) -> Iterator[SourceColumn]:
        """Yield all columns."""
        roles: dict[int, Role] = dict.fromkeys(self.dropped, "dropped")
        single: tuple[Role, ...] = ("label", "weight", "offset", "exposure")
        roles |= {getattr(self, r): r for r in single if getattr(self, r) is not None}
        names = self.names or (None,) * len(self.types)
        for k, (name, kind) in enumerate(zip(names, self.types, strict=True)):
            yield SourceColumn(name, kind, roles.get(k, "feature"))
