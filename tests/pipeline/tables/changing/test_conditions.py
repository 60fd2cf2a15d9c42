"""Conditions on kept columns: read by a grammar, compared exactly, and refused with the place."""

import codecs
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.row_condition import read_condition
from fewpass.pipeline.tables.changing.condition import Condition
from fewpass.pipeline.tables.ingest.retained_columns import RetainedCells
from fewpass.storage.manifest import RETAINED_BYTES

# -- an independent reading: conditions as trees, of cells with three truth values -----------------

NUMBERS = ["0", "-3", "7", "7.0", "7.25", "1e+20", "100000000000000000000",
           "1234567890123456789", "1234567890123456788", "9999999999999999999999999",
           "9999999999999999999999998.5", "-0.1", ".5"]  # fmt: skip
TEXTS = ["north", "it's", 'a "b"', "and", "7", "007", "x, y", "1 or 2", "ü"]
COMPARED = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


def as_number(text):
    """The rational number that a decimal is."""
    return None if text is None else Fraction(Decimal(text))


def quoted(draw, text):
    quote = draw(st.sampled_from("\"'"))
    return quote + text.replace(quote, 2 * quote) + quote


def either_case(draw, word):
    return draw(st.sampled_from([word, word.upper(), word.capitalize()]))


@st.composite
def terms(draw):
    """A condition on one column as text, and as a function of a row to True, False or None."""
    column = draw(st.sampled_from(["age", "city"]))
    numeric = column == "age"
    values = draw(st.lists(st.sampled_from(NUMBERS if numeric else TEXTS), min_size=1, max_size=3))
    written = [one if numeric else quoted(draw, one) for one in values]
    meant = [as_number(one) for one in values] if numeric else values

    def cell(row):
        return as_number(row[0]) if numeric else row[1]

    def known(row, holds):
        return None if cell(row) is None else holds(cell(row))

    how = draw(st.sampled_from([*COMPARED, "in", "not in", "is missing", "is not missing"]))
    if how in COMPARED:
        return (
            f"{column} {how} {written[0]}",
            lambda row: known(row, lambda c: COMPARED[how](c, meant[0])),
        )
    word = " ".join(either_case(draw, part) for part in how.split())
    if "missing" in how:
        return f"{column} {word}", lambda row: (cell(row) is None) == (how == "is missing")
    text = f"{column} {word} ({', '.join(written)})"
    return text, lambda row: known(row, lambda c: (c in meant) == (how == "in"))


def joined(word, parts):
    """Kleene's and, or: None is neither true nor false."""
    decisive = word == "or"

    def holds(row):
        each = [part(row) for part in parts]
        if decisive in each:
            return decisive
        return None if None in each else not decisive

    return holds


@st.composite
def conditions(draw, depth=3):
    kind = draw(st.sampled_from(["term", "not", "and", "or"] if depth else ["term"]))
    if kind == "term":
        return draw(terms())
    if kind == "not":
        text, inside = draw(conditions(depth=depth - 1))
        return (
            f"{either_case(draw, 'not')} ({text})",
            lambda row: None if inside(row) is None else not inside(row),
        )
    parts = [draw(conditions(depth=depth - 1)) for _ in range(draw(st.integers(2, 3)))]
    text = f" {either_case(draw, kind)} ".join(f"({one})" for one, _ in parts)
    return text, joined(kind, [holds for _, holds in parts])


ROWS = [
    (NUMBERS[k % len(NUMBERS)] if k % 5 else None, TEXTS[k % len(TEXTS)] if k % 7 else None)
    for k in range(200)
]


def condition_on(text, **columns):
    """A condition that has seen all cells, and the kept columns."""
    cells = tuple(pa.array(cells) for cells in columns.values())
    out = np.empty((len(cells[0]), len(cells) * RETAINED_BYTES), np.uint8)
    retained = RetainedCells(tuple(columns), cells, "here").as_bytes(out)
    condition = Condition(text, list(columns), "D")
    condition.learn(retained)
    condition.decide()
    return condition, retained


