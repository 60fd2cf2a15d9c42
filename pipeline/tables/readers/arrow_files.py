"""Parquet files and Arrow IPC (files and streams), read in record batches by pyarrow.

What pyarrow has in memory at once is the file's choice: a page, or a batch, of all columns that are
asked for.  It comes on top of the budget.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers.arrow_batches import validated
from fewpass.pipeline.tables.readers.charsets import peekable
from fewpass.pipeline.tables.readers.finding import Address
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.streams import opened

#: Of every column that is read ahead from a disk, at most and at least.
BUFFER_BYTES, LEAST_BUFFER = 1 << 18, 1 << 12
#: Most bytes of a code into a dictionary, its bits included; and of the headers of a few pages.
_CODE_BYTES, _HEADER_BYTES = 5, 1 << 13
#: Stored for each value of a column, on average, from which on its dictionary is large beside them:
#: pyarrow makes four copies of it for codes, two for words.
_LONG_WORD_BYTES = 1 << 12
_WIDTHS = {"BOOLEAN": 1, "FLOAT": 4, "INT32": 4, "DOUBLE": 8, "INT64": 8, "INT96": 12}
#: What files of IPC begin with, and how many bytes stand in front of the stream that is in them.
FILE_MARK, _MARK_BYTES = b"ARROW1", 8
#: What messages of a stream begin with; a length of 0 behind it ends the stream.
STREAM_MARK = b"\xff\xff\xff\xff"
_END = STREAM_MARK + bytes(4)
_FIRST_FEATHER = b"FEA1"


# -- Parquet ---------------------------------------------------------------------------------------


@contextmanager
def opened_parquet(address: Address) -> Iterator[Any]:
    """Open a Parquet file; BadInput when it is none, or not whole."""
    with _stream_of(address) as stream:
        yield pq.ParquetFile(stream, pre_buffer=False)


@contextmanager
def _stream_of(address: Address) -> Iterator[Any]:
    with opened(address) as (stream, _), parsing(address.name, "the file is not whole Parquet"):
        yield stream


class RowGroup(NamedTuple):
    """A row group of a Parquet file."""

    rows: int
    n_bytes: int  # of its column chunks, decompressed


def row_groups(file: Any) -> list[RowGroup]:
    """Return the row groups of an open Parquet file."""
    groups = (file.metadata.row_group(k) for k in range(file.num_row_groups))
    return [RowGroup(group.num_rows, group.total_byte_size) for group in groups]


def parquet_batches(
    address: Address, names: Sequence[str], rows: int, n_bytes: int, first: int = 0
) -> Iterator[Any]:
    """Yield validated record batches of some columns, of about `rows` rows and `n_bytes` at most.

    They begin with the row `first`, counted from 0: row groups before it are not read.

    Words that are stored once are decoded to codes, as they may take any number of times what is
    stored; long ones row by row.

    Raises
    ------
    BadInput
        A damaged file.
    """
    with _stream_of(address) as stream:
        yield from _decoded(address, stream, names, rows, n_bytes, first)


def _decoded(
    address: Address, stream: Any, names: Sequence[str], rows: int, n_bytes: int, first: int
) -> Iterator[Any]:
    """Yield the rows of one row group after the other."""
    plain = pq.ParquetFile(stream, pre_buffer=False, buffer_size=LEAST_BUFFER)
    groups = [plain.metadata.row_group(k) for k in range(plain.num_row_groups)]
    leaves = _leaves(plain, names)
    places = [*leaves.values()]
    _require_described(plain, places)
    kinds = {field.name: field.type for field in plain.schema_arrow}
    chunks = {name: [group.column(place) for group in groups] for name, place in leaves.items()}
    in_codes = [name for name, own in chunks.items() if _is_coded(kinds.get(name), own)]
    coded = [name for name in in_codes if not _is_long(chunks[name])]
    one_by_one = len(coded) < len(in_codes)
    file = pq.ParquetFile(
        stream, metadata=plain.metadata, read_dictionary=coded or None,
        **_reading_ahead(address, groups, places),
    )  # fmt: skip
    starts = [0, *accumulate(group.num_rows for group in groups)]
    begun = max(0, bisect_right(starts, first) - 1)  # the row group that it is in
    batches = (
        batch
        for k, group in enumerate(groups[begun:], begun)
        for batch in file.iter_batches(
            1 if one_by_one else _rows_at_once(group, places, rows, n_bytes),
            row_groups=[k], columns=list(names), use_threads=False,
        )
    )  # fmt: skip
    whole = validated(batches, address.name, starts[begun] + 1)
    for batch in _without_first(whole, first - starts[begun]):
        yield from _with_words(batch, coded, kinds, n_bytes)


def _without_first(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Yield batches but for a number of their first rows."""
    for batch in batches:
        left = min(rows, batch.num_rows)
        rows -= left
        if left < batch.num_rows or not left:
            yield batch.slice(left) if left else batch


