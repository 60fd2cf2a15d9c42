"""Statistics of columns: those of parts, joined, are those of all rows."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline.rows.column_statistics import NAMES, ColumnStatistics, LargestValues
from fewpass.storage.table import DenseTable, cut
from testing.datasets import random_table

D = 7


def tables(layout, n, cuts, seed):
    table = random_table(n, D, layout=layout, seed=seed, nnz=4)
    ends = [0, *sorted(cuts), n]
    return table, [cut(table, a, b) for a, b in pairwise(ends)]


@settings(deadline=None, max_examples=40)
@given(st.sampled_from(["dense", "sparse"]), st.integers(1, 60), st.integers(0, 99), st.data())
def test_parts_that_follow_each_other_are_joined(layout, n, seed, data):
    cuts = data.draw(st.lists(st.integers(0, n), max_size=4))
    table, parts = tables(layout, n, cuts, seed)
    whole, joined = ColumnStatistics(layout, D), ColumnStatistics(layout, D)
    whole.add(table)
    for part in parts:
        own = ColumnStatistics(layout, D)
        own.add(part)
        joined.join(own)
    assert joined.n_rows == n
    for name in NAMES:
        expected = whole.column(name, D)
        np.testing.assert_allclose(joined.column(name, D), expected, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(joined.column("count", D), whole.column("count", D))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_largest_values_of_parts_are_those_of_all(dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, D)).astype(dtype)
    target = np.zeros(50)
    whole, joined = LargestValues(D), LargestValues(D)
    whole.add(DenseTable(X, target, None))
    for part in np.split(X, [20, 21]):
        joined.join(joined.of(DenseTable(part, target[: len(part)], None)))
    np.testing.assert_array_equal(joined.values(D), whole.values(D))
