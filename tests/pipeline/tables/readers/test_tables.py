"""Tables as people have them: every way of writing one down is read as the same rows."""

import datetime as dt
import gzip
import io
import os
import sys
from itertools import chain, pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import murmurhash3_32

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.cells import read_numbers, words_of
from fewpass.pipeline.tables.encoding.inference import infer
from fewpass.pipeline.tables.readers import Expected, SourceOptions, open_source
from fewpass.pipeline.tables.readers.held_out_rows import HeldOutShare
from fewpass.storage.table import concatenate
from testing.datasets import dense


def source_of(path, expected=None, **options):
    settings_ = SourceOptions(**({"label": "y"} | options))
    return open_source([str(path)], settings_, None, expected or Expected())


def read(source, piece_bytes=1 << 20):
    """All rows of a source (n, d), their labels or numbers, and how many were skipped."""
    parsed = [source.parse(piece) for piece in source.pieces(piece_bytes)]
    targets = [
        [part.labels[int(code)] if part.labels else code for code in part.table.target.tolist()]
        for part in parsed
    ]
    table = concatenate([part.table for part in parsed])
    return (
        dense(table, source.n_features),
        [*chain(*targets)],
        sum(part.n_skipped for part in parsed),
    )


def table(n=300, seed=0):
    """Words, numbers with gaps, days, and cells that need quotes."""
    rng = np.random.default_rng(seed)
    words = ["plain", "with, comma", 'with "quotes"', "two\nlines", "größe", None]
    days = np.datetime64("2026-01-01") + rng.integers(0, 300, n)
    return pd.DataFrame(
        {
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(3.0, 1.0, n).round(3)),
            "word": rng.choice(np.array(words, object), n),
            "day": [day.isoformat() for day in days.astype(object)],
            "count": rng.integers(0, 9, n),
            "y": rng.choice(["no", "yes"], n),
        }
    )


# -- one table, many files -------------------------------------------------------------------------


def test_structures_are_columns_of_dotted_names(tmp_path):
    rows = [{"user": {"age": 20 + k % 40, "city": "Bern"}, "y": k % 2} for k in range(50)]
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    source = source_of(tmp_path / "rows.parquet")
    assert [column.name for column in source.recipe.columns] == ["user.age", "user.city"]
    assert len(read(source)[0]) == 50


@pytest.mark.parametrize("encode", ["auto", "none"])
def test_structures_of_numbers_alone_are_columns_too(tmp_path, encode):
    rows = [{"at": {"x": 0.5 * k, "y": k % 7}, "y": k % 2} for k in range(50)]
    pa.parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    source = source_of(tmp_path / "rows.parquet", encode=encode)
    assert source.schema.feature_names == ("at.x", "at.y")
    np.testing.assert_array_equal(read(source)[0], [(0.5 * k, k % 7) for k in range(50)])


def text_of_codes(cells):
    return cells.cast(pa.string()) if pa.types.is_dictionary(cells.type) else cells


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array([1, 2, 5] * 40), pa.array([1.5, None, 4.0] * 40)),
        (pa.nulls(120), pa.array([1, 2, 5] * 40)),
        (pa.array(["p", "q", None] * 40), pa.array(["p", "q", "q"] * 40).dictionary_encode()),
        (
            pa.array([0, 1, 9] * 40, pa.timestamp("s")),
            pa.array([0, 10**9] * 60, pa.timestamp("ns")),
        ),
    ],
    ids=["int-float", "null-int", "words-codes", "s-ns"],
)
def test_files_of_one_table_may_have_other_types_of_the_same(tmp_path, one, other, words):
    """Pandas writes whole numbers as fractions where one is missing, and words as codes."""
    w = ["u", "v"] * 60 if words else [1, 2] * 60
    more = {"w": w, "y": [k % 2 for k in range(120)]}
    parts = [pa.table({"a": cells, **more}) for cells in (one, other)]
    for k, rows in enumerate(parts):
        pa.parquet.write_table(rows, tmp_path / f"{k}.parquet")
    plain = [rows.set_column(0, "a", text_of_codes(rows["a"])) for rows in parts]
    as_one = pa.concat_tables(plain, promote_options="permissive")
    pa.parquet.write_table(as_one, tmp_path / "whole.parquet")
    apart, whole = source_of(tmp_path / "[01].parquet"), source_of(tmp_path / "whole.parquet")
    assert apart.recipe == whole.recipe
    np.testing.assert_array_equal(read(apart)[0], read(whole)[0])


