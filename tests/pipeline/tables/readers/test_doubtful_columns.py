"""Columns that can be read two ways, dates that are none, ids as large as times."""

from contextlib import contextmanager
from datetime import date

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fewpass import TableEncoder, ingest, train
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.cells import read_numbers
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.encoding.inference import infer
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.readers import open_source
from fewpass.pipeline.tables.readers.table_remarks import remark_on

N = 300
DAYS = [date(2020, 1 + k % 12, 1 + k % 11) for k in range(N)]


POOLS = []  # which have to be there as long as what was taken from them


@pytest.mark.parametrize(("differ", "said"), [(1, True), (0, False)])
def test_constants_are_no_times(differ, said):
    """As large as times, a default may be anything; what differs, and repeats, is said."""
    cells = pa.array([1_700_000_000 + 86_411 * differ * (k % 9) for k in range(N)])
    remark = remark_on("x", cells, "number", "")
    assert ("looks like times" in (remark or "")) is said


@contextmanager
def own_pool():
    """Have Arrow take its memory from a pool that counts what was taken at most."""
    before = pa.default_memory_pool()
    POOLS.append(pa.proxy_memory_pool(before))
    pa.set_memory_pool(POOLS[-1])
    yield POOLS[-1]
    pa.set_memory_pool(before)


def column(cells, **kinds):
    (recipe,) = fitted(pa.table({"x": cells}), RecipeRules(kinds=kinds)).columns
    return recipe


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (["$1,234.50", "€5.20", "7.5"], "$, €"), (["5,5 €", "5,5 EUR", "7,5"], None),
        (["CHF 5.5", "SEK 7.5"], "CHF, SEK"), (["12%", "0.12"], "%, none"), (["12%", "7 %"], None),
        (["$5.5", "$7.25", "3"], None), (["5.5", "3.25"], None),
    ],
)  # fmt: skip
def test_amounts_that_cannot_be_compared_are_told(cells, told):
    said = remark_on("x", pa.array(cells * 100), "number", "")
    assert said == (told and f"holds numbers of several kinds ({told}), taken for one as they are "
                    "written. Convert them into one kind first.")  # fmt: skip


@pytest.mark.parametrize(
    ("form", "good", "impossible"),
    [
        ("ISO", "2020-02-29", ["2020-02-30", "2021-02-29", "2020-13-01", "2020-02-29T24:00:00"]),
        ("%Y-%m-%d %H:%M:%S", "2020-02-29 10:31:31", ["2020-04-31 10:00:00", "2020-04-30 24:00:00",
                                                     "2020-04-30 10:60:00", "2020-04-30 10:00:61"]),
        ("%d.%m.%Y", "29.02.2020", ["31.04.2020", "29.02.2021"]),
        ("%m/%d/%y", "02/29/20", ["04/31/20", "02/30/20"]),
        ("%d/%b/%Y:%H:%M:%S %z", "29/Feb/2020:00:00:00 +1400", ["30/Feb/2020:10:00:00 -0700"]),
        ("%a, %d %b %Y %H:%M:%S %z", "Sat, 29 Feb 2020 13:55:36 GMT", ["Tue, 31 Apr 2020 13:55:36 GMT"]),
        ("%B %d, %Y", "February 29, 2020", ["February 30, 2020", "Apr 31, 2020"]),
        ("%b %d %H:%M:%S %Y", "Feb 29 10:00:00 2020", ["Feb 30 10:00:00 2020"]),
        ("%Y%m%d", "20200229", ["20200230", "20201301"]),
        ("%G-W%V", "2020-W53", ["2021-W53", "2020-W54"]),
        ("%Y-%m", "2020-12", ["2020-13"]),
    ],
)  # fmt: skip
def test_dates_that_no_calendar_has_are_missing(form, good, impossible):
    found = read_moments(pa.array([good, *impossible, "mess"], pa.large_string()), form)
    assert np.isnan(found.values).tolist() == [False] + [True] * (len(impossible) + 1)
    assert found.bad.tolist() == [False] * (1 + len(impossible)) + [True]


