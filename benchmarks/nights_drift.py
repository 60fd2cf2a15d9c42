"""False alarms and power of the drift that refreshes tell, over simulated nights.

    python -m benchmarks.nights_drift [--months 60]

Stable months: 28 nights, then 30 that are watched, in which chance alone, nights that differ, or
these and weekdays move columns of numbers and categories.  Then what must be told: values that
move to another, means that step, a unit that is 1,000 times as large; and what must not: a date.
No row is drawn, only what ingest counts of a night.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.models.refresh.drift import Drift, compared
from fewpass.pipeline.models.refresh.drift_index import NIGHTS, SAME_WEEKDAY
from fewpass.pipeline.models.refresh.night_statistics import NightStatistics
from fewpass.pipeline.models.refresh.watched_columns import WatchedColumns
from fewpass.pipeline.tables.encoding.category_recipe import Category
from fewpass.pipeline.tables.encoding.date_recipe import Date
from fewpass.pipeline.tables.encoding.recipe import Recipe

WATCHED = 30  # nights of a month after the newest ones that it is compared with
WEEK = 7
WEEKLY, OF_COLUMNS = 0.3, 1.0 / 3.0  # how far weekdays move, and how many columns
MOST_FALSE = 0.05  # of stable months
Vector = NDArray[np.float64]
#: What a night's statistics become on the first night that is watched, and from then on.
Change = Callable[[NightStatistics], NightStatistics]


class World(NamedTuple):
    """Columns, and how their nights differ."""

    columns: int
    values: int  # of each, categories; 0: they are numbers
    rows: int
    nights: float = 0.0  # deviation by which means or logarithms of shares differ
    weekdays: bool = False

    def __str__(self) -> str:
        what = f"categories of {self.values}" if self.values else "numbers"
        why = f"nights vary by {self.nights:g}" if self.nights else "chance alone"
        more = " and weekdays" * self.weekdays
        return f"{self.rows:,} rows, {self.columns} {what}; {why}{more}"

    @property
    def watched(self) -> WatchedColumns:
        """Return the columns as a refresh sees them; the target is a number that stays."""
        if not self.values:
            return WatchedColumns.plain(self.columns, None, None)
        words = tuple(f"v{k}" for k in range(self.values))
        columns = [Category(name=f"c{k}", values=words) for k in range(self.columns)]
        return WatchedColumns.encoded(Recipe(columns=tuple(columns)), None)

    def draw(self, rng: np.random.Generator) -> Iterator[NightStatistics]:
        """Yield what is counted of one night after the other."""
        draw = self._shares(rng) if self.values else self._numbers(rng)
        for counts, means, variances in draw:
            yield NightStatistics(
                self.rows, np.append(counts, self.rows), np.append(means, 0.0),
                np.append(variances, 1.0),
            )  # fmt: skip

    def _weekly(self, rng: np.random.Generator, *shape: int) -> Vector:
        moves = (rng.random(self.columns) < OF_COLUMNS) * self.weekdays * WEEKLY
        steps: Vector = rng.normal(size=(WEEK, *shape)) * moves.reshape(-1, *[1] * (len(shape) - 1))
        return steps

    def _numbers(self, rng: np.random.Generator) -> Iterator[tuple[Vector, Vector, Vector]]:
        weekly = self._weekly(rng, self.columns)
        for night in range(NIGHTS + WATCHED):
            chance = rng.normal(size=self.columns) / np.sqrt(self.rows)
            own = self.nights * rng.normal(size=self.columns)
            variance = rng.chisquare(self.rows - 1, self.columns) / self.rows
            counts = np.full(self.columns, float(self.rows))
            yield counts, weekly[night % WEEK] + own + chance, variance

    def _shares(self, rng: np.random.Generator) -> Iterator[tuple[Vector, Vector, Vector]]:
        shape = (self.columns, self.values)
        usual = np.log(rng.dirichlet(np.full(self.values, 2.0), self.columns))
        weekly = self._weekly(rng, *shape)
        for night in range(NIGHTS + WATCHED):
            own = self.nights * rng.normal(size=shape)
            shares = np.exp(usual + weekly[night % WEEK] + own)
            counts = rng.multinomial(self.rows, shares / shares.sum(axis=1, keepdims=True))
            # none is rare, unseen or missing
            with_none = np.pad(counts, ((0, 0), (0, 2))).ravel().astype(np.float64)
            mean = with_none / self.rows
            yield with_none, mean, mean * (1.0 - mean)


def watch(columns: WatchedColumns, nights: list[NightStatistics]) -> Iterator[Drift]:
    """Yield the drift of every night but the first, as refreshes would tell it."""
    indices: list[Vector] = []
    for t in range(1, len(nights)):
        same = nights[t % WEEK : t : WEEK][-SAME_WEEKDAY:]
        usual = nights[max(0, t - NIGHTS) : t]
        drift = compared(columns, nights[t], usual, same, indices[-NIGHTS:])
        indices.append(drift.indices)
        yield drift


def alarms(world: World, months: int, seed: int) -> float:
    """Return the share of stable months in which a column is told."""
    columns, false = world.watched, 0
    for month in range(months):
        drifts = list(watch(columns, list(world.draw(np.random.default_rng([seed, month])))))
        false += any(one.n_reported for one in drifts[-WATCHED:])
    return false / months


def power(world: World, change: Change, months: int, seed: int) -> float:
    """Return the share of months in which the first column is told on the night it changes."""
    columns, told = world.watched, 0
    for month in range(months):
        nights = list(world.draw(np.random.default_rng([seed, month])))[: NIGHTS + 1]
        nights[-1] = change(nights[-1])
        *_, drift = watch(columns, nights)
        told += any(one.column == columns.title(0) for one in drift.reported)
    return told / months


def moved(part: float, features: int) -> Change:
    """Have a part of the first column's rows move to its first value."""

    def changed(night: NightStatistics) -> NightStatistics:
        counts = night.present.copy()
        counts[:features] *= 1.0 - part
        counts[0] += part * night.rows
        mean = counts / night.rows
        mean[-1] = night.mean[-1]
        variance = np.append((mean * (1.0 - mean))[:-1], night.variance[-1])
        return NightStatistics(night.rows, counts, mean, variance)

    return changed


