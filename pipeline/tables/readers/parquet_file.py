"""Parquet files, opened and read in batches of rows without having all of one in memory."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from fewpass.pipeline.budget import UNTOLD
from fewpass.pipeline.tables.readers.arrow_batches import cut, may_take, validated
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.parquet_pages import pages_of
from fewpass.pipeline.tables.readers.streams import opened

BUFFER_BYTES = 1 << 18  # of every column that are read ahead from a disk
LEAST_BUFFER = 1 << 12
#: In units of a piece: cells of a piece at most, as Arrow has them.
MOST_CELLS = 1
#: Most bytes of a code into a dictionary, its bits included.
_CODE_BYTES = 5
#: Bytes behind the footer and its length; and what it takes once it is read, in units of itself.
_ENDS_WITH, _FOOTER_COPIES, _LEAST_BYTES = 8, 16, 12
_WIDTHS = {"BOOLEAN": 1, "FLOAT": 4, "INT32": 4, "DOUBLE": 8, "INT64": 8, "INT96": 12}
_SMALLER_PAGES = (
    "Write it with smaller pages and row groups (pyarrow.parquet.write_table has data_page_size "
    "and row_group_size)"
)


@contextmanager
def opened_parquet(address: Address) -> Iterator[Any]:
    """Open a Parquet file; BadInput when it is none, or not whole, or has too many columns."""
    with _stream_of(address) as stream:
        if not address.compression and (address.size or 0) >= _LEAST_BYTES:
            _require_footer(stream, address)
        yield pq.ParquetFile(stream, pre_buffer=False)


def _require_footer(stream: Any, address: Address) -> None:
    """Refuse a footer, which tells of each column in each row group, that takes too much."""
    stream.seek(-_ENDS_WITH, io.SEEK_END)
    size = int.from_bytes(stream.read(4), "little")
    stream.seek(0)
    if size < (address.size or 0):  # otherwise it is no Parquet, which Arrow says
        what = f"{address.name}: the footer, which tells of every column in every row group, takes"
        advice = "Write it with fewer columns, or larger row groups"
        address.budget.require_side_by_side(_FOOTER_COPIES * size, what, advice)


@contextmanager
def _stream_of(address: Address) -> Iterator[Any]:
    with (
        opened(address) as (stream, _),
        parsing(address.name, "the file is not whole Parquet"),
    ):
        yield stream


def batches(address: Address, rows: int, n_bytes: int, names: Sequence[str]) -> Iterator[Any]:
    """Yield record batches of `rows` rows, fewer where they take more than `n_bytes`.

    They do not depend on the row groups.  A disk is read column by column in small parts, which
    takes half as long as Arrow's default.  A store takes long for each request: Arrow asks for all
    columns of a row group at once, if these fit into the budget.

    Raises
    ------
    BadInput
        Pages, or a row, that do not fit into the budget.
    """
    with _stream_of(address) as stream:
        yield from cut(_decoded(address, stream, rows, n_bytes, names), rows, n_bytes,
                       address.name, address.budget)  # fmt: skip


def _decoded(
    address: Address, stream: Any, rows: int, n_bytes: int, names: Sequence[str]
) -> Iterator[Any]:
    """Yield the rows of one row group after the other, words as they were stored."""
    plain = pq.ParquetFile(stream, pre_buffer=False)
    leaves = _leaves(plain, names)
    coded = [leaf.name for leaf in leaves if leaf.is_text and _is_coded(plain, stream, leaf)]
    file = pq.ParquetFile(
        stream, metadata=plain.metadata, read_dictionary=coded or None,
        **_buffering(address, plain, leaves),
    )  # fmt: skip
    kinds = plain.schema_arrow
    steps = (
        _rows_at_once(plain.metadata.row_group(k), leaves, coded, rows, n_bytes, stream, address)
        for k in range(plain.num_row_groups)
    )
    own = {"columns": list(names), "use_threads": False}
    batches = (
        batch
        for group, step in enumerate(steps)
        for batch in file.iter_batches(step, row_groups=[group], **own)
    )
    for batch in validated(batches, address.name):
        if not coded or may_take(batch, coded) <= n_bytes:
            yield _with_words(batch, coded, kinds) if coded else batch
            continue
        for part in cut([batch], rows, n_bytes, address.name, UNTOLD):  # rows are checked later
            yield _with_words(part, coded, kinds)


def _with_words(batch: Any, coded: Sequence[str], kinds: Any) -> Any:
    """Return a batch whose codes are the words of the file again."""
    columns = [
        column.cast(kinds.field(name).type) if name in coded else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.record_batch(columns, names=batch.schema.names)


class _Leaf(NamedTuple):
    """A column of values, one of those that are asked for, or inside of one."""

    place: int
    name: str
    is_text: bool  # of a column that holds nothing else
    is_flat: bool  # a value for each row


def _leaves(file: Any, names: Sequence[str]) -> list[_Leaf]:
    wanted, types = set(names), pa.types
    kinds = {field.name: field.type for field in file.schema_arrow if field.name in wanted}
    leaves = []
    for k in range(len(file.schema)):
        column = file.schema.column(k)
        parts = column.path.split(".")
        if column.path in wanted or any(".".join(parts[:n]) in wanted for n in range(len(parts))):
            kind = kinds.get(column.path)
            is_text = kind is not None and (types.is_string(kind) or types.is_large_string(kind))
            is_flat = column.max_repetition_level == 0
            leaves.append(_Leaf(k, column.path, is_text, is_flat))
    return leaves


def _is_coded(file: Any, stream: Any, leaf: _Leaf) -> bool:
    """Say whether a column is stored as codes into dictionaries, but for few values.

    Its words may take any number of times what is stored, so codes are read.
    """
    coded = values = 0
    for group in range(file.num_row_groups):
        chunk = file.metadata.row_group(group).column(leaf.place)
        if not chunk.has_dictionary_page or chunk.dictionary_page_offset is None:
            return False
        first = next(pages_of(stream, chunk), None)
        if first is None or not first.is_dictionary:
            return False
        coded += chunk.total_uncompressed_size - first.n_bytes
        values += chunk.num_values
        if coded > _CODE_BYTES * values + (1 << 16):
            return False
    return bool(values)


def _buffering(address: Address, file: Any, leaves: Sequence[_Leaf]) -> dict[str, Any]:
    """Return Arrow's settings for reading ahead within the budget."""
    budget = address.budget.page
    if not address.is_local and _largest_group(file, leaves) <= budget:
        return {}
    each = min(BUFFER_BYTES, max(LEAST_BUFFER, budget // max(1, len(leaves))))
    return {"pre_buffer": False, "buffer_size": each}


def _largest_group(file: Any, leaves: Sequence[_Leaf]) -> int:
    """Return the stored bytes of columns in the row group that has most of them."""
    groups = [file.metadata.row_group(k) for k in range(file.num_row_groups)]
    stored = (
        sum(group.column(leaf.place).total_compressed_size for leaf in leaves) for group in groups
    )
    return max(stored, default=0)


def _unpacked(chunk: Any) -> int:
    """Return what a column chunk takes in memory at least: equal numbers are stored once."""
    width = _WIDTHS.get(chunk.physical_type, 0)
    return int(max(chunk.total_uncompressed_size, width * chunk.num_values))


def _rows_at_once(
    group: Any, leaves: Sequence[_Leaf], coded: Sequence[str], rows: int, n_bytes: int,
    stream: Any, address: Address,
) -> int:  # fmt: skip
    """Return how many rows of a row group to decode at once.

    Raises
    ------
    BadInput
        When its pages do not fit into the budget.
    """
    budget, n_rows = address.budget, max(1, group.num_rows)
    chunks = [group.column(leaf.place) for leaf in leaves]
    stored = [chunk.total_uncompressed_size for chunk in chunks]
    unpacked = [_unpacked(chunk) for chunk in chunks]
    if sum(unpacked) <= min(budget.page, n_bytes):
        return rows
    side_by_side, row_bytes = 0, 0.0
    for leaf, chunk, size in zip(leaves, chunks, stored, strict=True):
        largest, each = size, _unpacked(chunk) / n_rows
        may_expand = leaf.name not in coded and chunk.physical_type == "BYTE_ARRAY"
        if size > budget.page // len(leaves) or (may_expand and chunk.has_dictionary_page):
            pages = list(pages_of(stream, chunk))
            largest = max((page.n_bytes for page in pages), default=size)
            title = f"{address.name}: column {leaf.name!r} has a page that takes"
            budget.require_part(largest, title, _SMALLER_PAGES)
            dense = max((page.n_bytes / max(1, page.n_values) for page in pages), default=0.0)
            each = max(each, dense if leaf.is_flat else dense * chunk.num_values / n_rows)
        side_by_side += largest
        row_bytes += each
    title = f"{address.name}: {len(leaves):,} columns are read side by side, in pages that take"
    budget.require_side_by_side(side_by_side, title, _SMALLER_PAGES)
    return int(min(rows, max(1, n_bytes // max(1.0, row_bytes))))
