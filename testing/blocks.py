"""Rows in memory as methods take them: blocks, and the statistics that ingest would measure."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.drive import NO_ROW_STATE, Orders
from fewpass.solvers.kernels.rows import DenseRows, Rows, SparseRows
from fewpass.solvers.protocol import Block, ColumnMoments, ProblemStats


def block_of(X: Any, y: NDArray[np.float64]) -> Block:
    """Return an (n, d) NumPy array or SciPy CSR matrix as a block; every row has weight 1."""
    rows: Rows
    if isinstance(X, np.ndarray):
        rows = DenseRows(np.ascontiguousarray(X))
    else:
        rows = SparseRows(X.data, X.indices.astype(np.uint32), X.indptr.astype(np.int64))
    n = len(y)
    return Block(rows, np.asarray(y, float), np.ones(n), np.arange(n), NO_ROW_STATE)


def stats_of(X: Any, y: NDArray[np.float64], seed: int = 0) -> ProblemStats:
    """Return the statistics that ingest would measure on these rows, with the exact sigma^2."""
    from scipy.sparse.linalg import svds

    dense = isinstance(X, np.ndarray)
    squares = (X**2).sum(axis=1) if dense else X.multiply(X).sum(axis=1).A1
    n, d = X.shape
    largest = float(svds(X, k=1, return_singular_vectors=False, random_state=0)[0])
    return ProblemStats(
        n=n, d=d, rows_kind=DenseRows if dense else SparseRows,
        mean_square=float(squares.mean()), max_square=float(squares.max()), max_weight=1.0,
        stream_rows=n, shuffled=True, target_square=float(np.mean(np.square(y))),
        sigma_square=largest**2 / n, streams=1, seed=seed, columns=cache(lambda: moments_of(X)),
    )  # fmt: skip


def moments_of(X: Any) -> ColumnMoments:
    """Return the column moments that ingest would measure on these rows."""
    n, d = X.shape
    if isinstance(X, np.ndarray):
        count, squares = (X != 0.0).sum(axis=0), (X**2).sum(axis=0)
    else:
        count = np.bincount(X.indices, X.data != 0.0, d)
        squares = np.bincount(X.indices, X.data**2, d)
    return ColumnMoments(count / n, squares / np.maximum(count, 1))


def independent(n: int, seed: int = 0) -> Orders:
    """Return orders with every row drawn independently, as the theory assumes."""
    return lambda sweep, turn: np.random.default_rng([seed, sweep, turn]).integers(n, size=n)