def test_impossible_dates_of_a_sample_are_named():
    recipe = column([f"{1 + k % 31:02d}/04/2020" for k in range(310)])
    assert (recipe.form, recipe.missing) == ("%d/%m/%Y", ("31/04/2020",))
    assert recipe.missing_share == pytest.approx(1 / 31, abs=1e-6)
    assert "missing where 31/04/2020" in recipe.summary


def test_codes_that_are_dates_here_and_there_are_words():
    cells = pa.array([f"2020-{20 + k % 70}-{k % 80:02d}" for k in range(N)], pa.large_string())
    assert infer("part", cells).kind == "category"


@pytest.mark.parametrize(
    ("form", "usual"),
    [("%d/%m/%Y", "mdy"), ("%d.%m.%Y", "dmy"), ("%d-%m-%Y", "dmy"), ("%d/%m/%y", "mdy"),
     ("%d/%m/%Y %H:%M", "mdy")],
)  # fmt: skip
def test_days_and_months_that_nothing_tells_apart(form, usual):
    """None of the days is above 12: the rule decides, the table of columns says so."""
    cells = [day.strftime(form) for day in DAYS]
    other = {"dmy": "mdy", "mdy": "dmy"}[usual]
    recipe = column(cells)
    assert f"no cell tells: `column=x=date:{other}`" in recipe.summary
    for order in ("dmy", "mdy"):
        said = column(cells, x=f"date:{order}")
        assert "tells" not in said.summary
        assert (said.form == recipe.form) == (order == usual)
        truth = DAYS if order == "dmy" else [d.replace(month=d.day, day=d.month) for d in DAYS]
        assert said.first == (min(truth) - date(1970, 1, 1)).total_seconds()


def test_a_day_above_twelve_tells():
    cells = [*(day.strftime("%d/%m/%Y") for day in DAYS), "13/01/2020"]
    recipe = column(cells)
    assert recipe.form == "%d/%m/%Y"
    assert "tells" not in recipe.summary
    asked = column(cells, x="date:mdy")
    assert asked.missing == ("13/01/2020",)


@pytest.mark.parametrize(
    ("cells", "usual", "other"),
    [
        ([f"1,{k % 900 + 100}" for k in range(N)], 1000.0, 1.0),
        ([f"1.{k % 900 + 100}" for k in range(N)], 1.0, 1000.0),
    ],
)
def test_marks_that_nothing_tells_apart(cells, usual, other):
    recipe = column(cells)
    assert "a point before decimals, as no cell tells: `column=x=number:comma`" in recipe.summary
    assert usual <= recipe.low <= 2 * usual
    said = column(cells, x="number:comma")
    assert other <= said.low <= 2 * other
    assert "tells" not in said.summary
    assert column(cells, x="number:point").low == recipe.low
    for tells in ("1.5", "0,532"):
        assert "tells" not in column([*cells, *[tells] * 9]).summary


@pytest.mark.parametrize("rare", [1, 5, 30])
@pytest.mark.parametrize(
    "way", ["{:,}".format, "${:,}".format, lambda x: f"{x},5" if x > 999 else f"{x}"]
)
def test_separators_that_few_cells_have(rare, way):
    values = [5 + k % 900 for k in range(N - rare)] + [1250 + 37 * k for k in range(rare)]
    cells = pa.array([way(value) if value > 999 else str(value) for value in values])
    frame = pa.table({"x": cells})
    recipe = fitted(frame, RecipeRules())
    (own,) = recipe.columns
    assert (own.kind, own.missing_share) == ("number", 0.0)
    assert encoded(recipe, frame).shape[0] == N  # no cell is bad


