"""Columns of lists: of numbers, as many in each (embeddings), or of words (tags)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import model_validator

from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.encoding.cells import (
    LARGEST_ENCODED,
    Floats,
    Mask,
    is_numeric,
    is_text,
    mean_and_deviation,
    words_of,
)
from fewpass.pipeline.tables.encoding.column_recipe import ColumnRecipe, Deviation, require_sizes
from fewpass.pipeline.tables.encoding.terms import ColumnTerms, ListCell, TagsTerm, VectorTerm
from fewpass.pipeline.tables.encoding.text import Ragged

_FITTED_VALUES = 1 << 19  # numbers of a sample that are looked at at once, in double


class EmbeddingColumn(ColumnRecipe):
    """List of as many numbers in every row, standardised; one column for missing or empty ones."""

    is_group: ClassVar[bool] = False

    kind: Literal["vector"] = "vector"
    mean: tuple[float, ...]
    deviation: tuple[Deviation, ...]

    @model_validator(mode="after")
    def _fits(self) -> EmbeddingColumn:
        if len(self.mean) != len(self.deviation):
            raise ValueError(f"{len(self.mean)} means have {len(self.deviation)} deviations")
        ratios = (-mean / size for mean, size in zip(self.mean, self.deviation, strict=True))
        require_sizes("mean", *ratios)
        return self

    @property
    def outputs(self) -> list[str]:
        """Return a name per number, and the indicator's."""
        return [*(f"{self.name}[{k}]" for k in range(len(self.mean))), f"{self.name} is missing"]

    @property
    def n_slots(self) -> int:
        return self.width

    @property
    def wanted(self) -> str:
        return f"{counted(len(self.mean), 'number')} of usual size were"

    @property
    def summary(self) -> str:
        return f"{counted(len(self.mean), 'number')}, standardised"

    def described(self) -> ColumnTerms:
        terms = (VectorTerm(at=0, mean=self.mean, deviation=self.deviation),)
        return ColumnTerms(columns=(self.name,), read=ListCell(cell="numbers"), terms=terms)


class Tags(ColumnRecipe):
    """A column for each word that the sample has often, and one for all others."""

    is_group: ClassVar[bool] = False

    kind: Literal["tags"] = "tags"
    values: tuple[str, ...]

    @property
    def outputs(self) -> list[str]:
        return [*(f"{self.name}={value}" for value in self.values), f"{self.name} rare or unseen"]

    @property
    def summary(self) -> str:
        return f"lists of {counted(len(self.values), 'word')}, and one for rare or unseen ones"

    def described(self) -> ColumnTerms:
        terms = (TagsTerm(at=0, values=self.values),)
        return ColumnTerms(columns=(self.name,), read=ListCell(cell="words"), terms=terms)


def scaled_vectors(
    cells: Any, mean: Sequence[float], deviation: Sequence[float]
) -> tuple[Ragged, Mask | None]:
    """Return the entries of lists of numbers, standardised, and which are bad (n,).

    Bad is one of another length, or far larger than those of the sample.
    """
    size = len(mean)
    values, usable, bad = vectors_in(cells, size)
    scaled = np.nan_to_num((values - np.array(mean)) / np.array(deviation))
    bad[usable] = (np.abs(scaled) > LARGEST_ENCODED).any(axis=1)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.where(usable, size, 1))])
    column, value = np.full(starts[-1], size), np.ones(starts[-1])
    places = (starts[:-1][usable][:, None] + np.arange(size)).ravel()
    column[places] = np.tile(np.arange(size), int(usable.sum()))
    value[places] = scaled.ravel()
    return Ragged(starts, column, value), bad if bad.any() else None


def tags_in(cells: Any, values: Sequence[str]) -> Ragged:
    """Return the entries of lists of words: 1 for each word that is there, however often."""
    words, rows = _words_in(cells)
    places = pc.index_in(words, value_set=pa.array(values, pa.large_string()))
    codes = places.fill_null(len(values)).to_numpy(zero_copy_only=False).astype(np.int64)
    width = len(values) + 1
    present = np.unique(rows * width + codes)
    starts = np.searchsorted(present, np.arange(len(cells) + 1) * width)
    return Ragged(starts, present % width, np.ones(len(present)))


