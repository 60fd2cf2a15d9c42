"""Index of the distance of one night's rows from others', by what was counted of every feature.

Of values this is the population stability index: the sum of (q - p) log(q / p) over their shares p
before and q now.  Of numbers it is the squared distance of the means in standard deviations of the
rows before, and the squared logarithm of the ratio of both deviations, so that a unit shows; zeros
are not counted in, and their share is watched alone.  What two samples of the same rows differ by
on average is returned as well: 1/n + 1/m for every share but one, and for a mean.

What is usual is a column's own: nights differ by more than chance, and each column by a measure of
its own.  How far it usually moves is the mean of its indices over the nights before.  The ratio to
that mean is compared with a quantile of Snedecor's F, so that one stable month in twenty has a
false alarm.  Twelve degrees of freedom of the mean, in place of one a night, allow for nights that
are not normal.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.models.refresh.night_statistics import NightStatistics, Vector
from fewpass.pipeline.models.refresh.watched_columns import WatchedColumns

MOST_SQUARE = 100.0  # of a distance of means, in standard deviations, and of the logarithm
LIKE_THE_OTHER = 10.0  # values of the other night's deviation that each is taken to have besides
FLOAT32 = 1e-6  # of a mean: distances and deviations that rounding makes
NIGHTS, SAME_WEEKDAY = 28, 4  # that a night is compared with, the newest
ENOUGH = 13  # nights before with an index, from which on they say what is usual
LEAST = 0.02  # of an index that is reported, without what chance makes
MOST_AT_FIRST = 0.25  # of a column's drift, while nobody knows what is usual
FALSE_ALARMS, MONTH = 0.05, 30.0  # months with one, nights
ROUNDING = 1e-12  # of an index
OF_THE_MEAN = 6  # halves of the degrees of freedom of the mean: 12


class Index(NamedTuple):
    """Indices of P columns' values, and behind them of the S shares that are watched alone."""

    moved: Vector  # (P + S,)
    chance: Vector  # what chance makes of it, on average
    freedom: Vector  # degrees of freedom, where nights vary

    @property
    def beyond_chance(self) -> Vector:
        """Return what is left without what chance makes; less than 0 where chance made less."""
        return self.moved - self.chance


def index_of(columns: WatchedColumns, before: NightStatistics, now: NightStatistics) -> Index:
    """Return the indices of all columns, some columns at a time."""
    n, shares = columns.n_columns, columns.shares
    index = Index(*np.zeros((3, n + len(shares))))
    for block, features in columns.blocks():
        old, new = Counts.of(before, features), Counts.of(now, features)
        _put(index, block, _of_columns(columns, block, old, new))
        own = slice(*np.searchsorted(shares, (features.start, features.stop)).tolist())
        alone = _of_shares(old, new, shares[own] - features.start)
        _put(index, slice(n + own.start, n + own.stop), alone)
    return index


def _put(index: Index, where: slice, part: Index) -> None:
    for whole, some in zip(index, part, strict=True):
        whole[where] = some


class Counts(NamedTuple):
    """Counts of some features, each (d,)."""

    rows: int
    present: Vector  # values that are there
    mean: Vector  # of these values
    variance: Vector  # of these values
    overall: Vector  # mean of all values

    @classmethod
    def of(cls, night: NightStatistics, part: slice) -> Counts:
        """Take some of the features."""
        n, present, overall = night.rows, night.present[part], night.mean[part]
        square = night.variance[part] + overall**2
        share = np.maximum(present, 1.0) / n
        mean = overall / share
        return cls(n, present, mean, np.maximum(square / share - mean**2, 0.0), overall)


def cells(old: Vector, n: int, new: Vector, m: int) -> Vector:
    """Return the terms of the index for values in `old` of n rows before, and `new` of m rows now.

    Half a row is added to those that have the value and to those that do not, or what the other's
    share makes of its rows, if less: no share is 0 alone, and a value that few rows have anyway
    is not missed in a night of few rows.
    """
    p, q = _share(old, n, new / m), _share(new, m, old / n)
    moved: Vector = (q - p) * np.log(np.maximum(q, 1e-300) / np.maximum(p, 1e-300))
    return moved


def _share(count: Vector, n: int, other: Vector) -> Vector:
    more, fewer = np.minimum(0.5, n * other), np.minimum(0.5, n * (1.0 - other))
    share: Vector = (count + more) / (n + more + fewer)
    return share


def _of_columns(columns: WatchedColumns, block: slice, old: Counts, new: Counts) -> Index:
    base = columns.starts[block.start]
    starts, of_values = columns.starts[block] - base, columns.of_values[block]
    counted = np.repeat(of_values, np.diff(np.append(starts, len(old.present))))
    distance, spread, chance = means_moved(old, new)
    spread[counted] = 0.0
    of_feature, by_chance = distance + spread, chance * ((distance > 0.0) + 0.5 * (spread > 0.0))
    repeats = columns.repeats - base
    repeats = repeats[(repeats >= 0) & (repeats < len(of_feature))]
    of_feature[repeats] = by_chance[repeats] = 0.0
    of_feature += np.where(counted, features_moved(old, new), 0.0)
    by_chance += np.where(counted, _chance(old.present, old.rows, new.present, new.rows), 0.0)
    occurs = np.add.reduceat((old.present + new.present > 0.0).astype(np.float64), starts)
    moved, chance, is_share = _of_the_rest(old, new, starts)
    moved = np.add.reduceat(of_feature, starts) + np.where(of_values, moved, 0.0)
    chance = np.add.reduceat(by_chance, starts) + np.where(of_values, chance, 0.0)
    others = np.maximum(occurs + is_share - 1.0, 0.0)
    return Index(moved, chance, np.where(of_values, 1.0 + others / 3.0, 1.0))


