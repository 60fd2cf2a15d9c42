"""JSON lines whose members are now a number, now a word: told by line, or left out and counted."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, json_rows
from fewpass.pipeline.tables.readers.finding import find
from tests.pipeline.tables.readers.test_tables import read, source_of


def rows(n=40):
    return [
        {
            "a": k,
            "who": "ab"[k % 2],
            "when": "2026-01-01",
            "in": {"b": 0.5 * k},
            "y": ["no", "yes"][k % 2],
        }
        for k in range(n)
    ]


def written(folder, lines):
    path = folder / "rows.jsonl"
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    path.write_text("\n".join(text) + "\n")
    return path


BAD = [
    ({"a": "x"}, r"column 'a' holds '\"x\"', a number was expected, as before"),
    ({"who": 3}, r"column 'who' holds '3', a word was expected"),
    ({"in": {"b": "x"}}, r"column 'in\.b' holds '\"x\"', a number was expected"),
    ({"in": 3}, r"column 'in' holds '3', an object was expected"),
    ({"a": [1]}, r"column 'a' holds '\[1\]', a number was expected"),
]


@pytest.mark.parametrize("at", [0, 7])
def test_a_member_that_a_line_names_twice_is_refused_for_that(tmp_path, at):
    lines = rows()
    lines[at] = '{"a": 1, "a": 2, "who": "a", "when": "2026-01-01", "in": {"b": 1.5}, "y": "no"}'
    with pytest.raises(BadInput, match=rf"line {1 + at}: .*specified twice"):
        source_of(written(tmp_path, lines))


@pytest.mark.parametrize("first_bytes", [1 << 20, 300])
@pytest.mark.parametrize(("change", "message"), BAD)
def test_a_member_of_another_type_is_told_by_line(
    tmp_path, monkeypatch, change, message, first_bytes
):
    """In the first lines, which tell the types, and behind them; blank lines count as lines."""
    monkeypatch.setattr(json_rows, "HEAD_BYTES", first_bytes)
    lines = [*rows(), "", *rows()]
    lines[60] = lines[60] | change
    path = written(tmp_path, lines)
    refused = r"rows\.jsonl, line 61: "
    with pytest.raises(BadInput, match=refused + message):
        read(source_of(path), 500)
    X, y, skipped = read(source_of(path, on_bad_row="skip"), 500)
    assert (len(X), len(y), skipped) == (79, 79, 1)


def test_what_looks_like_a_date_is_the_text_that_it_is(tmp_path):
    cells = {"when": "2026-01-01", "at": {"in": "2026-01-01T10:00:00Z"}, "all": ["2026-01-02"]}
    source = json_rows.JsonRows(
        find([str(written(tmp_path, [cells, cells]))]), SourceOptions(), Expected()
    )
    (piece,) = source.pieces(1 << 20, range(3))
    columns = source.cells(piece, range(3)).columns
    assert [column[0].as_py() for column in columns] == [
        "2026-01-01", "2026-01-01T10:00:00Z", ["2026-01-02"]
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "row"), [("id", "{}"), ("user.id", '{{"id": {}}}')])
@pytest.mark.parametrize("first", ["1", "null", "1.5", str(2**53)])
def test_kept_whole_numbers_are_no_others(tmp_path, first, name, row):
    """Nor refused where they are exact, or no whole numbers; inside of objects as well."""
    member = name.partition(".")[0]
    for file, cell in (("a", first), ("b", str(2**53 + 1))):
        text = f'{{"{member}": {row.format(cell)}, "y": 1}}\n'
        (tmp_path / f"{file}.jsonl").write_text(text)
    rows = json_rows.JsonRows(
        find([f"{tmp_path}/*.jsonl"]), SourceOptions(), Expected(passed=(name,))
    )
    *_, piece = rows.pieces(1 << 20, [0])
    if first in ("1", "null"):
        with pytest.raises(
            BadInput, match=rf"column '{name}' is kept, and holds numbers beyond 2\^53"
        ):
            rows.cells(piece, [0])
    else:
        cell = rows.cells(piece, [0]).columns[0][0].as_py()
        assert cell == (2**53 if first == "1.5" else 2**53 + 1)


@given(
    bad=st.sets(st.integers(10, 79), max_size=30), blank=st.sets(st.integers(10, 79), max_size=5),
    cut=st.integers(200, 3000),
)  # fmt: skip
@settings(max_examples=20, deadline=None)
def test_every_line_is_read_or_counted(tmp_path_factory, bad, blank, cut):
    lines = rows(80)
    for k in bad:
        lines[k] = lines[k] | {"a": "x"}
    lines = [part for k, line in enumerate(lines) for part in ([""] if k in blank else []) + [line]]
    path = written(tmp_path_factory.mktemp("json"), lines)
    X, y, skipped = read(source_of(path, on_bad_row="skip"), cut)
    assert (len(X), len(y), skipped) == (80 - len(bad), 80 - len(bad), len(bad))
