"""Blocks of rows as Dask hands them over: arrays, CSR matrices, pandas frames, bags of texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_same
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.storage.column_schema import Schema
from fewpass.storage.table import DenseTable, SparseTable, Table, index_dtype

Dtype = Literal["float32", "float64"]


class RowBlock(NamedTuple):
    """Some rows; every part is as somebody's function returned it, sliced at most."""

    X: Any  # (n, d) ndarray, CSR matrix or pandas frame
    y: Any  # (n,) ndarray or Series
    weight: Any  # (n,) the same, or None
    offset: Any = None  # (n,) the same: offsets or exposures as they were given, or None

    @classmethod
    def of(cls, X: Any, y: Any, weight: Any = None, offset: Any = None) -> RowBlock:
        """Take a block's parts; BadInput when they are not n rows each."""
        X = X.tocsr() if sparse.issparse(X) else X if hasattr(X, "iloc") else np.asarray(X)
        if X.ndim != 2:
            raise BadInput(f"A block of X has the shape {X.shape}. Give rows by columns, (n, d).")
        for name, part in (("y", y), ("sample_weight", weight), ("the offsets", offset)):
            if part is not None and np.shape(part) != X.shape[:1]:
                raise BadInput(
                    f"A block of {name} has the shape {np.shape(part)}, but its X has "
                    f"{X.shape[0]} rows. Cut them alike, with one entry per row."
                )
        return cls(X, y, weight, offset)

    @classmethod
    def of_frame(
        cls, frame: Any, target: str, weight: str | None, offset: str | None = None
    ) -> RowBlock:
        """Take a frame apart."""
        others = [name for name in (target, weight, offset) if name is not None]
        numbers = (None if name is None else frame[name] for name in (weight, offset))
        return cls(frame.drop(columns=others), frame[target], *numbers)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Width of the rows."""
        return int(self.X.shape[1])

    @property
    def is_sparse(self) -> bool:
        """Return whether X is a CSR matrix."""
        return bool(sparse.issparse(self.X))

    @property
    def names(self) -> list[str] | None:
        """Names of the features, where they have some."""
        names = list(getattr(self.X, "columns", ()))
        return names if names and all(isinstance(name, str) for name in names) else None

    @property
    def dtype(self) -> Dtype:
        """Type that its features are stored as: float32 where all of them are, else float64."""
        kinds = self.X.dtypes if hasattr(self.X, "dtypes") else [self.X.dtype]
        return "float32" if all(kind == np.float32 for kind in kinds) else "float64"

    def like(self, first: RowBlock, title: str) -> RowBlock:
        """Return the block with its columns in the order of the first one's.

        BadInput where it has other columns, another width or layout, or targets of another kind;
        `title` is what messages call it.
        """
        names, wanted = self.names, first.names
        block = self
        if names is not None and wanted is not None and names != wanted:
            require_same(wanted, names, title)
            block = self._replace(X=self.X[wanted])
        if (self.n_features, self.is_sparse) != (first.n_features, first.is_sparse):
            raise BadInput(
                f"{title} has {self._width()}, but the first block has "
                f"{first._width()}. Give blocks that are alike."
            )
        if self.n_rows and _are_words(self.y) != _are_words(first.y):
            raise BadInput(
                f"{title} has targets of {np.asarray(self.y).dtype}, but the first block has those "
                f"of {np.asarray(first.y).dtype}. Give all as numbers, or all as words."
            )
        return block

    def empty_like(self, first: RowBlock) -> RowBlock:
        """Return no rows, of the first block's columns: what a filter leaves of a partition."""
        return first.rows(0, 0)

    def _width(self) -> str:
        return f"{self.n_features} {'sparse' if self.is_sparse else 'dense'} features"

    def schema(self) -> Schema | None:
        """Describe the columns of a frame, the target last."""
        if self.names is None:
            return None
        target = str(getattr(self.y, "name", None) or "target")
        names = (*self.names, target)
        types = (*map(str, self.X.dtypes), str(self.y.dtype))
        return Schema(names=names, types=types, label=len(self.names))

    def rows(self, start: int, stop: int) -> RowBlock:
        """Rows start <= i < stop."""
        numbers = (
            None if part is None else part[start:stop] for part in (self.weight, self.offset)
        )
        X = self.X.iloc[start:stop] if hasattr(self.X, "iloc") else self.X[start:stop]
        return RowBlock(X, self.y[start:stop], *numbers)

    def row_bytes(self, dtype: Dtype) -> NDArray[np.int64]:
        """Bytes (n,) that every row takes in memory as `dtype`."""
        value = np.dtype(dtype).itemsize
        if self.is_sparse:
            counts: NDArray[np.int64] = np.diff(self.X.indptr).astype(np.int64)
            return counts * (value + 4) + 16
        return np.full(self.n_rows, value * self.n_features + 8, np.int64)

    # -- as the pipeline takes them ----------------------------------------------------------------

    def table(self, dtype: Dtype, where: str) -> tuple[Table, tuple[str, ...] | None]:
        """Return the rows and, where targets are codes, their words."""
        y, words = targets_of(self.y, where)
        weight, offset = (
            None if part is None else np.array(part, np.float64)
            for part in (self.weight, self.offset)
        )
        if not self.is_sparse:
            return DenseTable(self._dense(dtype, where), y, weight, offset), words
        X = sparse.csr_matrix(self.X, dtype=dtype, copy=True)
        X.sum_duplicates()
        X.eliminate_zeros()
        indices = X.indices.astype(index_dtype(X.shape[1]), copy=False)
        return SparseTable(X.data, indices, X.indptr.astype(np.int64), y, weight, offset), words

    def _dense(self, dtype: Dtype, where: str) -> NDArray[np.floating]:
        self.require_numbers(where)
        if hasattr(self.X, "to_numpy"):
            values: NDArray[np.floating] = self.X.to_numpy(dtype, na_value=np.nan, copy=True)
            return np.ascontiguousarray(values)
        return np.array(self.X, dtype, order="C")

    def require_numbers(self, where: str) -> None:
        """Refuse columns that are no numbers, by name."""
        frame = hasattr(self.X, "dtypes")
        kinds = self.X.dtypes.items() if frame else [("X", self.X.dtype)]
        wrong = [f"{name} ({kind})" for name, kind in kinds if not _is_number(kind)]
        if wrong:
            raise BadInput(
                f"{where}: {', '.join(wrong[:8])} {'is' if len(wrong) == 1 else 'are'} not of "
                "numbers. Encode such columns, or leave them out."
            )


