"""One model, or two next to each other, row by row: on slices of a data set, and its worst rows.

A slice is a label, a value of a category, or a range of a number, as the recipe of the columns
knows them.  The data set is read once, in this process; of a large one its first rows, which in a
shuffled set are any.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.model import Model, require_same_columns
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.paired_figures import (
    Difference,
    PairedPart,
    contestants,
    differences,
    paired,
)
from fewpass.pipeline.scoring.predictor import make_predictor
from fewpass.pipeline.scoring.slices import MOST_SLICES, SliceBy
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.date_parts import SECONDS_OF_DAY
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.pipeline.tables.ingest.chunking import Selection
from fewpass.pipeline.tables.showing.dataset_table import DatasetTable, features_of
from fewpass.solvers.protocol import add_parts
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels
from fewpass.storage.table import DenseTable, SparseTable, Table, cut

#: Rows that are looked at; columns and values whose slices are; rows that are shown.
MOST_ROWS, MOST_COLUMNS, MOST_VALUES, SHOWN = 200_000, 20, 20, 10
#: Error of a stored float32, in the size of what it was made of: digits beyond it are noise.
_ERROR = 2e-7


class ComparedSlice(NamedTuple):
    """Scores of models on some rows: those of one value of a column."""

    column: str
    value: str
    rows: int
    figures: tuple[tuple[Difference, ...], ...]  # of each model; differences are from the first


class ShownRow(NamedTuple):
    """One row as its source had it, and what models make of it."""

    cells: dict[str, Any]  # the label or number, and all others whose values are known
    predicted: tuple[Any, ...]  # by each model
    losses: tuple[float, ...]  # each by the loss that the model was trained with


class ComparedRows(NamedTuple):
    """Slices and single rows of a data set, under one model or more."""

    rows: int  # that were looked at
    of: int  # that there are
    slices: tuple[ComparedSlice, ...]
    worst: tuple[ShownRow, ...]  # the largest losses under the last model
    fallen: tuple[ShownRow, ...]  # whose loss grew most from the first model to the last; none
    # where they were trained with different losses


def compared_rows(
    models: Sequence[Model],
    dataset: Dataset,
    columns: Sequence[str] = (),
    rules: Matching = BY_NAME,
) -> ComparedRows:
    """Look at rows of a data set under one model, or under the one before and a new one.

    Parameters
    ----------
    models
        They predict the same, of the columns that the data set has.
    columns
        Whose slices come first; of those that are left the first ones of the source.

    Raises
    ------
    BadInput
        Columns, scaling or labels of the data set are not a model's.
    """
    look = _Look(models, dataset, columns, rules)
    for k in range(dataset.n_chunks):
        if look.rows >= MOST_ROWS:
            break
        look.add(k)
    return ComparedRows(look.rows, dataset.n_rows, look.figures(), look.worst(), look.fallen())


class _Ranked(NamedTuple):
    """A row among others, by how bad it is; of equals the first one comes first."""

    badness: float
    chunk: int  # negative, as the row
    row: int
    losses: tuple[float, ...]


class _Look:
    """Sums over the chunks so far."""

    def __init__(
        self, models: Sequence[Model], dataset: Dataset, columns: Sequence[str], rules: Matching
    ) -> None:
        self.dataset, self.rows = dataset, 0
        job = evaluation_job(models[-1].record, dataset, models[-1].lam, rules)
        self.those = contestants([_sourced(one, dataset, rules) for one in models], least=1)
        self.rule, self.table = job.rule, DatasetTable(dataset.folder.url)
        self.label = next(one.name for one in self.table.columns if one.origin == "label")
        self.are_alike = len({of.problem.loss.name for of in self.those}) == 1
        self.places = _places_of(dataset)
        self.slicing = [*_slicing(models[-1], self.places, columns)]
        self.sums: dict[tuple[str, str], tuple[int, PairedPart]] = {}
        self._worst: list[_Ranked] = []
        self._fallen: list[_Ranked] = []

    def add(self, k: int) -> None:
        """Take the rows of a chunk."""
        table = self.dataset.read_chunk(k)
        table = cut(table, 0, min(table.n_rows, MOST_ROWS - self.rows))
        block = dataset_block(table, self.dataset, self.rule)
        figures, each = zip(*(of.figures_and_losses(block) for of in self.those), strict=True)
        losses = np.stack(each)
        for by, column, first in self.slicing:
            slices = by.rows(_cells_of(column, first, table), self.dataset.folder.url)
            self._add_slices(by.column, slices, figures, block.weight)
        self._add_slices(self.label, self._labels(table), figures, block.weight)
        self._worst = _with_rows(self._worst, losses[-1], k, losses)
        if self.are_alike:
            self._fallen = _with_rows(self._fallen, losses[-1] - losses[0], k, losses)
        self.rows += table.n_rows

    def _labels(self, table: Table) -> dict[str, NDArray[np.int64]]:
        targets = self.dataset.manifest.targets
        if not isinstance(targets, Labels) or len(targets.labels) > MOST_VALUES:
            return {}
        names = [label_text(label) for label in targets.labels]
        return {name: np.flatnonzero(table.target == code) for code, name in enumerate(names)}

    def _add_slices(
        self, column: str, slices: dict[str, NDArray[np.int64]],
        figures: Sequence[NDArray[np.float64]], weight: NDArray[np.float64],
    ) -> None:  # fmt: skip
        for value, own in slices.items():
            if len(own):
                part = paired([one[own] for one in figures], weight[own])
                rows, before = self.sums.get((column, value), (0, None))
                both = part if before is None else add_parts(before, part)
                self.sums[column, value] = rows + len(own), both

    def figures(self) -> tuple[ComparedSlice, ...]:
        """Return the figures of all slices by column, ranges in their order."""
        names, several = self.those[0].names, range(len(self.those))
        return tuple(
            ComparedSlice(column, value, rows, tuple(differences(part, names, m) for m in several))
            for column, ranges in [
                (self.label, []),
                *((by.column, by.ranges) for by, _, _ in self.slicing),
            ]
            for value, (rows, part) in self._values(column, ranges)
        )

    def _values(self, column: str, ranges: list[str]) -> list[tuple[str, tuple[int, PairedPart]]]:
        """Return the slices of a column: of very many those of most rows; none where all is one."""
        own = {
            v: sums
            for (c, v), sums in self.sums.items()
            if c == column and sums[1].difference.weight > 0
        }
        few = sorted(own.items(), key=lambda one: -one[1][0])[:MOST_VALUES]
        places = {name: k for k, name in enumerate(ranges)}
        return sorted(few, key=lambda one: places.get(one[0], 0)) if len(few) > 1 else []

    def worst(self) -> tuple[ShownRow, ...]:
        """Return the rows that the last model is worst on."""
        return tuple(map(self._shown, sorted(self._worst, reverse=True)))

    def fallen(self) -> tuple[ShownRow, ...]:
        """Return the rows that the last model has become worst on."""
        ranked = sorted(self._fallen, reverse=True)
        return tuple(self._shown(one) for one in ranked if one.badness > 0.0)

    def _shown(self, one: _Ranked) -> ShownRow:
        chunk, place = -one.chunk, np.array([-one.row])
        table = self.dataset.with_retained(chunk, self.dataset.read_chunk(chunk))
        row = Selection(table, place).rows()
        predicted = (make_predictor(of.model, raw=False)(row) for of in self.those)
        made = tuple(one["predicted"][0].item() for one in predicted)
        return ShownRow(self._cells(row), made, one.losses)

    def _cells(self, row: Table) -> dict[str, Any]:
        """Return the label of a row, and its cells as far as they follow of stored ones."""
        has_recipe = recipe_in(self.dataset.schema) is not None
        shown = self.table.shown(row if has_recipe else _unscaled(Scaler.of(self.dataset), row))
        every = dict(zip(shown.column_names, shown.to_pylist()[0].values(), strict=True))
        own = [c.name for c in self.table.columns if c.origin != "feature" or not has_recipe]
        own.sort(key=lambda name: name != self.label)
        columns = self.places.values()
        return {name: every[name] for name in own} | {
            column.name: _cells_of(column, first, row)[0].as_py() for column, first in columns
        }


def _sourced(model: Model, dataset: Dataset, rules: Matching) -> Model:
    """Return a model with a weight for each column of a data set, in the order of its source."""
    matched = require_same_columns(model.record, dataset, rules)
    return model._replace(weights=model.weights._replace(coef=matched.numbers(model.weights.coef)))


def _slicing(
    model: Model, places: dict[str, tuple[Any, int]], first: Sequence[str]
) -> Iterator[tuple[SliceBy, Any, int]]:
    """Yield how rows are put into slices, by columns whose cells follow of stored ones."""
    sliced = [name for name, (column, _) in places.items() if _has_slices(column)]
    names = [name for name in dict.fromkeys((*first, *sliced)) if name in sliced]
    for name in names[:MOST_COLUMNS]:
        yield SliceBy.of(name, model)._replace(written="plain", missing=()), *places[name]


def _has_slices(column: Any) -> bool:
    if isinstance(column, Number):
        return column.low < column.high
    return isinstance(column, Category) and column.width <= MOST_SLICES


# -- cells of the source ---------------------------------------------------------------------------


def _places_of(dataset: Dataset) -> dict[str, tuple[Any, int]]:
    """Return the numbers, categories and dates of a data set, and the first feature of each."""
    places, first, recipe = dict[str, tuple[Any, int]](), 0, recipe_in(dataset.schema)
    for column in recipe.columns if recipe else ():
        if isinstance(column, Number | Category | Date):
            places[column.name] = column, first
        first += column.width
    return places


def _cells_of(column: Number | Category | Date, first: int, table: Table) -> Any:
    """Return the cells (n,) of a column by its features: numbers as clipped, words, or days."""
    features = features_of(table, first, column.width).astype(np.float64)
    if isinstance(column, Category):
        words = pa.array([*column.values, "rare or unseen", None], pa.string())
        return words.take(pa.array(features.argmax(axis=1)))
    values = features[:, 0] * column.deviation + column.mean
    if isinstance(column, Date):
        days = np.round(column.first + values * SECONDS_OF_DAY).astype("datetime64[s]")
        return pa.array(days.astype("datetime64[D]").astype(str), mask=features[:, 1] == 1.0)
    missing = features[:, 1] == 1.0 if column.has_missing else None
    return pa.array(np.clip(_rounded(values, column), column.low, column.high), mask=missing)


def _rounded(values: NDArray[np.float64], column: Number) -> NDArray[np.float64]:
    """Omit the digits of a column's numbers (n,) that float32 has lost."""
    ends = np.array([column.low, column.high])
    size = float(np.abs(ends - column.mean).max()) + abs(column.mean)
    if size:
        values = np.round(values, min(int(np.floor(-np.log10(_ERROR * size))), 15)) + 0.0
    return values


def _unscaled(scaler: Scaler, row: Table) -> Table:
    """Return rows with the numbers of the source, where their columns were scaled."""
    if scaler.scale is None:
        return row
    if isinstance(row, SparseTable):
        return row._replace(data=row.data / scaler.scale[row.indices])
    assert isinstance(row, DenseTable), "rows are dense or sparse"
    shift = 0.0 if scaler.shift is None else scaler.shift
    return row._replace(X=(row.X / scaler.scale + shift).astype(row.X.dtype))


def _with_rows(
    before: Iterable[_Ranked],
    badness: NDArray[np.float64],
    chunk: int,
    losses: NDArray[np.float64],
) -> list[_Ranked]:
    """Return the worst of those before and of a chunk's rows."""
    few = np.argsort(-badness, kind="stable")[:SHOWN].tolist()
    ranked = (
        _Ranked(float(badness[row]), -chunk, -row, tuple(losses[:, row].tolist())) for row in few
    )
    return heapq.nlargest(SHOWN, (*before, *ranked))
