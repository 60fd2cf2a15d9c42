"""Text that a pool reads ahead, range by range: the pieces that one reader has."""

import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import lines, open_source
from fewpass.pipeline.tables.readers.source_spans import pieces_read_ahead

WORDS = st.lists(st.text('a",\n0', max_size=30), min_size=1, max_size=40)


def as_csv(words):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([k % 2, word, k] for k, word in enumerate(words))
    return "y,word,k\n" + out.getvalue()


def as_json(words):
    rows = ({"y": k % 2, "word": word, "k": k} for k, word in enumerate(words))
    return "".join(json.dumps(row) + "\n" for row in rows)


def as_libsvm(words):
    return "".join(f"{k % 2} {k + 1}:{len(word)} # {word!r}\n" for k, word in enumerate(words))


def read(pieces):
    return [(piece._replace(content=None), piece.content.bytes.tobytes()) for piece in pieces]


@pytest.fixture(scope="module", autouse=True)
def little_before():
    """Text in front of a range, which says whether it begins inside of quotes, is too little."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "BEFORE_BYTES", 8)
        yield


@pytest.mark.parametrize("kind", [as_csv, as_json, as_libsvm])
@given(words=WORDS, cut=st.integers(12, 200))
@settings(max_examples=60, deadline=None)
def test_pieces_are_those_of_one_reader(kind, tmp_path_factory, words, cut):
    folder = tmp_path_factory.mktemp("ahead")
    paths = [folder / f"{name}.{kind.__name__[3:]}" for name in "ab"]
    for path in paths:
        path.write_text(kind(words))
    options = {"as_csv": {"label": "y", "quote": "double"}, "as_json": {"label": "y"}}
    source = open_source([*map(str, paths)], SourceOptions(**options.get(kind.__name__, {})))
    assert source.ranges(cut)
    with ThreadPoolExecutor(2) as pool:
        assert read(pieces_read_ahead(source, cut, pool, 3)) == read(source.pieces(cut))
