"""Quotes that enclose no cell: no row is taken into one without a word."""

import csv
import io
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import unusual
from fewpass.pipeline.tables.readers import Expected
from tests.pipeline.tables.readers.test_tables import read, source_of

WORDS = st.text(st.sampled_from("abc \"'"), min_size=1, max_size=8).filter(str.strip)


@st.composite
def plain_rows(draw):
    """Cells that may begin with a quote, or hold some, between delimiters that no cell holds."""
    words = draw(st.lists(WORDS, min_size=40, max_size=120))
    return [[word, str(k % 7), "no" if k % 2 else "yes"] for k, word in enumerate(words)]


def written(folder, rows, delimiter):
    path = folder / "rows.tsv"
    lines = [delimiter.join(row) for row in [["word", "x", "y"], *rows]]
    path.write_text("\n".join(lines) + "\n")
    return path


@given(rows=plain_rows(), delimiter=st.sampled_from("\t;"), cut=st.integers(50, 2000))
@settings(max_examples=60, deadline=None)
def test_every_row_of_text_without_quoting_is_read_or_refused(
    tmp_path_factory, rows, delimiter, cut
):
    """Said `quote=none`, all rows come back; unsaid, all of them do, or a line is refused."""
    path = written(tmp_path_factory.mktemp("plain"), rows, delimiter)
    how = {"delimiter": delimiter, "encode": "always"}
    X, y, skipped = read(source_of(path, quote="none", **how), cut)
    assert (len(X), skipped) == (len(rows), 0)
    assert y == [row[2] for row in rows]
    for on_bad_row in ("refuse", "skip"):
        try:
            X, y, skipped = read(source_of(path, on_bad_row=on_bad_row, **how), cut)
        except BadInput as error:
            assert re.search(
                r"row \d+: (a cell begins with a quote|a quoted cell|the row (has|is longer))",
                str(error),
            )
        else:
            assert len(X) + skipped == len(rows)


@given(rows=plain_rows(), quoting=st.sampled_from([0, 1]), cut=st.integers(50, 2000))
@settings(max_examples=40, deadline=None)
def test_every_row_of_quoted_text_is_read(tmp_path_factory, rows, quoting, cut):
    """Quotes, delimiters and line ends in cells, written as RFC 4180 has it."""
    rows = [
        [f"{word}\n{word}, {word}" if k % 3 else word, x, y] for k, (word, x, y) in enumerate(rows)
    ]
    text = io.StringIO()
    csv.writer(text, quoting=quoting, lineterminator="\n").writerows([["word", "x", "y"], *rows])
    path = tmp_path_factory.mktemp("quoted") / "rows.csv"
    path.write_text(text.getvalue())
    source = source_of(path, encode="always")
    X, y, skipped = read(source, cut)
    assert (len(X), skipped, y) == (len(rows), 0, [row[2] for row in rows])
    assert source.notes == ()


def shop(n=400):
    """Names of goods; from the tenth on, some begin with a quote, as for inches or nicknames."""
    names = ['"AGENT" K', "screen", '"19" screen', '"open', "cable", "hub", "desk", "lamp"]
    return [[names[k % 8 if k >= 10 else 1], str(k), "no" if k % 3 else "yes"] for k in range(n)]


def test_quotes_that_are_text_are_seen_told_and_remembered(tmp_path):
    path = written(tmp_path, shop(), "\t")
    source = source_of(path, encode="always")
    X, _, skipped = read(source)
    assert (len(X), skipped) == (400, 0)
    assert 'word="AGENT" K' in source.recipe.outputs
    assert "quote=double" in source.notes[-1]
    assert source.schema.reading == {"quote": "none"}
    later = written(tmp_path, [['"open"', "1", "no"], ["hub", "2", "yes"]], "\t")
    again = source_of(later, Expected(source.schema), label=None)
    assert len(read(again)[0]) == 2


def test_quotes_that_are_text_later_are_refused_by_line(tmp_path, monkeypatch):
    """Also where bad rows are skipped: how many rows are in the cell nobody can say."""
    monkeypatch.setattr("fewpass.pipeline.tables.readers.csv_head._LOOKED_AT", 64)
    path = written(tmp_path, shop(), "\t")
    for on_bad_row in ("refuse", "skip"):
        with pytest.raises(BadInput, match=r"row 13: .*`quote=none`.*`quote=double`"):
            read(source_of(path, encode="always", on_bad_row=on_bad_row))
    assert unusual(source_of(path, encode="always", quote="none")._options) == {"quote": "none"}


def test_a_cell_of_two_lines_that_look_like_rows_is_taken_as_was_asked(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('y,word\n1,"a\n2,b"\n0,c\n')
    with pytest.raises(BadInput, match=r"row 2: a cell begins with a quote and holds what looks"):
        read(source_of(path, encode="always"))
    assert len(read(source_of(path, encode="always", quote="double"))[0]) == 2
    assert len(read(source_of(path, encode="always", quote="none"))[0]) == 3


def test_labels_and_dropped_words_may_begin_with_a_quote(tmp_path):
    """Where all features are numbers, the fast reader takes them."""
    rows = [['"a', str(k), '"no' if k % 2 else 'ye""s'] for k in range(40)]
    path = written(tmp_path, rows, "\t")
    source = source_of(path, quote="none", drop=("word",))
    assert source.schema.encoding is None
    X, y, _ = read(source)
    assert X[:, 0].tolist() == [*range(40)]
    assert y == [row[2] for row in rows]


def test_numbers_beside_a_dropped_column_of_long_cells_are_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x,note,y\n" + '1,"two\nlines",no\n2,one,yes\n' * 30)
    X, _, skipped = read(source_of(path, drop=("note",)))
    assert (len(X), skipped) == (60, 0)