def _require_described(file: Any, places: Sequence[int]) -> None:
    """Have Arrow prepare to read columns of values: OSError where their description is damaged.

    The same error ends the process where `row_group(k).column(j)` looks at such a description, as
    pyarrow (26.0) lets it through from C++. Batches of no rows read nothing of the file.
    """
    for k in range(file.num_row_groups if places else 0):
        next(file.reader.iter_batches(0, row_groups=[k], column_indices=places), None)


def _leaves(file: Any, names: Sequence[str]) -> dict[str, int]:
    """Return the places of the columns of values that are asked for, or inside of one, by path."""
    leaves, wanted = {}, {*names}
    for k in range(len(file.schema)):
        path = file.schema.column(k).path
        parts = path.split(".")
        if any(".".join(parts[: n + 1]) in wanted for n in range(len(parts))):
            leaves[path] = k
    return leaves


def _is_coded(kind: Any, chunks: Sequence[Any]) -> bool:
    """Say whether a column of text is stored as codes into dictionaries, but for few values.

    Its `kind` is None where the values are inside of a column.
    """
    if kind not in (pa.string(), pa.large_string()):
        return False
    if not all(chunk.has_dictionary_page and chunk.dictionary_page_offset for chunk in chunks):
        return False
    stored = sum(
        chunk.total_compressed_size - (chunk.data_page_offset - chunk.dictionary_page_offset)
        for chunk in chunks
    )
    n_values = sum(chunk.num_values for chunk in chunks)
    return bool(stored <= _CODE_BYTES * n_values + _HEADER_BYTES * len(chunks))


def _is_long(chunks: Sequence[Any]) -> bool:
    n_values = sum(chunk.num_values for chunk in chunks)
    return bool(
        sum(chunk.total_uncompressed_size for chunk in chunks) > _LONG_WORD_BYTES * n_values
    )


