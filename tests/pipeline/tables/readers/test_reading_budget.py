"""What a file makes its reader have is told by the file, and compared with its share."""

import json
import lzma
import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fewpass.pipeline.budget import UNTOLD, Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import parse_bytes
from fewpass.pipeline.tables.readers import Expected, SourceOptions, open_source
from fewpass.pipeline.tables.readers.arrow_batches import LISTED_BYTES, cut, sizes_of
from fewpass.pipeline.tables.readers.arrow_files import parquet_batches
from fewpass.pipeline.tables.readers.arrow_rows import ParquetRows
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.json_rows import _add_members

LABELLED = SourceOptions(label="y")


def opened(path, budget=128_000_000):
    return open_source([str(path)], LABELLED, None, Expected(budget=Budget.of(budget)))


def read(path, budget=128_000_000):
    """Rows of every piece, and the targets of all."""
    source = opened(path, budget)
    parsed = [source.parse(piece) for piece in source.pieces(4 << 20)]
    words = [np.array(one.labels)[one.table.target.astype(int)] for one in parsed]
    return [one.table.n_rows for one in parsed], np.concatenate(words).tolist()


def refused(path, budget=128_000_000):
    """What is said, and the budget that would do."""
    with pytest.raises(BadInput) as found:
        read(path, budget)
    said = str(found.value)
    assert str(path) in said
    return said, parse_bytes(re.search(r"`memory=(\d+MB)`", said)[1])


def labels(n):
    return ["no" if k % 3 else "yes" for k in range(n)]


# -- sizes --------------------------------------------------------------------------------------


def test_rows_are_as_large_as_their_words():
    batch = pa.record_batch({
        "number": pa.array([1.0, None, 3.0]),
        "word": ["abc", None, "de"],
        "coded": pa.array(["xx", "yyyy", "xx"]).dictionary_encode(),
        "listed": pa.array([[1.0, 2.0], [], None], pa.list_(pa.float32())),
        "fixed": pa.array([[1.0, 2.0]] * 3, pa.list_(pa.float32(), 2)),
        "none": pa.nulls(3),
    })  # fmt: skip
    lists = [2 * LISTED_BYTES + 4, 4, 4]
    known = [
        8 + words + each + 2 * LISTED_BYTES for words, each in zip((7 + 6, 4 + 8, 6 + 6), lists)
    ]
    assert sizes_of(batch).tolist() == known
    assert sizes_of(batch.slice(1, 2)).tolist() == known[1:]


def test_pieces_do_not_depend_on_batches():
    whole = pa.record_batch({"word": ["x" * k for k in range(200)], "k": range(200)})
    pieces = list(cut([whole], 64, 2000, "rows", UNTOLD))
    for step in (1, 7, 50):
        parts = [whole.slice(k, step) for k in range(0, 200, step)]
        assert [p.to_pylist() for p in cut(parts, 64, 2000, "rows", UNTOLD)] == [
            p.to_pylist() for p in pieces
        ]
    assert all(p.num_rows == 1 or sizes_of(p).sum() <= 2000 for p in pieces)
    assert max(p.num_rows for p in pieces) <= 64


def test_members_are_counted_as_json_has_them():
    rng = np.random.default_rng(1)
    values = [1, 'a: "b":', {"m1": [{"q": 1}]}, ["m2", "x"], {"x": {"m1": 2}}]
    rows = [
        {f"m{k}": values[k % len(values)] for k in rng.integers(0, 30, 5).tolist()}
        for _ in range(40)
    ]

    def paths(value, path=()):
        if isinstance(value, list):
            for one in value:
                yield from paths(one, path)
        if isinstance(value, dict):
            for name, inner in value.items():
                yield (*path, name)
                yield from paths(inner, (*path, name))

    members = set()
    for row in rows:
        _add_members(row, members)
    assert members == {".".join(path) for row in rows for path in paths(row)}


# -- what is refused, and what is taken -----------------------------------------------------------


def write_parquet(path, words, **how):
    pq.write_table(pa.table({"x": words, "y": labels(len(words))}), path, **how)


def test_a_long_cell_is_refused_by_its_row_and_taken_with_what_is_advised(tmp_path):
    path = tmp_path / "rows.parquet"
    write_parquet(path, ["a", "x" * 20_000_000, "b"])
    said, enough = refused(path)
    assert "row 2: the row takes 20 MB" in said
    assert read(path, enough)[1] == labels(3)


