"""Rows that users give, checked and seen as a table."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from fewpass.pipeline.errors import BadInput
from fewpass.storage.table import (
    MOST_WEIGHT,
    DenseTable,
    SparseTable,
    Table,
    are_weights,
    index_dtype,
    take,
    unmarked,
)

Vector = NDArray[np.float64]

#: float64 first: what is neither float64 nor float32 becomes the first one named.
ACCEPTED: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": True,
    "dtype": (np.float64, np.float32),
    "order": "C",
}


class NoNumbers(BadInput, TypeError):  # noqa: N818
    """Cells that no number can be made of; scikit-learn asks for a TypeError."""


def checked(estimator: BaseEstimator, X: Any, **more: Any) -> Any:
    """Return X (n, d), C-contiguous or CSR, float32 or float64, and y where one is asked for.

    Raises ValueError for what is not finite, has another width than was fitted, or no rows,
    and NoNumbers, which is a TypeError, too, for cells that are no numbers.
    """
    _require_rows(X)
    if (y := more.get("y")) is not None:
        _require_targets(y)
        more["y"] = _of_numpy(y)
    try:
        return validate_data(estimator, X, **ACCEPTED, **more)
    except (ValueError, TypeError, NotImplementedError) as error:  # dates beside numbers
        from fewpass.pipeline.models.estimators.encoded_rows import refuse_cells  # noqa: PLC0415 - imports Arrow

        refuse_cells(X, because=error)
        if isinstance(error, ValueError):
            raise
        raise NoNumbers(
            f"X cannot be read as rows of numbers ({error}). Give an array (n, d) or a frame."
        ) from error


def _require_rows(X: Any) -> None:
    """Refuse queries and streams, whose names tell them: nothing is imported for it."""
    if type(X).__name__ in ("LazyFrame", "RecordBatchReader"):
        from fewpass.pipeline.models.estimators.frames import require_rows  # noqa: PLC0415

        require_rows(X)


def _require_targets(y: Any) -> None:
    """Refuse targets some of which are missing, where they are no numbers: those say it better."""
    cells = np.asarray(y)
    if cells.dtype != object:
        return
    missing = np.fromiter(map(_is_missing, cells.flat), np.bool_, cells.size)
    if missing.any():
        raise ValueError(
            f"y lacks {missing.sum()} of {len(missing)} targets, the first in row "
            f"{missing.argmax()}. Leave such rows out."
        )


def _of_numpy(y: Any) -> Any:
    """Return whole numbers and booleans of pandas' own types as NumPy's.

    scikit-learn makes floats of them.
    """
    kind: Any = getattr(y, "dtype", None)
    is_whole = getattr(kind, "kind", "") in tuple("iub") and not isinstance(kind, np.dtype)
    return y.to_numpy(kind.numpy_dtype) if is_whole and not y.isna().any() else y


def _is_missing(cell: Any) -> bool:
    is_nan = isinstance(cell, float) and math.isnan(cell)
    return cell is None or is_nan or type(cell).__name__ in ("NAType", "NaTType")  # of pandas


def require_finite(scores: Vector) -> None:
    """Refuse scores (n,) or (n, K) that are no numbers any more, by their row."""
    finite = np.isfinite(scores)
    bad = ~(finite if finite.ndim == 1 else finite.all(axis=1))
    if bad.any():
        raise ValueError(
            f"Row {bad.argmax()} of X has values so large that its score is no number. Give them "
            "in the units of the rows that were fitted, or leave the row out."
        )


def taken_out(X: Any, *given: Any) -> tuple[Any, ...]:
    """Return the rows of a frame, and its columns that are named, such as targets and weights.

    What is given otherwise is returned as it is.

    Raises ValueError for a name that no column has.
    """
    names = [name for name in given if isinstance(name, str)]
    if not names or not hasattr(X, "columns"):
        return X, *given
    columns = list(getattr(X, "column_names", X.columns))
    absent = [name for name in names if name not in columns]
    if absent:
        raise ValueError(f"X has no column {absent[0]!r}. Name one of {columns[:20]}.")
    rest = [name for name in columns if name not in names]
    columns_by_name = {name: np.asarray(X[name]) for name in names}
    rows = X.select(rest) if hasattr(X, "select") else X[rest]  # of polars and Arrow, else pandas
    taken = (columns_by_name[each] if isinstance(each, str) else each for each in given)
    return rows, *taken


def checked_weights(sample_weight: Any, n_rows: int) -> Vector:
    """Return row weights (n,), 1 where none are given; ValueError where they cannot be weights."""
    if sample_weight is None:
        return np.ones(n_rows)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_rows, sample_weight)
    weight: Vector = check_array(
        sample_weight, ensure_2d=False, dtype=np.float64, input_name="sample_weight"
    )
    if weight.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has the shape {weight.shape}, but X has {n_rows} rows. Give one weight "
            "per row."
        )
    if weight.min() < 0.0:
        raise ValueError("sample_weight has negative numbers. Give 0 for rows that do not count.")
    if not are_weights(weight).all():
        raise ValueError(
            f"sample_weight has numbers above {MOST_WEIGHT:g}. Divide all of them by the largest."
        )
    if not weight.any():
        raise ValueError("All of sample_weight are zero, so no row counts. Give positive weights.")
    return weight


def table_of(X: Any, target: Vector, weight: Vector, offset: Vector | None = None) -> Table:
    """See rows that `checked` returned as a table; those of weight 0 are left out.

    Nothing is copied where all rows count and a CSR matrix is canonical.
    """
    weights = None if (weight == 1.0).all() else weight
    table: Table
    if isinstance(X, np.ndarray):
        table = DenseTable(X, target, weights, offset)
    else:
        table = _sparse_table(X, target, weights)._replace(offset=offset)
    return unmarked(table) if weight.all() else take(table, np.flatnonzero(weight))


def _sparse_table(X: Any, target: Vector, weight: Vector | None) -> SparseTable:
    if not X.has_canonical_format:
        X = X.copy()  # the caller's own stays as it is
        X.sum_duplicates()
    indices = X.indices.astype(index_dtype(X.shape[1]), copy=False)
    return SparseTable(X.data, indices, X.indptr.astype(np.int64), target, weight)
