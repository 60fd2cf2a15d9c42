"""Whole numbers that are names, the many ways to write nothing, and days in all forms."""

import json
from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.inference import infer
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.readers import open_source

N = 600
ZIPS = [f"{(k * 397) % 90 + 7:05d}" for k in range(N)]
IDS = [10**17 + 2 * (k % 8) for k in range(N)]  # doubles have one in sixteen
FORMATS = ("csv", "parquet", "jsonl")


def written(folder, kind, columns):
    """Write columns of text or of numbers as a table of some format."""
    path, names = folder / f"t.{kind}", list(columns)
    rows = list(zip(*columns.values(), strict=True))
    lines = "".join(f"{','.join(map(str, row))}\n" for row in rows)
    if kind == "csv":
        path.write_text(f"{','.join(names)}\n{lines}")
    elif kind == "jsonl":
        path.write_text(
            "".join(f"{json.dumps(dict(zip(names, row, strict=True)))}\n" for row in rows)
        )
    else:
        pa.parquet.write_table(pa.table(dict(columns)), path)
    return path


def source_of(path, **settings):
    return open_source([str(path)], SourceOptions(label="y", **settings))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("cells", [ZIPS, IDS])
def test_whole_numbers_that_are_names_are_categories_and_said(tmp_path, kind, cells):
    y = [k % 2 for k in range(N)]
    path = written(tmp_path, kind, {"x": [0.5 + k % 9 for k in range(N)], "code": cells, "y": y})
    source = source_of(path)
    assert source.kinds == {"x": "number", "code": "category"}
    values = source.recipe.columns[1].values
    assert set(values) == set(map(str, cells))  # each has its own column
    assert "`column=code=number`" in source.notes[0]
    assert source_of(path, column={"code": "number"}).kinds["code"] == "number"


@pytest.mark.parametrize(
    "cells",
    [
        ["0", "0.5", "10", "07.5"],  # a zero in front of a point
        ["007", "42", "1234"],  # of several widths
        ["0", "1"],
        [f"{k}e15" for k in range(1, 99)],  # large, and written as amounts
    ],
)
def test_other_numbers_stay_numbers(tmp_path, cells):
    cells = [cells[k % len(cells)] for k in range(N)]
    y = [k % 2 for k in range(N)]
    source = source_of(written(tmp_path, "csv", {"x": cells, "y": y}), encode="always")
    assert source.kinds == {"x": "number"}
    assert not any("words" in note for note in source.notes)


NOTHING = (
    "NA", "n/a", "?", "-", "unknown", "Not available", "#N/A", "(null)", "", " -- ", "nan", "<NA>",
    r"\N", "NaT", "-nan",
)  # fmt: skip


def recipe_and_rows(cells, other=None):
    recipe = fitted(pa.table({"x": pa.array(cells)}), RecipeRules())
    other = cells if other is None else other
    return recipe, encoded(recipe, pa.table({"x": pa.array(other)})).toarray()