def stepped(deviations: float) -> Change:
    """Have the first column's mean step."""

    def changed(night: NightStatistics) -> NightStatistics:
        mean = night.mean.copy()
        mean[0] += deviations
        return night._replace(mean=mean)

    return changed


def another_unit(night: NightStatistics) -> NightStatistics:
    """Have the first column in a unit that is a thousandth as large."""
    mean, variance = night.mean.copy(), night.variance.copy()
    mean[0], variance[0] = 1e3 * mean[0], 1e6 * variance[0]
    return night._replace(mean=mean, variance=variance)


def drift_of_another_unit(world: World, seed: int) -> Drift:
    """Return the drift of the night on which the first column comes in another unit."""
    nights = list(world.draw(np.random.default_rng(seed)))[: NIGHTS + 1]
    nights[-1] = another_unit(nights[-1])
    *_, drift = watch(world.watched, nights)
    return drift


def nights_with_a_date(seed: int) -> int:
    """Return on how many nights a date is reported, that goes on by a day every night."""
    rng = np.random.default_rng(seed)
    recipe = Recipe(
        columns=(Date(name="day", first=0.0, mean=14.0, deviation=8.0, has_hours=False),)
    )
    columns, rows, nights = WatchedColumns.encoded(recipe, None), 2000, []
    for t in range(NIGHTS + WATCHED):
        counts = np.zeros(columns.n_features + 1)
        counts[[0, 2 + t % WEEK, 9 + t // 30, -1]] = rows
        mean = counts / rows
        mean[0], mean[-1] = (t - 14.0) / 8.0 + rng.normal() / 100.0, 0.0
        nights.append(NightStatistics(rows, counts, mean, np.append(np.zeros(len(mean) - 1), 1.0)))
    return sum(drift.n_reported > 0 for drift in watch(columns, nights))


STABLE = [
    World(columns, values, rows, nights, weekdays)
    for columns, values, rows in ((10, 5, 2000), (100, 5, 2000), (10, 5, 50_000), (30, 30, 2000))
    for nights, weekdays in ((0.0, False), (0.1, False), (0.1, True))
] + [
    World(columns, 0, 2000, nights, weekdays)
    for columns in (10, 100)
    for nights, weekdays in ((0.0, False), (0.05, False), (0.05, True), (0.2, True))
]


def main() -> None:
    """Print what section 8 of the nights' specification asks of drift."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--months", type=int, default=60)
    months = parser.parse_args().months
    print(f"share of {months} stable months with an alarm (must be below {MOST_FALSE:.0%})")
    for k, world in enumerate(STABLE):
        false = alarms(world, months, seed=k)
        print(f"  {world}: {false:.1%}{' TOO MANY' * (false >= MOST_FALSE)}", flush=True)
    print("told on the first night, share of months")
    for part in (0.25, 0.1):
        for nights, weekdays in ((0.0, False), (0.1, False), (0.1, True)):
            world = World(30, 5, 2000, nights, weekdays)
            print(f"  {part:.0%} of a column's rows; {world}:", end=" ")
            print(f"{power(world, moved(part, world.values + 2), months, 7):.0%}", flush=True)
    for step in (0.5, 0.25):
        world = World(10, 0, 2000, 0.05)
        print(f"  a mean by {step:g} deviations; {world}:", end=" ")
        print(f"{power(world, stepped(step), months, 7):.0%}", flush=True)
    drift = drift_of_another_unit(World(10, 0, 2000, 0.05), 1)
    print(f"a unit times 1,000: {drift.sentence}; first in the table: {drift.columns[0].column}")
    print(f"nights on which a date is told: {nights_with_a_date(0)}")


if __name__ == "__main__":
    main()