def test_files_of_words_and_of_numbers_are_refused_by_column(tmp_path):
    for k, cells in enumerate(([1, 2] * 60, ["u", "v"] * 60)):
        pa.parquet.write_table(pa.table({"a": cells, "y": [0, 1] * 60}), tmp_path / f"{k}.parquet")
    said = r"0.parquet: the files hold columns of different types .*Field a .* Write them alike"
    with pytest.raises(BadInput, match=said):
        source_of(tmp_path / "[01].parquet")


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_the_same_rows_are_held_out_whatever_becomes_of_columns(tmp_path, form):
    """Pieces draw them, so these must not depend on that."""
    rows = np.random.default_rng(0).random((4000, 3))
    frame, path = pd.DataFrame(rows, columns=["a", "b", "y"]), tmp_path / f"rows.{form}"
    frame.to_csv(path, index=False) if form == "csv" else getattr(frame, f"to_{form}")(path)
    share, drawn = HeldOutShare(0.2, (0,)), []
    for encode in ("always", "none"):
        source = source_of(path, Expected(held_out=0.2), encode=encode)
        parsed = [(source.parse(piece), piece.place) for piece in source.pieces(1 << 15)]
        assert len(parsed) > 2
        held_out = [one.table.target[share.of(one, place)] for one, place in parsed]
        drawn.append(np.concatenate(held_out).tolist())
    assert drawn[0] == drawn[1]


def test_decimal_commas_dates_and_words_for_missing_numbers(tmp_path):
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=400).round(3)
    shown = [str(x).replace(".", ",") for x in numbers]
    shown[::20] = ["unknown"] * 20
    days = [dt.date(2025, 1, 1) + dt.timedelta(int(k)) for k in rng.integers(0, 600, 400)]
    frame = pd.DataFrame(
        {"x": shown, "day": [d.strftime("%d.%m.%Y") for d in days], "y": np.arange(400) % 2}
    )
    frame.to_csv(tmp_path / "rows.csv", sep=";", index=False)
    source = source_of(tmp_path / "rows.csv", dtype="float64")
    x, day = source.recipe.columns
    assert (x.kind, x.written, x.missing) == ("number", "comma", ("unknown",))
    assert (day.kind, day.form) == ("date", "%d.%m.%Y")
    X, _, _ = read(source)
    low, high = np.quantile(np.delete(numbers, np.s_[::20]), [0.005, 0.995])
    known = np.delete(np.clip(numbers, low, high), np.s_[::20])
    standardised = (known - known.mean()) / known.std()
    np.testing.assert_allclose(np.delete(X[:, 0], np.s_[::20]), standardised, atol=1e-9)
    assert (X[::20, :2] == [0.0, 1.0]).all()


