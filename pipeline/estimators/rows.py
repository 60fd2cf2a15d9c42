"""What users give as rows, checked and seen as a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from storage.table import DenseTable, SparseTable, Table, index_dtype, take

Vector = NDArray[np.float64]

#: float64 first: what is neither float64 nor float32 becomes the first one named.
ACCEPTED: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
    "order": "C",
}


def checked(estimator: BaseEstimator, X: Any, **more: Any) -> Any:
    """Return X (n, d), C-contiguous or CSR, float32 or float64, and y where one is asked for.

    Raises ValueError for what is not finite, has another width than was fitted, or no rows.
    """
    return validate_data(estimator, X, **ACCEPTED, **more)


def checked_weights(sample_weight: Any, n_rows: int) -> Vector:
    """Return row weights (n,), 1 where none are given; ValueError where they cannot be weights."""
    if sample_weight is None:
        return np.ones(n_rows)
    weight: Vector = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {weight.shape}, but X has {n_rows} rows. Give one weight "
            "per row."
        )
    if weight.min() < 0.0:
        raise ValueError("sample_weight has negative numbers. Give 0 for rows that do not count.")
    if not weight.any():
        raise ValueError("All of sample_weight are zero, so no row counts. Give positive weights.")
    return weight


def table_of(X: Any, target: Vector, weight: Vector) -> Table:
    """See rows that `checked` returned as a table; those of weight 0 are left out.

    Nothing is copied where all rows count and a CSR matrix is canonical.
    """
    weights = None if (weight == 1.0).all() else weight
    table: Table
    if isinstance(X, np.ndarray):
        table = DenseTable(X, target, weights)
    else:
        table = _sparse_table(X, target, weights)
    return table if weight.all() else take(table, np.flatnonzero(weight))


def _sparse_table(X: Any, target: Vector, weight: Vector | None) -> SparseTable:
    if not X.has_canonical_format:
        X = X.copy()  # the caller's own stays as it is
        X.sum_duplicates()
    indices = X.indices.astype(index_dtype(X.shape[1]), copy=False)
    return SparseTable(X.data, indices, X.indptr.astype(np.int64), target, weight)