def test_words_that_are_stored_once_are_read_in_pieces(tmp_path):
    path = tmp_path / "rows.parquet"
    words = [chr(97 + k % 2) * 400_000 for k in range(300)]
    write_parquet(path, words)
    assert path.stat().st_size < 1_000_000
    rows, found = read(path)
    assert found == labels(300)
    assert max(rows) == (4 << 20) // 400_015
    coded = pa.table({"x": pa.array(words).dictionary_encode(), "y": labels(300)})
    with pa.ipc.new_file(str(tmp_path / "rows.arrow"), coded.schema) as out:
        out.write_table(coded)
    assert read(tmp_path / "rows.arrow") == (rows, found)


def test_long_words_that_differ_are_in_memory_twice(tmp_path):
    """As the page and its words; a dictionary of codes was there four times."""
    words = [f"{k}" * 100_000 for k in range(10, 60)]
    pq.write_table(pa.table({"word": words}), tmp_path / "rows.parquet")
    (address,) = find([str(tmp_path / "rows.parquet")])
    pool = pa.default_memory_pool()
    before, most, read = pool.bytes_allocated(), 0, []
    for batch in parquet_batches(address, ["word"], 1 << 16, 1 << 22):
        most = max(most, pool.bytes_allocated() - before)
        read += batch.column("word").to_pylist()
    assert read == words
    assert most < 3 * sum(map(len, words))


def test_pieces_do_not_depend_on_how_parquet_was_stored(tmp_path):
    """Words as codes or not, in any row groups, beside structures, lists, maps and missing cells."""
    n = 3000
    table = pa.table({
        "w": [None if k % 5 == 0 else f"w{k % 9}" * (k % 40) for k in range(n)],
        "own": [f"{k} of its own " * (k % 7) for k in range(n)],
        "s": [{"a": k, "b": "z" * (k % 50)} for k in range(n)],
        "m": pa.array([[("a" * (k % 9), k)] for k in range(n)], pa.map_(pa.string(), pa.int64())),
        "l": [None if k % 7 == 0 else ["q"] * (k % 11) for k in range(n)],
    })  # fmt: skip
    read = []
    for name, how in (
        ("coded", {"row_group_size": 701}), ("plain", {"use_dictionary": False}),
    ):  # fmt: skip
        pq.write_table(table, tmp_path / f"{name}.parquet", **how)
        found = find([str(tmp_path / f"{name}.parquet")])
        rows = ParquetRows(found, SourceOptions(), Expected())
        used = range(len(rows.names))
        pieces = [rows.cells(piece, used) for piece in rows.pieces(1 << 15, used)]
        read.append([[column.to_pylist() for column in piece.columns] for piece in pieces])
    assert len(read[0]) > 10 and read[0] == read[1]
    flat = table.flatten()
    assert rows.names == tuple(flat.column_names)
    for k, name in enumerate(rows.names):
        assert [cell for piece in read[0] for cell in piece[k]] == flat[name].to_pylist()


def test_many_columns_are_refused_and_taken_with_what_is_advised(tmp_path):
    d = 2500
    row = ",".join(["red"] * d)
    path = tmp_path / "rows.csv"
    names = ",".join(f"c{k}" for k in range(d))
    path.write_text(f"{names},y\n" + f"{row},no\n{row},yes\n" * 3)
    said, enough = refused(path)
    assert "2,500 columns take 80 MB, where a memory budget of 128 MB has room for 64 MB" in said
    assert read(path, enough)[0] == [6]


def test_members_that_few_objects_share_are_refused(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = [{f"m{k}": 1, "y": label} for k, label in zip(range(3000), labels(3000), strict=True)]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert "lines 1 to 3,000: 2,001 columns take 64 MB" in refused(path)[0]
    rows = [{f"m{k % 1000}": 1, "y": label} for k, label in enumerate(labels(20_000))]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    assert "20,000 objects of 1,001 different members take, as a table, 180 MB" in refused(path)[0]


@pytest.mark.parametrize("preset", [1, 6, 9])
def test_a_dictionary_of_xz_that_memory_does_not_hold_is_refused(tmp_path, preset):
    text = "x,y\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels(300)))
    path = tmp_path / "rows.csv.xz"
    path.write_bytes(lzma.compress(text.encode(), preset=preset))
    if preset < 9:
        assert read(path)[1] == labels(300)
    else:
        with pytest.raises(BadInput, match=r"rows\.csv\.xz: unpacking the file takes more than"):
            read(path)
        assert read(path, 1 << 30)[1] == labels(300)


def test_a_header_longer_than_what_is_looked_at_is_no_reason_to_encode(tmp_path):
    d = 30_000
    path = tmp_path / "rows.csv"
    names = ",".join(f"a column with a name of its own {k}" for k in range(d))
    path.write_text(f"{names},y\n" + "".join(",".join(["1.5"] * d) + f",{k}\n" for k in range(2)))
    source = opened(path, 1 << 30)
    assert source.recipe is None
    assert source.n_features == d
