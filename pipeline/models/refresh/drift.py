"""How far the rows of a generation are from those before, by what ingest counted of every column.

Drift is the population stability index: the sum of (q - p) log(q / p) over shares p before and q
now.  Of labels and categories these are shares of their values; of a column of numbers the share
of values that are not 0, and of these the squared distance of the means in standard deviations,
which is what the index comes to for two normal distributions.  What two samples of the same rows
differ by on average, 1/n + 1/m for every share but one, is taken off.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.generations import Generation, generations
from fewpass.pipeline.rows.column_statistics import NAMES
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.tables.encoding.number_recipe import Number
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Labels, Manifest
from fewpass.storage.seal import seal

DRIFT = "drift.json"  # of a generation
MOST_ROWS = 40  # of the table: columns that moved most
MOST_SQUARE = 10.0  # of a distance of means, in standard deviations
LABEL = "label"
MISSING, UNSEEN = " is missing", " rare or unseen"  # how such features' names end
AT_ONCE = 1 << 18  # features that are compared at a time
Vector = NDArray[np.float64]
Places = NDArray[np.int64]


class ColumnDrift(NamedTuple):
    """What became of one column of the source."""

    column: str
    moved: str  # the label, or the feature of the column, that moved most
    before: float  # its share of the rows, or its mean
    now: float
    missing_before: float | None  # shares of the rows; None where the column has no such feature
    missing: float | None
    unseen_before: float | None
    unseen: float | None
    drift: float


class Drift(NamedTuple):
    """How far a generation's rows are from those of an earlier one."""

    against: int  # number of the earlier generation
    rows_before: int
    rows: int
    columns: tuple[ColumnDrift, ...]  # those that moved most, the largest drift first
    left_out: tuple[str, ...] = ()  # columns that the first generation did not have

    @property
    def largest(self) -> float:
        """The largest drift of a column."""
        return max((one.drift for one in self.columns), default=0.0)


def drift_of(store: str, generation: Generation, left_out: Sequence[str] = ()) -> Drift | None:
    """Compare a generation's rows with those of the newest one before, and store what came of it.

    None where there is none before whose rows are still there.
    """
    before = _newest_before(store, generation)
    if before is None:
        return None
    old, new = Dataset.open(before.data), Dataset.open(generation.data)
    columns = sorted(_columns(old, new), key=lambda one: -one.drift)[:MOST_ROWS]
    made = Drift(before.number, old.n_rows, new.n_rows, tuple(columns), tuple(left_out))
    document = made._asdict() | {"columns": [one._asdict() for one in columns]}
    generation.folder.write(DRIFT, seal(json.loads(json.dumps(document)), indent=1))
    return made


def _newest_before(store: str, generation: Generation) -> Generation | None:
    earlier = (one for one in generations(Folder(store)) if one.number < generation.number)
    usable = [one for one in earlier if not one.is_abandoned and _has_rows(one)]
    return usable[-1] if usable else None


def _has_rows(one: Generation) -> bool:
    return one.folder.exists("data/manifest.json")


def _columns(old: Dataset, new: Dataset) -> Iterator[ColumnDrift]:
    """Yield what became of the labels, and of the columns that moved most, a block at a time."""
    yield _of_targets(old.manifest, new.manifest)
    counted = _counted(old), _counted(new)
    columns = _groups(new)
    starts, ends = columns.starts, np.append(columns.starts[1:], new.n_features)
    first = 0
    while first < len(starts):
        last = int(np.searchsorted(ends, starts[first] + AT_ONCE, side="right"))
        block = slice(first, max(first + 1, last))
        yield from _of_block(counted, columns, block, ends[block])
        first = block.stop


