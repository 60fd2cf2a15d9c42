"""Tables as they come out of other programs, read as they are meant; or refused, by line."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.encoding.applying import encoded
from fewpass.pipeline.tables.encoding.fitting import RecipeRules, fitted
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.format_guess import format_of

ROWS = [(k % 9, ("Bern", "Köln")[k % 2], 0.5 + k) for k in range(200)]


def opened(path, **settings):
    source = open_source([str(path)], SourceOptions(**({"label": "y"} | settings)))
    return source, [source.parse(piece) for piece in source.pieces(1 << 20)]


def targets(parsed):
    return np.concatenate([part.table.target for part in parsed])


@pytest.mark.parametrize("header", ["a,city,y", "a,city,y,"])
def test_a_delimiter_at_the_end_of_every_row_is_no_column(tmp_path, header):
    body = "".join(f"{a},{city},{y},\n" for a, city, y in ROWS)
    (tmp_path / "t.csv").write_text(f"{header}\n{body}", encoding="utf-8")
    source, parsed = opened(tmp_path / "t.csv")
    assert source.schema.names == ("a", "city", "y")
    np.testing.assert_array_equal(targets(parsed), [y for *_, y in ROWS])
    # The last column of a table may well be empty in some rows.
    (tmp_path / "u.csv").write_text(f"a,city,y,z\n{body}".replace(",\n", ",7\n", 1))
    assert open_source([str(tmp_path / "u.csv")], SourceOptions(label="y")).schema.names[-1] == "z"


@pytest.mark.parametrize("header", ["a,city,y", "a,city,y,,,"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"])
def test_empty_cells_without_a_name_at_the_end_of_every_row_are_no_columns(tmp_path, header, ends):
    body = "".join(f"{a},{city},{y},,,{ends}" for a, city, y in ROWS)
    (tmp_path / "t.csv").write_bytes(f"{header}{ends}{body}".encode())
    source, parsed = opened(tmp_path / "t.csv")
    assert source.schema.names == ("a", "city", "y")
    np.testing.assert_array_equal(targets(parsed), [y for *_, y in ROWS])


@pytest.mark.parametrize("first", ["sep=;", '"sep=;"', "SEP=;"])
@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("words", [False, True])
def test_what_excel_writes_before_a_table_is_passed_over(tmp_path, first, charset, words):
    """Lines are counted from it all the same."""
    body = "".join(f"{a};{city if words else 3};{y}\r\n" for a, city, y in ROWS)
    (tmp_path / "t.csv").write_bytes(f"{first}\r\na;city;y\r\n{body}".encode(charset))
    source, parsed = opened(tmp_path / "t.csv")
    assert source.schema.names == ("a", "city", "y")
    np.testing.assert_array_equal(targets(parsed), [y for *_, y in ROWS])
    (tmp_path / "t.csv").write_bytes(f"{first}\r\na;city;y\r\n{body}1;x;oops\r\n".encode(charset))
    with pytest.raises(BadInput, match=r"row 203: .*'oops'"):
        opened(tmp_path / "t.csv")


def test_targets_may_have_a_decimal_comma(tmp_path):
    for name, city in (("words.csv", "Bern"), ("numbers.csv", "3")):
        body = "".join(f"{a};{city};{str(y).replace('.', ',')}\n" for a, _, y in ROWS)
        (tmp_path / name).write_text(f"a;city;y\n{body}")
        _, parsed = opened(tmp_path / name)
        assert {part.labels for part in parsed} == {None}
        np.testing.assert_array_equal(targets(parsed), [y for *_, y in ROWS])


@pytest.mark.parametrize("role", ["weight", "offset", "exposure"])
def test_weights_and_offsets_may_have_a_decimal_comma(tmp_path, role):
    path, body = tmp_path / "t.csv", "".join(f"{a};{city};{y};0,5\n" for a, city, y in ROWS)
    path.write_text(f"a;city;y;w\n{body}", encoding="utf-8")
    _, parsed = opened(path, **{role: "w"})
    got = np.concatenate(
        [getattr(part.table, role.replace("exposure", "offset")) for part in parsed]
    )
    np.testing.assert_allclose(got, np.log(0.5) if role == "exposure" else 0.5)
    for cell, found in (("x", "'x'"), ("", "missing")):
        path.write_text(f"a;city;y;w\n{body}1;Bern;2;{cell}\n", encoding="utf-8")
        with pytest.raises(BadInput, match=f"row 202: the {role} in column 'w' is {found}, a num"):
            opened(path, **{role: "w"})


@pytest.mark.parametrize("role", ["weight", "exposure"])
def test_a_form_is_chosen_by_weights_that_have_a_decimal_comma(tmp_path, role):
    said = []
    for mark in ".,":
        path = tmp_path / f"{ord(mark)}.csv"
        rows = "".join(f"{a};{city};{y};{k % 3}{mark}5\n" for k, (a, city, y) in enumerate(ROWS))
        path.write_text(f"a;city;y;w\n{rows}", encoding="utf-8")
        source, _ = opened(path, encode="additive", **{role: "w"})
        said.append(source.remarks)
    assert said[0] == said[1]


def test_labels_may_be_words_that_elsewhere_say_that_nothing_is_there(tmp_path):
    """Most of them here: the others are no numbers all the same."""
    rows = "".join(f"{a};{city};{'unknown' if a else 'spam'}\n" for a, city, _ in ROWS)
    (tmp_path / "t.csv").write_text(f"a;city;y\n{rows}", encoding="utf-8")
    _, parsed = opened(tmp_path / "t.csv")
    assert set(parsed[0].labels) == {"unknown", "spam"}


def test_a_column_may_be_called_like_what_stands_in_messages(tmp_path):
    rows = "".join(f"{a};{city};{y}\n" for a, city, y in ROWS)
    (tmp_path / "t.csv").write_text(f"a;city;FOUND\n{rows}1;Bern;oops\n", encoding="utf-8")
    with pytest.raises(BadInput, match="the target in column 'FOUND' is 'oops', a number was"):
        opened(tmp_path / "t.csv", label="FOUND")


def test_a_list_of_another_length_is_refused_without_advice_for_words(tmp_path):
    lists = [[1.0, float(k)] for k in range(50)] + [[1.0, 2.0, 3.0]]
    pa.parquet.write_table(pa.table({"v": lists, "y": [0, 1, 0] * 17}), tmp_path / "t.parquet")
    with pytest.raises(BadInput, match=r"row 51: column 'v' holds .* Correct it, or drop such"):
        opened(tmp_path / "t.parquet")


def test_empty_lines_before_a_table_are_passed_over(tmp_path):
    (tmp_path / "t.csv").write_text("\n\r\na,y\n" + "1,2\n\n" * 50 + "1,oops\n")
    with pytest.raises(BadInput, match=r"row 54: .*'oops'"):
        opened(tmp_path / "t.csv")


def test_numbers_that_count_time_are_no_ids_and_may_be_dates(tmp_path):
    text = {
        "s": [1_600_000_000 + 3600 * k for k in range(200)],
        "ms": [(1_600_000_000 + 86_400 * k) * 1000 for k in range(200)],
        "index": range(1_600_000_000, 1_600_000_200),
    }
    lines = (
        f"{s},{ms},{index},{k % 2},w\n" for k, (s, ms, index) in enumerate(zip(*text.values()))
    )
    (tmp_path / "t.csv").write_text("s,ms,index,y,word\n" + "".join(lines))
    source, _ = opened(tmp_path / "t.csv")
    told = {note.split("'")[1]: note for note in source.notes}
    assert "times" in told["s"] and "`column=ms=date`" in told["ms"] and "an id" in told["index"]
    source, parsed = opened(tmp_path / "t.csv", column={"s": "date", "ms": "date"})
    names = source.recipe.outputs
    found = {}
    for part in parsed:
        table = part.table
        for row, end in zip(table.indptr[:-1], table.indptr[1:], strict=True):
            for j in table.indices[row:end].tolist():
                found[names[j]] = found.get(names[j], 0) + 1
    assert found["ms weekday=Sun"] == 200 // 7 + 1  # the first is Sunday, 13 September 2020
    assert found["s hour=12"] == 200 // 24 + 1  # 12:26:40


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("t.csv", "a,b,y\n1,'x, y',2\n", "row 2: the row has 4 cells, 3 were expected"),
        ("t.csv", "a,b,y\n", "there are no rows"),
        ("t.csv", "a,b,y\r" + "1,2,3\r" * 20_000 + "4,5,6\n", "20,001 carriage returns"),
        ("t.json", '[{"a": 1, "y": 2},\n{"a": 1, "y": 2}]', "one JSON document"),
        ("t.json", '{\n"a": [1, 2]}', "one JSON document"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_cause(tmp_path, name, text, told):
    (tmp_path / name).write_text(text)
    with pytest.raises(BadInput, match=told):
        opened(tmp_path / name)


def test_bars_between_cells_are_told_from_vowpal_wabbit(tmp_path):
    (tmp_path / "t.txt").write_text("a|city|y\n" + "".join(f"{a}|{c} x|{y}\n" for a, c, y in ROWS))
    source, _ = opened(tmp_path / "t.txt")
    assert source.schema.names == ("a", "city", "y")
    (tmp_path / "v.txt").write_text("1 |a x:2 y |b z\n-1 2.5 'tag|a x\n")
    vw = open_source([str(tmp_path / "v.txt")])
    assert type(vw).__name__ == "VowpalWabbitSource" and vw.has_weight


@pytest.mark.parametrize(
    "row", ["5,01/02/2024 00:00", "2024-01-01 00:00:00\t5", "4;x 12:30;5", "1 00:10 4"]
)
def test_times_of_day_are_told_from_the_values_of_libsvm(tmp_path, row):
    (tmp_path / "t.txt").write_text(f"{row}\n" * 3)
    assert format_of(find([str(tmp_path / "t.txt")]), SourceOptions()) == "csv"


@pytest.mark.parametrize(
    "row", ["1 3:4 5:6", "-1.5 qid:3 1:2 # of x", "1,2 3:1", "3:1 4:2", "spam 1:2"]
)
@pytest.mark.parametrize("longer", [0, 10_000])
def test_values_of_libsvm_are_told_from_tables(tmp_path, row, longer):
    values = " ".join(f"{j}:1.5" for j in range(6, longer))
    (tmp_path / "t.txt").write_text(f"{row} {values}\n")
    assert format_of(find([str(tmp_path / "t.txt")]), SourceOptions()) == "libsvm"


def test_a_column_of_bytes_is_refused_with_what_leaves_it_out(tmp_path):
    table = pa.table({"a": [1.5, 2.0], "raw": [b"\xff", b"\xfe"], "y": ["u", "v"]})
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadInput, match=r"Leave it out with `column=raw=drop`"):
        opened(tmp_path / "t.parquet")
    source, _ = opened(tmp_path / "t.parquet", column={"raw": "drop"})
    assert source.schema.feature_names == ("a",)


@pytest.mark.parametrize("kind", ["text", "chars"])
def test_columns_of_text_are_named_by_what_is_hashed_to_them(kind):
    cells = ["Not good, at all", "good AT Zürich; not good", "all of it: not\nbad"] * 40
    recipe = fitted(pa.table({"t": cells}), RecipeRules(kinds={"t": kind}))
    names, examples = recipe.outputs, recipe.columns[0].examples
    known = [example for example in examples if f"t: {example}" in names]
    assert len(known) > 0.8 * len(examples) > 10  # others share a column with a commoner one
    for example in known:
        own = encoded(recipe, pa.table({"t": [example]}))
        assert names.index(f"t: {example}") in own.indices


@pytest.mark.parametrize("blank", ["", " "])
def test_features_that_are_kept_are_the_features_that_they_are_otherwise(tmp_path, blank):
    """Kept cells are as written; with blanks around them they were other words as features, too."""
    rows = [("Bern", 0, "NA"), ("Oslo", 1, "good"), ("Bern", 2, "bad")] * 40
    lines = [f"city, size, {blank}film, y"] + [f"{blank}{a}, {b}, {c}, {b % 2}" for a, b, c in rows]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    names = ("city", "size", "film")
    found = [str(tmp_path / "rows.csv")]
    own = open_source(found, SourceOptions(label="y"))
    kept = open_source(found, SourceOptions(label="y"), expected=Expected(passed=names))
    assert kept.schema == own.schema
    like = Expected(own.schema, passed=names)
    for source in (kept, open_source(found, SourceOptions(label="y"), expected=like)):
        (ours,), (theirs,) = ([*map(one.parse, one.pieces(1 << 20))] for one in (source, own))
        for a, b in zip(ours.table, theirs.table, strict=True):
            assert (a is b is None) or np.array_equal(a, b)
        first = [cells[0].as_py() for cells in ours.passed]
        assert first == [f"{blank}Bern", " 0", " NA"]