def test_marks_and_orders_from_every_entry(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("when;p;y\n" + "".join(
        f"{day:%d/%m/%Y};1.{k % 900 + 100};{k % 2}\n" for k, day in enumerate(DAYS)))  # fmt: skip
    options = SourceOptions(label="y", column=["when=date:dmy", "p=number:comma"])
    source = open_source([str(path)], options)
    assert source.kinds == {"when": "date:dmy", "p": "number:comma"}  # as a plan is written
    made = ingest(path, tmp_path / "data", label="y", column=source.kinds)
    assert "tells" not in str(made.encoded)
    with pytest.raises(ValueError, match="date:dmy, date:mdy, number:point, number:comma"):
        SourceOptions(column={"when": "date:ymd"})


IDS = [1_029_384_756_102_938_475, 1_455_555_555_555_555_550, 1_900_000_000_000_000_000]


@pytest.mark.parametrize("base", IDS)
@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.large_string(), pa.decimal128(38, 0)])
def test_ids_in_the_range_of_nanoseconds_are_names(base, kind):
    whole = pa.array([base + k % 3 for k in range(N)], pa.int64())
    cells = whole.cast(kind)
    assert infer("user_id", cells).kind == "category"
    assert infer("update_key", cells).kind == "category"
    assert infer("created_at", cells).kind == "number"
    assert column(cells, x="date").kind == "date"