def meant_in(text, **columns):
    condition, retained = condition_on(text, **columns)
    return condition.of(retained).tolist()


@settings(max_examples=150, deadline=None)
@given(conditions())
def test_rows_are_meant_where_the_condition_is_true_and_nowhere_else(made):
    text, holds = made
    ages, cities = zip(*ROWS, strict=True)
    expected = [holds(row) is True for row in ROWS]
    assert meant_in(text, age=list(ages), city=list(cities)) == expected


# -- numbers, text and missing cells ---------------------------------------------------------------

LONG = [1029384756102938400 + k for k in range(100)]


@pytest.mark.parametrize(
    ("cells", "where", "expected"),
    [
        (LONG, "c == 1029384756102938475", [75]),
        (LONG, 'c == "1029384756102938475"', [75]),
        (LONG, "c >= 1029384756102938498", [98, 99]),
        (["1" + 24 * "0", "1" + 23 * "0" + "1"], f"c != 1{24 * '0'}", [1]),
        (["1", "10", "9"], "c < 10", [0, 2]),
        (["7", "7.0", "8"], 'c in (7, "8")', [0, 1, 2]),
        (["0.1", "0.10000000000000001"], "c == 0.1", [0]),
        (["1e+400", "2"], "c > 1e399", [0]),
        (["007", "7"], 'c == "7"', [1]),
        (["1.10", "1.1", "1.1.0"], 'c == "1.1"', [1]),
        (["b", "a", None, " a "], 'c == "a"', [1, 3]),
        (["b", "a", None, ""], 'c != "a"', [0]),
        (["b", "a", None, ""], 'c not in ("a")', [0]),
        (["b", "a", None, "  "], "c is missing", [2, 3]),
        (["7", None, "NA"], "c != 8", [0]),  # a word for missing is no number
        (["7", None, "NA"], "not c == 8", [0]),
        (["a", "\u00a0a"], 'c == "\u00a0a"', [1]),  # a cell loses blanks of ASCII alone
        ([True, False, None], 'c == "true"', [0]),
        (["a", "z", "zz" + 62 * "z"], f'c < "z{64 * "a"}"', [0, 1]),  # longer than any cell
        ([None, None], "c < 3 or c >= 3", []),
    ],
)
def test_a_column_is_of_numbers_or_of_text(cells, where, expected):
    assert np.flatnonzero(meant_in(where, c=cells)).tolist() == expected


@pytest.mark.parametrize("cell", ["007", "+49", "12E4", "1_000", "A7", "2024-01-02", "1,5", "٣"])
def test_what_may_be_an_id_makes_a_column_of_text(cell):
    assert meant_in(f'c == "{cell}"', c=["7", cell]) == [False, True]
    with pytest.raises(BadInput, match=r"'c' holds text.*the number 7\. Put the number in the quo"):
        condition_on("c == 7", c=["7", cell])


@pytest.mark.parametrize("where", ['c != "7"', 'c < "7"', 'c not in ("7", "8")'])
def test_text_is_not_compared_with_numbers_but_to_find_them(where):
    with pytest.raises(BadInput, match=r"'c' holds numbers.*Leave out the quotes"):
        condition_on(where, c=["7", "8"])


@pytest.mark.parametrize("value", ["007", "1e6", "+7", "other_name"])
def test_what_is_to_stay_is_not_deleted_for_how_a_list_writes_it(tmp_path, value):
    file = tmp_path / "stay.txt"
    file.write_text(f"8\n{value}\n")
    with pytest.raises(
        BadInput, match=f"'c' holds numbers, and .*stay.txt lists .{re.escape(value)}"
    ):
        condition_on(f"c not in {file}", c=["7", "8"])
    with pytest.raises(BadInput, match="which is none"):
        condition_on(f"not c in {file}", c=["7", "8"])
    assert meant_in(f"c in {file}", c=["7", "8"]) == [False, True]


