"""Figures of slices of the rows, each with an interval: `fewpass evaluate --by`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.rows.buffers import rows_taken
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.figure_sums import FigureSums
from fewpass.pipeline.scoring.reliability import wilson
from fewpass.pipeline.scoring.slices import SliceBy, require_few
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.solvers.states import each_field

#: Of scores, by which those of slices are counted: 3 % apart.
SLICE_BITS = 14


class Slice(NamedTuple):
    """Rows with one value of a column."""

    name: str
    evaluation: Evaluation
    loss_within: float  # 95 % of the time the mean loss of many such rows is no further away
    error_low: float | None  # 95 % interval (Wilson) of the share of wrong labels
    error_high: float | None


Sliced = tuple[Slice, ...]


class Slicing(NamedTuple):
    """Columns by which rows are put into slices, and the sums of each."""

    by: tuple[SliceBy, ...]
    columns: tuple[str, ...]  # that are read for it, each once
    what: Sum
    budget: Budget

    @classmethod
    def of(cls, asked: Sequence[str], model: Model, what: Sum, budget: Budget) -> Slicing:
        """Read what was asked for; BadInput where edges do not ascend."""
        by = tuple(SliceBy.of(one, model) for one in asked)
        return cls(by, tuple(dict.fromkeys(one.column for one in by)), what, budget)

    def scored(
        self, problem: Problem, at: Weights, block: Block, cells: Sequence[Any], where: str
    ) -> tuple[dict[str, Any], ...]:
        """Return the sums of every slice of a block, by each column.

        Raises BadInput where cells are not what slices are made of, or slices are too many.
        """
        of_columns = dict(zip(self.columns, cells, strict=True))
        return tuple(
            {
                name: sparse(
                    self.what.add(problem, at, rows_taken(block, rows), self.what.zero(at))
                )
                for name, rows in by.rows(of_columns[by.column], where).items()
            }
            for by in self.by
        )

    def add(self, total: Sequence[dict[str, Any]], parts: Sequence[dict[str, Any]]) -> None:
        """Add the sums of a block to those before; BadInput where slices are too many, or large."""
        for by, sums, part in zip(self.by, total, parts, strict=True):
            for name, own in part.items():
                sums[name] = add_parts(sums[name], own) if name in sums else own
            require_few(len(sums), by.column)
        slices = [part for sums in total for part in sums.values()]
        size = bytes_of(tuple(slices)) + BYTES_OF_PART * len(slices)
        self.budget.require_slices(size, len(slices))

    def figures(
        self, total: Sequence[dict[str, Any]], summed: Callable[[Any], Evaluation]
    ) -> tuple[tuple[str, Sliced], ...]:
        """Return the figures of all slices, ranges in their order, others by name."""
        return tuple(
            (
                by.column,
                tuple(_slice(name, whole(sums[name]), summed) for name in _ordered(by, sums)),
            )
            for by, sums in zip(self.by, total, strict=True)
        )


def _ordered(by: SliceBy, sums: dict[str, Any]) -> list[str]:
    return [
        name for name in by.ranges or sorted(sums) if name in sums and sums[name].loss.weight > 0
    ]


def _slice(name: str, total: FigureSums, summed: Callable[[Any], Evaluation]) -> Slice:
    figures, losses = summed(total), total.loss
    low = high = None
    if figures.error is not None:
        effective = losses.weight**2 / losses.squares  # rows of equal weight that say as much
        low, high = wilson(figures.error, effective)
    return Slice(name, figures, float(losses.within), low, high)


# -- parts of a sum whose arrays hold few numbers other than 0 -------------------------------------
#
# Histograms of the scores of one slice have a place for every score that there may be.

SMALL = 64  # numbers of an array that stays as it is
#: Bytes of a slice's sums beside the numbers of its sparse arrays, measured.
BYTES_OF_PART = 3_000


@dataclass(frozen=True, slots=True)
class SparseArray:
    """The numbers of an array that are not 0, in the order of their places; sums are sparse."""

    shape: tuple[int, ...]
    places: NDArray[np.int64]
    values: NDArray[np.float64]

    @classmethod
    def of(cls, array: NDArray[np.float64]) -> Self:
        """Return the same numbers."""
        places = np.flatnonzero(array)
        return cls(array.shape, places, array.ravel()[places])

    def __add__(self, other: SparseArray) -> SparseArray:
        """Return the sum, each number the bits of that of whole arrays."""
        places = np.union1d(self.places, other.places)
        values = np.zeros(len(places))
        for one in (self, other):
            values[np.searchsorted(places, one.places)] += one.values
        return SparseArray(self.shape, places, values)

    def whole(self) -> NDArray[np.float64]:
        """Return the array."""
        array = np.zeros(self.shape)
        array.flat[self.places] = self.values
        return array


def sparse(part: Any) -> Any:
    """Return a part, or one field of it, with its larger arrays sparse; such parts add up."""
    if isinstance(part, tuple):
        return each_field(sparse, part)
    is_large = isinstance(part, np.ndarray) and part.size > SMALL
    return SparseArray.of(part) if is_large else part


def whole(part: Any) -> Any:
    """Return a part as it was."""
    if isinstance(part, tuple):
        return each_field(whole, part)
    return part.whole() if isinstance(part, SparseArray) else part


def bytes_of(part: Any) -> int:
    """Return the bytes of the numbers of a part's sparse arrays."""
    if isinstance(part, tuple):
        return sum(map(bytes_of, part))
    return part.places.nbytes + part.values.nbytes if isinstance(part, SparseArray) else 0