def _of_block(
    counted: tuple[CountedColumns, CountedColumns], columns: SourceColumns, block: slice,
    ends: Places,
) -> Iterator[ColumnDrift]:  # fmt: skip
    names, titles, starts = columns.names, columns.titles[block], columns.starts[block]
    base = int(starts[0])
    before, now = (Counts.of(one, slice(base, int(ends[-1]))) for one in counted)
    of_feature = _share_terms(before, now) + _mean_terms(before, now)
    totals = _of_groups(of_feature, before, now, starts - base)
    for k in np.argsort(-totals, kind="stable")[:MOST_ROWS]:
        inside = slice(int(starts[k]) - base, int(ends[k]) - base)
        worst = inside.start + int(np.argmax(of_feature[inside]))
        own = names[inside.start + base : inside.stop + base] if names else ()
        name = names[worst + base] if names else f"column {worst + base + 1}"
        means = before.overall[inside], now.overall[inside]
        missing = _shares(own, MISSING, *means)
        yield ColumnDrift(
            titles[k] if len(titles) else name, name,
            *columns.as_given(worst + base, (before.overall[worst], now.overall[worst]), missing),
            *missing, *_shares(own, UNSEEN, *means), float(totals[k]),
        )  # fmt: skip


def _shares(
    names: Sequence[str], end: str, before: Vector, now: Vector
) -> tuple[float | None, float | None]:
    """Return the shares of the feature whose name ends so; None without one."""
    place = next((k for k, name in enumerate(names) if name.endswith(end)), None)
    return (None, None) if place is None else (float(before[place]), float(now[place]))


class SourceColumns(NamedTuple):
    """The columns of the source, and the features that they became."""

    names: Sequence[str] | None  # of features
    starts: Places  # of each column its first feature
    titles: list[str]  # of columns
    standardised: Mapping[int, tuple[float, float]] = MappingProxyType({})  # deviation, mean

    def as_given(
        self, feature: int, means: Sequence[float], missing: Sequence[float | None]
    ) -> tuple[float, float]:
        """Return means of a feature before and now, of numbers as the source has them."""
        deviation, mean = self.standardised.get(feature, (1.0, 0.0))
        if feature not in self.standardised:
            missing = (None, None)  # where a number is missing it is stored as the mean
        before, now = (
            float(one) / max(1.0 - (gone or 0.0), 1e-9) * deviation + mean
            for one, gone in zip(means, missing, strict=True)
        )
        return before, now


def _groups(data: Dataset) -> SourceColumns:
    recipe = recipe_in(data.schema)
    if recipe is None:
        names = data.schema.feature_names if data.schema is not None else None
        return SourceColumns(names, np.arange(data.n_features), list(names or ()))
    starts = np.cumsum([0, *(part.width for part in recipe.parts)])[:-1]
    numbers = {
        int(start): (own.deviation, own.mean)
        for start, own in zip(starts, recipe.columns, strict=False)  # curves come behind them
        if isinstance(own, Number) and not own.logarithm
    }
    titles = [part.name for part in recipe.parts]
    return SourceColumns(recipe.outputs, starts, titles, numbers)


# -- features -------------------------------------------------------------------------------------


class CountedColumns(NamedTuple):
    """What ingest counted of all features of a data set, each (d,): of all values."""

    rows: int
    nonzero: Vector  # values that are not 0
    mean: Vector
    variance: Vector


def _counted(data: Dataset) -> CountedColumns:
    return CountedColumns(data.n_rows, *(data.column(name) for name in NAMES))


class Counts(NamedTuple):
    """The same of some features, each (d,)."""

    rows: int
    nonzero: Vector  # values that are not 0
    mean: Vector  # of these values
    variance: Vector  # of these values
    overall: Vector  # mean of all values

    @classmethod
    def of(cls, columns: CountedColumns, part: slice) -> Counts:
        """Take some of the columns."""
        n, nonzero, overall = columns.rows, columns.nonzero[part], columns.mean[part]
        square = columns.variance[part] + overall**2
        share = np.maximum(nonzero, 1.0) / n
        mean = overall / share
        return cls(n, nonzero, mean, np.maximum(square / share - mean**2, 0.0), overall)

    @property
    def shares(self) -> Vector:
        """Shares of the rows that are not 0, never 0 themselves."""
        return (self.nonzero + 0.5) / (self.rows + 1.0)


def _share_terms(old: Counts, new: Counts) -> Vector:
    """Return each feature's term of the index (d,), less what chance makes."""
    p, q = old.shares, new.shares
    # of values that hardly any row has, chance makes less
    several = np.minimum(1.0, 0.5 * (old.nonzero + new.nonzero))
    chance = (1.0 / old.rows + 1.0 / new.rows) * (1.0 - 0.5 * (p + q)) * several
    terms: Vector = (q - p) * np.log(q / p) - chance
    return terms


def _of_groups(of_feature: Vector, old: Counts, new: Counts, starts: NDArray[np.int64]) -> Vector:
    """Return the drift of every group of features, with the rows that are 0 in all of a group."""
    rest = [np.add.reduceat(one.nonzero, starts) / one.rows for one in (old, new)]
    p, q = (1.0 - share + 0.5 / one.rows for share, one in zip(rest, (old, new), strict=True))
    is_share = (p > 0.0) & (q > 0.0) & (np.maximum(p, q) > 1.0 / old.rows)
    p, q = np.where(is_share, p, 1.0), np.where(is_share, q, 1.0)
    chance = np.where(is_share, (1.0 / old.rows + 1.0 / new.rows) * (1.0 - 0.5 * (p + q)), 0.0)
    total: Vector = np.add.reduceat(of_feature, starts) + (q - p) * np.log(q / p) - chance
    return np.maximum(total, 0.0)


def _mean_terms(old: Counts, new: Counts) -> Vector:
    """Return the squared distance of each feature's means (d,), less what chance makes."""
    both = np.maximum(old.nonzero + new.nonzero, 1.0)
    pooled = (old.nonzero * old.variance + new.nonzero * new.variance) / both
    step = (new.mean - old.mean) ** 2
    noise = (1e-6 * np.maximum(np.abs(old.mean), np.abs(new.mean))) ** 2  # of float32
    step = np.where(step <= noise, 0.0, step)
    square = np.minimum(step / np.maximum(pooled, noise + 1e-300), MOST_SQUARE)
    least = np.minimum(old.nonzero, new.nonzero)
    chance = np.where(square > 0.0, 1.0 / np.maximum(old.nonzero, 1.0), 0.0)
    chance += np.where(square > 0.0, 1.0 / np.maximum(new.nonzero, 1.0), 0.0)
    terms: Vector = 0.5 * (old.shares + new.shares) * np.where(least > 1.0, square - chance, 0.0)
    return terms


# -- targets --------------------------------------------------------------------------------------


def _of_targets(old: Manifest, new: Manifest) -> ColumnDrift:
    """Return what became of the labels' shares, or of the mean of numbers."""
    before, now = old.targets, new.targets
    if isinstance(before, Labels) and isinstance(now, Labels):
        names = list(dict.fromkeys(map(label_text, (*before.labels, *now.labels))))
        p, q = (_label_shares(one, names) for one in (before, now))
        moved = (q - p) * np.log(q / p)
        k = int(np.argmax(moved))
        chance = (len(names) - 1) * (1.0 / old.n_rows + 1.0 / new.n_rows)
        total = max(0.0, float(moved.sum()) - chance)
        return ColumnDrift(LABEL, names[k], float(p[k]), float(q[k]), None, None, None, None, total)
    if isinstance(before, Labels) or isinstance(now, Labels):
        raise BadInput("The targets are labels in one generation and numbers in another.")
    pooled = (old.n_rows * before.variance + new.n_rows * now.variance) / (old.n_rows + new.n_rows)
    square = (now.mean - before.mean) ** 2
    square = min(square / pooled, MOST_SQUARE) if pooled > 0.0 else MOST_SQUARE * (square > 0.0)
    total = max(0.0, square - 1.0 / old.n_rows - 1.0 / new.n_rows)
    return ColumnDrift(LABEL, "mean", before.mean, now.mean, None, None, None, None, total)


def _label_shares(targets: Labels, names: Sequence[str]) -> Vector:
    counts = dict(zip(map(label_text, targets.labels), targets.counts, strict=True))
    all_of: Vector = np.array([counts.get(name, 0) + 0.5 for name in names])
    shares: Vector = all_of / all_of.sum()
    return shares