def features_moved(old: Counts, new: Counts) -> Vector:
    """Return the terms (d,) of features that are values of a column."""
    return cells(old.present, old.rows, new.present, new.rows)


def _of_the_rest(
    old: Counts, new: Counts, starts: NDArray[np.int64]
) -> tuple[Vector, Vector, NDArray[np.bool_]]:
    """Return the terms of rows that are 0 in all features of a column, chance, and if any are."""
    rest = [one.rows - np.add.reduceat(one.present, starts) for one in (old, new)]
    some = (rest[0] >= 0.0) & (rest[1] >= 0.0) & (rest[0] + rest[1] > 0.0)
    before, now = (np.where(some, one, 0.0) for one in rest)
    moved = cells(before, old.rows, now, new.rows)
    return moved, np.where(some, _chance(before, old.rows, now, new.rows), 0.0), some


def _of_shares(old: Counts, new: Counts, own: NDArray[np.int64]) -> Index:
    """Return the indices of features that are watched alone: of their share, and of all others."""
    n, m, before, now = old.rows, new.rows, old.present[own], new.present[own]
    moved = cells(before, n, now, m) + cells(n - before, n, m - now, m)
    chance = _chance(before, n, now, m) + _chance(n - before, n, m - now, m)
    return Index(moved, chance, np.ones(len(own)))


def _chance(old: Vector, n: int, new: Vector, m: int) -> Vector:
    """Return what chance makes of a value's term: less if hardly any row has it, or another."""
    several = np.minimum(1.0, 0.5 * (old + new))
    others: Vector = (1.0 / n + 1.0 / m) * (1.0 - 0.5 * (old / n + new / m)) * several
    return others


def means_moved(old: Counts, new: Counts) -> tuple[Vector, Vector, Vector]:
    """Return the squares of means' distance and of deviations' ratio (d,), and chance of the first.

    Each by the share of the rows that have such a value; 0 where fewer than two rows have.
    """
    several = np.minimum(old.present, new.present) > 1.0
    weight = np.where(several, 0.5 * (old.present / old.rows + new.present / new.rows), 0.0)
    least = (FLOAT32 * np.maximum(np.abs(old.mean), np.abs(new.mean))) ** 2 + 1e-300
    before, now = _with_some_like(old, new, least), _with_some_like(new, old, least)
    step = (new.mean - old.mean) ** 2
    step = np.where(step <= least, 0.0, step)
    distance = weight * np.minimum(step / before, MOST_SQUARE)
    spread = weight * np.minimum((0.5 * np.log(now / before)) ** 2, MOST_SQUARE)
    chance = weight * (1.0 / np.maximum(old.present, 1.0) + 1.0 / np.maximum(new.present, 1.0))
    return distance, spread, chance


def _with_some_like(one: Counts, other: Counts, least: Vector) -> Vector:
    """Return variances, a few values of the other's added: those of few values say little."""
    both = one.present * one.variance + LIKE_THE_OTHER * other.variance
    return np.maximum(both / (one.present + LIKE_THE_OTHER), least)


class Usual(NamedTuple):
    """Usual values of P columns and S shares, each (P + S,)."""

    moves: Vector  # the mean of theirs, or what chance makes, if more
    limit: Vector  # of an index; infinite while nobody knows what is usual

    @classmethod
    def of(cls, index: Index, mean: Vector | None) -> Usual:
        """Return what is usual by the mean of the nights before; None: there are too few."""
        usual = np.maximum(index.chance, ROUNDING if mean is None else np.maximum(mean, ROUNDING))
        if mean is None:
            return cls(usual, np.full(len(usual), np.inf))
        ever_moved = int(np.count_nonzero(usual > ROUNDING))  # others cannot raise a false alarm
        share = FALSE_ALARMS / (MONTH * max(1, ever_moved))
        freedom, of = np.unique(index.freedom, return_inverse=True)
        return cls(usual, usual * upper_quantile(share, freedom)[of])

    @property
    def is_estimated(self) -> bool:
        """Return whether enough nights say what is usual."""
        return bool(np.isfinite(self.limit[0]))

    def exceeds(self, index: Index) -> NDArray[np.bool_]:
        """Say which columns and shares moved further than they usually do; none if nobody knows."""
        return (index.moved > self.limit) & (index.beyond_chance > LEAST)

    def how_far(self, index: Index) -> Vector:
        """Return how far columns and shares moved, to be compared with each other."""
        return index.moved / self.limit if self.is_estimated else index.beyond_chance

    def times(self, index: Index, place: int) -> float | None:
        """Return how many times as far as usually one moved: indices are squares of distances."""
        ratio = float(index.moved[place] / self.moves[place])
        return math.sqrt(ratio) if self.is_estimated else None


def upper_quantile(tail: float, freedom: Vector) -> Vector:
    """Return what F with (freedom, 12) degrees of freedom exceeds with probability `tail`.

    With y = 12 / (12 + d F) it exceeds F with probability 1 - (1 - y)^a (1 + sum (a)_i y^i / i!)
    for a = d / 2 and i from 1 to 5, as 12 is even; y is bisected.
    """
    a = 0.5 * freedom
    i = np.arange(1.0, OF_THE_MEAN)
    coefficients = np.cumprod((a[:, None] + i - 1.0) / i, axis=1)
    low, high = np.zeros(len(a)), np.ones(len(a))
    for _ in range(80):
        y = 0.5 * (low + high)
        series = (coefficients * y[:, None] ** i).sum(axis=1)
        below = -np.expm1(a * np.log1p(-y) + np.log1p(series)) < tail
        low, high = np.where(below, y, low), np.where(below, high, y)
    quantile: Vector = OF_THE_MEAN * (1.0 - high) / (a * high)
    return quantile