def test_whole_days_are_times_whatever_they_are_called(tmp_path):
    path = tmp_path / "t.csv"
    for unit in (1, 10**3, 10**6, 10**9):
        days = [(1_700_006_400 + 86_400 * (k // 2)) * unit for k in range(N)]
        path.write_text(
            "q,w,y\n" + "".join(f"{d},{'ab'[k % 2]},{k % 2}\n" for k, d in enumerate(days))
        )
        (note,) = open_source([str(path)], SourceOptions(label="y")).notes
        assert "`column=q=date`" in note


def test_numbers_that_floats_make_one_are_told(tmp_path):
    path = tmp_path / "t.csv"
    rows = "".join(f"{IDS[2] + k % 3},{'ab'[k % 2]},{k % 2}\n" for k in range(N))
    path.write_text("created_at,w,y\n" + rows)
    for options in ({}, {"column": {"created_at": "number"}}):
        (note,) = open_source([str(path)], SourceOptions(label="y", **options)).notes
        assert "next to constant" in note
        assert "`column=created_at=category`" in note


def test_recipes_of_before_are_read():
    """What was written down of dates and numbers has no word of what tells."""
    recipe = fitted(pa.table({"x": [day.strftime("%d/%m/%Y") for day in DAYS]}), RecipeRules())
    kept = recipe.model_dump(mode="json")
    del kept["columns"][0]["is_open"]
    assert type(recipe).model_validate(kept).columns[0].form == recipe.columns[0].form


def test_frames_know_impossible_dates():
    frame = pd.DataFrame({"d": [f"2020-02-{1 + k % 30:02d}" for k in range(150)], "b": range(150)})
    encoder = TableEncoder().fit(frame)
    rows = pd.DataFrame({"d": ["2020-02-30", "2020-03-01", None], "b": [1, 1, 1]})
    bad, rolled, missing = encoder.transform(rows).toarray()
    np.testing.assert_array_equal(bad, missing)
    assert (bad != rolled).any()


def start(path, rows, header=""):
    path.write_text(header + "".join(rows))
    return path


LARGE = 1_700_000_000_000_000 + np.random.default_rng(0).integers(0, 60_000_000, N)


@pytest.mark.parametrize("kind", ["csv", "svm", "vw", "npy"])
def test_columns_that_float32_makes_one_are_told(tmp_path, kind):
    path = tmp_path / f"t.{kind}"
    y = (np.median(LARGE) < LARGE).astype(int)
    if kind == "npy":
        np.save(path, np.column_stack([LARGE, np.arange(N) % 7, y]))
    form = {"csv": "{t},{b},{y}\n", "svm": "{y} 1:{t} 2:{b}\n", "vw": "{y} | t:{t} b:{b}\n"}.get(
        kind
    )
    if form:
        rows = [form.format(t=t, b=k % 7, y=y[k]) for k, t in enumerate(LARGE)]
        start(path, rows, "t,b,y\n" if kind == "csv" else "")
    made = ingest(path, tmp_path / "data")
    (note,) = [note for note in made.notes if "float32" in note]
    assert ("subtract" in note) == (kind == "vw")
    if kind != "vw":
        made = ingest(path, tmp_path / "exact", dtype="float64")
        assert not [note for note in made.notes if "float32" in note]


def test_rows_are_evaluated_in_the_type_that_the_model_learnt_from(tmp_path):
    from fewpass import evaluate

    y = (np.median(LARGE) < LARGE).astype(int)
    path = start(
        tmp_path / "t.csv", (f"{t},{k % 7},{y[k]}\n" for k, t in enumerate(LARGE)), "t,b,y\n"
    )
    ingest(path, tmp_path / "data", dtype="float64")
    train(tmp_path / "data", tmp_path / "run")
    assert evaluate(tmp_path / "run", path).auc == evaluate(tmp_path / "run", tmp_path / "data").auc
    assert evaluate(tmp_path / "run", path).auc > 0.99


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("t.svm", ["1 1:2\n", "-1 1:1e80\n"]),
        ("t.csv", ["a,b,y\n", "1e80,2,1\n"]),
        ("t.vw", ["1 | a:2\n", "-1 |n:1e40 a:1e40\n"]),
        ("t.vw", ["1 | a:2\n", "-1 | a:9e69 a:9e69\n"]),
    ],
)
def test_values_too_large_to_square_are_refused_by_line(tmp_path, name, rows):
    path = start(tmp_path / name, rows)
    options = SourceOptions(dtype="float64", encode="none")
    source = open_source([str(path)], options)
    (piece,) = source.pieces(1 << 20)
    with pytest.raises(BadInput, match=r"(line|row) 2: .* too large to square"):
        source.parse(piece)
    skips = options.model_copy(update={"on_bad_row": "skip"})
    parsed = open_source([str(path)], skips).parse(piece)
    assert parsed.n_skipped == 1


def test_lists_and_maps_far_beyond_the_sample_are_bad_cells():
    usual = pa.array([[1.0 + k % 5, 2.0] for k in range(N)])
    maps = pa.array([[("a", 1.0 + k % 5)] for k in range(N)], pa.map_(pa.string(), pa.float64()))
    recipe = fitted(pa.table({"x": usual, "m": maps}), RecipeRules())
    for name, cell in (("x", [1e200, 1.0]), ("m", [("a", 1e200)])):
        row = {"x": usual[:1], "m": maps[:1]}
        row[name] = pa.array([cell], row[name].type)
        with pytest.raises(BadInput, match=f"'{name}'"):
            encoded(recipe, pa.table(row))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_what_long_words_hold_is_seen_without_copies_of_them(kind):
    cells = pa.array([letter * 300_000 for letter in "abcde1-" * 5], kind)
    with own_pool() as pool:
        held, *read = infer("x", cells), read_numbers(cells), read_moments(cells)
    assert held.kind == "category" and all(one.bad.all() for one in read)
    assert pool.max_memory() < cells.nbytes / 10


@pytest.mark.parametrize("length", [1 << 12, (1 << 12) + 1])
def test_long_cells_are_words_whatever_they_begin_with(length):
    found = read_numbers(pa.array(["1.5", None, "é", "0" * (length - 1) + "7"]))
    is_long = length > 1 << 12
    np.testing.assert_array_equal(found.values, [1.5, np.nan, np.nan, np.nan if is_long else 7.0])
    assert found.bad.tolist() == [False, False, True, is_long]


def test_words_between_unknown_cells_are_words():
    """Of few cells the most tell: those that say nothing are neither numbers nor words."""
    words = ["unknown"] * 46 + ["Black", "White"] * 12 + ["Latino"] * 4
    assert infer("race", pa.array(words)).kind == "category"
    assert (
        infer("size", pa.array(["unknown"] * 46 + ["1.5", "2.5"] * 12 + ["huge"] * 4)).kind
        == "number"
    )
