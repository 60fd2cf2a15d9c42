"""JSON lines as rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.json

from pipeline.encoding.codes import are_codes
from pipeline.errors import BadInput
from pipeline.matching import require_distinct
from pipeline.settings.source_options import SourceOptions
from pipeline.sizes import format_bytes
from pipeline.sources.arrow_rows import cells_of, flat, flat_table
from pipeline.sources.dense_rows import refuse_text_settings
from pipeline.sources.raw_rows import Cells
from pipeline.sources.source import Expected, Piece
from pipeline.sources.streams import Address, described, first_lines, line_pieces, text_bytes

HEAD_BYTES = 16 << 20  # of text that tells what members there are
MOST_NAMED = 10
_CLASHING = re.compile(r"Column\(/([^)]+)\) changed")  # a member, in Arrow's words


def _wider(table: Any) -> Any:
    """Let whole numbers, and what was always null so far, become any number later.

    Not those that are names: doubles would make one of several.
    """
    columns = flat_table(table)
    codes = {
        field.name
        for field in columns.schema
        if pa.types.is_integer(field.type)
        and are_codes(columns.column(field.name).combine_chunks())
    }

    def of(kind: Any, name: str) -> Any:
        if pa.types.is_struct(kind):
            fields = [field.with_type(of(field.type, f"{name}.{field.name}")) for field in kind]
            return pa.struct(fields)
        is_wider = pa.types.is_integer(kind) and name not in codes
        return pa.float64() if is_wider or pa.types.is_null(kind) else kind

    return pa.schema([field.with_type(of(field.type, field.name)) for field in table.schema])


class JsonRows:
    """JSON lines, an object in each, as typed columns; see `RawRows` for the methods.

    The first lines tell columns and types; what comes later must fit, other members are left out.

    Attributes
    ----------
    notes
        What members were left out so far.
    """

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    magic: ClassVar[bytes] = b""
    packed: ClassVar[bool] = False
    kinds: ClassVar[Mapping[str, str]] = MappingProxyType({})
    decided: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    unit: ClassVar[Literal["line", "row"]] = "line"
    has_folders: ClassVar[bool] = False

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "JSON lines")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._longest_line = expected.longest_line
        head = first_lines(addresses[0], self._longest_line, HEAD_BYTES)
        self._schema = _wider(self._read(head.bytes, None, addresses[0].name))
        found = flat(self._schema)
        require_distinct(found.names, addresses[0].name)
        self.names: tuple[str, ...] = tuple(found.names)
        self.types = tuple(map(str, found.types))
        self._others: set[str] = set()

    @property
    def notes(self) -> tuple[str, ...]:
        """What members later lines have that the first ones have not."""
        if not self._others:
            return ()
        names = ", ".join(map(repr, sorted(self._others)[:MOST_NAMED]))
        said = (
            "Members of later lines were left out, as none of the first "
            f"{format_bytes(HEAD_BYTES)} has them: {names}. Put a line with them first."
        )
        return (said,)

    def _read(self, text: Any, schema: Any, where: str) -> Any:
        """Read lines with all that they hold; where others than known members clash, without."""
        try:
            return _read_json(text, schema, "infer")
        except pa.ArrowInvalid as error:
            clash = error
        try:
            if schema is not None:
                table = _read_json(text, schema, "ignore")
                self._others.update(
                    name.replace("/", ".") for name in _CLASHING.findall(str(clash))
                )
                return table
        except pa.ArrowInvalid as error:
            clash = error
        raise BadInput(
            f"{where}: some lines are not JSON, or of other types than the first ones ({clash}). "
            "Correct them."
        ) from clash

    def expands_to(self) -> float:
        """Estimate the bytes of the text, as if all files were compressed like the first one."""
        return text_bytes(self._addresses, self._longest_line)

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        """Pieces of whole lines."""
        del used
        return line_pieces(self._addresses, piece_bytes, self._longest_line)

    def cells(self, piece: Piece, used: Sequence[int]) -> Cells:
        """Take columns out of a piece."""
        where = f"{piece.file}, from line {piece.first_line} on"
        table = self._read(piece.content.bytes, self._schema, where)
        self._others.update(set(flat(table.schema).names) - set(self.names))
        return cells_of(piece, table, self.names, used)


def _read_json(text: Any, schema: Any, others: str) -> Any:
    return pa.json.read_json(
        pa.BufferReader(pa.py_buffer(np.ascontiguousarray(text))),
        pa.json.ReadOptions(use_threads=False, block_size=text.size + 1),
        pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )
