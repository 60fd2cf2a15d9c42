"""Other charsets, cells between blanks, maps; and what becomes of text."""

import datetime as dt
import json
import re
import sys
from collections import Counter
from functools import partial
from itertools import pairwise

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from pyarrow import feather
from sklearn.utils import murmurhash3_32

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.cells import read_numbers
from fewpass.pipeline.tables.encoding.inference import infer
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.encoding.text_recipe import weights_in
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers import Expected, json_rows, open_source, sampling
from fewpass.pipeline.tables.readers.sampling import sampled
from tests.pipeline.tables.readers.test_tables import read, source_of


def test_bytes_that_are_no_text_are_told_by_line(tmp_path):
    lines = ["word,x,y", *(f"w{k % 3},{k},{k % 2}" for k in range(90_000))]
    raw = "\n".join(lines).encode()
    broken = raw.replace(b"w0,60000,", b"w\xff,60000,")
    (tmp_path / "rows.csv").write_bytes(broken + b"\n")
    with pytest.raises(BadInput, match=r"line 60002: the bytes .* are no UTF-8\. Say .*charset"):
        read(source_of(tmp_path / "rows.csv"))
    with pytest.raises(BadInput, match=r"line 60002: the bytes .*xff. are no ascii text"):
        read(source_of(tmp_path / "rows.csv", charset="ascii"))
    with pytest.raises(ValueError, match="is no charset"):
        source_of(tmp_path / "rows.csv", charset="utf-99")


