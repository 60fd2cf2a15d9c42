"""NPY files and NPZ archives to tables.

NPY: one array (n, d) of numbers, one of its columns the target: the last one unless `label` says
otherwise; where no target is required and none is named, every column is a feature.

NPZ: arrays `X` (n, d), `y` (n,) and optionally `weight` (n,) as `numpy.savez` writes them; or, in
place of `X`, the parts of a CSR matrix as `scipy.sparse.save_npz` writes them (`data`, `indices`,
`indptr`, `shape`, `format`), with `y` and `weight`.  `y` holds numbers or words.

Rows are read one after the other, never whole arrays.  Lines in messages are row numbers, from 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import refuse_nameless
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.array_stream import (
    ArrayStream,
    checked_matrix,
    opened_npy,
    opened_npz,
    require_row_size,
    require_same,
)
from fewpass.pipeline.tables.readers.columns import choose
from fewpass.pipeline.tables.readers.dense_rows import (
    Targets,
    checked,
    narrowed,
    refuse_text_settings,
)
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import Expected, ParsedRows, Piece, PiecePlace, Source
from fewpass.storage.source_file import CutShort
from fewpass.storage.table import DenseTable, SparseTable, Table, index_dtype

_CSR_PARTS = ("data", "indices", "indptr", "shape", "format")
_READ = {"X", "y", "weight", "data", "indices", "indptr"}


class _Rows(NamedTuple):
    """Some rows of a file."""

    matrix: tuple[NDArray[Any], ...]  # X, or data, indices and indptr
    target: NDArray[Any] | None
    weight: NDArray[Any] | None


class ArraySource(Source):
    """Arrays as rows; see `Source` for the methods."""

    layout: Literal["dense", "sparse"] = "dense"
    _titles: Sequence[str] = ()  # of dense features

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        self.files = described(addresses)
        self._addresses, self._options = tuple(addresses), options
        self._longest_row = expected.longest_line

    def parse(self, piece: Piece) -> ParsedRows:
        matrix, target, weight = self._rows_of(piece.content)
        dtype = self._options.dtype
        targets = _targets(target, len(matrix[-1]) - (self.layout == "sparse"))
        weight = None if weight is None else weight.astype(np.float64)
        table: Table
        if self.layout == "dense":
            table = DenseTable(narrowed(matrix[0], dtype), targets.values, weight)
        else:
            data, indices, indptr = _canonical(matrix, self.n_features or 0, piece, dtype)
            table = SparseTable(data, indices, indptr, targets.values, weight)
        return checked(piece, table, targets, self._titles, self._options)

    def _rows_of(self, content: Any) -> _Rows:
        """Return the content of a piece as features, targets and weights."""
        rows: _Rows = content
        return rows


class NpySource(ArraySource):
    """NPY matrices as dense rows; see `Source` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = (".npy",)
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"\x93NUMPY"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "an array")
        super().__init__(addresses, options, expected)
        looks = [self._look(address) for address in addresses]
        require_same({width for _, width, _ in looks}, "widths", addresses)
        self._n_rows = sum(rows for rows, _, _ in looks)
        _, width, kind = looks[0]
        self._columns = choose(None, width, options, addresses[0].name, expected, default_label=-1)
        self.schema = self._columns.schema([kind] * width)
        self.n_features = len(self._columns.features)
        self.has_weight = self._columns.weight is not None
        self._titles = [*map(self._columns.title, self._columns.features)]

    def _look(self, address: Address) -> tuple[int, int, str]:
        """Return rows, columns and type of a file's matrix."""
        with opened_npy(address) as array:
            return *checked_matrix(array, address.name, self._longest_row), array.dtype.name

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory: exact."""
        features = len(self._columns.features) * np.dtype(self._options.dtype).itemsize
        return self._n_rows * (features + 8 + 8 * self.has_weight)

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        for file, address in enumerate(self._addresses):
            with opened_npy(address) as array:
                rows = max(1, piece_bytes // (array.dtype.itemsize * array.shape[1]))
                for number, start in enumerate(range(0, array.shape[0], rows)):
                    block, place = (
                        array.read(min(rows, array.shape[0] - start)),
                        PiecePlace(number, file),
                    )
                    yield Piece(place, address.name, start + 1, block, block.nbytes)
                with suppress(CutShort):  # of a server that announced more: all rows are there
                    array.require_end()

    def _rows_of(self, content: Any) -> _Rows:
        columns = self._columns
        target, weight = (
            None if k is None else content[:, k] for k in (columns.label, columns.weight)
        )
        return _Rows((content[:, list(columns.features)],), target, weight)


class _Kind(NamedTuple):
    """The contents of an NPZ file."""

    layout: Literal["dense", "sparse"]
    n_features: int
    has_weight: bool
    words: bool  # the targets are words


class NpzSource(ArraySource):
    """NPZ archives as dense or sparse rows; see `Source` for the methods.

    In sparse rows, indices are sorted, equal ones added up, and zeros left out.
    """

    extensions: ClassVar[tuple[str, ...]] = (".npz",)
    magic: ClassVar[bytes | tuple[bytes, ...]] = b"PK\x03\x04"
    packed = True

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "an archive of arrays")
        refuse_nameless(expected.schema, addresses[0].name, expected.whose, options)
        for setting in ("label", "weight", "drop"):
            if getattr(options, setting) not in {None, ()}:
                raise BadInput(
                    "NPZ files hold their targets in the array y and their weights in weight, but "
                    f"`{setting}` was given. Leave it out."
                )
        super().__init__(addresses, options, expected)
        looks = [_look(address, options, self._longest_row) for address in addresses]
        require_same({kind for kind, _ in looks}, "contents", addresses)
        kind = looks[0][0]
        self.layout = kind.layout
        self.n_features = kind.n_features
        self.has_weight = kind.has_weight
        if kind.layout == "dense":
            self._titles = [f"column {k} of X" for k in range(kind.n_features)]
        self._bytes = sum(size for _, size in looks)

    def estimated_bytes(self) -> int:
        """Bytes of all rows in memory: exact up to entries that are zero or double."""
        return self._bytes

    def pieces(self, piece_bytes: int) -> Iterator[Piece]:
        for file, address in enumerate(self._addresses):
            with opened_npz(address) as arrays:
                n_rows, n_bytes = _size(arrays, self._options)
                step = max(1, piece_bytes * n_rows // max(1, n_bytes))
                each = _read_rows(arrays, n_rows, step, address.name, self._longest_row)
                for number, rows in enumerate(each):
                    size = sum(part.nbytes for part in rows.matrix)
                    first = 1 + number * step
                    yield Piece(PiecePlace(number, file), address.name, first, rows, size)
                for name in set(arrays) & _READ:
                    arrays[name].require_end()


def _look(address: Address, options: SourceOptions, longest_row: int) -> tuple[_Kind, int]:
    """The contents of a file, and the bytes its rows take in memory."""
    with opened_npz(address) as arrays:
        sparse = all(part in arrays for part in _CSR_PARTS)
        if not sparse and "X" not in arrays:
            raise BadInput(
                f"{address.name} holds the arrays {', '.join(arrays)}; X, or the parts of a SciPy "
                "CSR matrix, were expected. Save them in Python: numpy.savez('rows.npz', X=X, y=y)."
            )
        if options.label_required and "y" not in arrays:
            raise BadInput(
                f"{address.name} holds no array y, which should be the targets. "
                "Save it beside the matrix by numpy.savez."
            )
        n_rows, n_features = (
            _csr_shape(arrays, address.name)
            if sparse
            else checked_matrix(arrays["X"], f"{address.name}, array X", longest_row)
        )
        _check_vectors(arrays, n_rows, address.name)
        if options.n_features not in {None, n_features}:
            raise BadInput(
                f"{address.name}: the matrix has {n_features} columns, but {options.n_features} "
                "were asked for. Leave `n_features` out."
            )
        words = "y" in arrays and arrays["y"].dtype.kind in "US"
        kind = _Kind("sparse" if sparse else "dense", n_features, "weight" in arrays, words)
        return kind, _size(arrays, options)[1]


def _csr_shape(arrays: Mapping[str, ArrayStream], name: str) -> tuple[int, int]:
    layout = arrays["format"].read(1)[0]
    layout = shown(layout)[1:-1] if isinstance(layout, bytes) else str(layout)
    if layout != "csr":
        raise BadInput(f"{name} holds a {layout} matrix, CSR was expected. Save matrix.tocsr().")
    for part, kinds in (("shape", "iu"), ("indptr", "iu"), ("indices", "iu"), ("data", "biuf")):
        if (array := arrays[part]).dtype.kind not in kinds or len(array.shape) != 1:
            raise BadInput(
                f"{name}, array {part}: it holds {array.dtype} of shape {array.shape}, a row of "
                "numbers was expected. Save the matrix anew by scipy.sparse.save_npz."
            )
    rows, columns = (int(k) for k in arrays["shape"].read(2))
    fits = arrays["indptr"].shape == (rows + 1,) and arrays["data"].shape == arrays["indices"].shape
    if not fits or min(rows, columns) < 1:
        raise BadInput(
            f"{name}: the parts of the matrix do not fit its shape ({rows}, {columns}), or it is "
            "empty. Save it anew by scipy.sparse.save_npz."
        )
    return rows, columns


def _check_vectors(arrays: Mapping[str, ArrayStream], n_rows: int, name: str) -> None:
    for vector in ("y", "weight"):
        if vector in arrays and arrays[vector].shape != (n_rows,):
            raise BadInput(
                f"{name}: {vector} has shape {arrays[vector].shape}, but the matrix has {n_rows} "
                f"rows. Save one entry per row."
            )
    if "weight" in arrays and arrays["weight"].dtype.kind in "US":
        raise BadInput(f"{name}: weight holds words, numbers were expected. Save numbers.")


def _size(arrays: Mapping[str, ArrayStream], options: SourceOptions) -> tuple[int, int]:
    """Rows of a file, and the bytes they take in memory."""
    value = np.dtype(options.dtype).itemsize
    if "X" in arrays:
        n_rows, n_features = arrays["X"].shape
        matrix = n_rows * n_features * value
    else:
        n_rows = arrays["indptr"].shape[0] - 1
        matrix = arrays["data"].shape[0] * (value + 4) + 8 * n_rows
    return n_rows, matrix + n_rows * (8 + 8 * ("weight" in arrays))


def _read_rows(
    arrays: Mapping[str, ArrayStream], n_rows: int, step: int, name: str, longest_row: int
) -> Iterator[_Rows]:
    """Yield the rows of one NPZ file in order, `step` at a time."""
    end = 0 if "X" in arrays else int(arrays["indptr"].read(1)[0])  # of the entries read so far
    for start in range(0, n_rows, step):
        count = min(step, n_rows - start)
        target, weight = (arrays[k].read(count) if k in arrays else None for k in ("y", "weight"))
        if "X" in arrays:
            yield _Rows((arrays["X"].read(count),), target, weight)
            continue
        ends = arrays["indptr"].read(count).astype(np.int64)
        indptr = np.concatenate([[end], ends]) - end
        if end < 0 or ends[-1] > arrays["data"].shape[0] or (np.diff(indptr) < 0).any():
            raise BadInput(
                f"{name}, array indptr: its numbers do not ascend within the matrix. "
                "Save the matrix anew by scipy.sparse.save_npz."
            )
        end, nnz = int(ends[-1]), int(indptr[-1])
        entry = arrays["data"].dtype.itemsize
        require_row_size(nnz * entry // count, f"{name}, data", longest_row)
        yield _Rows((arrays["data"].read(nnz), arrays["indices"].read(nnz), indptr), target, weight)


def _canonical(
    parts: tuple[NDArray[Any], ...], n_features: int, piece: Piece, dtype: str
) -> tuple[NDArray[Any], ...]:
    """Return data, indices in order and distinct, and indptr, without zeros."""
    from scipy import sparse  # noqa: PLC0415 - for sparse rows alone

    data, indices, indptr = parts
    outside = np.flatnonzero((indices < 0) | (indices >= n_features))
    if outside.size:
        row = piece.first_line + int(np.searchsorted(indptr, outside[0], side="right")) - 1
        raise BadInput(
            f"{piece.file}, row {row}: index {indices[outside[0]]} lies outside the {n_features} "
            "columns of the matrix. Save the matrix anew by scipy.sparse.save_npz."
        )
    shape = len(indptr) - 1, n_features
    rows = sparse.csr_matrix((narrowed(data, dtype), indices.astype(np.int64), indptr), shape)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    own = rows.indices.astype(index_dtype(n_features), copy=False)
    return rows.data, own, rows.indptr.astype(np.int64)


def _targets(target: NDArray[Any] | None, n_rows: int) -> Targets:
    if target is None:
        return Targets(np.full(n_rows, np.nan), None)
    if target.dtype.kind not in "US":
        return Targets(target.astype(np.float64), None)
    words, codes = np.unique(target, return_inverse=True)
    texts = (
        w.decode("utf-8", "backslashreplace") if isinstance(w, bytes) else w for w in words.tolist()
    )
    return Targets(codes.astype(np.float64), tuple(texts))
