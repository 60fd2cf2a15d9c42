"""CSV in every charset, line end and packing: cell for cell what Python's `csv` reads, and every row."""

import bz2
import csv
import gzip
import io
import lzma
import math
import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.csv_head import as_seen
from fewpass.pipeline.tables.readers.csv_numbers import GIVES_UP, read_rows
from fewpass.pipeline.tables.readers.csv_quotes import Quotes
from fewpass.pipeline.tables.readers.csv_rows import CsvRows
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.lines import MOST_PARTS, ranges_of
from fewpass.solvers.kernels.dispatch import kernel

PACKINGS = {
    "": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress,
    ".zst": lambda raw: pa.compress(raw, "zstd", asbytes=True),
}  # fmt: skip
#: Charsets, whether they are named, and words that they have.
CHARSETS = {
    "utf-8": (False, "größe 日本"), "utf-8-sig": (False, "größe 日本"), "utf-16": (False, "größe 日本"),
    "utf-16-be": (True, "größe 日本"),
    "shift_jis": (True, "日本"), "cp1252": (False, "größe"),
}  # fmt: skip
WORDS = ["plain", "two\nlines", "a,comma", 'say "hi"', "", " spaced ", "x" * 300, "NA"]


def table(word, n=400, seed=3):
    """Rows with a label, one in fifty of another width."""
    draw = random.Random(seed)
    for k in range(n):
        row = [f"r{k}", draw.choice([*WORDS, word]), f"{draw.random():.4f}", draw.choice("01")]
        yield (row[:2] if draw.random() < 0.5 else [*row, "more"]) if draw.random() < 0.02 else row


def cells_of(path, cut, memory=1 << 28, **options):
    """All cells of a file, the numbers of its rows, and its bad rows."""
    expected = Expected(budget=Budget.of(memory))
    asked = SourceOptions(label=-1, **options)
    found = [
        one._replace(charset=asked.charset, budget=expected.budget) for one in find([str(path)])
    ]
    addresses, asked = as_seen(found, asked, expected.longest_line)
    rows = CsvRows(addresses, asked, expected)
    used = range(len(rows.types))
    parts = [rows.cells(piece, used) for piece in rows.pieces(cut, used)]
    cells = [
        row for one in parts for row in zip(*(c.to_pylist() for c in one.columns), strict=True)
    ]
    return (
        cells,
        [k for one in parts for k in one.lines().tolist()],
        [f for p in parts for f in p.faults],
    )


def assert_as_csv_has_them(path, rows, ends, cut, **options):
    """Compare what is read with rows as they were written."""
    cells, numbers, faults = cells_of(path, cut, **options)
    numbered = [*enumerate(rows, 2)]
    good = [(k, row) for k, row in numbered if len(row) == 4]
    assert [row for row, _, _ in faults] == [k for k, row in numbered if len(row) != 4]
    assert all("the row has" in fact and "4 were expected" in fact for _, fact, _ in faults)
    assert numbers == [k for k, _ in good]
    nulls = {"": None, "NA": None}
    told = [tuple(nulls.get(c, c.replace("\n", ends)) for c in row) for _, row in good]
    assert cells == told


@pytest.mark.parametrize("packing", PACKINGS)
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("charset", CHARSETS)
def test_cells_are_those_of_python_and_bad_rows_are_named(tmp_path, charset, ends, packing):
    named, word = CHARSETS[charset]
    rows, out = [*table(word)], io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerows([["id", "w", "n", "y"], *rows])
    text = out.getvalue().replace("\n", ends)
    path = tmp_path / f"t.csv{packing}"
    path.write_bytes(PACKINGS[packing](text.encode(charset)))
    for cut in (200, 5000, 1 << 20):
        assert_as_csv_has_them(path, rows, ends, cut, charset=charset if named else None)