@pytest.mark.parametrize(
    ("cells", "value"),
    [
        (["2025-11-02 09:00:00", "2025-11-01 09:00:00"], "2025-11-02T05:00:00"),
        (["2025-11-02T09:00:00"], "2025-11-02T05:00:00Z"),
        (["2025-11-02T09:00:00-04:00"], "2025-11-02T05:00:00-05:00"),
        (["2025-11-02", "2025/11/02"], "2025-11-02"),
        (["2025-11-2"], "2025-11-02"),
        (["2.11.2025"], "2025-11-02"),
        (["02.11.2025", "03.01.2024"], "02.11.2025"),
        (["11/02/2025"], "12/31/2025"),
    ],
)
@pytest.mark.parametrize("sign", ["<", "<=", ">", ">="])
def test_a_date_that_is_written_otherwise_than_the_cells_is_refused(cells, value, sign):
    with pytest.raises(BadInput, match="written alike, the year first"):
        condition_on(f'c {sign} "{value}"', c=[None, "NA", *cells])
    assert condition_on(f'c != "{value}"', c=cells)  # as text, which says what it is


@pytest.mark.parametrize(
    ("cells", "value", "before"),
    [
        (["2025-11-01", "2025-11-02", "2025-11-03", None], "2025-11-02", [1, 0, 0, 0]),
        (["2025-11-01T23:00Z", "2025-11-02T01:00Z"], "2025-11-02", [1, 0]),
        (["2025-11-02 05:00:00.5", "2025-11-02 04:59:59.9"], "2025-11-02 05:00:00", [0, 1]),
        (["2025-11-02T09:00-05:00", "2025-11-02T04:00-05:00"], "2025-11-02T05:00-05:00", [0, 1]),
        (["10.1.1.2", "9.1.1.2"], "10.1.1.3", [1, 0]),  # no date
    ],
)
def test_dates_that_are_written_alike_are_in_order(cells, value, before):
    assert meant_in(f'c < "{value}"', c=cells) == list(map(bool, before))


# -- the grammar -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "at", "said"),
    [
        ('a == "x" && b == 1', 10, "Write `and`"),
        ('a == "x" || b == 1', 10, "Write `or`"),
        ("a == 1, b == 2", 7, "Join conditions"),
        ("a == 1; b == 2", 7, "Join conditions"),
        ("a = 1", 3, "Write `==`"),
        ("a <> 1", 3, "Write `!=`"),
        ("!a == 1", 1, "Write `not`"),
        ("a == 'it's'", 10, "written twice"),
        ('a == "x" y', 10, "`and`, `or` or the end"),
        ('a == "x', 6, "a quote that is closed"),
        ("a == 1 and b == 2 or c == 3", 19, "Expected: brackets."),
        ("a == 1 or b == 2 and c == 3", 18, "brackets"),
        ("(a == 1", 8, "closing bracket"),
        ("a == 1)", 7, "the end"),
        ("a in (1 2)", 9, "comma"),
        ("a in 8000,8001", 6, "(8000, 8001)"),
        ("a not in 8000", 10, "(8000)"),
        ("a in north , it and b == 1", 6, '("north", "it")'),
        ("a in 'x','y'", 6, "('x', 'y')"),
        ("a in [1, 2]", 6, "(1, 2)"),
        ("a in ()", 7, "a number, or text in quotes"),
        ("a not == 1", 7, "Expected: `in`."),
        ("a b == 1", 3, "goes in quotes"),
        ("a == north", 6, 'Put text in quotes: "north"'),
        ("a == 007", 6, 'Put text in quotes: "007"'),
        ("a == +5", 6, 'Put text in quotes: "+5"'),
        ("a == 1_000", 6, 'Put text in quotes: "1_000"'),
        ("a < 2024-01-02", 5, 'Put text in quotes: "2024-01-02"'),
        ('a == ""', 6, "COLUMN is missing"),
        ("a is null", 6, "`missing`"),
        ("and == 1", 1, "the name of a column"),
        ("", 1, "the name of a column"),
        ("a", 2, "==, !="),
        (60 * "(" + "a == 1" + 60 * ")", 51, "no more than 50"),
        ('a == "x\0"', 8, "no character 0"),
    ],
)
def test_what_is_no_condition_is_refused_with_its_place(where, at, said):
    with pytest.raises(ValueError) as refused:
        read_condition(where)
    fact, shown, caret, *advice = str(refused.value).split("\n")
    assert f"from character {at} on" in fact
    assert said in "\n".join([fact, *advice])
    assert shown[4:] == where.replace("\0", " ")[max(0, at - 61) : at + 59]
    assert caret.index("^") == 4 + min(at - 1, 60)


