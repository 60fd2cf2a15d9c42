"""Adding a row and the next row's dot product in one sweep: what the two verbs say, row by row."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.lanes import One
from fewpass.solvers.kernels.rows import DenseRows, SparseRows, add, add_both, dot, paired_zeros
from fewpass.solvers.kernels.simd.fused_step import at_hand, fetch, move_then_dot, put_back
from testing.oracles import dense_rows, stored
from tests.conftest import ROUNDING


@kernel
def in_turn(rows, order, a, b, W, found):
    """Move by a and b, by a alone, by nothing; every dot product but the first as it falls out."""
    V = at_hand(rows, W)
    found[0] = move_then_dot(rows, 0, None, None, V, order[0], One(1))
    for r in range(order.shape[0]):
        i, after = order[r], order[min(r + 1, order.shape[0] - 1)]
        if r % 3 == 0:
            found[r + 1] = move_then_dot(rows, i, a[r], b[r], V, after, One(1))
        elif r % 3 == 1:
            found[r + 1] = move_then_dot(rows, i, a[r], None, V, after, One(1))
        else:
            found[r + 1] = move_then_dot(rows, i, None, None, V, after, One(1))
    put_back(rows, V, W)


@kernel
def one_by_one(rows, order, a, b, W, found):
    """The same with the verbs of rows.py."""
    found[0] = dot(rows, order[0], W)
    for r in range(order.shape[0]):
        i, after = order[r], order[min(r + 1, order.shape[0] - 1)]
        if r % 3 == 0:
            add_both(rows, i, a[r], b[r], W)
        elif r % 3 == 1:
            add(rows, i, a[r], W)
        found[r + 1] = dot(rows, after, W)


@st.composite
def cases(draw):
    n, d = draw(st.integers(1, 9)), draw(st.integers(1, 70))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < draw(st.sampled_from([0.2, 1.0])))
    X = X.astype(draw(st.sampled_from([np.float32, np.float64])))
    return X, rng.integers(0, n, draw(st.integers(1, 20))), rng


@pytest.mark.parametrize("kind", [DenseRows, SparseRows])
@given(cases())
def test_one_sweep_is_two(kind, case):
    X, order, rng = case
    rows = stored(kind, X)
    a, b = rng.standard_normal((2, len(order)))
    start, ends = rng.standard_normal((X.shape[1], 2)), []
    for way in (in_turn, one_by_one, in_turn.py_func):
        W, found = paired_zeros(kind, X.shape[1]), np.empty(len(order) + 1)
        W[:] = start
        way(rows, order, a, b, W, found)
        ends.append((W, found))
    for W, found in ends[1:]:
        np.testing.assert_allclose(W, ends[0][0], rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(found, ends[0][1], rtol=1e-11, atol=1e-10)
    if kind is SparseRows:
        assert np.array_equal(ends[0][0], ends[1][0])


@kernel
def dots(rows, W, nothing, moved):
    """Every dot product by itself, and as it falls out of adding nothing."""
    V = at_hand(rows, W)
    for i in range(nothing.shape[0]):
        nothing[i] = move_then_dot(rows, 0, None, None, V, i, One(1))
        moved[i] = move_then_dot(rows, 0, 0.0, 0.0, V, i, One(1))
    fetch(rows, V, W)


@pytest.mark.parametrize("d", [1, 7, 8, 9, 16, 23, 24, 54, 100])
def test_a_dot_product_has_the_same_bits_from_either_sweep(d):
    """So that it does not matter where a block of rows ends, or which rows move nothing."""
    rng = np.random.default_rng(d)
    rows = dense_rows(rng.standard_normal((50, d)).astype(np.float32))
    W, nothing, moved = np.asfortranarray(rng.standard_normal((d, 2))), np.empty(50), np.empty(50)
    dots(rows, W, nothing, moved)
    assert np.array_equal(nothing, moved)
    np.testing.assert_allclose(nothing, rows.X @ W[:, 0], rtol=1e-12, atol=ROUNDING * d)