@pytest.mark.parametrize("kind", ["number", "date"])
def test_any_way_to_write_nothing_is_missing(kind):
    day = datetime(2026, 1, 1, tzinfo=UTC)
    known = [str(k / 8) if kind == "number" else str((day + timedelta(k)).date()) for k in range(N)]
    cells = [NOTHING[k // 4 % len(NOTHING)] if k % 4 == 0 else known[k] for k in range(N)]
    gaps = [None if cell in NOTHING else cell for cell in cells]
    recipe, rows = recipe_and_rows(cells)
    expected, without = recipe_and_rows(gaps)
    assert recipe.columns[0].kind == kind and recipe.columns[0].missing_share == 0.25
    assert recipe.outputs == expected.outputs
    np.testing.assert_array_equal(rows, without)
    # A word that the sample had not is missing, too; another word is no date, and a missing number.
    _, later = recipe_and_rows(known, ["undefined", *known[1:]])
    _, empty = recipe_and_rows(known, [None, *known[1:]])
    np.testing.assert_array_equal(later, empty)
    if kind == "number":
        np.testing.assert_array_equal(recipe_and_rows(known, ["soon", *known[1:]])[1], empty)
        return
    with pytest.raises(ValueError, match="row 0 is soon"):
        recipe_and_rows(known, ["soon", *known[1:]])


def test_words_for_a_missing_date_are_those_that_come_again():
    days = [str(date(2026, 1, 1) + timedelta(k)) for k in range(N)]
    cells = ["never" if k % 3 == 0 else day for k, day in enumerate(days)]
    recipe, rows = recipe_and_rows(cells)
    assert recipe.columns[0].kind == "date" and recipe.columns[0].missing == ("never",)
    np.testing.assert_array_equal(
        rows[:, recipe.outputs.index("x is missing")], [k % 3 == 0 for k in range(N)]
    )


@pytest.mark.parametrize("day", ["0000-00-00", "0001-01-01", "1900-01-01", "9999-12-31"])
@pytest.mark.parametrize("typed", [False, True])
def test_days_that_stand_for_a_missing_one(day, typed):
    days = [str(date(2024, 1, 1) + timedelta(k)) for k in range(N)]
    cells = [day if k % 10 == 0 else own for k, own in enumerate(days)]
    if typed and day != "0000-00-00":
        cells = [date.fromisoformat(cell) for cell in cells]
    recipe, rows = recipe_and_rows(cells)
    gaps = [None if k % 10 == 0 else cell for k, cell in enumerate(cells)]
    np.testing.assert_array_equal(rows, recipe_and_rows(gaps)[1])
    assert recipe.columns[0].summary.endswith(f"missing where {day}")


def test_days_long_ago_that_are_no_others_are_kept():
    births = [str(date(1900, 1, 1) + timedelta(40 * (k % 500))) for k in range(20 * N)]
    assert not fitted(pa.table({"x": births}), RecipeRules()).columns[0].missing


MOMENTS = [
    datetime(2020, 3, 1, 4, 5, 6, tzinfo=UTC) + timedelta(days=k, minutes=7 * k) for k in range(N)
]


@pytest.mark.parametrize(
    "form",
    [
        "%Y-%m-%d %H:%M:%S UTC", "%Y-%m-%d %H:%M:%S,123", "%Y-%m-%dT%H:%M:%S.123456789Z",
        "%Y-%m-%d %H:%M:%S %z", "%d/%b/%Y:%H:%M:%S %z", "%a, %d %b %Y %H:%M:%S %z",
        "%a, %d %b %Y %H:%M:%S GMT", "%a %b %d %H:%M:%S %Y", "%Y%m%dT%H%M%SZ",
        "%A, %d %B %Y %H:%M:%S", "%Y-%m-%d %I:%M:%S %p",
    ],
)  # fmt: skip
@pytest.mark.parametrize("hours", [0, -7])
def test_moments_of_other_programs(form, hours):
    zone = timezone(timedelta(hours=hours) if "%z" in form else timedelta(0))
    cells = pa.array([moment.astimezone(zone).strftime(form) for moment in MOMENTS])
    held = infer("x", cells)
    assert held.kind == "date"
    seconds = [moment.timestamp() for moment in MOMENTS]
    np.testing.assert_array_equal(read_moments(cells, held.form).values, seconds)


def test_several_forms_in_a_column():
    forms = ("%d.%m.%Y %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d %b %Y")
    cells = pa.array([one.strftime(forms[k % 3]) for k, one in enumerate(MOMENTS)])
    held = infer("x", cells)
    days = [one.timestamp() // 86_400 for one in MOMENTS]
    np.testing.assert_array_equal(read_moments(cells, held.form).values // 86_400, days)


def test_a_year_of_two_digits_is_none_of_four():
    cells = pa.array(["01.03.2026", "01.03.26", "01.03.0926", "", None])
    read = read_moments(cells, "%d.%m.%Y")
    assert np.isnan(read.values).tolist() == [False, True, False, True, True]
    assert read.bad.tolist() == [False, True, False, False, False]
    both = read_moments(cells, "%d.%m.%Y|%d.%m.%y")
    assert both.values[0] == both.values[1] and both.bad is None


def test_weeks_months_and_quarters_are_the_days_they_begin_on():
    days = [moment.date() for moment in MOMENTS]
    weeks = [date.fromisocalendar(*day.isocalendar()[:2], 1) for day in days]
    quarters = [date(day.year, (day.month - 1) // 3 * 3 + 1, 1) for day in days]
    for cells, begins in (
        ([f"{d:%G-W%V}" for d in days], weeks),
        ([f"{d:%GW%V%u}" for d in days], days),
        ([f"{d:%Y-%m}" for d in days], [d.replace(day=1) for d in days]),
        ([f"{d:%b-%y}" for d in days], [d.replace(day=1) for d in days]),
        ([f"{d.year}Q{(d.month + 2) // 3}" for d in days], quarters),
    ):
        held = infer("x", pa.array(cells))
        found = read_moments(pa.array(cells), held.form).values / 86_400
        np.testing.assert_array_equal(found, [(d - date(1970, 1, 1)).days for d in begins])
        names = fitted(pa.table({"x": cells}), RecipeRules()).outputs
        assert any("weekday" in name for name in names) == (begins is days)


def test_dates_that_cannot_be_told_are_named(tmp_path):
    """The first of February, or the second of January?"""
    cells = [one.strftime(("%m/%d/%Y", "%d/%m/%Y")[k % 2]) for k, one in enumerate(MOMENTS)]
    source = source_of(written(tmp_path, "csv", {"x": cells, "y": [k % 2 for k in range(N)]}))
    assert source.kinds == {"x": "category"} and "looks like dates" in source.notes[0]
