"""Columns of maps: in every row some names, each with a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from fewpass.pipeline.tables.encoding.cells import (
    LARGEST_CELL,
    LARGEST_ENCODED,
    Floats,
    Mask,
    is_numeric,
    words_of,
)
from fewpass.pipeline.tables.encoding.column_recipe import LARGEST, ColumnRecipe
from fewpass.pipeline.tables.encoding.lists import rows_in
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, ListCell, MapTerm
from fewpass.pipeline.tables.encoding.text import Ragged


class Pairs(NamedTuple):
    """Names and numbers of all rows, one after the other; none is missing or infinite."""

    rows: NDArray[np.int64]  # (m,) ascending
    names: Any  # (m,) an Arrow array of words
    values: Floats  # (m,)


class Map(ColumnRecipe):
    """A column per name that the sample has often, for its number; one for all other names."""

    is_group: ClassVar[bool] = False

    kind: Literal["map"] = "map"
    names: tuple[str, ...]
    scale: tuple[Annotated[float, Field(gt=0.0, le=LARGEST)], ...]
    """The factor of every name's number, so that the sample's have mean square 1."""
    per_row: Annotated[float, Field(ge=0.0)]
    """Names of a row, on average."""

    @model_validator(mode="after")
    def _fits(self) -> Map:
        if len(self.scale) != len(self.names):
            raise ValueError(f"{len(self.names)} names have {len(self.scale)} numbers as scale")
        return self

    @property
    def outputs(self) -> list[str]:
        return [*(f"{self.name}[{name}]" for name in self.names), f"{self.name} rare or unseen"]

    @property
    def width(self) -> int:
        return len(self.names) + 1

    @property
    def n_slots(self) -> int:
        return max(1, round(self.per_row))

    @property
    def wanted(self) -> str:
        return "numbers of usual size were"

    @property
    def summary(self) -> str:
        return f"map of {len(self.names)} names to numbers, rare or unseen ones counted together"

    def described(self) -> ColumnTerms:
        terms = (MapTerm(at=0, names=self.names, scale=self.scale),)
        return ColumnTerms(columns=(self.name,), read=ListCell(cell="map"), terms=terms)


def scaled_maps(
    cells: Any, names: Sequence[str], scale: Sequence[float]
) -> tuple[Ragged, Mask | None]:
    """Return the entries of maps, and which are bad (n,): far larger than those of the sample.

    A name that comes twice in a row has the sum of its numbers.
    """
    rows, given, values = pairs_in(cells)
    places = pc.index_in(given, value_set=pa.array(names, pa.large_string()))
    codes = places.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
    value = np.where(codes < len(names), values, 1.0) * np.array([*scale, 1.0])[codes]
    width = len(names) + 1
    present, at = np.unique(rows * width + codes, return_inverse=True)
    starts = np.searchsorted(present, np.arange(len(cells) + 1) * width)
    sums = np.bincount(at, value, minlength=len(present)).astype(np.float64)
    bad = np.zeros(len(cells), np.bool_)
    bad[present[np.abs(sums) > LARGEST_ENCODED] // width] = True
    return Ragged(starts, present % width, sums), bad if bad.any() else None


def pairs_in(cells: Any) -> Pairs:
    """Take maps (n,) apart."""
    kind = cells.type
    plain = pa.list_(pa.struct([("key", kind.key_type), ("value", kind.item_type)]))
    lists = cells.cast(plain)
    flat = pc.list_flatten(lists)
    rows = rows_in(lists)
    values = pc.cast(pc.struct_field(flat, 1), pa.float64(), safe=False)
    numbers = np.array(values.to_numpy(zero_copy_only=False), np.float64)
    names = words_of(pc.struct_field(flat, 0))
    there = np.isfinite(numbers) & np.asarray(names.is_valid(), np.bool_)
    return Pairs(rows[there], names.filter(pa.array(there)), numbers[there])


def fitted_map(name: str, cells: Any, enough: int, most: int) -> Map:
    """Give a column to the names that `enough` rows of a sample have, at most to `most`."""
    _, names, values = pairs_in(cells)
    coded = names.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    words = coded.dictionary.to_pylist()
    counts = np.bincount(codes, minlength=len(words))
    usual = np.where(np.abs(values) <= LARGEST_CELL, values, 0.0)
    squares = np.bincount(codes, usual * usual, minlength=len(words))
    often = [(-int(counts[k]), words[k], k) for k in np.flatnonzero(counts >= enough).tolist()]
    chosen = sorted((word, k) for _, word, k in sorted(often)[:most])
    sizes = [float(np.sqrt(squares[k] / counts[k])) for _, k in chosen]
    return Map(
        name=name, names=tuple(word for word, _ in chosen),
        scale=tuple(1.0 / size if 1.0 / LARGEST < size < np.inf else 1.0 for size in sizes),
        per_row=round(len(values) / max(1, len(cells)), 3),
    )  # fmt: skip


def is_map_to_numbers(kind: Any) -> bool:
    """Return whether an Arrow type is maps from words to numbers."""
    return bool(pa.types.is_map(kind)) and is_numeric(kind.item_type)