@pytest.mark.parametrize(
    "file", ["ids.txt", '"8000"', '"a,b.txt"', "'a,b'", "8000.txt", "s3://x/y"]
)
def test_what_looks_like_values_is_a_file_in_quotes(file):
    assert read_condition(f"id in {file}").file == file.strip("\"'")


# -- lists -----------------------------------------------------------------------------------------

BOM = codecs.BOM_UTF8


@pytest.mark.parametrize(
    "content",
    [
        b"7\n8\n", b"7\r\n8\r\n", b"7\r8", b"  7\t\n\n8 ", BOM + b"7\n8", BOM + b"id\n7\n" + BOM + b"8",
        "id\n7\n8\n".encode("utf-16"), codecs.BOM_UTF16_BE + "7\n8".encode("utf-16-be"),
        b'"7"\n"8"\n', b"ID\n7\n8\n", b'name,id\nx,7\n,\ny,\n"z, w",8\n', b"id;name\n7;x\n8;\n",
        b"name\tid\nx\t7\ny\t8\n",
    ],
)  # fmt: skip
def test_lists_of_other_systems_are_read(tmp_path, content):
    (tmp_path / "list").write_bytes(content)
    condition, retained = condition_on(f"id in '{tmp_path}/list'", id=["7", "8", "9", None, "id"])
    assert condition.of(retained).tolist() == [True, True, False, False, False]
    assert condition.unmatched == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("7\n8\n".encode("utf-16-le"), "line 1: .* is no UTF-8"),
        ("7\né".encode("latin-1"), "line 2: .* is no UTF-8"),
        (b"7\n8,9\n", "line 2: 2 cells"),
        (b"7,north\n8,south\n", "line 1: there are 2 cells, and not one that is 'id'"),
        (b"id,id\n7,8\n", "line 1: there are 2 cells"),
        (b"id,name\n7\n", "line 2: 1 cells"),
        (b'7\n"8', "line 2: unexpected end"),
        (b'7\n"8"9\n', "line 2: .* expected after"),
        (b"\n \n", "lists no value"),
        (b"id\n", "lists no value"),
        (b"", "empty"),
    ],
)
def test_what_is_no_list_is_refused_with_the_line(tmp_path, content, said):
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(BadInput, match=said):
        Condition(f"id in '{tmp_path}/list'", ["id"], "D")


def test_one_table_is_a_list_for_each_of_its_columns(tmp_path):
    (tmp_path / "list").write_text("id,name\na,x\nb,y\n")
    where = f"id in {tmp_path}/list and name in {tmp_path}/list"
    assert meant_in(where, id=["a", "x", "b"], name=["y", "x", "a"]) == [True, False, False]


def test_values_without_rows_are_counted(tmp_path):
    (tmp_path / "list").write_text(f"7\n07\n{70 * 'x'}\n9.0\n")
    where = f"id in {tmp_path}/list or id == 8 or not id != 5"
    condition, retained = condition_on(where, id=["7", "8", "9"])
    assert condition.of(retained).tolist() == [True, True, True]
    assert condition.unmatched == 3  # 07, which is no number, the long one, and 5