def test_text_becomes_its_words(tmp_path):
    rng = np.random.default_rng(0)
    vocabulary = np.array([f"word{k}" for k in range(50)])
    texts = [" ".join(rng.choice(vocabulary, 8)) for _ in range(200)]
    pd.DataFrame({"review": texts, "y": np.arange(200) % 2}).to_csv(
        tmp_path / "rows.csv", index=False
    )
    source = source_of(tmp_path / "rows.csv", hash_bits=12, dtype="float64")
    assert source.recipe.columns[0].kind == "text"
    X, _, _ = read(source)
    np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1.0, atol=1e-12)
    tokens = [text.split() for text in texts]
    every = [[*one, *map(" ".join, pairwise(one))] for one in tokens]
    slots = [[murmurhash3_32(term, positive=True) for term in terms] for terms in every]
    rows = np.zeros(len(X[0]))
    for found in slots:
        rows[[*{code % len(rows) for code in found}]] += 1
    idf = np.rint(16 * (np.log(201 / (1 + rows)) + 1)) / 16
    for x, found in zip(X, slots, strict=True):
        expected = np.zeros(len(rows))
        np.add.at(expected, [c % len(rows) for c in found], [1 - 2 * (c >> 31) for c in found])
        known = expected != 0
        expected[known] *= (1 + np.log(np.abs(expected[known]))) / np.abs(expected[known])
        expected *= idf
        np.testing.assert_allclose(x, expected / np.linalg.norm(expected), atol=1e-12)
    assert (X != 0.0).sum(axis=1).max() <= 15  # eight words and seven pairs


# -- when ------------------------------------------------------------------------------------------


def test_numbers_stay_as_they_are(tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame({"x": np.arange(50.0), "z": 1, "y": np.arange(50) % 2}).to_csv(path, index=False)
    assert source_of(path).recipe is None
    assert source_of(path, encode="always").recipe is not None
    assert source_of(path, column={"z": "category"}).recipe is not None


def test_a_gap_far_behind_the_first_look_is_seen(tmp_path):
    path = tmp_path / "rows.csv"
    x = np.arange(400_000.0)
    x[-1] = np.nan
    pd.DataFrame({"x": x, "y": np.arange(len(x)) % 2}).to_csv(path, index=False)
    source = source_of(path)
    assert source.recipe is not None
    assert read(source)[2] == 0


def test_what_a_column_holds_can_be_said(tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame({"zip": [f"0{k % 7}" for k in range(90)], "id": range(90), "y": 1}).to_csv(
        path, index=False
    )
    source = source_of(path, column={"zip": "category", "id": "drop"})
    assert source.recipe.outputs[0] == "zip=00"
    assert source.kinds == {"zip": "category", "id": "drop"}
    assert [c.kind for c in source_of(path, column=("zip=bins:4", "id=hash")).recipe.columns] == [
        "bins", "hashed",
    ]  # fmt: skip
    with pytest.raises(BadInput, match=r"no column 'zap', which `column` names"):
        source_of(path, column={"zap": "number"})
    with pytest.raises(BadInput, match=r"`encode=none` out"):
        source_of(path, column={"zip": "number"}, encode="none")
    for more in ({"label": "id"}, {"weight": "id"}, {"drop": ("id",)}):
        with pytest.raises(
            BadInput, match=r"`column=id=number` says what a feature holds, and 'id'"
        ):
            source_of(path, column={"id": "number"}, **more)


# -- what is refused -------------------------------------------------------------------------------


def test_a_bad_cell_is_told_by_its_row(tmp_path):
    """A few words among numbers are missing, and said; of few cells none is known to be rare."""
    path = tmp_path / "rows.csv"
    frame = table(400)
    frame["count"] = frame["count"].astype(object)
    frame.loc[250, "count"] = "oops"
    frame.to_csv(path, index=False)
    source = source_of(path)
    X, _, skipped = read(source, 4096)
    assert (len(X), skipped) == (400, 0)
    assert any("1 cell holds no number ('oops')" in note for note in source.notes)
    frame = frame[:90]
    frame.loc[60, "count"] = "oops"
    frame.to_csv(path, index=False)
    line = 2 + 60
    source = source_of(path)
    with pytest.raises(BadInput, match=rf"row {line}: column 'count' holds 'oops', a number"):
        read(source, 4096)
    lenient = source_of(path, on_bad_row="skip")
    X, y, skipped = read(lenient, 4096)
    assert (len(X), len(y), skipped) == (89, 89, 1)


def test_words_without_a_header_are_no_header(tmp_path):
    """Whether a word stands twice in the first row, or comes again in its column."""
    for first in (["e", "x", "x"], ["e", "x", "s"]):
        rows = [first, *(["p" if k % 3 else "e", "x", "s" if k % 2 else "t"] for k in range(60))]
        (tmp_path / "rows.csv").write_text("\n".join(map(",".join, rows)) + "\n")
        source = source_of(tmp_path / "rows.csv", label=0)
        assert source.schema.names is None
        assert len(read(source)[0]) == 61


def test_pairs_of_columns_count(tmp_path):
    frame = table()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    source = source_of(tmp_path / "rows.csv", cross=("word,count",))
    X, _, _ = read(source)
    names = source.recipe.outputs
    pairs = [k for k, name in enumerate(names) if name.startswith("word x count")]
    assert len(pairs) == source.recipe.crosses[0].pairs.width
    assert (np.count_nonzero(X[:, pairs], axis=1) == 1).all()
    both = frame.word.notna()
    assert (X[~both][:, pairs[-1]] == 1.0).all()
    columns = X[both][:, pairs].argmax(axis=1) + X[both][:, pairs].argmin(axis=1)
    given = zip(frame.word[both], frame["count"][both], strict=True)
    assert len(set(zip(given, columns.tolist(), strict=True))) == len(
        frame[both].groupby(["word", "count"])
    )
    with pytest.raises(BadInput, match="no column 'wort' to cross"):
        source_of(tmp_path / "rows.csv", cross=("wort,count",))


def test_names_of_folders_are_columns(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=90), "year": np.repeat([2024, 2025, 2026], 30)})
    frame = frame.assign(
        y=np.arange(90) % 2, town=np.where(frame.year == 2025, "Sankt Gallen", "Bern")
    )
    frame.to_parquet(tmp_path / "rows", partition_cols=["year", "town"], index=False)
    (tmp_path / "rows/_SUCCESS").write_text("")
    source = source_of(tmp_path / "rows", dtype="float64")
    assert [(c.name, c.kind) for c in source.recipe.columns] == [
        ("x", "number"), ("year", "number"), ("town", "category"),
    ]  # fmt: skip
    X, _, _ = read(source)
    assert X[:, source.recipe.outputs.index("town=Sankt Gallen")].sum() == 30
    assert len(X) == 90


