"""Counts of pieces: added in their order they are the same, however they are grouped."""

from hypothesis import given
from hypothesis import strategies as st

from fewpass.pipeline.tables.ingest.piece_map import LISTED, ReadCounts

FILES = st.sampled_from(["a", "b", "c"])
PIECES = st.builds(
    ReadCounts,
    rows=st.dictionaries(FILES, st.integers(0, 9), max_size=2),
    skipped=st.dictionaries(FILES, st.integers(1, 9), max_size=2),
    listed=st.lists(st.text(max_size=2), max_size=LISTED),
    merged=st.integers(0, 9),
    beyond=st.integers(0, 9),
    max_index=st.integers(-1, 9),
)


def added(pieces):
    total = ReadCounts()
    for piece in pieces:
        total.add(piece)
    return total


@given(st.lists(PIECES, max_size=6), st.integers(0, 6))
def test_counts_do_not_depend_on_the_grouping_of_pieces(pieces, cut):
    total = added(pieces)
    assert added([added(pieces[:cut]), added(pieces[cut:])]) == total
    assert sum(total.rows.values()) == sum(sum(one.rows.values()) for one in pieces)
    assert total.listed == [line for one in pieces for line in one.listed][:LISTED]