def _words_in(cells: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the words of lists, an Arrow array (m,), and the row that each is of."""
    words = words_of(pc.list_flatten(cells))
    return words.drop_null(), rows_in(cells)[np.asarray(words.is_valid(), np.bool_)]


def rows_in(cells: Any) -> NDArray[np.int64]:
    """Return the row that each element of lists (n,) is of; of missing ones none is any's."""
    lengths = pc.fill_null(pc.list_value_length(cells), 0)
    return np.repeat(np.arange(len(cells)), np.asarray(lengths, np.int64))


def vectors_in(cells: Any, size: int) -> tuple[Floats, Mask, Mask]:
    """Return lists of `size` numbers (m, size), which rows (n,) they are, and those of others.

    Empty lists are missing ones.
    """
    lengths = pc.fill_null(pc.list_value_length(cells), 0)
    filled = np.asarray(pc.greater(lengths, 0), np.bool_) & np.asarray(cells.is_valid(), np.bool_)
    usable = filled & np.asarray(pc.equal(lengths, size), np.bool_)
    bad = filled & ~usable
    numbers = pc.cast(pc.list_flatten(cells.filter(pa.array(usable))), pa.float64(), safe=False)
    values = np.array(numbers.to_numpy(zero_copy_only=False)).reshape(int(usable.sum()), size)
    return np.where(np.isfinite(values), values, np.nan), usable, bad


def fitted_vector(name: str, cells: Any) -> EmbeddingColumn:
    """Standardise by a sample, whose commonest length, but for empty lists, is that of all."""
    lists = cells.drop_null()
    lengths = pc.list_value_length(lists)
    filled = lengths.filter(pc.greater(lengths, 0))
    size = pc.mode(filled)[0]["mode"].as_py() if len(filled) else 0
    mean, deviation = _moments(lengths, lists, size)
    usable = np.where(deviation > 1e-12 * np.abs(mean), deviation, 1.0)
    return EmbeddingColumn(name=name, mean=tuple(mean.tolist()), deviation=tuple(usable.tolist()))


def _moments(lengths: Any, cells: Any, size: int) -> tuple[Floats, Floats]:
    """Return mean and deviation (size,) of lists of that length, some of the columns at a time.

    `lengths` are those of all `cells`, empty ones too.
    """
    fitting = pc.equal(lengths, size)
    cells = cells if pc.all(fitting).as_py() else cells.filter(fitting)
    values = pc.list_flatten(cells).to_numpy(zero_copy_only=False).reshape(len(cells), size)
    step = max(1, _FITTED_VALUES // max(1, len(values)))
    moments = [np.zeros((2, 0))]
    for first in range(0, size, step):
        some = values[:, first : first + step].astype(np.float64)
        moments.append(np.array(mean_and_deviation(np.where(np.isfinite(some), some, np.nan))))
    mean, deviation = np.concatenate(moments, axis=1)
    return mean, deviation


def fitted_tags(name: str, cells: Any, enough: int, most: int) -> Tags:
    """Give a column to the words that `enough` rows of a sample have, at most to `most`."""
    words, rows = _words_in(cells)
    coded = words.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    values = coded.dictionary.to_pylist()
    pairs = np.unique(rows * max(1, len(values)) + codes)
    counts = np.bincount(pairs % max(1, len(values)), minlength=len(values))
    often = [(-int(counts[k]), values[k]) for k in np.flatnonzero(counts >= enough).tolist()]
    return Tags(name=name, values=tuple(sorted(word for _, word in sorted(often)[:most])))


def is_list(kind: Any) -> bool:
    """Return whether an Arrow type is lists."""
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_list_of_numbers(kind: Any) -> bool:
    """Return whether an Arrow type is lists of numbers."""
    return is_list(kind) and is_numeric(kind.value_type)


def is_list_of_words(kind: Any) -> bool:
    """Return whether an Arrow type is lists of text."""
    return is_list(kind) and is_text(kind.value_type)