def _reading_ahead(
    address: Address, groups: Sequence[Any], places: Sequence[int]
) -> dict[str, Any]:
    """Return pyarrow's settings for reading ahead within the budget.

    A disk is read column by column in small parts, which takes half as long as Arrow's default. A
    store takes long for each request: it is asked for a whole row group at once, if that fits.
    """
    budget = address.budget.page
    stored = (sum(group.column(k).total_compressed_size for k in places) for group in groups)
    if not address.is_local and max(stored, default=0) <= budget:
        return {}
    each = min(BUFFER_BYTES, max(LEAST_BUFFER, budget // max(1, len(places))))
    return {"pre_buffer": False, "buffer_size": each}


def _rows_at_once(group: Any, places: Sequence[int], rows: int, n_bytes: int) -> int:
    """Return how many rows take `n_bytes`, by the mean of a row group."""
    chunks = [group.column(k) for k in places]
    size = sum(  # equal numbers are stored once
        max(one.total_uncompressed_size, _WIDTHS.get(one.physical_type, 0) * one.num_values)
        for one in chunks
    )
    return int(min(rows, max(1, n_bytes * group.num_rows // max(1, size))))


def _with_words(batch: Any, coded: Sequence[str], kinds: Any, n_bytes: int) -> Iterator[Any]:
    """Yield the rows of a batch with words in place of codes, in parts of `n_bytes` at most."""
    if not coded:
        yield batch
        return
    longest = (pc.max(pc.binary_length(batch.column(name).dictionary)).as_py() for name in coded)
    rows = max(1, n_bytes // sum(4 + (length or 0) for length in longest))
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        columns = [
            column.cast(kinds[name]) if name in coded else column
            for name, column in zip(part.schema.names, part.columns, strict=True)
        ]
        yield pa.record_batch(columns, names=part.schema.names)


# -- IPC -------------------------------------------------------------------------------------------


class Ipc(NamedTuple):
    """An open file or stream."""

    schema: Any
    batches: Iterator[Any]  # validated


@contextmanager
def opened_ipc(address: Address) -> Iterator[Ipc]:
    """Open a file or a stream of Arrow IPC; a file that cannot be sought in is read as a stream.

    None is mapped into memory: one that somebody cuts meanwhile would end the process.

    Raises
    ------
    BadInput
        It is neither, or damaged; while its batches are read, too.
    """
    seekable = address.is_local and not address.compression
    with opened(address) as (stream, _):
        peeked = peekable(stream)
        begins = bytes(peeked.peek(_MARK_BYTES)[:_MARK_BYTES])
        if begins.startswith(_FIRST_FEATHER):
            raise BadInput(
                f"{address.name}: the file is Feather of version 1, Arrow IPC (Feather of version "
                "2) was expected. Write it anew, for example by pyarrow.feather.write_feather."
            )
        is_file = begins.startswith(FILE_MARK)
        with parsing(address.name, "the file is not whole Arrow IPC", "Write it anew."):
            if is_file and seekable:
                file = pa.ipc.open_file(pa.PythonFile(peeked, "r"))
                ipc = Ipc(file.schema, map(file.get_batch, range(file.num_record_batches)))
            else:
                ipc = _streamed(address, peeked, _MARK_BYTES if is_file else 0)
            _require_legible(ipc.schema)
        yield ipc._replace(batches=validated(ipc.batches, address.name))


def _streamed(address: Address, stream: Any, skipped: int) -> Ipc:
    """Behind its first eight bytes a file is a stream, which needs no end to begin with."""
    stream.read(skipped)
    ending = _Ending(stream)
    reader = pa.ipc.open_stream(pa.PythonFile(ending, "r"))
    return Ipc(reader.schema, _to_the_end(reader, ending, address.name))


class _Ending:
    """Bytes of a stream, of which the first and the last few are remembered."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.first, self.last = b"", b""

    def read(self, count: int = -1) -> bytes:
        content: bytes = self._stream.read(count)
        self.first = self.first or content[: len(STREAM_MARK)]
        self.last = (self.last + content[-len(_END) :])[-len(_END) :]
        return content


def _to_the_end(batches: Any, ending: _Ending, name: str) -> Iterator[Any]:
    """Yield batches; BadInput where the mark is missing that ends them: rows may be, too.

    Streams of Arrow before 0.15 have other marks, which nothing is said of.
    """
    yield from batches
    if ending.first == STREAM_MARK and ending.last != _END:
        raise BadInput(
            f"{name}: the stream has no end mark behind its last batch, so rows may be missing. "
            "Fetch or write it anew, and close the writer."
        )


def _require_legible(fields: Any) -> None:
    """Look at all names of a schema, inner ones too; UnicodeDecodeError where one is no text."""
    for field in fields:
        str(field.name)
        _require_legible(field.type.field(k) for k in range(field.type.num_fields))
