"""The chunk table of a data set of many chunks, in pages that are read one by one.

A page has one record of fixed size for each of its chunks.  Pages lie one after the other in
objects below ``chunks/``; the manifest has the SHA-256 of each, so a page is as safe as the
manifest, and whoever reads some chunks reads their pages alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fewpass.storage.chunk_table import (
    ChunkFacts,
    ChunkIndex,
    ChunkRecord,
    ObjectSizes,
    squares_between,
)
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import RESTORE, StoredObject, missing, require_length

PAGE_CHUNKS: Final = 1024  # some 100 kB: a request of a store takes longer than they do
RANGE_PAGES: Final = 64
RANGE_KEY: Final = "chunks/{number:06d}"
RETAINED_PAGES: Final = 64  # of a data set in a process: some MB

Page = NDArray[Any]  # (chunks of the page,) records


def record_type(objects: int) -> np.dtype[Any]:
    """Return the type of a chunk's record with `objects` objects; length 0 means no object."""
    return np.dtype(
        [
            ("nnz", "<u8"), ("target_sum", "<f8"), ("max_square", "<f8"), ("sum_square", "<f8"),
            ("length", "<u4", (objects,)), ("crc32c", "<u4", (objects,)),
        ]
    )  # fmt: skip


def write_pages(
    folder: Folder, records: Sequence[ChunkRecord], templates: Sequence[str]
) -> tuple[ChunkIndex, list[str]]:
    """Write the table of all chunks; return what the manifest has of it, and the new objects' keys.

    To be made durable by ``folder.sync``.
    """
    table = _table_of(records, templates)
    pages = [table[k : k + PAGE_CHUNKS].tobytes() for k in range(0, len(table), PAGE_CHUNKS)]
    keys = []
    for number, first in enumerate(range(0, len(pages), RANGE_PAGES)):
        keys.append(RANGE_KEY.format(number=number))
        folder.write(keys[-1], b"".join(pages[first : first + RANGE_PAGES]), durable=False)
    rows = [record.rows for record in records]
    lengths = table["length"]
    sizes = zip(lengths.sum(0, dtype=np.uint64).tolist(), lengths.max(0).tolist(), strict=True)
    return ChunkIndex(
        n_chunks=len(records),
        page_chunks=PAGE_CHUNKS,
        range_pages=RANGE_PAGES,
        pages=tuple(hashlib.sha256(page).hexdigest() for page in pages),
        largest=((rows[0], int(table["nnz"][:-1].max())), (rows[-1], int(table["nnz"][-1]))),
        target_between=squares_between(rows, table["target_sum"]),
        norm_between=squares_between(rows, table["sum_square"]),
        objects={
            key: ObjectSizes(*size) for key, size in zip(templates, sizes, strict=True)
        },
    ), keys  # fmt: skip


def _table_of(records: Sequence[ChunkRecord], templates: Sequence[str]) -> Page:
    table = np.zeros(len(records), record_type(len(templates)))
    for k, record in enumerate(records):
        objects = [record.objects.get(key.format(chunk=k), (0, 0)) for key in templates]
        table[k] = (
            record.nnz, record.target_sum, record.max_square, record.sum_square,
            [length for length, _ in objects], [checksum for _, checksum in objects],
        )  # fmt: skip
    return table


class ChunkPages:
    """The records of a data set's chunks; pages are read when a chunk of theirs is asked for.

    Several threads may ask at once.

    Parameters
    ----------
    folder
        Of the generation.
    index
        What the manifest has of the table.
    may_lack
        Of every object of a chunk, whether it is missing where the chunk has no values.
    """

    def __init__(self, folder: Folder, index: ChunkIndex, may_lack: Sequence[bool]) -> None:
        self._folder, self._index = folder, index
        self._type = record_type(len(index.objects))
        self._may_lack = np.array(may_lack)
        self._largest = np.array([sizes.largest for sizes in index.objects.values()])
        self._page = lru_cache(maxsize=RETAINED_PAGES)(self._read)

    @property
    def templates(self) -> list[str]:
        """Keys of the objects of a chunk, its number left open."""
        return self._index.templates

    def facts_of(self, k: int) -> ChunkFacts:
        """Return what is recorded of chunk `k`.

        Raises
        ------
        Damaged
            Its page is missing or has been changed.
        """
        page, place = divmod(k, self._index.page_chunks)
        record = self._page(page)[place]
        nnz, target_sum, max_square, sum_square, lengths, checksums = record.item()
        objects = {
            key: StoredObject(int(length), int(checksum)) if length else None
            for key, length, checksum in zip(self.templates, lengths, checksums, strict=True)
        }
        return ChunkFacts(self._index.rows_of(k), nnz, target_sum, max_square, sum_square, objects)

    def nnz_between(self, first: int, stop: int) -> Sequence[int]:
        """Return the values of chunks first <= k < stop; raises as `facts_of`."""
        step, nnz = self._index.page_chunks, list[int]()
        for page in range(first // step, -(-stop // step)):
            since = page * step
            nnz += self._page(page)["nnz"][max(0, first - since) : stop - since].tolist()
        return nnz

    def faults(self) -> Iterator[tuple[range, str | None]]:
        """Yield the chunks of every page, and what is wrong with the page, if anything."""
        for page in range(len(self._index.pages)):
            try:
                self._page(page)
                self._require_end(page)
            except Damaged as error:
                yield self._chunks_of(page), str(error)
            else:
                yield self._chunks_of(page), None

    def _chunks_of(self, page: int) -> range:
        first = page * self._index.page_chunks
        return range(first, min(first + self._index.page_chunks, self._index.n_chunks))

    def _require_end(self, page: int) -> None:
        """Refuse an object that goes on after the last of its pages."""
        number, place = divmod(page, self._index.range_pages)
        if place == self._index.range_pages - 1 or page == len(self._index.pages) - 1:
            size = place * self._index.page_chunks + len(self._chunks_of(page))
            stored = StoredObject(size * self._type.itemsize, 0)
            require_length(self._folder, RANGE_KEY.format(number=number), stored)

    def _read(self, page: int) -> Page:
        number, place = divmod(page, self._index.range_pages)
        key = RANGE_KEY.format(number=number)
        length = len(self._chunks_of(page)) * self._type.itemsize
        start = place * self._index.page_chunks * self._type.itemsize
        try:
            raw = self._folder.read_range(key, start, length)
        except FileNotFoundError as error:
            raise missing(self._folder, key) from error
        records = np.frombuffer(raw, self._type) if len(raw) == length else None
        fits = hashlib.sha256(raw).hexdigest() == self._index.pages[page]
        if records is None or not fits or not self._is_possible(records):
            chunks = self._chunks_of(page)
            raise Damaged(
                f"{self._folder.address(key)} is damaged: the records of chunks {chunks[0]} to "
                f"{chunks[-1]} are not those that the manifest was written for. {RESTORE}"
            )
        return records

    def _is_possible(self, records: Page) -> bool:
        """Whether these chunks have the objects they need, none larger than the manifest says."""
        empty = (records["nnz"] == 0)[:, None] & self._may_lack
        lengths = records["length"]
        most = max(nnz for _, nnz in self._index.largest)
        return (
            bool(((lengths == 0) == empty).all())
            and bool((lengths <= self._largest).all())
            and int(records["nnz"].max()) <= most
        )
