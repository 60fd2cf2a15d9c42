"""Sizes of the pages of a Parquet file, from their headers, which Arrow does not tell.

A header is a structure in Thrift's compact protocol in front of its page (Apache Parquet Format,
PageHeader).  Of a header that cannot be read nothing is said: Arrow says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

_LOOKED_AT, _LARGEST_HEADER = 1 << 10, 1 << 24
_DICTIONARY = 2  # of PageHeader.type
#: Of Thrift's compact protocol.
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
_DEEPEST = 8


class PageSize(NamedTuple):
    """What a header says."""

    is_dictionary: bool
    n_bytes: int  # of the page, unpacked
    n_values: int


def pages_of(stream: BinaryIO, chunk: Any) -> Iterator[PageSize]:
    """Yield the pages of a column chunk (pyarrow's ColumnChunkMetaData), without reading them."""
    dictionary = chunk.dictionary_page_offset if chunk.has_dictionary_page else None
    at = min(dictionary or chunk.data_page_offset, chunk.data_page_offset)
    end = at + chunk.total_compressed_size
    while at < end:
        parsed = _header(stream, at)
        if parsed is None:
            return
        header, length = parsed
        own = header.get(7) or header.get(8) or header.get(5) or {}
        yield PageSize(header.get(1) == _DICTIONARY, int(header.get(2, 0)), int(own.get(1, 0)))
        at += length + max(0, int(header.get(3, 0)))


def _header(stream: BinaryIO, at: int) -> tuple[dict[int, Any], int] | None:
    """Read the header at a place of a file: its fields by number, and its length."""
    size = _LOOKED_AT
    while size <= _LARGEST_HEADER:
        stream.seek(at)
        reader = _Compact(stream.read(size))
        try:
            return reader.structure(), reader.at
        except IndexError:
            size *= 16
        except ValueError:
            return None
    return None


class _Compact:
    """Structures of Thrift's compact protocol; what is no number and no structure is skipped."""

    def __init__(self, content: bytes) -> None:
        self._content, self.at = content, 0

    def structure(self, depth: int = 0) -> dict[int, Any]:
        """Read fields up to the end of a structure; IndexError where the content ends before."""
        if depth > _DEEPEST:
            raise ValueError("no header is so deep")
        fields: dict[int, Any] = {}
        number = 0
        while first := self._byte():
            number = number + (first >> 4) if first >> 4 else self._signed()
            fields[number] = self._value(first & 15, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _BYTE:
            return self._byte()
        if kind < _DOUBLE:
            return self._signed()
        if kind in (_DOUBLE, _BINARY):
            self._skip(8 if kind == _DOUBLE else self._unsigned())
            return None
        if kind in (_LIST, _SET):
            first = self._byte()
            count = first >> 4 if first >> 4 < 15 else self._unsigned()
            for _ in range(count):
                self._value(first & 15, depth + 1)
            return None
        if kind == _STRUCT:
            return self.structure(depth + 1)
        raise ValueError("no kind of Thrift's")

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._content):
            raise IndexError(self.at)

    def _unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
            shift += 7
            if shift > 63:
                raise ValueError("no number is so long")

    def _signed(self) -> int:
        value = self._unsigned()
        return (value >> 1) ^ -(value & 1)
