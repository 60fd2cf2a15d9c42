"""Record batches of Arrow: validated before anything reads them, and cut by what rows take.

A batch is a few buffers and what its file says of them.  Arrow takes that on trust: offsets beyond
a buffer are read all the same, which ends the process, or makes its memory a file's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.tables.readers.library_errors import parsing, quoted

Sizes = NDArray[np.int64]
#: What a number in a list takes while lists become rows: a place and a value, and both once more.
LISTED_BYTES = 32


def validated(batches: Iterable[Any], name: str, row: int = 1) -> Iterator[Any]:
    """Yield the record batches of a file, from a row on, each validated in full.

    Raises
    ------
    BadInput
        A batch that cannot be read, or whose values are not what its type says; by column and row.
    """
    following = iter(batches)
    while True:
        with parsing(f"{name}, from row {row:,} on"):
            batch = next(following, None)
        if batch is None:
            return
        require_valid(batch, f"{name}, rows {row:,} to {row + batch.num_rows - 1:,}")
        yield batch
        row += batch.num_rows


def require_valid(rows: Any, where: str) -> None:
    """Refuse a batch or a table whose buffers are not what its types say; BadInput by column."""
    try:
        rows.validate(full=True)
    except pa.ArrowException as error:
        name, why = _first_fault(rows, error)
        raise BadInput(
            f"{where}: the values of column {shown_name(name)} are damaged ({quoted(why)}). Fetch "
            "or write them anew."
        ) from error


def _first_fault(rows: Any, error: Exception) -> tuple[str, Exception]:
    for field, column in zip(rows.schema, rows.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowException as fault:
            return field.name, fault
    return rows.schema.names[0] if rows.schema.names else "", error


def cut(
    batches: Iterable[Any], rows: int, n_bytes: int, where: str, budget: Budget, first: int = 1
) -> Iterator[Any]:
    """Yield record batches of `rows` rows, fewer where these take more than `n_bytes`.

    They do not depend on how the rows came in batches; `first` is the number of the first one.

    Raises
    ------
    BadInput
        A row that does not fit into the budget.
    """
    rest: list[Any] = []  # whose rows belong to the next piece, and are too few
    n, filled = 0, 0
    for batch in _slices(batches, rows):
        ends, start = np.cumsum(sizes_of(batch)), 0
        while start < batch.num_rows:
            begun = int(ends[start - 1]) if start else 0
            fit = int(np.searchsorted(ends, begun + n_bytes - filled, "right")) - start
            stop = start + min(max(fit, 0 if n else 1), rows - n)
            if stop > start:
                rest.append(batch.slice(start, stop - start))
                added = int(ends[stop - 1]) - begun
                if added > budget.longest_row and stop == start + 1:
                    budget.require_row(added, f"{where}, row {first + n}")
                n, filled, start = n + stop - start, filled + added, stop
            if n == rows or start < batch.num_rows:
                yield _joined(rest)
                first, n, filled, rest = first + n, 0, 0, []
    if rest:
        yield _joined(rest)


def _slices(batches: Iterable[Any], rows: int) -> Iterator[Any]:
    """Yield batches of at most `rows` rows, without copies."""
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            yield batch.slice(start, rows)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


def sizes_of(batch: Any) -> Sizes:
    """Return the bytes (n,) that each row takes, with words in place of codes."""
    columns = [_of(column) for column in batch.columns]
    alike = sum(size for size in columns if not np.ndim(size))
    sizes = np.full(batch.num_rows, alike, np.int64)
    for own in columns:
        if np.ndim(own):
            sizes += own
    return sizes


def _of(cells: Any) -> Any:
    """Return the bytes of every cell (n,), or one number where all take the same."""
    kind, types = cells.type, pa.types
    if types.is_dictionary(kind):
        own = np.append(np.broadcast_to(_of(cells.dictionary), len(cells.dictionary)), 0)
        codes = cells.indices.fill_null(len(cells.dictionary)).to_numpy(zero_copy_only=False)
        return own[codes]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind):
        return _of_lists(cells)
    if types.is_struct(kind):
        return sum((_of(cells.field(k)) for k in range(kind.num_fields)), 0)
    if types.is_fixed_size_list(kind):
        inner = _listed(_of(cells.flatten()))
        lengths = inner if np.ndim(inner) else np.full(len(cells.flatten()), inner)
        return kind.list_size * int(lengths.max(initial=0))
    return _of_plain(cells)


def _of_plain(cells: Any) -> Any:
    kind, types = cells.type, pa.types
    if types.is_primitive(kind):
        return kind.bit_width // 8
    if types.is_string_view(kind) or types.is_binary_view(kind):
        cells = cells.cast(pa.large_binary())
    try:
        lengths = pc.binary_length(cells).fill_null(0).to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:  # null, and what nobody reads
        return -(-cells.nbytes // max(1, len(cells)))
    return lengths.astype(np.int64) + 4


def _listed(sizes: Any) -> Any:
    return np.maximum(sizes, LISTED_BYTES) if np.ndim(sizes) else max(sizes, LISTED_BYTES)


def _of_lists(cells: Any) -> Any:
    offsets = cells.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
    values = cells.keys if pa.types.is_map(cells.type) else cells.values
    values, offsets = values.slice(first, last - first), offsets - first
    inner: Any = _listed(_of(values))
    if pa.types.is_map(cells.type):
        inner = inner + _of(cells.items.slice(first, last - first))
    if not np.ndim(inner):
        return np.diff(offsets) * inner + 4
    return np.diff(np.append(0, np.cumsum(inner))[offsets]) + 4
