"""Functions of two columns at once: products of the features of each, those that rows have.

The axis of a number has a hat at each of some knots, two of which are non-zero; that of a category
one feature for each of its most frequent levels, one for all others and one for missing ones.
"""

from __future__ import annotations

import base64
import zlib
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field, model_validator

from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.pipeline.tables.encoding.column_recipe import (
    OF_RECIPES,
    ColumnRecipe,
    MissingAs,
    require_ascending,
)
from fewpass.pipeline.tables.encoding.date_parts import Part
from fewpass.pipeline.tables.encoding.variables import MISSING, RARE, Variable

#: Features of a pair, at most; what each is multiplied by.
MOST_CELLS = 4096
SCALE = 0.5


class HatAxis(BaseModel):
    """A number, between the two nearest of some knots."""

    model_config = OF_RECIPES

    kind: Literal["hats"] = "hats"
    column: str
    part: Part = ""
    knots: Annotated[tuple[float, ...], Field(min_length=2)]
    has_missing: Annotated[bool, Field(exclude_if=lambda has: not has)] = False
    """True where missing numbers have features, too: only where functions are taken apart."""
    missing_as: MissingAs = None
    """The number that missing ones count as, where the sample has none; None: they are missing."""

    @model_validator(mode="after")
    def _fits(self) -> HatAxis:
        require_ascending("knots", self.knots, strictly=True)
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Levels: those of the knots, and the missing one."""
        return (*(f"{knot:.6g}" for knot in self.knots), MISSING)

    @property
    def n_features(self) -> int:
        """Return the number of levels with features: missing ones usually have none."""
        return len(self.knots) + self.has_missing


class LevelAxis(BaseModel):
    """A category: one of its most frequent levels, any other, or missing."""

    model_config = OF_RECIPES

    kind: Literal["levels"] = "levels"
    column: str
    part: Part = ""
    values: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Levels, the rare one and the missing one last."""
        return (*self.values, RARE, MISSING)

    @property
    def n_features(self) -> int:
        """Levels that have features: all."""
        return len(self.values) + 2


AnyAxis = Annotated[HatAxis | LevelAxis, Field(discriminator="kind")]


class PairSelection(BaseModel):
    """Reason for taking a pair."""

    model_config = OF_RECIPES

    score: float
    """Of the interaction's gain above what chance gives."""
    z: float
    """The same in standard deviations."""
    df: float


class PairTable(ColumnRecipe):
    """The products of two axes, of which the sample has rows."""

    kind: Literal["pair"] = "pair"
    a: AnyAxis
    b: AnyAxis
    cells: str
    """Rows of the sample in every cell, shares of rows added, (levels of a, levels of b); float32,
    zlib, base64."""
    scale: Annotated[float, Field(gt=0.0)] = SCALE
    selection: PairSelection | None = None
    """None: it was asked for."""

    @model_validator(mode="after")
    def _fits(self) -> PairTable:
        masses_in(self.cells, self.shape)
        return self

    @property
    def columns(self) -> tuple[str, ...]:
        """Return its columns of the source: one, where both axes are parts of a date."""
        return tuple(dict.fromkeys((self.a.column, self.b.column)))

    @property
    def of(self) -> tuple[Variable, Variable]:
        """Return the variables that it is a function of."""
        return Variable(self.a.column, self.a.part), Variable(self.b.column, self.b.part)

    @property
    def shape(self) -> tuple[int, int]:
        """Levels of both axes."""
        return len(self.a.names), len(self.b.names)

    @property
    def masses(self) -> Floats:
        """Rows of the sample in every cell."""
        return masses_in(self.cells, self.shape)

    @property
    def places(self) -> NDArray[np.int64]:
        """The feature of every cell, (levels of a, levels of b); -1: it has none."""
        return _places(self.cells, self.shape, (self.a.n_features, self.b.n_features))

    @property
    def outputs(self) -> list[str]:
        one, other = (variable.title for variable in self.of)
        names = zip(*(index.tolist() for index in np.nonzero(self.places >= 0)), strict=True)
        return [f"{one}={self.a.names[i]} x {other}={self.b.names[j]}" for i, j in names]

    @property
    def width(self) -> int:
        return int(self.places.max()) + 1

    @property
    def n_slots(self) -> int:
        return (1 + (self.a.kind == "hats")) * (1 + (self.b.kind == "hats"))

    @property
    def summary(self) -> str:
        chosen = f", z {self.selection.z:.3g}" if self.selection else ", asked for"
        return f"a function of both, of {self.width} cells{chosen}"

    @property
    def is_complete(self) -> bool:
        """Return whether cells of missing numbers have features."""
        return any(axis.kind == "hats" and axis.has_missing for axis in (self.a, self.b))

    def complete(self) -> PairTable:
        """Return the same with a feature for every cell, also those that no row of the sample has.

        So the features of a row sum to `scale`, whatever the row is.
        """
        axes = {
            name: axis.model_copy(update={"has_missing": True}) if axis.kind == "hats" else axis
            for name, axis in (("a", self.a), ("b", self.b))
        }
        return self.model_copy(update={**axes, "cells": masses_text(np.ones(self.shape))})


def masses_text(masses: Floats) -> str:
    """Write the rows of cells down."""
    raw = masses.astype("<f4").tobytes()
    return base64.b64encode(zlib.compress(raw, 9)).decode()


@lru_cache(maxsize=256)
def _places(cells: str, shape: tuple[int, int], own: tuple[int, int]) -> NDArray[np.int64]:
    has = masses_in(cells, shape) > 0.0
    has[own[0] :] = False
    has[:, own[1] :] = False
    places = np.full(shape, -1)
    places[has] = np.arange(int(has.sum()))
    places.setflags(write=False)
    return places


@lru_cache(maxsize=256)
def masses_in(cells: str, shape: tuple[int, int]) -> Floats:
    """Return the rows of cells that are written down; ValueError where none are."""
    size = 4 * shape[0] * shape[1]
    try:
        raw = zlib.decompressobj().decompress(base64.b64decode(cells, validate=True), size + 1)
    except (ValueError, zlib.error) as error:
        raise ValueError(f"cells holds no numbers ({error})") from error
    if len(raw) != size:
        raise ValueError(f"cells holds {len(raw)} bytes for {size // 4} numbers of 4")
    masses = np.frombuffer(raw, "<f4").astype(np.float64).reshape(shape)
    if not (np.isfinite(masses).all() and (masses >= 0.0).all()):
        raise ValueError("cells holds numbers that are no counts")
    masses.setflags(write=False)
    return masses


MOST_SWEEPS, CONVERGED = 200, 1e-13  # of purification


def purified(values: Floats, masses: Floats) -> tuple[Floats, Floats, Floats]:
    """Return a table (A, B) without weighted means of rows and columns, and these: (A,), (B,)."""
    rows, columns = np.zeros(len(values)), np.zeros(values.shape[1])
    by_row, by_column = masses.sum(axis=1), masses.sum(axis=0)
    scale = max(float(np.abs(values).max(initial=0.0)), 1e-300)
    for _ in range(MOST_SWEEPS):
        r = (masses * values).sum(axis=1) / np.where(by_row > 0.0, by_row, 1.0)
        values = values - r[:, None]
        c = (masses * values).sum(axis=0) / np.where(by_column > 0.0, by_column, 1.0)
        values, rows, columns = values - c, rows + r, columns + c
        if max(np.abs(r).max(), np.abs(c).max()) <= CONVERGED * scale:
            break
    return values, rows, columns
