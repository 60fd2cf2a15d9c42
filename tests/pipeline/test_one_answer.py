"""One row, one answer: whatever it comes in, and whoever scores it."""

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from fewpass.pipeline.models.export.sql_cells import cell_of
from fewpass.pipeline.models.export.sql_dialects import DIALECTS
from fewpass.pipeline.models.export.sql_statement import Statement
from fewpass.pipeline.tables.encoding.cells import words_of
from fewpass.pipeline.tables.encoding.terms import WordCell
from tests.pipeline.exported_ways import by_mlflow, by_onnx, by_sql
from tests.pipeline.odd_cells import (
    CASES,
    ODD_CELLS,
    REFUSED,
    WAYS,
    Case,
    answers,
    differences,
    scorer,
    trained,
)

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # of MLflow's own


def each_once():
    """Each odd cell in one of the columns of its kind: curves are of numbers that were read."""
    columns = {}
    for column, cells in ODD_CELLS.items():
        columns.setdefault(id(cells), (cells, []))[1].append(column)
    every = [(k, cell, of) for cells, of in columns.values() for k, cell in enumerate(cells)]
    return [Case(of[k % len(of)], cell) for k, cell, of in every]


#: Ways whose cells come to another one in the same Arrow table, or in a list of one row.
_ALIKE = ("a list of one row", "polars", "estimator of Arrow", "Parquet", "Feather")
#: Ways whose cells are read by the code that all columns share; `make faults` has them of each.
_FRAMES = ("a list of rows", "Arrow", "pandas, of objects", "estimator of pandas")


@pytest.fixture(scope="module", params=["linear", "additive"])
def found(request, tmp_path_factory, databases):
    of_sql = {dialect: by_sql(dialect, databases) for dialect in DIALECTS}
    ways = WAYS | of_sql | {"ONNX": by_onnx, "MLflow": by_mlflow}
    model = trained(tmp_path_factory.mktemp("one"), request.param)
    if request.param == "additive":
        return differences(model, each_once(), ways)
    alike = {name: WAYS[name] for name in ("predict_one", *_ALIKE, *_FRAMES)}
    others = {name: way for name, way in ways.items() if name not in (*_ALIKE, *_FRAMES)}
    return differences(model, each_once(), alike) + differences(model, CASES, others)


@pytest.mark.parametrize("column", ODD_CELLS)
def test_every_way_says_the_same_of_a_cell(found, column):
    wrong = [told for case, told in found if case.column == column]
    assert not wrong, "\n".join(wrong)


_SEVERAL = [
    7, 1.234, -1234.5, True, 10**20, 10**400, math.inf, Decimal("2.50"), np.float32(0.1),
    "2.5", "1.250,5 €", "11:47", "8", "2022-05-05", dt.timedelta(seconds=5), dt.time(1, 2, 3),
    np.timedelta64(5, "ns"), dt.date(2022, 5, 5), dt.datetime(2022, 5, 5, 10, 30),  # noqa: DTZ001
    dt.datetime(2022, 5, 5, 10, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))), 20220505, None,
]  # fmt: skip


@pytest.mark.parametrize(
    "column", ["x", "count", "money", "preis", "took", "city", "user", "day", "compact", "at", "ts"]
)
def test_cells_of_several_types_in_a_list_say_what_each_says_alone(plain_model, column):
    """Whichever is first: 1.234 is no 1,234, and 7 is no microseconds beside a span, nor a day."""
    cases = [Case(column, cell) for cell in _SEVERAL]
    alone = answers(plain_model, WAYS["predict_one"], cases)
    good = [k for k, one in enumerate(alone) if one != REFUSED]
    for first in good:
        rows = [cases[k].row(plain_model.columns) for k in (first, first, *good)]
        together = plain_model.model.decision_function(rows)
        expected = [alone[k] for k in (first, first, *good)]
        np.testing.assert_allclose(together, expected, rtol=1e-6, err_msg=repr(_SEVERAL[first]))
        twice = plain_model.model.decision_function(rows[:2])
        np.testing.assert_allclose(twice, expected[:2], rtol=1e-6, err_msg=repr(_SEVERAL[first]))


