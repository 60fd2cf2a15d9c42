"""Drift by independent sums over the rows, by SciPy's F, and by laws of what is told."""

import csv
import json

import numpy as np
import pytest
from scipy import stats

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.column_drift import as_read
from fewpass.pipeline.models.refresh.drift import compared, drift_of, indices_in
from fewpass.pipeline.models.refresh.drift_index import upper_quantile
from fewpass.pipeline.models.refresh.night_statistics import NightStatistics
from fewpass.pipeline.models.refresh.watched_columns import WatchedColumns
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.dataset import Dataset

WORDS = ("oslo", "rome", "paris", "lima", "cairo")


@pytest.mark.parametrize("tail", [0.3, 0.05 / 300, 0.05 / 30 / 1e6])
def test_the_limit_is_a_quantile_of_f(tail):
    freedom = np.array([1.0, 4.0 / 3.0, 2.5, 10.0, 100.0, 3000.0])
    expected = stats.f.isf(tail, freedom, 12)
    np.testing.assert_allclose(upper_quantile(tail, freedom), expected, rtol=1e-6)


# -- nights of which only statistics are made -----------------------------------------------------


def counted(X):
    """What ingest counts of rows X (n, d) of numbers as they come, and of a target that stays."""
    X = np.column_stack([X, np.tile([-1.0, 1.0], len(X))[: len(X)]])
    return NightStatistics(len(X), (X != 0.0).sum(0) * 1.0, X.mean(0), X.var(0))


def test_what_is_told_is_beyond_its_own_mean_by_f():
    """Numbers as they come: SciPy's limit, and an index of the rows themselves."""
    rng = np.random.default_rng(1)
    d, n = 8, 3000
    before, now = rng.normal(2.0, 1.0, (n, d)), rng.normal(2.0, 1.0, (n, d))
    now = now * np.linspace(1.0, 1.5, d) + np.linspace(0.0, 0.4, d)
    distance = ((now.mean(0) - before.mean(0)) / before.std(0)) ** 2
    moved = distance + np.log(now.std(0) / before.std(0)) ** 2
    own = np.geomspace(1e-4, 0.05, d)
    columns = WatchedColumns.plain(d, None, None)
    history = [np.concatenate([own * k, [1e-9], np.zeros(d)]) for k in np.linspace(0.5, 1.5, 14)]
    drift = compared(columns, counted(now), [counted(before)], (), history)
    usual = np.maximum(own, 1.5 * 2 / n)
    limit = usual * stats.f.isf(0.05 / 30 / (d + 1), 1, 12)  # and the target; zeros there are none
    expected = (moved > limit) & (moved - 1.5 * 2 / n > 0.02)
    assert 0 < expected.sum() < d, "the test says something"
    of = {one.column: one for one in drift.columns}
    told = [of[f"column {k + 1}"].reported for k in range(d)]
    assert told == expected.tolist()
    assert drift.n_reported == expected.sum()
    times = [of[f"column {k + 1}"].times_usual for k in range(d)]
    np.testing.assert_allclose(times, np.sqrt(moved / usual), rtol=0.02)
    np.testing.assert_allclose(drift.indices[:d], np.minimum(moved, limit), rtol=0.03)
    with_too_few = compared(columns, counted(now), [counted(before)], (), history[1:-1])
    assert [one.column for one in with_too_few.reported] == [
        f"column {k + 1}" for k in np.argsort(-moved) if moved[k] - 1.5 * 2 / n > 0.25
    ]  # while nobody knows what is usual


def test_the_nearer_of_all_nights_and_of_the_same_weekday_counts():
    rng = np.random.default_rng(2)
    nights = [counted(rng.normal(m, 1.0, (5000, 2))) for m in ([0, 3], [1, 3], [0, 3])]
    tonight = counted(rng.normal([1.0, 1.0], 1.0, (5000, 2)))
    columns = WatchedColumns.plain(2, None, None)
    alone, same, both = (
        {one.column: one.drift for one in compared(columns, tonight, usual, days).columns}
        for usual, days in ((nights, ()), (nights[1:2], ()), (nights, nights[1:2]))
    )
    assert both == pytest.approx({k: min(alone[k], same[k]) for k in alone}, abs=1e-5)
    assert both["column 1"] == same["column 1"] < 0.02 < alone["column 1"]
    assert both["column 2"] > 1.0