def test_lists_are_vectors_or_tags(tmp_path):
    rng = np.random.default_rng(0)
    vectors = rng.normal(3.0, 2.0, (60, 4))
    tags = [["red", "red", "big"] if k % 2 else ["small"] for k in range(60)]
    given = [None if k == 7 else vectors[k].tolist() for k in range(60)]
    rows = pa.table({"at": given, "tags": tags, "y": [k % 2 for k in range(60)]})
    pa.parquet.write_table(rows, tmp_path / "rows.parquet")
    source = source_of(tmp_path / "rows.parquet", dtype="float64")
    assert [c.kind for c in source.recipe.columns] == ["vector", "tags"]
    X, _, _ = read(source)
    known = np.delete(vectors, 7, axis=0)
    expected = (known - known.mean(axis=0)) / known.std(axis=0)
    np.testing.assert_allclose(np.delete(X[:, :4], 7, axis=0), expected, atol=1e-12)
    assert X[7, :5].tolist() == [0, 0, 0, 0, 1]
    names = source.recipe.outputs[5:]
    assert names == ["tags=big", "tags=red", "tags=small", "tags rare or unseen"]
    assert X[1, 5:].tolist() == [1, 1, 0, 0]
    short = rows.set_column(0, "at", pa.array([[1.0], *given[1:]]))
    pa.parquet.write_table(short, tmp_path / "short.parquet")
    with pytest.raises(BadInput, match=r"row 1: column 'at' holds '\[1.0\]', 4 numbers of usual"):
        read(source_of(tmp_path / "short.parquet"))