@given(
    cells=st.lists(
        st.tuples(*[st.text(st.sampled_from('ab ,;"\n\r\t#é'), max_size=9)] * 2), min_size=3, max_size=30
    ),
    delimiter=st.sampled_from(",;|\t"), quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    cut=st.integers(1, 300),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_any_cells_that_are_quoted_come_back(tmp_path_factory, cells, delimiter, quoting, cut):
    if quoting == csv.QUOTE_MINIMAL:  # by which Python quotes no carriage return
        cells = [tuple(cell.replace("\r", "") for cell in pair) for pair in cells]
    rows, out = [["r", *pair, "1.5"] for pair in cells], io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([["id", "w", "v", "y"], *rows])
    path = tmp_path_factory.mktemp("quoted") / "t.csv"
    path.write_text(out.getvalue(), newline="")
    got, _, faults = cells_of(path, cut, delimiter=delimiter, quote="double")
    assert not faults
    assert got == [tuple(cell or None for cell in row) for row in rows]


@pytest.mark.parametrize("quote", ["auto", "double"])
@pytest.mark.parametrize("place", [1, 100, 399])
def test_a_quote_that_never_ends_is_refused(tmp_path, quote, place):
    lines = [f"r{k},{chr(34) * (k == place)}w{k % 7},{k},1" for k in range(400)]
    (tmp_path / "t.csv").write_text("id,w,n,y\n" + "\n".join(lines))
    for cut in (300, 1 << 20):
        with pytest.raises(BadInput, match=rf"row {place + 2}: (a|the row .*) quoted cell"):
            cells_of(tmp_path / "t.csv", cut, quote=quote)


@pytest.mark.parametrize("kind", ["long", "cells"])
def test_a_row_that_is_too_long_is_taken_with_more_memory(tmp_path, kind):
    """In an order of rows that memory has no part in; where it is too long, it is refused by row."""
    long = "x" * 4_000_000 if kind == "long" else '"' + "a b\n" * 1_000_000 + '"'
    lines = [f"r{k},w{k % 7},1" for k in range(60_000)]
    lines[50_000] = f"r,{long},1"
    (tmp_path / "t.csv").write_text("id,w,y\n" + "\n".join(lines) + "\n")
    with pytest.raises(BadInput, match=r"(row 50002: the row|line) is longer than the 1.6 MB"):
        cells_of(tmp_path / "t.csv", 1 << 22, memory=116 << 20)
    cells, rows, faults = cells_of(tmp_path / "t.csv", 1 << 22, memory=1 << 30)
    assert (rows, faults) == ([*range(2, 60_002)], [])
    assert [len(row[1]) for row in cells if len(row[1]) > 3] == [4_000_000]


def test_blank_lines_are_no_rows_and_a_bare_return_ends_one(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b,y\n1,u,3\n\n\r\n4,v\r,6,w\n7,w,8\n")
    cells, rows, faults = cells_of(tmp_path / "t.csv", 1 << 20)
    assert cells == [("1", "u", "3"), (None, "6", "w"), ("7", "w", "8")]
    assert rows == [2, 4, 5]
    assert [row for row, _, _ in faults] == [3]


# -- plain numbers ---------------------------------------------------------------------------------


def read_by(run, text, places, d, delimiter=","):
    """What the kernel reads of a text: features, targets and weights, words; None: it gives up."""
    raw = np.frombuffer(text.encode(), np.uint8)
    X, single, n = np.full((9, d), np.nan), np.full((9, 2), np.nan), len(raw)
    words, ends = np.zeros(n, np.uint8), np.zeros(10, np.int32)
    marks = ord(delimiter), ord('"')
    rows = run(raw, marks, np.array(places), X, single, words, ends, 1e70)
    if rows == GIVES_UP:
        return None
    parts = [words[a:b].tobytes().decode() for a, b in pairwise(ends[: rows + 1])]
    return X[:rows].tolist(), single[:rows, 0].tolist(), single[:rows, 1].tolist(), parts


def test_plain_rows_are_read_in_compiled_code_and_in_python():
    text = '1.5, junk ,2\r\n\n"-2e1","a,b",+4\n\r\n0.1,,7\n'
    for run in (read_rows, read_rows.py_func):
        X, target, _, _ = read_by(run, text, [0, -1, 1], 2)
        assert X == [[1.5, 2.0], [-20.0, 4.0], [0.1, 7.0]]
        assert all(map(math.isnan, target))
        _, target, weight, _ = read_by(run, "5;1;7\n6;2;0\n", [1, 0, 2], 1, ";")
        assert (target, weight) == ([5.0, 6.0], [7.0, 0.0])
        assert read_by(run, '1,no\n2,"x, y"\n', [0, -2], 1)[3] == ["no", "x, y"]


@pytest.mark.parametrize(
    ("lines", "n"),
    [("\n", 0), ("a\n", 1), ("\r\n", 0), ("\n\n", 0), ("\r\n\na\n", 1), ("a\n\n\r\nb\r\n\r\n", 2),
     ("a\rb\n", 2), ('a,"b\n\nc"\n', 1), ('"a""\n"\nb"\n', 2), ('a,"b\nc\n', 0)],
)  # fmt: skip
def test_rows_are_counted(lines, n):
    text, quotes = np.frombuffer(lines.encode(), np.uint8), Quotes(ord(","))
    for most in (99, 1):
        assert sum(part.rows for part in quotes.parts(text, most)) == n


@given(
    cells=st.lists(st.text(st.sampled_from('ab,"\n'), max_size=9), min_size=3, max_size=40),
    cut=st.integers(5, 90), most=st.integers(1, 5),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_a_piece_has_the_rows_that_begin_in_its_range(cells, cut, most):
    out, starts = io.StringIO(newline=""), []
    for cell in cells:
        starts.append(out.tell())
        csv.writer(out, lineterminator="\n").writerow(["r", cell])
    raw, quotes, at, found = out.getvalue().encode(), Quotes(ord(",")), 0, []
    for number, begin, text in ranges_of(
        io.BufferedReader(io.BytesIO(raw)), "t", cut, 1 << 20, quotes
    ):
        assert begin == at
        for part in quotes.parts(text, most):
            assert number == at // cut * MOST_PARTS or part.bytes.size < text.size
            own = [start for start in starts if at <= start < at + part.bytes.size]
            assert own[0] == at
            assert part.rows == len(own) <= most
            found += own
            at += part.bytes.size
        assert all(start // cut == number // MOST_PARTS for start in own)
    assert (found, at) == (starts, len(raw))


@pytest.mark.parametrize(
    "row",
    [
        "1", "1,2,3", "1,", ",2", "1,x", "1,2x", "007,2", "1,007", '1,"2', '1,"2"x', "1,inf", "1,nan",
        "1e99,2", "1\r,2", "1,12345678901234567", "1,2 3", '1,"2""',
    ],
)  # fmt: skip
def test_what_is_no_row_of_plain_numbers_makes_the_kernel_give_up(row):
    for run in (read_rows, read_rows.py_func):
        assert read_by(run, f"1,2\n{row}\n3,4\n", [0, 1], 1) is None
        assert read_by(run, "1,2\n3,4\n", [0, 1], 1) is not None


def rows_of(path, cut, **options):
    source = open_source([str(path)], SourceOptions(label="y", dtype="float64", **options))
    parsed = [source.parse(piece) for piece in source.pieces(cut)]
    X = np.concatenate([part.table.X for part in parsed])
    y = [p.labels[int(c)] if p.labels else c for p in parsed for c in p.table.target.tolist()]
    return X, y, [bad.line for part in parsed for bad in part.skipped]


@given(
    numbers=st.lists(st.floats(-1e70, 1e70), min_size=20, max_size=60),
    words=st.booleans(), odd=st.sampled_from(["", '"1.5"', "+1.5", "01.5", "1.5 ", "1.50000000000000000"]),
    at=st.integers(0, 19), cut=st.integers(20, 400),
)  # fmt: skip
@settings(max_examples=40, deadline=None)
def test_both_ways_read_the_same_numbers(tmp_path_factory, numbers, words, odd, at, cut):
    """A cell that the kernel gives up at changes no other, and is read, or its row refused."""
    cells = [*map(repr, numbers)]
    cells[at] = odd
    y = [("no", "yes")[k % 2] if words else k % 2 for k in range(len(cells))]
    path = tmp_path_factory.mktemp("both") / "t.csv"
    path.write_text(
        "a,b,y\n" + "".join(f"{c},{k},{t}\n" for k, (c, t) in enumerate(zip(cells, y, strict=True)))
    )
    X, targets, skipped = rows_of(path, cut, encode="none", on_bad_row="skip")
    expected = [[float(c.strip('"')), k] for k, c in enumerate(cells) if c]
    assert X.tolist() == expected
    assert targets == [t for c, t in zip(cells, y, strict=True) if c]
    assert skipped == ([] if odd else [at + 2])


def test_a_quoted_cell_of_two_lines_behind_plain_numbers_is_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n" + "1,2,0\n" * 100_000 + '3,"x\n4,5",1\n' + "1,2,0\n" * 10)
    with pytest.raises(BadInput, match=r"row 100002: .*b.* holds 'x\\n4,5'"):
        rows_of(path, 1 << 20, encode="none")
    assert rows_of(path, 1 << 20, encode="none", on_bad_row="skip")[2] == [100_002]


def test_numbers_of_many_digits_are_read_by_their_first_19():
    from fewpass.pipeline.tables.readers.decimals import decimal

    text = np.frombuffer(b"12345678901234567890123\n", np.uint8)
    assert kernel(decimal)(text, np.uint64(0))[1] == pytest.approx(
        12345678901234567890123, rel=1e-15
    )


@pytest.mark.parametrize("head", ['y  ,"bb"  ,"a"     \n', "# written by nobody at all\ny,bb,a\n"])
def test_a_longer_head_than_that_of_the_first_file_is_read_to_its_end(tmp_path, head):
    (tmp_path / "a.csv").write_text("a,bb,y\n1,2,0\n")
    (tmp_path / "b.csv").write_text(f"{head}1,6,5\n0,8,7\n")
    source = open_source([f"{tmp_path}/*.csv"], SourceOptions(label="y", encode="none"))
    rows = [source.parse(piece).table.X.tolist() for piece in source.pieces(1 << 20)]
    assert rows == [[[1.0, 2.0]], [[5.0, 6.0], [7.0, 8.0]]]


def test_a_file_next_to_one_of_another_charset_has_its_own(tmp_path):
    charsets = {"a": "cp1252", "b": "utf-8", "c": "utf-8-sig", "d": "cp1252", "e": "utf-16"}
    for name, charset in charsets.items():
        (tmp_path / f"{name}.csv").write_bytes("town,v,y\nZürich,x,1\n".encode(charset))
    found = find([f"{tmp_path}/*.csv"])
    rows = CsvRows(*as_seen(found, SourceOptions(), 1 << 20), Expected())
    towns = [rows.cells(piece, [0]).columns[0].to_pylist() for piece in rows.pieces(1 << 20, [0])]
    assert towns == [["Zürich"]] * len(charsets)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_blanks_around_the_cells_of_one_file_are_no_part_of_them(tmp_path, order):
    for k, text in zip(order, ["a,b,y\nx,1,0\n", "a, b, y\n x , 1 , 0\n"], strict=True):
        (tmp_path / f"{k}.csv").write_text(text)
    rows = CsvRows(find([f"{tmp_path}/*.csv"]), SourceOptions(), Expected())
    cells = [rows.cells(piece, [0]).columns[0].to_pylist() for piece in rows.pieces(1 << 20, [0])]
    assert cells == [["x"], ["x"]]
