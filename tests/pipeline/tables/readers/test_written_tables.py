"""Tables of any shape written by pandas and read back: equal values, or a refusal by row."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.readers import Expected
from fewpass.pipeline.tables.readers.csv_head import MISSING
from tests.pipeline.tables.readers.test_tables import read, source_of

#: Letters that every charset below has, with all that a cell of CSV must be quoted for.
LETTERS = st.text(st.sampled_from("abcXYZ ,;|\t\"\n'#%{}éß"), min_size=1, max_size=12)
CHARSETS = {
    "utf-8": {},
    "utf-8-sig": {},
    "utf-16": {},
    "cp1252": {},
    "latin-1": {"charset": "latin-1"},
}
#: What stands for a missing cell is none of the words; so is nothing that looks like a number.


def is_word(text):
    """Whether text comes back as itself: Arrow takes blanks for what they are."""
    bare = text.strip()
    return bare == text and bare.lower() not in MISSING and not re.search(r"\d", bare)


@st.composite
def frames(draw):
    """Numbers, whole ones, words, days and flags, with gaps, in any order of columns."""
    n, rng = draw(st.integers(30, 90)), np.random.default_rng(draw(st.integers(0, 1 << 30)))
    words = draw(st.lists(LETTERS.filter(is_word), min_size=2, max_size=6, unique=True))
    days = (np.datetime64("2024-01-01") + rng.integers(0, 900, n)).astype(str)
    columns = {
        "real": rng.normal(3.0, 10.0, n).round(draw(st.integers(0, 6))),
        "whole": rng.integers(-1000, 1000, n).astype(float),
        "word": rng.choice(np.array(words, object), n),
        "other, word": rng.choice(np.array(words, object), n),
        "day": days.astype(object),
        "flag": rng.choice(np.array(["yes", "no"], object), n),
    }
    chosen = draw(st.lists(st.sampled_from([*columns]), min_size=2, unique=True))
    frame = pd.DataFrame({name: columns[name] for name in chosen})
    gaps = rng.random(frame.shape) < draw(st.sampled_from([0.0, 0.1]))
    frame = frame.mask(gaps & (np.arange(n)[:, None] > 3), None)
    assume(frame.notna().any(axis=None))
    return frame.assign(y=rng.choice(["no", "yes"], n))


def values(recipe, frame):
    """What a recipe makes of the frame itself."""
    typed = {
        name: pa.array([None if cell != cell or cell is None else cell for cell in frame[name]])
        for name in frame.columns
    }
    return encoded(recipe, pa.table(typed)).toarray()


@given(
    frame=frames(), charset=st.sampled_from([*CHARSETS]), delimiter=st.sampled_from(",;|\t"),
    quoting=st.sampled_from([0, 1]), ends=st.sampled_from(["\n", "\r\n"]),
    cut=st.integers(200, 6000),
)  # fmt: skip
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_csv_comes_back(tmp_path_factory, frame, charset, delimiter, quoting, ends, cut):
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    frame.to_csv(
        path, index=False, sep=delimiter, encoding=charset, quoting=quoting, lineterminator=ends
    )
    settings_ = {"encode": "always", "dtype": "float64", "delimiter": delimiter}
    source = source_of(path, **settings_, **CHARSETS[charset])
    X, y, skipped = read(source, cut)
    np.testing.assert_array_equal(X, values(source.recipe, frame.drop(columns="y")))
    assert (y, skipped) == (frame.y.tolist(), 0)


@given(frame=frames(), seed=st.integers(0, 1000), cut=st.integers(200, 6000))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_order_of_columns_in_any_format_comes_back(tmp_path_factory, frame, seed, cut):
    folder = tmp_path_factory.mktemp("formats")
    order = np.random.default_rng(seed).permutation(len(frame.columns))
    frame.to_csv(folder / "rows.csv", index=False)
    first = source_of(folder / "rows.csv", encode="always", dtype="float64")
    expected = read(first)
    known, mixed = Expected(first.schema), frame[frame.columns[order]]
    mixed.to_csv(folder / "mixed.csv", index=False)
    rows = pa.Table.from_pandas(mixed, preserve_index=False)
    pa.parquet.write_table(rows, folder / "mixed.parquet", row_group_size=17)
    pa.feather.write_feather(rows, str(folder / "mixed.arrow"), compression="uncompressed")
    lines = [json.dumps({k: v for k, v in row.items() if v == v}) for row in rows.to_pylist()]
    (folder / "mixed.jsonl").write_text("\n".join(lines) + "\n")
    for name in ("mixed.csv", "mixed.parquet", "mixed.arrow", "mixed.jsonl"):
        found = read(source_of(folder / name, known, label=None, dtype="float64"), cut)
        np.testing.assert_array_equal(found[0], expected[0], err_msg=name)
        assert found[1:] == expected[1:], name


@given(frame=frames(), seed=st.integers(0, 1000), cut=st.integers(200, 6000))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_cell_that_does_not_fit_is_refused_by_row_and_column(tmp_path_factory, frame, seed, cut):
    """And left out alone where that is asked for: every other row is as it was."""
    wanted = [name for name in ("real", "whole", "day") if name in frame.columns]
    assume(wanted)
    rng = np.random.default_rng(seed)
    folder, name, row = tmp_path_factory.mktemp("bad"), wanted[seed % len(wanted)], len(frame) - 1
    frame.to_csv(folder / "good.csv", index=False)
    good = source_of(folder / "good.csv", encode="always", dtype="float64")
    row = int(rng.integers(0, len(frame)))
    bad = frame.astype({name: object})
    bad.loc[row, name] = "oops"
    bad.to_csv(folder / "bad.csv", index=False)
    known = Expected(good.schema)
    with pytest.raises(BadInput, match=rf"row {row + 2}: column {name!r} holds 'oops'"):
        read(source_of(folder / "bad.csv", known, label=None, dtype="float64"), cut)
    lenient = source_of(folder / "bad.csv", known, label=None, dtype="float64", on_bad_row="skip")
    X, y, skipped = read(lenient, cut)
    assert skipped == 1
    np.testing.assert_array_equal(X, np.delete(read(good)[0], row, axis=0))
    assert y == frame.y.drop(row).tolist()


@given(frame=frames(), cut=st.integers(200, 6000))
@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_row_that_is_cut_short_is_refused_or_counted(tmp_path_factory, frame, cut):
    path = tmp_path_factory.mktemp("short") / "rows.csv"
    text = frame.to_csv(index=False)
    path.write_text(text + "1\n")
    with pytest.raises(BadInput, match=rf"row {len(frame) + 2}: the row has 1 cell"):
        read(source_of(path, encode="always"), cut)
    source = source_of(path, encode="always", on_bad_row="skip")
    assert source.recipe is not None
    X, _, skipped = read(source, cut)
    assert (len(X), skipped) == (len(frame), 1)


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_a_bare_return_ends_a_row_unless_it_is_quoted(tmp_path, ends):
    """Pandas quotes it where everything is quoted, else not: then it is the end, as to Python."""
    words = ["a", "b\rc", 'd "\r" e', "f\r\ng"] * 20
    frame = pd.DataFrame({"word": words, "x": range(80), "y": ["no", "yes"] * 40})
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False, quoting=1, lineterminator=ends)
    source = source_of(path, encode="always", dtype="float64", column={"word": "category"})
    for cut in (60, 1 << 20):
        X, _, skipped = read(source, cut)
        np.testing.assert_array_equal(X, values(source.recipe, frame[["word", "x"]]))
        assert skipped == 0
    rows = [
        f"{word},{x},{y}{ends}" for word, x, y in frame.itertuples(index=False) if '"' not in word
    ]
    text = f"word,x,y{ends}{''.join(rows)}"
    path.write_bytes(text.encode())
    with pytest.raises(BadInput, match=r"row 3: the row has 1 cell"):
        read(source_of(path, encode="always"))
    lenient = source_of(path, encode="always", on_bad_row="skip")
    told = [row for row in csv.reader(io.StringIO(text, newline="")) if row][1:]
    for cut in (60, 1 << 20):
        X, y, skipped = read(lenient, cut)
        assert y == [row[2] for row in told if len(row) == 3]
        assert (len(X), skipped) == (len(y), len(told) - len(y))