@pytest.mark.parametrize("mean", [0.0, 0.2, 4.0])
def test_another_unit_is_told_first_whatever_the_mean(mean):
    rng = np.random.default_rng(3)
    before = [counted(rng.normal([5.0, mean, 0.0], 1.0, (400, 3))) for _ in range(15)]
    indices = []
    for k in range(1, 15):
        made = compared(WatchedColumns.plain(3, None, None), before[k], before[:k], (), indices)
        indices.append(made.indices)
        assert not made.n_reported
    now = rng.normal([5.3, mean, 0.0], 1.0, (400, 3)) * [1.0, 1000.0, 1.0]
    drift = compared(WatchedColumns.plain(3, None, None), counted(now), before, (), indices)
    assert drift.columns[0].column == "column 2"
    assert drift.columns[0].reported
    assert drift.largest > 10.0
    assert drift.over(10.0) == drift.columns[:1]
    assert drift.sentence.startswith("column 2 moved "), drift.sentence


def test_a_fault_that_was_told_does_not_hide_the_next():
    rng = np.random.default_rng(4)
    columns, indices, told = WatchedColumns.plain(1, None, None), [], []
    nights = [counted(rng.normal(10.0 * (k in (20, 25)), 1.0, (300, 1))) for k in range(28)]
    for k in range(1, 28):
        drift = compared(columns, nights[k], nights[:k], (), indices)
        indices.append(drift.indices)
        told += [k] * drift.n_reported
    assert told[0] == 20
    assert 25 in told


def test_the_deviation_of_few_values_says_little():
    """Three words of 2,000 rows that happen to be equal, in a column where they hardly differ."""
    rng = np.random.default_rng(5)
    before, now = np.zeros((20_000, 1)), np.zeros((2000, 1))
    before[:30, 0], now[:3, 0] = rng.normal(1.0, 0.2, 30), 1.0
    history = [np.full(3, 1e-9)] * 20
    drift = compared(
        WatchedColumns.plain(1, None, None), counted(now), [counted(before)], (), history
    )
    assert not drift.n_reported


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0.1 + 0.2, "0.3"), (1_234_567.0, "1,235,000"), (-12_345.678, "-12,350"), (0.0, "0"),
        (1.5e-7, "1.5e-07"), (2026.0, "2026"), (3e22, "3e+22"),
    ],
)  # fmt: skip
def test_numbers_have_four_digits(number, said):
    assert as_read(number) == said


# -- nights of files ------------------------------------------------------------------------------


def rows_of(n, seed, age=40.0, spread=10.0, missing=0.05, day=0, p=None, no_day=0.0):
    """Rows of a number, a category, a date, a level that is often 0 when standardised, a label."""
    rng = np.random.default_rng(seed)
    city = rng.choice(WORDS, n, p=p)
    ages = [f"{x:.2f}" if there else "" for x, there in zip(
        rng.normal(age, spread, n), rng.random(n) > missing, strict=True)]  # fmt: skip
    days = [
        "" if gone else f"2026-0{1 + day // 28}-{1 + day % 28:02d} {rng.integers(24):02d}:00"
        for gone in rng.random(n) < no_day
    ]
    level = np.tile([-1, 0, 1], n)[:n]
    label = np.where(rng.random(n) < 0.3 + 0.3 * (city == "rome"), "yes", "no")
    return list(zip(ages, city, days, level, label, strict=True))


def ingested(folder, name, rows, like=None, header=("age", "city", "day", "level", "y"), **more):
    path = folder / f"{name}.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    plan = {
        "sources": (str(path),),
        "dataset": str(folder / name),
        "like": like and like.folder.url,
    }
    ingest(IngestPlan.model_validate(plan | {"options": {"label": "y"}} | more))
    return Dataset.open(str(folder / name))


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    """A first night, and 15 more of 300 rows each, that go on in time."""
    folder = tmp_path_factory.mktemp("nights")
    first = ingested(folder, "first", rows_of(3000, 0, missing=0.1))
    return folder, [
        first, *(ingested(folder, f"n{k}", rows_of(300, k, day=k), first) for k in range(1, 16))
    ]  # fmt: skip


@pytest.fixture(scope="module")
def history(nights):
    _, some = nights
    indices = []
    for k in range(1, 16):
        drift = drift_of(some[k], some[:k], history=indices)
        assert (drift.n_reported, drift.sentence, drift.nights) == (0, "", k)
        indices.append(drift.indices)
    return indices


