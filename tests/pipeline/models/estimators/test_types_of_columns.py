"""Columns of whatever type Arrow, pandas and polars have: read as what they hold, or refused by name."""

import decimal
import itertools
from datetime import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from fewpass import LinearClassifier, TableEncoder
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.lists import fitted_tags, tags_in
from fewpass.pipeline.tables.encoding.maps import fitted_map, scaled_maps
from fewpass.pipeline.tables.encoding.plain_types import plain, plain_type
from fewpass.pipeline.tables.encoding.text import encode_text
from fewpass.pipeline.tables.readers import open_source

ROWS = 60
WORDS = [None if k % 7 == 3 else f"w{k % 5}" * (1 + k % 9) for k in range(ROWS)]
LISTS = [None if k % 5 == 2 else [[], ["u"], ["v" * 20, None]][k % 3] for k in range(ROWS)]
PADDED = [None if v is None else [*v, "x", "y"][:2] for v in LISTS]
PAIRS = [None if k % 5 == 2 else [("k", float(k))] for k in range(ROWS)]


def cycled(values):
    return list(itertools.islice(itertools.cycle(values), ROWS))


def runs(values):
    return pa.RunEndEncodedArray.from_arrays(pa.array([20, ROWS], pa.int32()), values)


def coded(values):
    return pa.DictionaryArray.from_arrays(pa.array(cycled([0, 1, None]), pa.int8()), values)


UNUSUAL = {
    "view": pa.array(WORDS, pa.string_view()),
    "bytes": pa.array([w and w.encode() for w in WORDS], pa.binary_view()),
    "runs": runs(pa.array(["u", None])),
    "runs of views": runs(pa.array(["u" * 30, None], pa.string_view())),
    "codes of views": coded(pa.array(["a" * 20, "b"], pa.string_view())),
    "codes of lists": coded(pa.array([["a"], ["b", "c"]])),
    "lists of views": pa.array(LISTS, pa.list_(pa.string_view())),
    "views of lists": pa.array(LISTS, pa.list_view(pa.string())),
    "large views of views": pa.array(LISTS, pa.large_list_view(pa.string_view())),
    "as many views": pa.array(PADDED, pa.list_(pa.string_view(), 2)),
    "map": pa.array(PAIRS, pa.map_(pa.string_view(), pa.float64())),
    "json": pa.ExtensionArray.from_storage(pa.json_(), pa.array(cycled(["{}", "[1]"]))),
    "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array(cycled([0, 1]), pa.int8())),
}  # fmt: skip


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("part", [slice(None), slice(3, 17), slice(25, 25), slice(40, None)])
def test_plain_arrays_hold_what_the_others_hold(name, part):
    """However they are cut: an offset into a buffer is where such things go wrong."""
    cells = UNUSUAL[name][part]
    found = plain(cells)
    found.validate(full=True)
    assert found.type == plain_type(cells.type) == plain_type(found.type)
    storage = cells.storage if isinstance(cells.type, pa.BaseExtensionType) else cells
    assert found.to_pylist() == storage.to_pylist()


def test_files_of_unusual_types_are_those_of_plain_ones(tmp_path):
    columns = {name: UNUSUAL[name] for name in UNUSUAL if name != "bytes"}
    label = pa.array([k % 2 for k in range(ROWS)])
    unusual = pa.table({**columns, "label": label})
    usual = pa.table({**{name: plain(column) for name, column in columns.items()}, "label": label})
    made = []
    for name, table in (("u", unusual), ("p", usual)):
        with pa.ipc.new_file(tmp_path / f"{name}.arrow", table.schema) as writer:
            writer.write_table(table, max_chunksize=25)
        source = open_source([str(tmp_path / f"{name}.arrow")], SourceOptions())
        parts = [source.parse(piece).table for piece in source.pieces(3000)]
        assert len(parts) > 2
        made.append(
            (
                *(np.concatenate([part[k] for part in parts]) for k in (0, 1, 3)),
                np.concatenate([np.diff(part.indptr) for part in parts]),
            )
        )
    assert len(made[0][-1]) == ROWS
    for a, b in zip(*made, strict=True):  # pieces are cut by bytes, which views take more of
        np.testing.assert_array_equal(a, b)


def test_words_that_say_nothing_are_none_of_a_list_or_a_map():
    words, said = pa.array([["u", ""], [None, "v"], [""], None]), pa.array([["u"], ["v"], [], None])
    pairs, named = (
        pa.array(rows, pa.map_(pa.string(), pa.float64()))
        for rows in ([[("", 1.0), ("u", 2.0)], [("v", None)]], [[("u", 2.0)], []])
    )
    assert fitted_tags("a", words, 1, 9) == fitted_tags("a", said, 1, 9)
    assert fitted_map("a", pairs, 1, 9) == fitted_map("a", named, 1, 9)
    given = (tags_in(words, ["u"]), scaled_maps(pairs, ["u"], [1.0])[0])
    for a, b in zip(
        given, (tags_in(said, ["u"]), scaled_maps(named, ["u"], [1.0])[0]), strict=True
    ):
        for part, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(part, other)


