"""What a cell says, where a table, its recipe and later rows meet."""

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.applying import encode
from fewpass.pipeline.tables.encoding.cells import words_of
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.moments import first_year_of, in_form, read_moments
from fewpass.pipeline.tables.encoding.recipe import Recipe
from fewpass.pipeline.tables.readers import open_source

N = 300
LABEL = [k % 2 for k in range(N)]


def source_of(path, **settings):
    return open_source([str(path)], SourceOptions(**settings))


def column(cells, **kinds):
    return fitted(pa.table({"x": pa.array(cells)}), RecipeRules(kinds=kinds, n_rows=N)).columns[0]


# -- dates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "last"), [
    (1940, 2013), (1900, 1968), (1950, 1968), (1905, 1999), (1969, 2068), (1990, 2024), (2024, 2031),
])  # fmt: skip
def test_years_of_two_digits_are_about_the_years_that_there_are(first, last):
    days = [date(first, 1, 1) + (date(last, 12, 31) - date(first, 1, 1)) * k // N for k in range(N)]
    recipe = column([f"{day:%d.%m.%y}" for day in days])
    seconds, _ = recipe.read(pa.array([f"{day:%d.%m.%y}" for day in days]))
    assert (seconds / 86_400).tolist() == [(day - date(1970, 1, 1)).days for day in days]
    assert (f"from {first} to" in recipe.summary) == (recipe.first_year is not None)


def test_years_of_four_digits_say_nothing_of_those_of_two():
    cells, forms = ["01.02.1871", "01.02.50", "01.02.62"], ["%d.%m.%Y", "%d.%m.%y"]
    assert first_year_of(pa.array(cells), forms) == 1950
    found = read_moments(pa.array(cells), "|".join(forms), first_year=1950)[0] / 86_400
    years = [1970 + days / 365.25 for days in found]
    assert [int(year) for year in years] == [1871, 1950, 1962]


def test_a_zone_of_hours_alone_is_one_whatever_stands_beside_it():
    cells = ["2022-05-05 10:30:00+00", "2022-05-05 10:30:00+02", "2022-05-05 10:30:00.25-07"]
    expected = read_moments(pa.array([f"{cell}:00" for cell in cells]))[0]
    assert (np.diff(expected) / 3600).tolist() == [-2.0, 9.0]
    for more in ([], ["2022-02-30 10:00:00+00"]):
        found = read_moments(pa.array([*cells, *more]))[0]
        assert found[:3].tolist() == expected.tolist() and np.isnan(found[3:]).all()


_DAYS = [date(2025, 1, 1) + timedelta(k % 7) for k in range(270)]


@pytest.mark.parametrize(("far", "stands_for_none"), [
    (date(2025, 3, 1), False), (date(2025, 12, 31), False), (date(2028, 6, 16), False),
    (date(1900, 1, 1), True), (date(1970, 1, 1), True), (date(1899, 12, 30), True),
    (date(2099, 12, 31), True), (date(2222, 2, 22), True),
])  # fmt: skip
def test_a_day_far_from_others_stands_for_none_where_no_data_would_have_it(far, stands_for_none):
    recipe = column(pa.array([*_DAYS, *[far] * 30]))
    assert bool(recipe.standins) == stands_for_none
    assert ("missing where" in recipe.summary) == stands_for_none


@pytest.mark.parametrize(
    ("form", "cell", "expected"),
    [
        ("%d.%m.%Y", "01.02.26", None),
        ("%Y-%m-%d", "26-02-01", None),
        ("%d.%m.%Y %H:%M", "01.02.2026 10:11 +02", "2026-02-01T08:11"),
        ("%d.%m.%Y %H:%M %z", "01.02.2026 10:11", "2026-02-01T10:11"),
        ("%Y-%m", "2026-02-05", None),
        ("%b %d, %Y", "Sept 5, 2026", "2026-09-05"),
        ("%d/%b/%Y:%H:%M:%S %z", "10/OCT/2026:13:55:36 -0730", "2026-10-10T21:25:36"),
        ("%Y%m%d", "202611", None),
        ("%d.%m.%Y %I:%M %p", "01.02.2026 12:05 am", "2026-02-01T00:05"),
        ("%G-W%V", "2020W53-7", "2021-01-03"),
        ("%Y-Q%q", "2026Q4", "2026-10-01"),
    ],
)
def test_a_cell_is_a_date_in_a_form_or_none(form, cell, expected):
    (seconds,) = in_form(pa.array([cell], pa.large_string()), form)
    if expected is None:
        assert np.isnan(seconds)
    else:
        assert seconds == np.datetime64(expected, "s").astype(float)


# -- numbers and words -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns")
      for zone in (None, "UTC", "Europe/Berlin")),
    pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"),
], ids=str)  # fmt: skip
def test_a_time_says_the_same_in_types_of_every_unit(kind):
    """Zeros behind a second are no part of its word, of whatever zone it is."""
    of_zone = {None: "", "UTC": "Z", "Europe/Berlin": "+0100"}[getattr(kind, "tz", None)]
    hour = "06" if of_zone == "+0100" else "05"
    cells = pa.array([5 * 3600 * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[kind.unit]], kind)
    day = "1970-01-01 " if pa.types.is_timestamp(kind) else ""
    assert words_of(cells).to_pylist() == [f"{day}{hour}:00:00{of_zone}"]