def test_cells_between_blanks(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({
        "x": rng.normal(size=80).round(4), "word": rng.choice(["a", "b c"], 80),
        "y": np.arange(80) % 2,
    })  # fmt: skip
    lines = ["  x   word y ", *(f'{x}  "{w}"   {y}  ' for x, w, y in frame.itertuples(False))]
    text = "\r\n".join(lines) + "\r\n"
    (tmp_path / "rows.txt").write_bytes(text.replace('"b c"', "d").encode())
    frame.replace("b c", "d").to_csv(tmp_path / "rows.csv", index=False)
    source, expected = source_of(tmp_path / "rows.txt"), source_of(tmp_path / "rows.csv")
    assert source.schema.names == ("x", "word", "y")
    np.testing.assert_array_equal(read(source)[0], read(expected)[0])
    (tmp_path / "quoted.txt").write_bytes(text.encode())
    quoted = source_of(tmp_path / "quoted.txt", delimiter=" ")
    assert quoted.recipe.outputs[1:3] == ["word=a", "word=b c"]


def test_numbers_between_blanks_take_the_fast_way(tmp_path):
    (tmp_path / "rows.txt").write_text("".join(f" {k}  {k * k} {k % 2}\n" for k in range(50)))
    source = source_of(tmp_path / "rows.txt", label=-1)
    assert source.recipe is None
    np.testing.assert_array_equal(read(source)[0], [[k, k * k] for k in range(50)])


def test_maps_are_sparse_blocks(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"n{k}" for k in range(40)]
    rows = [
        {
            str(name): float(rng.integers(1, 9))
            for name in rng.choice(names, rng.integers(0, 6), False)
        }
        for _ in range(200)
    ]
    rows[7] = None
    given = [None if row is None else list(row.items()) for row in rows]
    given[3] = [("n1", 2.0), ("n1", 3.0), ("never", None)]
    cells = pa.array(given, pa.map_(pa.string(), pa.float64()))
    whole = pa.table({"m": cells, "y": [k % 2 for k in range(200)]})
    pa.parquet.write_table(whole, tmp_path / "rows.parquet")
    source = source_of(tmp_path / "rows.parquet", dtype="float64")
    recipe = source.recipe.columns[0]
    assert (recipe.kind, source.layout) == ("map", "sparse")
    X, _, _ = read(source)
    expected = np.zeros_like(X)
    for i, row in enumerate(given):
        for name, value in row or ():
            if value is not None:
                expected[i, recipe.names.index(name)] += value
    scale = [*recipe.scale, 1.0]
    np.testing.assert_allclose(X, expected * scale, rtol=1e-12)
    later = pa.table({"m": pa.array([[("new", 5.0), ("n1", 1.0)]], cells.type), "y": [0]})
    pa.parquet.write_table(later, tmp_path / "later.parquet")
    again = source_of(tmp_path / "later.parquet", Expected(source.schema), dtype="float64")
    found = read(again)[0][0]
    assert found[-1] == 1.0
    assert found[recipe.names.index("n1")] == recipe.scale[recipe.names.index("n1")]


def test_json_lines_are_never_read_as_plain_numbers(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"a": 1.5, "y": 0}\n{"a": 2.5, "y": 1}\n' * 5)
    (tmp_path / "rows.csv").write_text("a,y\n1.5,0\n2.5,1\n")
    refused = "rows.jsonl: columns of jsonl files are always encoded"
    with pytest.raises(BadInput, match=refused):
        open_source([str(tmp_path / "rows.jsonl")], SourceOptions(encode="none"))
    plain = open_source([str(tmp_path / "rows.csv")])
    with pytest.raises(BadInput, match=refused):
        open_source([str(tmp_path / "rows.jsonl")], expected=Expected(plain.schema))


# -- text ------------------------------------------------------------------------------------------


def reviews(tmp_path, n=300):
    rng = np.random.default_rng(1)
    vocabulary = np.array([f"word{k}" for k in range(60)])
    texts = [" ".join(rng.choice(vocabulary[: 20 + k // 6], 6)) for k in range(n)]
    frame = pd.DataFrame({"review": texts, "y": np.arange(n) % 2})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    return texts


def test_exact_frequencies_are_those_of_all_rows(tmp_path, monkeypatch):
    texts = reviews(tmp_path)
    monkeypatch.setattr("fewpass.pipeline.tables.readers.sampling.SAMPLE_ROWS", 50)
    options = {"hash_bits": 10, "column": {"review": "text"}}
    exact = source_of(tmp_path / "rows.csv", idf="exact", **options).recipe.columns[0]
    by_sample = source_of(tmp_path / "rows.csv", **options).recipe.columns[0]
    rows = np.zeros(1 << exact.bits)
    for text in texts:
        words = text.split()
        terms = [*words, *map(" ".join, pairwise(words))]
        rows[[*{murmurhash3_32(term, positive=True) % len(rows) for term in terms}]] += 1
    expected = np.rint(16 * (np.log((1 + len(texts)) / (1 + rows)) + 1)) / 16
    np.testing.assert_array_equal(weights_in(exact.idf, exact.bits), expected)
    assert by_sample.idf != exact.idf
    with pytest.raises(
        BadInput, match="`idf=exact` reads all rows once for the words of text, but"
    ):
        source_of(tmp_path / "rows.csv", idf="exact", column={"review": "hash"})


def test_text_by_its_characters(tmp_path):
    words = ["Grün", "gruen", "grünes Haus", "ab", "", "x" * 9] * 20
    frame = pd.DataFrame({"name": words, "x": range(120), "y": np.arange(120) % 2})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    source = source_of(
        tmp_path / "rows.csv", column={"name": "chars"}, hash_bits=12, dtype="float64"
    )
    column = source.recipe.columns[0]
    assert (column.kind, column.grams, source.kinds["name"]) == ("text", "characters", "chars")
    X, _, _ = read(source)
    weights = weights_in(column.idf, column.bits)
    lowered = [
        w.replace("G", "g").replace("H", "h") for w in words
    ]  # ASCII alone has small letters
    for x, word in zip(X[:, : column.width], lowered, strict=True):
        grams = [word[i : i + n] for n in (3, 4, 5) for i in range(len(word) - n + 1)]
        expected = np.zeros(column.width)
        for gram in grams:
            code = murmurhash3_32(gram.encode(), positive=True)
            expected[code % column.width] += 1 - 2 * (code >> 31)
        there = expected != 0
        size = np.abs(expected[there])
        expected[there] *= (1 + np.log(size)) / size * weights[there]
        norm = np.linalg.norm(expected)
        np.testing.assert_allclose(x, expected / (norm or 1.0), atol=1e-12)


def test_numbers_are_looked_at_once(tmp_path, monkeypatch):
    """A CSV of numbers never goes through the reader of words."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(3000, 4)), columns=list("abcy"))
    frame.to_csv(tmp_path / "rows.csv", index=False)

    def never(*_args, **_kwargs):
        raise AssertionError

    monkeypatch.setattr("fewpass.pipeline.tables.readers.csv_rows.CsvRows.cells", never)
    assert source_of(tmp_path / "rows.csv").recipe is None


@pytest.mark.parametrize("value", [2, "a word"])
def test_members_that_only_later_lines_have_are_left_out_and_said(tmp_path, monkeypatch, value):
    monkeypatch.setattr(json_rows, "HEAD_BYTES", 1 << 10)
    lines = [{"x": k / 7, "in": {"a": k % 3}, "y": k % 2} for k in range(500)]
    for k, more in ((200, {"late": 1}), (201, {"late": value}), (400, {"in": {"a": 1, "b": 2}})):
        lines[k] |= more
    del lines[300]["x"]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    cut = IngestPlan(sources=(str(tmp_path / "rows.jsonl"),), dataset=str(tmp_path / "set"))
    made = ingest(cut)
    assert made.rows == 500
    assert sum("Members of later lines were left out" in note for note in made.notes) == 1


WRITTEN = {
    "$1,234.50": 1234.5, "(2,850.00)": -2850.0, "6'396.50": 6396.5, "1 234 567": 1234567.0,
    "CHF 12.5": 12.5, "81.00 €": 81.0, "12%": 12.0, "$-3": -3.0, "12,345": 12345.0,
}  # fmt: skip
WITH_COMMA = {
    "1.234,5": 1234.5, "12,5 %": 12.5, "1.234,50 €": 1234.5, "EUR 3,5": 3.5, "2,5e-3": 0.0025,
    "(1,5)": -1.5, "1 234,5": 1234.5,
}  # fmt: skip
CLOCKS = {
    "11:47": 42420.0, "8:05 PM": 72300.0, "12:00 am": 0.0, "1 days 03:04:57": 97497.0,
    "-1 days +23:00:00": -3600.0, "PT3H4M": 11040.0, "P1DT1.5S": 86401.5, "-0:30": -1800.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("written", "values"), [("units", WRITTEN), ("comma", WITH_COMMA), ("clock", CLOCKS)]
)
def test_numbers_are_what_their_way_of_writing_says(written, values):
    found, bad = read_numbers(pa.array([*values, "a word", "1-2"]), written)
    assert found[:-2].tolist() == pytest.approx([*values.values()], rel=1e-15)
    assert bad.tolist() == [False] * len(values) + [True, True]


@pytest.mark.parametrize(
    "form",
    ["%d.%m.%Y", "%m/%d/%y", "%m/%d/%Y", "%d/%m/%Y", "%d-%b-%Y", "%b %d, %Y", "%B %d, %Y", "%d %B %Y",
     "%Y%m%d", "%Y-%m-%d", "%m/%d/%Y %I:%M %p", "%d.%m.%y %H:%M"],
)  # fmt: skip
def test_days_are_found_however_they_are_written(form):
    """Every day that there is, for two years."""
    days = pd.Timestamp("2023-12-20 17:45") + pd.to_timedelta(np.arange(800), "D")
    cells = pa.array(days.strftime(form))
    held = infer("x", cells)
    assert held.kind == "date"
    exact = days if "M" in form else days.normalize()
    assert (read_moments(cells, held.form)[0] == exact.astype("int64") / divisor(exact)).all()


def divisor(days):
    """Ticks of a second, which depend on the version of pandas."""
    return {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[days.unit]


@pytest.mark.parametrize(
    ("cells", "kind", "written"),
    [
        (["1,234", "12,345", "999"], "number", "units"),
        (["1,5", "12,75", "999"], "number", "comma"),
        (["1-2-3", "4-5-6", "7-8-9"], "category", "plain"),
        (["20251399", "20250101", "20250102"], "number", "plain"),
    ],
)
def test_what_could_be_read_in_two_ways(cells, kind, written):
    held = infer("x", pa.array(cells * 50))
    assert (held.kind, held.written) == (kind, written)


@pytest.mark.parametrize("words", [False, True])
def test_comments_before_a_table_are_passed_over(tmp_path, words):
    last = "u" if words else "0.5"
    rows = [f"{k},{last},{k % 2}" for k in range(30)]
    for head in (["# made by hand, today", "#", "a,b,y"], ["# of me", "#a,b,y"], ["a,b,y"]):
        (tmp_path / "rows.csv").write_text("\n".join([*head, *rows]) + "\n")
        label = "y" if head[-1][0] != "#" else -1
        X, y, _ = read(source_of(tmp_path / "rows.csv", label=label))
        assert y == [k % 2 for k in range(30)]
        assert len(X) == 30
    bad = ["# of me", "a,b,y", *rows, "1,2"]
    (tmp_path / "rows.csv").write_text("\n".join(bad) + "\n")
    with pytest.raises(BadInput, match="row 33"):
        read(source_of(tmp_path / "rows.csv"))


def several(folder, kind, frames):
    """Frames as files of one folder, which a glob names in their order."""
    for k, frame in enumerate(frames):
        path = folder / f"part-{k}.{kind}"
        if kind == "csv":
            frame.to_csv(path, index=False)
        elif kind == "parquet":
            frame.to_parquet(path, index=False)
        else:
            arrow = pa.Table.from_pandas(frame, preserve_index=False)
            feather.write_feather(arrow, str(path), compression="uncompressed")
    return folder / f"*.{kind}"


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("encode", ["auto", "always"])
def test_files_of_a_glob_are_read_by_name_or_told_apart(tmp_path, kind, encode):
    """Columns in another order are the same; a file without one of them is named with it."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), "y": [0, 1] * 30})
    for name in ("same", "short", "wide"):
        (tmp_path / name).mkdir()
    halves = [frame[:30], frame[30:]]
    both = several(tmp_path / "same", kind, [halves[0], halves[1][["y", "b", "a"]]])
    one = several(tmp_path, kind, [frame])
    how = {"encode": encode, "dtype": "float64"}
    found, alone = read(source_of(both, **how)), read(source_of(one, **how))
    np.testing.assert_array_equal(found[0], alone[0])
    assert found[1:] == alone[1:]
    short = several(tmp_path / "short", kind, [halves[0], halves[1].drop(columns="b")])
    with pytest.raises(BadInput, match=r"part-1\.\w+: its columns differ .*: it lacks 'b'\. Read"):
        read(source_of(short, **how))
    wide = several(tmp_path / "wide", kind, [halves[0], halves[1].assign(c=1)])
    with pytest.raises(BadInput, match=r"part-1\.\w+: its columns differ .*: it has 'c' besides"):
        read(source_of(wide, **how))


def test_a_sample_is_as_large_as_the_memory_allows(tmp_path):
    """Rows of it are rows of the table, in their order, from the first to the last."""
    frame = pd.DataFrame({f"x{k}": np.arange(2000) + 2000 * k for k in range(50)}).assign(y=1)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    source = source_of(tmp_path / "rows.csv", encode="always")
    small = sampled(source._rows, range(50), 1 << 30, memory=1 << 18).table
    assert 1 << 14 < small.nbytes <= 1 << 18
    found = small.to_pandas().astype(int)
    at = found["x0"].to_numpy()
    assert (np.diff(at) > 0).all()
    assert at[0] < 200
    assert at[-1] > 1800
    pd.testing.assert_frame_equal(found, frame.loc[at, [*found]].reset_index(drop=True))


def test_a_column_may_be_called_places(tmp_path, monkeypatch):
    """As was a column of ours while rows were drawn, of more pieces than one."""
    monkeypatch.setattr("fewpass.pipeline.tables.readers.sampling.PIECE_BYTES", 1 << 12)
    names = ["places", "places_", "y"]
    frame = pd.DataFrame({name: np.arange(2000) % (k + 2) for k, name in enumerate(names)})
    frame.to_parquet(tmp_path / "rows.parquet", index=False)
    rows = source_of(tmp_path / "rows.parquet", encode="always")._rows
    pd.testing.assert_frame_equal(sampled(rows, range(3), 1 << 30).table.to_pandas(), frame)


def test_pieces_are_looked_at_once_each(tmp_path, monkeypatch):
    """Three times as many take three times as many steps: what they take was summed for each."""
    monkeypatch.setattr("fewpass.pipeline.tables.readers.sampling.PIECE_BYTES", 1 << 8)
    steps = []
    for n in (2000, 6000):
        pd.DataFrame({"x": np.arange(n), "y": 1}).to_csv(tmp_path / f"{n}.csv", index=False)
        rows = source_of(tmp_path / f"{n}.csv", encode="always")._rows
        steps.append(steps_in(sampling.__file__, partial(sampled, rows, range(2), 1 << 30)))
    assert steps[0] > 100
    assert steps[1] < 4 * steps[0]


def steps_in(file, run):
    """Count how often functions and generators of a file are entered while something runs."""
    entered = Counter()
    sys.setprofile(lambda frame, event, _: entered.update([(event, frame.f_code.co_filename)]))
    try:
        run()
    finally:
        sys.setprofile(None)
    return entered["call", file]


# -- what is no table as it stands -----------------------------------------------------------------


def test_lines_that_end_in_returns_alone_are_lines(tmp_path):
    frame = pd.DataFrame(
        {"word": ["a", "b", "a"] * 40, "x": np.arange(120), "y": ["no", "yes"] * 60}
    )
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.to_csv(tmp_path / "old.csv", index=False, lineterminator="\r")
    expected, found = (read(source_of(tmp_path / name)) for name in ("rows.csv", "old.csv"))
    np.testing.assert_array_equal(found[0], expected[0])
    assert found[1:] == expected[1:]


@pytest.mark.parametrize("delimiter", ",;")
@pytest.mark.parametrize("title", ["Visits of the shop\n", "Visits\n\nby me\n", "Visits,,\n"])
def test_a_title_before_a_table_is_refused_with_the_line_that_it_begins_in(
    tmp_path, title, delimiter
):
    table = "word,x,y\n" + "a,1,no\nb,2,yes\n" * 20
    table, title = (text.replace(",", delimiter) for text in (table, title))
    (tmp_path / "rows.csv").write_text(title + table)
    with pytest.raises(BadInput, match=r"line 1: 'Visits") as refused:
        source_of(tmp_path / "rows.csv")
    begins = int(re.search(r"begins in line (\d+) with 3 cells", str(refused.value))[1])
    assert (title + table).splitlines(keepends=True)[begins - 1 :] == table.splitlines(True)


def test_what_looks_like_a_title_and_is_none_is_read(tmp_path):
    """A first row with gaps, a name of two lines, decimal commas as many as delimiters."""
    rows = "a,1,no\nb,2,yes\n" * 20
    tables = {
        "a,,\n" + rows: {"label": -1, "header": False},
        '"wo\nrd",x,y\n' + rows: {},
        "w;x;y\n" + "a;1,5;0,5\nb;2,5;1,5\n" * 20: {},
        "x;y\n" + "1,5;0,5\n2,5;1,5\n" * 20: {},
    }
    for text, options in tables.items():
        (tmp_path / "rows.csv").write_text(text)
        source = source_of(tmp_path / "rows.csv", on_bad_row="skip", **options)
        assert len(read(source)[0]) == 40


def test_a_table_in_markdown_is_refused(tmp_path):
    (tmp_path / "rows.md").write_text("| word | x | y |\n|---|--:|---|\n| a | 1 | no |\n")
    with pytest.raises(BadInput, match="a table in Markdown"):
        source_of(tmp_path / "rows.md")


@pytest.mark.parametrize("how", [{"drop": ("odd",)}, {"column": {"odd": "drop"}}])
@pytest.mark.parametrize("head", [1 << 10, 1 << 24])
def test_members_that_are_dropped_may_hold_anything(tmp_path, monkeypatch, how, head):
    """Among the lines that tell what members there are, and behind these."""
    monkeypatch.setattr(json_rows, "HEAD_BYTES", head)
    rows = [{"odd": 1 if k < 60 else {"a": "b"}, "w": "ab"[k % 2], "y": k % 2} for k in range(90)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(BadInput, match="line 61: column 'odd' holds"):
        read(source_of(tmp_path / "rows.jsonl"))
    X, y, skipped = read(source_of(tmp_path / "rows.jsonl", **how))
    assert (len(X), X.any(axis=1).all(), y, skipped) == (90, True, [0, 1] * 45, 0)


@pytest.mark.parametrize("others", [{"word": ["a", "b"]}, {"x": [1.5, 2.5]}])
def test_targets_that_are_numbers_or_words_are_taken_and_others_refused(tmp_path, others):
    day = dt.date(2026, 1, 1)
    targets = {
        "flag": ([False, True], [0.0, 1.0]), "word": (["no", "yes"], ["no", "yes"]),
        "day": ([day, day], None), "list": ([[1.0], [2.0]], None),
    }  # fmt: skip
    for name, (cells, labels) in targets.items():
        table = pa.table({**{key: value * 20 for key, value in others.items()}, "y": cells * 20})
        pa.parquet.write_table(table, tmp_path / f"{name}.parquet")
        if labels is None:
            with pytest.raises(BadInput, match=r"the label, column .y., holds .* values, numbers"):
                source_of(tmp_path / f"{name}.parquet")
        else:
            assert read(source_of(tmp_path / f"{name}.parquet"))[1] == labels * 20


def test_bytes_that_are_text_are_words(tmp_path):
    """Some writers of Parquet call words bytes."""
    table = pa.table({"w": [b"a", "gr\u00f6\u00dfe".encode()] * 20, "y": [0, 1] * 20})
    pa.parquet.write_table(table, tmp_path / "rows.parquet")
    assert source_of(tmp_path / "rows.parquet").recipe.outputs[:2] == ["w=a", "w=größe"]
