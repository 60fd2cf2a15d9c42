"""Verbs on rows: dense, sparse and plain Python say the same."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import (
    DenseRows,
    SparseRows,
    add,
    add_both,
    add_vector,
    count,
    dot,
    dot_vector,
    lies_for_sparse_rows,
    norm2,
    paired_zeros,
    prefetch_row,
)
from testing.oracles import dense_rows
from tests.conftest import ROUNDING


@kernel
def every_verb(rows, y, order, W, v, numbers):
    """All verbs on all rows, one after the other, so that each sees what the last one wrote."""
    for r in range(order.shape[0]):
        i = order[r]
        prefetch_row(rows, y, y, order, r)
        numbers[r, 0] = dot(rows, i, W)
        numbers[r, 1] = dot_vector(rows, i, v)
        numbers[r, 2] = norm2(rows, i)
        add(rows, i, 0.5, W)
        add_both(rows, i, -0.25, 0.125, W)
        add_vector(rows, i, 0.0625, v)
    return count(rows)


@st.composite
def matrices(draw):
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 70))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.0, 0.2, 1.0])))
    X[rng.random(n) < 0.2] = 0.0  # empty rows
    order = rng.integers(0, n, draw(st.integers(0, 20)))
    return X.astype(draw(st.sampled_from([np.float32, np.float64]))), order, rng


def run(verbs, rows, order, W, v):
    W, v = W.copy(order="K"), v.copy()
    numbers = np.zeros((len(order), 3))
    n = verbs(rows, np.ones(12), order, W, v, numbers)
    return n, W, v, numbers


@given(matrices(), st.sampled_from([np.uint32, np.uint64]))
def test_dense_sparse_and_python_agree(case, index):
    X, order, rng = case
    d, by_row = X.shape[1], csr_matrix(X)
    parts = by_row.data, by_row.indices.astype(index), by_row.indptr.astype(np.int64)
    kinds = {DenseRows: dense_rows(X), SparseRows: SparseRows(*parts)}
    start, v = rng.standard_normal((d, 2)), rng.standard_normal(d)
    found = []
    for kind, rows in kinds.items():
        W = paired_zeros(kind, d)
        W[:] = start
        found += [run(every_verb, rows, order, W, v), run(every_verb.py_func, rows, order, W, v)]
    for n, W, after, numbers in found:
        assert n == len(X)
        for mine, first in zip((W, after, numbers), found[0][1:], strict=True):
            np.testing.assert_allclose(mine, first, rtol=ROUNDING, atol=ROUNDING * d)


@given(matrices())
def test_verbs_mean_what_they_say(case):
    X, _order, rng = case
    rows, i = dense_rows(X), 0
    W = np.asfortranarray(rng.standard_normal((X.shape[1], 2)))
    before, x = W.copy(), X[i].astype(float)
    assert dot(rows, i, W) == pytest.approx(x @ W[:, 0], abs=1e-10)
    assert norm2(rows, i) == pytest.approx(x @ x)
    add_both(rows, i, 2.0, -3.0, W)
    np.testing.assert_allclose(W, before + np.outer(x, [2.0, -3.0]), atol=ROUNDING)


def test_pairs_lie_where_each_kind_of_rows_wants_them():
    assert paired_zeros(DenseRows, 5).flags.f_contiguous
    assert paired_zeros(SparseRows, 5).flags.c_contiguous
    assert lies_for_sparse_rows(paired_zeros(SparseRows, 5))
    assert not lies_for_sparse_rows(paired_zeros(DenseRows, 5))
    # Of one column they lie alike: several models of dense rows were once interleaved there.
    assert not lies_for_sparse_rows(paired_zeros(DenseRows, 1))