@pytest.fixture(scope="module")
def plain_model(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("plain"))


#: Words that count as missing, and cells that say them, or something near.
_NULLS = ("$0.00", "0,5", "00:00:00", "-999,0", "$-999", "1900-01-01", "NONE")
_NEAR = [
    -999, -999.0, "-999", "-999.0", " -999", Decimal("-999.00"), np.int64(-999), 0, "0", "$0.00", 0.5,
    "0,5", "0.5", "00:00:00", "0:00", dt.date(1900, 1, 1), "1900-01-01",
    dt.datetime(1900, 1, 1), "01/01/1900", "19000101", 19000101, 3, 3.0, "3", "3.0", 10, 10.0, "1E1",  # noqa: DTZ001
    "NA", None, -998,
]  # fmt: skip


def test_a_number_or_a_date_given_as_a_missing_word_is_missing_however_it_comes(
    tmp_path, databases
):
    model = trained(tmp_path, null_values=_NULLS)
    of_sql = {dialect: by_sql(dialect, databases) for dialect in DIALECTS}
    columns = ("x", "count", "money", "preis", "took", "code", "day", "us", "compact", "at", "ts")
    cases = [Case(column, cell) for column in columns for cell in _NEAR]
    others = {name: way for name, way in WAYS.items() if name not in _ALIKE}
    wrong = differences(model, cases, others | of_sql | {"ONNX": by_onnx})
    assert not wrong, "\n".join(told for _, told in wrong)
    (gone,) = {*answers(model, WAYS["predict_one"], [Case(c, None) for c in columns])}
    said = [
        Case("preis", -999),
        Case("preis", "-999,0"),
        Case("money", 0),
        Case("took", dt.timedelta(0)),
    ]
    said += [Case("day", dt.date(1900, 1, 1)), Case("us", "01/01/1900"), Case("money", "$-999.00")]
    assert {*answers(model, WAYS["predict_one"], said)} == {gone}


@pytest.mark.parametrize("kind", [np.float64, np.float32])
def test_a_float_is_one_word_everywhere(databases, kind):
    """Whole ones are their digits, others as Python and NumPy write them."""
    rng = np.random.default_rng(0)
    powers = [rng.uniform(-37, 37, 200), rng.uniform(-8, 20, 300)]
    sizes = np.concatenate([10.0**power for power in powers])
    few = [0.0, -0.0, 0.1, 1e-4, 1e-5, 1.5e-7, 99999999999999.9, 1e15, 1e16, 1e23, 1e36, 1e37]
    rounded = [float(f"{size:.2g}") for size in sizes]
    numbers = np.array([*few, *sizes, *rounded, -2.5e-7, math.inf, -math.inf]).astype(kind)
    if kind is np.float32:  # DuckDB does not write the shortest digits of each
        whole = numbers == np.trunc(numbers)
        numbers = numbers[whole | (np.abs(numbers) < np.float32(1e-4))]
    expected = [
        str(int(x)) if math.isfinite(x) and x == int(x) and abs(float(x)) < 1e37 else str(x)
        for x in numbers
    ]
    cells = pa.array(numbers)
    assert words_of(cells).to_pylist() == expected
    if kind is np.float64:
        assert [scorer()["said"](x) for x in numbers.tolist()] == expected
    for name, dialect in DIALECTS.items():
        to = Statement(dialect)
        word, _ = cell_of(to, ["x"], WordCell(), hashed=False)
        to.add("features", word)
        steps = ", ".join(to.written("input"))
        select = f"WITH {steps} SELECT {dialect.fields}, {word} AS word FROM features"
        found = databases.answers(name, select, pa.table({"x": cells}))
        assert found.column("word").to_pylist() == expected, name