def _are_words(y: Any) -> bool:
    return not _is_number(getattr(y, "dtype", None) or np.asarray(y).dtype)


def _is_number(kind: Any) -> bool:
    return getattr(kind, "kind", "O") in "biuf"


def joined(parts: Sequence[RowBlock]) -> RowBlock:
    """Return all rows of some blocks, one after the other."""
    if len(parts) == 1:
        return parts[0]
    y = np.concatenate([np.asarray(part.y) for part in parts])
    numbers = (
        _end_to_end([getattr(part, name) for part in parts]) for name in ("weight", "offset")
    )
    return RowBlock(_stacked([part.X for part in parts]), y, *numbers)


def _end_to_end(parts: list[Any]) -> NDArray[Any] | None:
    given = [np.asarray(part) for part in parts if part is not None]
    return np.concatenate(given) if given else None


def _stacked(parts: list[Any]) -> Any:
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    if hasattr(parts[0], "iloc"):
        import pandas as pd  # noqa: PLC0415 - whoever gives frames has it

        return pd.concat(parts, ignore_index=True)
    return np.concatenate(parts)


def targets_of(y: Any, where: str) -> tuple[NDArray[np.float64], tuple[str, ...] | None]:
    """Return targets (n,) as numbers, or as codes into words; missing ones are NaN."""
    kind = getattr(getattr(y, "dtype", None), "kind", "O")
    if kind in "iu" and len(y) and max(abs(int(y.min())), abs(int(y.max()))) > MOST_WHOLE:
        raise BadInput(
            f"{where}: y has integers beyond 2^53, which floats cannot tell apart. Give them as "
            "text if they are labels."
        )
    if kind in "biuf":
        numbers = y.to_numpy(np.float64, na_value=np.nan) if hasattr(y, "to_numpy") else y
        return np.array(numbers, np.float64), None
    given = np.asarray(y, object)
    is_word = np.array([isinstance(label, str) for label in given.tolist()], np.bool_)
    words, codes = np.unique(given[is_word].astype(str), return_inverse=True)
    targets = np.full(len(given), np.nan)
    targets[is_word] = codes
    return targets, tuple(words.tolist())


def is_bag(X: Any) -> bool:
    """Say whether X is a Dask bag."""
    return any(kind.__module__ == "dask.bag.core" for kind in type(X).__mro__)


def partitions_of(frame: Any) -> list[Any]:
    """Return the delayed partitions of a Dask frame or series, as many as it says that it has.

    Dask reads several files of Parquet as one partition where few of their columns are wanted, so
    that two expressions of one frame would be cut differently.
    """
    parts: list[Any] = frame.to_delayed()
    if len(parts) == frame.npartitions:
        return parts
    as_it_is: list[Any] = frame.to_delayed(optimize_graph=False)
    return as_it_is


def hashed(bag: Any) -> Any:
    """Return a bag of texts as dask.array blocks of CSR rows (n, 2^20), one for each partition.

    By dask-ml's HashingVectorizer with scikit-learn's defaults: words in small letters, signed
    counts, rows of length 1.  For other settings transform the bag yourself.
    """
    from dask_ml.feature_extraction.text import HashingVectorizer  # noqa: PLC0415 - a second

    return HashingVectorizer().transform(bag)


def labels_of(bag: Any) -> list[Any]:
    """Return a bag of labels as an array for each partition, delayed."""
    from dask.delayed import delayed  # noqa: PLC0415 - only for those who have collections

    as_array = delayed(np.asarray)
    return [as_array(list_of) for list_of in bag.to_delayed()]