def test_nights_together_are_their_rows_together(nights, history):
    folder, some = nights
    rows = [row for k in (1, 2, 3) for row in rows_of(300, k, day=k)]
    together = ingested(folder, "together", rows, some[0])
    one, other = (drift_of(some[9], usual) for usual in (some[1:4], [together]))
    assert (one.nights, other.nights, one.rows_before) == (3, 1, 900)
    np.testing.assert_allclose(one.indices, other.indices, rtol=1e-6, atol=1e-12)


def test_a_night_is_told_in_the_words_of_its_source(nights, history):
    folder, some = nights
    p = (0.1, 0.5, 0.1, 0.2, 0.1)
    rows = rows_of(1000, 30, age=55.0, missing=0.3, day=30, p=p, no_day=0.2)
    drift = drift_of(ingested(folder, "moved", rows, some[0]), some, history=history)
    of = {one.column: one for one in drift.columns}
    assert {name for name, one in of.items() if one.reported} == {"age", "city", "day"}
    assert drift.n_reported == 3
    assert of["day"].change == "missing from 0 % to " + f"{of['day'].became} of the rows"
    assert of["city"].change.startswith("rome from 19")
    assert of["city"].change.endswith(
        f"% to {100 * np.mean([r[1] == 'rome' for r in rows]):.3g} % of the rows"
    )
    assert all(" times as far as it usually does: " in one.sentence for one in drift.reported)
    assert drift.sentence.count("; ") == 2
    assert (of["age"].missing_before, of["age"].missing) == pytest.approx((0.07, 0.3), abs=0.03)
    document = json.loads(json.dumps(drift.as_document()))
    assert document["columns"][0]["column"] == drift.columns[0].column
    np.testing.assert_allclose(indices_in(document), drift.indices, rtol=1e-6)


def test_dates_are_never_told_and_zeros_of_standardised_numbers_are_numbers(nights, history):
    folder, some = nights
    rows = [(*row[:3], 0, row[4]) for row in rows_of(300, 40, day=150)]
    drift = drift_of(ingested(folder, "zeros", rows, some[0]), some, history=history)
    assert [(one.column, one.measure) for one in drift.reported] == [("level", "deviation")]
    assert drift.reported[0].now == pytest.approx(0.0, abs=1e-3)
    (day,) = (one for one in drift.columns if one.column == "day")
    assert (day.change, day.drift) == ("missing from 0 % to 0 % of the rows", 0.0)
    gone = ingested(folder, "gone", rows_of(300, 41, day=16, no_day=0.3), some[0])
    early = drift_of(gone, some[:3])  # while nobody knows what is usual
    assert [one.sentence for one in early.reported] == [
        f"day drifted by {early.largest:.2g}: missing from 0 % to {early.reported[0].became} of the rows"
    ]


def test_numbers_that_count_on_are_ids_until_they_jump_back(tmp_path):
    """A table of numbers alone has no recipe: its columns' names and nights say what they are."""

    def night(k, start, like=None, unit=1.0):
        rng = np.random.default_rng(k)
        ids, hours = range(start, start + 200), (unit * rng.gamma(2.0, size=200)).round(3)
        rows = [*zip(ids, hours, rng.integers(0, 2, 200), strict=True)]
        return ingested(tmp_path, f"n{k}", rows, like, header=("order_id", "delivery_time", "y"))

    first = night(0, 0)
    usual = [first, *(night(k, 200 * k, first) for k in (1, 2))]
    assert "order_id" in first.schema.feature_names
    assert not drift_of(night(3, 600, first), usual).n_reported
    (time,) = drift_of(night(5, 600, first, 60.0), usual).reported
    assert time.column == "delivery_time"
    (back,) = drift_of(night(4, 0, first), usual).reported
    assert (back.column, back.change) == ("order_id", "mean from 299.5 to 99.5")


def test_labels_that_are_new_drift_and_numbers_are_refused(tmp_path):
    def night(name, targets):
        rng = np.random.default_rng(6)
        rows = [(x.round(3), y) for x, y in zip(rng.normal(size=400), targets, strict=True)]
        return ingested(tmp_path, name, rows, header=("x", "y"))

    usual, more = night("two", ["a", "b"] * 200), night("three", ["a", "c"] * 200)
    (label,) = drift_of(more, [usual]).reported
    assert (label.column, label.moved, label.was, label.became) == ("label", "c", "0 %", "50 %")
    with pytest.raises(BadInput, match="labels in some generations and numbers in others"):
        drift_of(night("numbers", np.linspace(0.5, 3.7, 400)), [usual])