def test_an_id_whose_letter_is_an_e_is_no_power_of_ten(tmp_path):
    ids = [f"{k % 90 + 10}E{k % 7 * 100 + 56:03d}" for k in range(N)]
    pd.DataFrame({"x": ids, "y": LABEL}).to_csv(tmp_path / "rows.csv", index=False)
    assert source_of(tmp_path / "rows.csv", label="y").kinds == {"x": "category"}
    assert column([f"{k}e{k % 30}" for k in range(1, N)]).kind == "number"


def test_numbers_too_small_to_divide_by_are_a_constant():
    recipe = column(np.linspace(-1e-310, 1e-310, N).tolist())
    (made,) = encode(Recipe(columns=(recipe,)), [pa.array([1e-310])]).dense(np.float64)
    assert recipe.low == recipe.high and np.isfinite(made[0])


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
@pytest.mark.parametrize(
    "cells", [[str(k % 7) for k in range(N)], [f"{k / 7:.3f}" for k in range(N)]]
)
def test_texts_of_numbers_in_parquet_are_those_of_csv(tmp_path, kind, cells):
    table = pa.table({"x": pa.array(cells).cast(kind), "y": LABEL})
    pq.write_table(table, tmp_path / "rows.parquet")
    pd.DataFrame({"x": cells, "y": LABEL}).to_csv(tmp_path / "rows.csv", index=False)
    typed, text = (
        source_of(tmp_path / name, label="y", encode="always")
        for name in ("rows.parquet", "rows.csv")
    )
    assert typed.recipe == text.recipe and typed.recipe.columns[0].kind == "number"
    assert source_of(tmp_path / "rows.parquet", label="y").recipe == text.recipe


@pytest.mark.parametrize(
    "cells", [["1,250", "7,500"], ["950", "7,500"], ["Paris, France", "Rome, Italy"]]
)
def test_commas_between_quotes_are_no_second_column(tmp_path, cells):
    for name, rows in (("short", cells), ("long", cells * 50)):
        frame = pd.DataFrame({"price": rows})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
        source = source_of(tmp_path / f"{name}.csv", label_required=False, encode="always")
        assert [one.name for one in source.recipe.columns] == ["price"]


# -- words that stand for nothing ------------------------------------------------------------------

COUNTRIES = ["NA", "CH", "none", "-"]


@pytest.fixture(params=["csv", "parquet"])
def rows(tmp_path, request):
    frame = pd.DataFrame({"country": (COUNTRIES * N)[:N], "id": "NA", "y": LABEL})
    path = tmp_path / f"rows.{request.param}"
    frame.to_csv(path, index=False) if request.param == "csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize(("null_values", "known"), [
    (None, {"-", "CH"}), (("",), {"-", "CH", "NA", "none"}), (("-", "none"), {"CH", "NA"}),
])  # fmt: skip
def test_an_option_says_which_words_are_missing(rows, tmp_path, null_values, known):
    more = {} if null_values is None else {"null_values": null_values}
    fewpass.ingest(rows, tmp_path / "set", label="y", drop="id", encode="always", **more)
    fewpass.train(tmp_path / "set", tmp_path / "run", passes=2)
    model = fewpass.load(tmp_path / "run")
    one = {word: model.predict_one({"country": word})["score"] for word in [*COUNTRIES, None]}
    assert {word for word in COUNTRIES if one[word] != one[None]} == known
    out = tmp_path / "out.parquet"
    fewpass.predict(tmp_path / "run", rows, out, keep=["country", "id"])
    found = pd.read_parquet(out)
    assert {*found["id"]} == {"NA"} and {*found["country"]} == {*COUNTRIES}
    np.testing.assert_allclose(found["score"], [one[word] for word in found["country"]], atol=1e-6)


def test_a_number_stands_for_no_missing_value(rows, tmp_path):
    with pytest.raises(BadInput, match="'-999' is a number, which is one in every column"):
        fewpass.ingest(rows, tmp_path / "set", label="y", null_values="-999")


@pytest.mark.parametrize(("spelled", "wanted"), [
    (["True", "TRUE", "true", "False", "FALSE"], ("false", "true")), (["True", "TRUE"], ("true",)),
    (["True", "False"], ("False", "True")), (["True", "TRUE", "no"], ("TRUE", "True", "no")),
])  # fmt: skip
def test_true_of_several_spellings_is_one_value(spelled, wanted):
    """One file was written by Python, the other by a spreadsheet."""
    recipe = column([spelled[k % len(spelled)] for k in range(N)], x="category")
    assert recipe.model_dump()["values"] == wanted
