"""ARFF, Weka's format, as rows of text cells.

A header of `@attribute NAME TYPE` lines, then rows as in CSV: quotes are single or double, a
backslash takes the next character as it is, `?` is missing, `%` begins a comment line.  A row in
braces, `{3 red, 7 1.5}`, names the columns that are not zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct, require_same
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers.characters import (
    APOSTROPHE,
    BACKSLASH,
    COMMA,
    NEWLINE,
    PERCENT,
    QUOTE,
)
from fewpass.pipeline.tables.readers.charsets import charset_of
from fewpass.pipeline.tables.readers.delimited import DelimitedRows
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.dialect import Dialect
from fewpass.pipeline.tables.readers.exact import count_byte
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.lines import WholeLines, text_pieces
from fewpass.pipeline.tables.readers.rejection import shown
from fewpass.pipeline.tables.readers.source import Expected, Piece
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Byte, Bytes

_DATA = re.compile(rb"^[ \t]*@data[ \t]*\r?\n", re.IGNORECASE | re.MULTILINE)
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_QUOTED}|[^\s]+)\s+(.*)", re.IGNORECASE)
_VALUE = re.compile(rf"\s*({_QUOTED}|[^,]*?)\s*(?:,|$)")
_ENTRY = re.compile(rf"\s*(\d+)\s+({_QUOTED}|[^,]*?)\s*(?:,|$)")
_NUMERIC = ("numeric", "real", "integer")
_BYTES_OF_HEADER = 1 << 20


class Attribute(NamedTuple):
    """One line of a header."""

    name: str
    type: str  # the first word, nominal where values are listed
    zero: str  # what a row in braces means where it does not name the column


class ArffRows(DelimitedRows):
    """ARFF files as text cells; see `TableRows` for the methods."""

    extensions: ClassVar[tuple[str, ...]] = (".arff",)
    nulls = ("?", "")

    def __init__(  # the header is another than that of CSV
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "ARFF")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._longest_line, self._plain = expected.longest_line, expected.plain
        self._as_they_are = frozenset()
        self.notes: tuple[str, ...] = ()
        self._looks_at_quotes, self.decided = False, {}
        self._dialect, self._has_header, self._is_padded = Dialect(","), False, False
        self._places = {}
        self._attributes = self._header(self._addresses[0], options)
        names = [one.name for one in self._attributes]
        require_distinct(names, addresses[0].name)
        self.names = tuple(names)
        self.types = tuple(one.type for one in self._attributes)
        self._n_cells = len(self.types)

    @property
    def kinds(self) -> dict[str, str]:
        """Kinds of the columns that the header states; a sample decides about text."""
        of_type = {"nominal": "category", "date": "date"}
        return {one.name: of_type[one.type] for one in self._attributes if one.type in of_type}

    def _header(self, address: Address, options: SourceOptions) -> list[Attribute]:
        text, _ = next(self._parts(address))
        if options.charset is None and (charset := charset_of(text.tobytes())):
            self._addresses = tuple(one._replace(charset=charset) for one in self._addresses)
            text, _ = next(self._parts(self._addresses[0]))
        lines = text.tobytes().decode().splitlines()
        attributes = [
            _attribute(line.strip(), f"{address.name}, line {number}")
            for number, line in enumerate(lines, 1)
            if line.strip()[:10].lower() == "@attribute"
        ]
        if not attributes:
            raise BadInput(
                f"{address.name}: the header has no @attribute line. Write one for every column."
            )
        return attributes

    def _parts(
        self, address: Address, piece_bytes: int = _BYTES_OF_HEADER, cells: int = 0
    ) -> Iterator[Any]:
        """Yield the header, and then pieces of rows, each with the number of its first line."""
        header, line = b"", 1
        texts = text_pieces(address, piece_bytes, self._longest_line, cells)
        for text in texts:
            header += text.bytes.tobytes()
            mark = _DATA.search(header)
            if mark:
                break
            if len(header) > self._longest_line:
                break
        else:
            mark = None
        if not mark:
            raise BadInput(f"{address.name}: no @data line ends the header. Check the file.")
        head = np.frombuffer(header, np.uint8)
        yield head[: mark.end()], line
        line += count_byte(head[: mark.end()], ord("\n"))
        if mark.end() < head.size:
            yield head[mark.end() :], line
            line += count_byte(head[mark.end() :], ord("\n"))
        for text in texts:
            yield text.bytes, line
            line += text.lines

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        cells = 0 if self._plain else len(used)
        for address in self._addresses:
            parts = self._parts(address, piece_bytes, cells)
            self._require_same_header(next(parts)[0], address)
            for raw, line in parts:
                text = self._as_csv(raw, f"{address.name}", line)
                yield Piece(address.name, line, text, raw.size)

    def _require_same_header(self, header: Bytes, address: Address) -> None:
        lines = header.tobytes().decode("utf-8", "replace").splitlines()
        own = [
            _attribute(line.strip(), address.name)
            for line in lines
            if line.strip()[:10].lower() == "@attribute"
        ]
        names = [one.name for one in own]
        require_same(self.names or (), names, address.name)
        if names != list(self.names or ()):
            raise BadInput(
                f"{address.name}: its attributes come in another order than the first file's. "
                "Write them in the same order."
            )

    def _as_csv(self, raw: Bytes, name: str, line: int) -> WholeLines:
        """Return rows as CSV has them, a line for a line."""
        if (raw == ord("{")).any():
            raw = self._filled(raw, name, line)
        out = np.empty(2 * raw.size + 2, np.uint8)
        return WholeLines(out[: _plain(raw, out)], count_byte(raw, ord("\n")))

    def _filled(self, raw: Bytes, name: str, first: int) -> Bytes:
        """Write rows in braces out."""
        lines = raw.tobytes().decode("utf-8", "surrogateescape").split("\n")
        for k, line in enumerate(lines):
            if line.lstrip().startswith("{"):
                lines[k] = self._row(line.strip(), f"{name}, line {first + k}")
        return np.frombuffer("\n".join(lines).encode("utf-8", "surrogateescape"), np.uint8)

    def _row(self, line: str, where: str) -> str:
        cells = [one.zero for one in self._attributes]
        inner = line[1 : line.rfind("}")].strip() if "}" in line else ""
        at = 0
        while at < len(inner):
            entry = _ENTRY.match(inner, at)
            if not entry or int(entry[1]) >= len(cells):
                raise BadInput(
                    f"{where}: {shown(line)} is no row in braces of {len(cells)} columns. Write "
                    "column and value, as in {3 red, 7 1.5}, columns from 0."
                )
            cells[int(entry[1])], at = entry[2], entry.end()
        return ",".join(cells)


def _attribute(line: str, where: str) -> Attribute:
    match = _ATTRIBUTE.fullmatch(line)
    kind = match[2].strip() if match else ""
    word = kind.split()[0].lower() if kind else ""
    if not match or not (kind.startswith("{") or word in (*_NUMERIC, "string", "date")):
        raise BadInput(
            f"{where}: {shown(line)} is no attribute that is read. Types are numeric, real, "
            "integer, string, date and {lists, of, values}."
        )
    name = _bare(match[1])
    if kind.startswith("{"):
        first = _VALUE.match(kind[1:].rstrip("} \t"))
        return Attribute(name, "nominal", first[1] if first else "?")
    return Attribute(name, word, "0" if word in _NUMERIC else "?")


def _bare(word: str) -> str:
    quoted = len(word) > 1 and word[0] in "'\"" and word[-1] == word[0]
    return re.sub(r"\\(.)", r"\1", word[1:-1]) if quoted else word


@part_of_kernels
def _is_blank(c: Byte) -> bool:
    return c in (32, 9, 13)


@part_of_kernels
def _put_quoted(text: Bytes, at: int, out: Bytes, n: int) -> tuple[int, int]:
    """Write the quoted cell at text[at] with double quotes; return behind it in text and out."""
    quote, out[n] = text[at], QUOTE
    at, n = at + 1, n + 1
    while at < text.size and text[at] != NEWLINE and text[at] != quote:
        if text[at] == BACKSLASH and text[at + 1] != NEWLINE:
            at += 1
        if text[at] == QUOTE:
            out[n] = QUOTE
            n += 1
        out[n] = text[at]
        at, n = at + 1, n + 1
    if text[at] == quote:  # one that nothing closes is reported later
        out[n] = QUOTE
        at, n = at + 1, n + 1
    return at, n


@part_of_kernels
def _put_bare(text: Bytes, at: int, out: Bytes, n: int) -> tuple[int, int]:
    """Write what stands before the next comma or line end, without blanks behind it."""
    end = n
    while text[at] not in (NEWLINE, COMMA):
        out[n] = text[at]
        n += 1
        if not _is_blank(text[at]):
            end = n
        at += 1
    return at, end


@kernel
def _plain(text: Bytes, out: Bytes) -> int:
    """Write whole lines as CSV (RFC 4180), comments as empty ones; return how much that is."""
    at, n, begins = 0, 0, True
    while at < text.size:
        while _is_blank(text[at]):
            at += 1
        if begins and text[at] == PERCENT:
            while text[at] != NEWLINE:
                at += 1
        elif text[at] in (APOSTROPHE, QUOTE):
            at, n = _put_quoted(text, at, out, n)
            while _is_blank(text[at]):
                at += 1
        if text[at] not in (NEWLINE, COMMA):
            at, n = _put_bare(text, at, out, n)
        begins = text[at] == NEWLINE
        out[n] = text[at]
        at, n = at + 1, n + 1
    return n