@pytest.mark.parametrize("power", [900, -900])
def test_numbers_whose_squares_are_none_are_standardised(tmp_path, power):
    """By a power of two they are the same rows, bit for bit."""
    small = np.random.default_rng(0).standard_normal(300)
    rows = []
    for name, x in (("small", small), ("all", np.ldexp(small, power))):
        cells = pd.DataFrame({"x": x, "word": ["a", "b", "c"] * 100, "y": [0, 1] * 150})
        cells.to_csv(tmp_path / f"{name}.csv", index=False)
        rows.append(read(source_of(tmp_path / f"{name}.csv", dtype="float64"))[0])
    np.testing.assert_array_equal(rows[0], rows[1])


@pytest.mark.parametrize(
    ("name", "said"), [("a.csv.gz", "gzip"), ("a.parquet", "Parquet"), ("a.npy", "NumPy")]
)
def test_a_file_whose_name_says_another_thing_is_refused(tmp_path, name, said):
    frame = table()
    if name.endswith("npy"):
        np.save(tmp_path / name, frame[["count"]])
    elif name.endswith("gz"):
        frame.to_csv(tmp_path / name)
    else:
        frame.to_parquet(tmp_path / name)
    (tmp_path / name).rename(tmp_path / "a.csv")
    with pytest.raises(BadInput, match=f"begins as {said}"):
        read(source_of(tmp_path / "a.csv"))


@pytest.mark.parametrize("link", [False, True])
def test_a_pipe_that_is_named_as_a_file_is_sent_to_standard_input(tmp_path, link):
    """As the shell's `<(...)` is; it has no bytes, and was called an empty file."""
    os.mkfifo(tmp_path / "rows.csv")
    (tmp_path / "63").symlink_to(tmp_path / "rows.csv")
    path = tmp_path / ("63" if link else "rows.csv")
    with pytest.raises(BadInput, match=f"{path.name} is a pipe .*standard input"):
        source_of(path)


def test_what_is_packed_on_standard_input_is_to_be_unpacked_on_its_way(monkeypatch):
    """It has no name that could say what it holds."""
    packed = gzip.compress(table().to_csv(index=False).encode())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed)))
    with pytest.raises(BadInput, match=r"begins as gzip .* Unpack it on its way \(gzip -dc"):
        read(source_of("-", format="csv"))


def test_parts_without_a_header_are_sent_together(tmp_path):
    """As `split` leaves them: their first rows were called columns that the first file lacks."""
    first, *rows = table().to_csv(index=False).splitlines(keepends=True)
    (tmp_path / "part-0.csv").write_text("".join((first, *rows[:60])))
    (tmp_path / "part-1.csv").write_text("".join(rows[60:]))
    with pytest.raises(BadInput, match=r"part-1\.csv: the first row is no header \(.*cat part-\*"):
        read(source_of(tmp_path / "*.csv"))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(-(10**6), 10**6), min_size=120, max_size=120, unique=True))
def test_spans_of_time_are_their_seconds_however_they_are_written(seconds):
    spans = pa.array(seconds, pa.duration("s"))
    written = [
        f"{'-' * (s < 0)}{abs(s) // 3600}:{abs(s) // 60 % 60:02d}:{abs(s) % 60:02d}"
        for s in seconds
    ]
    kinds = [spans, spans.cast(pa.duration("ns")), pa.array(written)]
    assert words_of(kinds[1]).to_pylist() == [*map(str, seconds)]  # in no unit of a file's own
    for cells in kinds:
        held = infer("t", cells)
        assert held[:2] == ("number", "clock")  # a model of typed ones reads those of CSV and SQL
        np.testing.assert_array_equal(read_numbers(cells, held.written)[0], seconds)


def test_times_of_a_day_are_their_seconds():
    times = pa.array([dt.time(0, 0, 1), None, dt.time(23, 59, 59)])
    for kind in ("s", "ms"):
        found, _ = read_numbers(times.cast(pa.time32(kind)))
        np.testing.assert_array_equal(found, [1.0, np.nan, 86399.0])
    words = pa.array(["0:01", "23:59", "7:30"] * 50)
    assert infer("t", words).written == "clock"
    assert read_numbers(words, "clock")[0][:3].tolist() == [60.0, 86340.0, 27000.0]
