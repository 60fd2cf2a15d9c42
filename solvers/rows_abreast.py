"""Verbs for several models side by side: one cache line serves them all.

W has shape (d, C K): column c of model k at c K + k, so that what several models keep of a feature
lies together.  Each model's sums run in the order that they have alone, and have the same bits.
The loop over models is over a vector of its own: an index into W there keeps LLVM from using SIMD.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.dispatch import FUSED, VECTORISED, by_type
from solvers.rows import DenseRows, Rows, SparseRows, positions


@by_type
def dots(rows: Rows, i: int, W: NDArray[np.float64], p: NDArray[np.float64]) -> None:
    """p[q] = x_i . W[:, q] for the first columns q, as many as p has places."""


@by_type
def adds(rows: Rows, i: int, a: NDArray[np.float64], first: int, W: NDArray[np.float64]) -> None:
    """W[:, first + q] += a[q] x_i for every q."""


@dots.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, W: Any, p: Any) -> Any:
    p[:] = 0.0
    for j in range(rows.X.shape[1]):
        w, x = W[j], np.float64(rows.X[i, j])
        for q in range(p.shape[0]):
            p[q] += x * w[q]


@dots.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, W: Any, p: Any) -> Any:
    p[:] = 0.0
    for n in positions(rows, i):
        w, x = W[rows.indices[n]], np.float64(rows.data[n])
        for q in range(p.shape[0]):
            p[q] += x * w[q]


@adds.register(DenseRows, fastmath=VECTORISED)
def _(rows: Any, i: Any, a: Any, first: Any, W: Any) -> Any:
    for j in range(rows.X.shape[1]):
        w, x = W[j, first:], np.float64(rows.X[i, j])
        for q in range(a.shape[0]):
            w[q] += a[q] * x


@adds.register(SparseRows, fastmath=FUSED)
def _(rows: Any, i: Any, a: Any, first: Any, W: Any) -> Any:
    for n in positions(rows, i):
        w, x = W[rows.indices[n], first:], np.float64(rows.data[n])
        for q in range(a.shape[0]):
            w[q] += a[q] * x
