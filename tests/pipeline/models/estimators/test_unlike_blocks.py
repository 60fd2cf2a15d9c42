"""Dask's blocks that are not alike: put in order by name, or refused by number."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.collections import DaskSource

X = np.random.default_rng(0).normal(size=(200, 3))
Y = (X[:, 0] > 0).astype(int)
FRAME = pd.DataFrame(X, columns=list("abc"))


def rows_of(blocks, targets):
    source = DaskSource([dask.delayed(b) for b in blocks], [dask.delayed(t) for t in targets])
    tables = [source.parse(piece).table for piece in source.pieces(1000)]
    return np.concatenate([table.X for table in tables])


def test_columns_in_another_order_are_found_by_name():
    found = rows_of([FRAME[:70], FRAME[70:][["c", "a", "b"]]], [Y[:70], Y[70:]])
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize(("block", "targets", "fact"), [
    (X[100:, :2], Y[100:], "block 2 has 2 dense features, but the first block has 3"),
    (X[100:], Y[100:].astype(str), "block 2 has targets of <U"),
])  # fmt: skip
def test_blocks_that_are_not_alike_are_refused(block, targets, fact):
    with pytest.raises(BadInput, match=fact):
        rows_of([X[:100], block], [Y[:100], targets])


def test_other_columns_are_refused_by_name():
    with pytest.raises(BadInput, match=r"block 2: .*lacks 'c' and has 'd'"):
        rows_of([FRAME[:70], FRAME[70:].rename(columns={"c": "d"})], [Y[:70], Y[70:]])


@pytest.mark.parametrize("y", [Y, Y.tolist(), pd.Series(Y)])
def test_targets_in_memory_beside_a_frame_are_refused_with_what_to_give(y):
    with pytest.raises(BadInput, match=r"y is \w+ in memory.*X\.to_dask_array\(lengths=True\)"):
        DaskSource(dd.from_pandas(FRAME, npartitions=4), y)
    array = dd.from_pandas(FRAME, npartitions=4).to_dask_array(lengths=True)
    assert DaskSource(array, y).n_features == 3