def test_nothing_is_read_of_what_lies_beneath_a_missing_cell():
    """Arrow does not say what stands there: masks leave what was there before."""
    ends, mask = pa.array([0, 1, 3, 4], pa.int32()), pa.array([False, True, False])
    words, number = pa.array(["u", "w", "x", "v"]), pa.array([1.0, 2.0, 3.0, 4.0])
    lists = pa.ListArray.from_arrays(ends, words, mask=mask)
    maps = pa.MapArray.from_arrays(ends, words, number, mask=mask)
    texts = pc.if_else(mask, None, pa.array(["u", "w x", "v"], pa.large_string()))
    for cells, encode in (
        (lists, lambda cells: tags_in(cells, ["u", "v"])),
        (maps, lambda cells: scaled_maps(cells, ["u", "v"], [1.0, 1.0])[0]),
        (texts, lambda cells: encode_text(cells, 6)),
    ):
        wanted = encode(pa.array(cells.to_pylist(), cells.type))
        for part, other in zip(encode(cells), wanted, strict=True):
            np.testing.assert_array_equal(part, other)


B = np.linspace(-1.0, 1.0, ROWS)
Y = (B > 0).astype(int)
P, L = pd.DataFrame({"b": B}), pl.DataFrame({"b": B})
READ = {
    "true, false, NA": P.assign(a=pd.array(cycled([True, False, None]), dtype="boolean")),
    "polars' null": L.with_columns(pl.Series("a", cycled([True, False, None]))),
    "timedelta": P.assign(a=pd.to_timedelta(cycled(["1h", "2h"]))),
    "time": P.assign(a=cycled([time(1, 2), time(3)])),
    "decimals": P.assign(a=cycled([decimal.Decimal("1.5"), None])),
    "Int64": P.assign(a=pd.array(cycled([1, None, 2]), dtype="Int64")),
    "period": P.assign(a=pd.PeriodIndex(cycled(["2020-01", "2020-03"]), freq="M")),
    "interval": P.assign(a=pd.arrays.IntervalArray.from_tuples(cycled([(0, 1), (1, 2)]))),
    "categories": P.assign(a=pd.Categorical(cycled([1, 2, None]))),
    "intervals cut": P.assign(a=pd.cut(np.arange(ROWS), 4)),
    "structures": P.assign(a=cycled([{"x": 1}, {"x": 2}])),
    "mostly empty lists": P.assign(a=cycled([[], [], [1.0, 2.0]])),
    "enum": L.with_columns(pl.Series("a", cycled(["u", "v"]), dtype=pl.Enum(["u", "v"]))),
    "newest": L.with_columns(pl.Series("a", WORDS)).to_arrow(compat_level=pl.CompatLevel.newest()),
}


@pytest.mark.parametrize("name", READ)
def test_frames_of_other_types_are_encoded_or_refused_with_what_encodes_them(name):
    frame = READ[name]
    assert LinearClassifier(encode="auto").fit(frame, Y).score(frame, Y) > max(
        Y.mean(), 1 - Y.mean()
    )
    assert TableEncoder().fit(frame).transform(frame).shape[0] == ROWS
    with pytest.raises(ValueError, match=r"'a'.* encode='auto'"):
        LinearClassifier().fit(frame, Y)


def test_categories_stay_such_next_to_numbers_of_more_than_64_bits():
    frame = P.assign(a=pd.Categorical(cycled([1, 2, 3])))
    huge = frame.assign(h=pd.Series(cycled([2**70, 2**71]), dtype=object))
    usual, there = (TableEncoder().fit(one).recipe_.columns for one in (frame, huge))
    assert there[: len(usual)] == usual


REFUSED = {
    "union": pa.UnionArray.from_sparse(pa.array([0] * ROWS, pa.int8()), [pa.array(range(ROWS))]),
    "uuid": pa.array([bytes(16)] * ROWS, pa.uuid()),
    "calendar": pa.array([(1, 2, 3)] * ROWS, pa.month_day_nano_interval()),
    "lists of lists": pa.array([[[1]]] * ROWS),
    "nothing in lists": pa.array([[]] * ROWS, pa.list_(pa.null())),
    "bytes": pa.array([b"\xff"] * ROWS),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_becomes_no_numbers_is_refused_by_column(tmp_path, name):
    table = pa.table({"b": B, "a": REFUSED[name], "label": Y})
    for encode in ("none", "auto"):
        with pytest.raises(ValueError, match="'a'"):
            LinearClassifier(encode=encode).fit(table.drop_columns("label"), Y)
    with pytest.raises(BadInput, match=r"Column 'a' holds .* Leave it out"):
        TableEncoder().fit(table)
    with pa.ipc.new_file(tmp_path / "t.arrow", table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(BadInput, match=r"t\.arrow: Column 'a' holds .*`column=a=drop`"):
        open_source([str(tmp_path / "t.arrow")])
    source = open_source([str(tmp_path / "t.arrow")], SourceOptions(drop=("a",)))
    assert sum(source.parse(p).table.n_rows for p in source.pieces(1 << 20)) == ROWS


def test_streams_of_arrow_are_refused_with_what_to_give():
    with pytest.raises(ValueError, match=r"X\.read_all\(\)"):
        LinearClassifier().fit(pa.table({"b": B}).to_reader(), Y)


def test_booleans_with_gaps_in_parquet_are_a_category(tmp_path):
    table = pa.table({"a": cycled([True, False, None]), "b": B, "label": Y})
    pq.write_table(table, tmp_path / "t.parquet")
    source = open_source([str(tmp_path / "t.parquet")])
    (column, _) = source.recipe.columns
    assert column.outputs == ["a=false", "a=true", "a rare or unseen", "a is missing"]
