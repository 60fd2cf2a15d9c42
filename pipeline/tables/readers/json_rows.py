"""JSON lines as rows of a table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.encoding.codes import are_codes, is_whole
from fewpass.pipeline.tables.encoding.plain_types import plain_schema, plain_table
from fewpass.pipeline.tables.readers.arrow_rows import cells_of
from fewpass.pipeline.tables.readers.borders import parsing
from fewpass.pipeline.tables.readers.characters import NEWLINE
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.json_faults import (
    explained,
    first_clash,
    lines_in,
    read_json,
    unfit,
    without_members,
)
from fewpass.pipeline.tables.readers.json_screen import count_members, fault_of, is_sound
from fewpass.pipeline.tables.readers.lines import count_byte, first_lines, line_pieces, text_bytes
from fewpass.pipeline.tables.readers.rejection import SKIP_ADVICE
from fewpass.pipeline.tables.readers.source import Expected, Piece, TableCells

HEAD_BYTES = 16 << 20  # of text that tells what members there are
MOST_NAMED = 10
_CELL_BYTES = 9  # of a number, or of one that is missing, as Arrow has it
_ALIKE = (
    "Write the members in a map of names and values, or as text in one (LIBSVM and VW have rows "
    "of few values)"
)
_BEYOND_64_BITS, _WHOLE = 2.0**63, pa.decimal128(38, 0)
_CLASHING = re.compile(r"Column\(/([^)]+)\) changed")  # a member, in Arrow's words


def _with_long_numbers(head: Any, table: Any) -> Any:
    """Read whole numbers of more than 64 bits as such, which Arrow otherwise makes doubles of."""
    long = {
        field.name
        for field in table.schema
        if pa.types.is_float64(field.type)
        and (pc.max(pc.abs(table.column(field.name))).as_py() or 0.0) >= _BEYOND_64_BITS
    }
    if not long:
        return table
    kinds = [_WHOLE if field.name in long else field.type for field in table.schema]
    wanted = [field.with_type(kind) for field, kind in zip(table.schema, kinds, strict=True)]
    try:
        return read_json(head, pa.schema(wanted), "infer")
    except pa.ArrowInvalid:  # not all of them are whole
        return table


def _wider(table: Any) -> Any:
    """Let whole numbers, and what was always null so far, become any number later.

    Not those that are names: doubles would make one of several.
    """
    columns = plain_table(table)
    codes = {
        field.name
        for field, cells in zip(columns.schema, columns.columns, strict=True)
        if is_whole(field.type) and are_codes(cells.combine_chunks())
    }

    def of(kind: Any, name: str) -> Any:
        if pa.types.is_struct(kind):
            fields = [field.with_type(of(field.type, f"{name}.{field.name}")) for field in kind]
            return pa.struct(fields)
        is_wider = is_whole(kind) and name not in codes
        return pa.float64() if is_wider or pa.types.is_null(kind) else kind

    return pa.schema([field.with_type(of(field.type, field.name)) for field in table.schema])


class JsonRows:
    """JSON lines, an object in each, as typed columns; see `TableRows` for the methods.

    The first lines tell columns and types; what comes later must fit, other members are left out.

    Attributes
    ----------
    notes
        What members were left out so far.
    """

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    magic: ClassVar[bytes | tuple[bytes, ...]] = b""
    packed: ClassVar[bool] = False
    kinds: ClassVar[Mapping[str, str]] = MappingProxyType({})
    decided: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    unit: ClassVar[Literal["line", "row"]] = "line"
    has_folders: ClassVar[bool] = False
    index: ClassVar[tuple[str, ...]] = ()
    n_rows: int | None = None

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "JSON lines")
        self.files = described(addresses)
        self._addresses = tuple(addresses)
        self._longest_line = expected.longest_line
        self._budget = expected.budget
        self._skips = options.on_bad_row == "skip"
        head = first_lines(addresses[0], self._longest_line, HEAD_BYTES)
        self._dropped = _dropped(options, expected)
        self._unread: tuple[str, ...] = ()  # of these, what clashes keep us from reading
        self._require_columns(head.bytes, f"{addresses[0].name}, lines 1 to {head.lines:,}")
        self._schema = self._inferred(np.ascontiguousarray(head.bytes), addresses[0].name)
        fields = [field for field in self._schema if field.name not in self._dropped]
        self._wanted = pa.schema(fields)
        plain = plain_schema(self._schema)
        require_distinct(plain.names, addresses[0].name)
        self.names: tuple[str, ...] = (*plain.names, *self._unread)
        self.types = (*map(str, plain.types), *("any" for _ in self._unread))
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

    def _require_columns(self, text: Any, where: str) -> None:
        """Refuse lines whose different members do not fit into the budget; BadInput."""
        most = self._budget.most_columns("encoded")
        n = count_members(np.ascontiguousarray(text), most)
        self._budget.require_columns(n, where, "encoded")
        self._require_table(n, text, where)

    def _require_table(self, n: int, text: Any, where: str) -> None:
        """Refuse lines of n different members that take too much as a table; BadInput."""
        lines = count_byte(text, NEWLINE)
        size = n * lines * _CELL_BYTES
        if size > 2 * len(text):  # most objects lack most members
            what = f"{where}: {lines:,} objects of {n:,} different members take, as a table,"
            self._budget.require_side_by_side(size, what, _ALIKE)

    def _inferred(self, head: Any, name: str) -> Any:
        """Return the schema that the first lines have; BadInput by line where they clash.

        Where bad rows are skipped, what does not fit the lines before the first clash is left out.
        """
        if not is_sound(np.frombuffer(head, np.uint8)):
            return self._inferred(self._sound(head, name), name)
        try:
            with parsing(name, "its first lines cannot be read as JSON", "Check the file."):
                return _wider(_with_long_numbers(head, read_json(head, None, "infer")))
        except BadInput as error:
            if not isinstance(error.__cause__, pa.ArrowInvalid):
                raise
            refusal, clash = error, error.__cause__
        if self._dropped and not self._unread:
            left, self._unread = without_members(head, self._dropped)
            if self._unread:
                return self._inferred(left, name)
        at = first_clash(clash)
        lines, numbers = lines_in(head)
        if at is None or at >= len(lines):
            raise refusal
        if not at:
            raise _not_json(f"{name}, line {1 + int(numbers[0])}", lines[0], clash)
        schema = self._inferred(_joined(lines[:at]), name)
        if not self._skips:
            where = f"{name}, line {1 + int(numbers[at])}"
            fact, advice = explained(lines[at], schema)
            raise BadInput(f"{where}: {fact}. {advice} {SKIP_ADVICE}")
        bad = set(unfit(lines, schema)) or {at}
        return self._inferred(_joined(line for k, line in enumerate(lines) if k not in bad), name)

    def _sound(self, head: Any, name: str) -> bytes:
        """Return the lines of a head that are objects; BadInput where one is none, or all are."""
        lines, numbers = lines_in(head)
        faults = [fault_of(line) for line in lines]
        good = [line for line, fault in zip(lines, faults, strict=True) if fault is None]
        if not good or not self._skips:
            first = next((k for k, fault in enumerate(faults) if fault), None)
            if first is None:
                raise BadInput(f"{name}: there are no rows. Check the file.")
            fact, advice = faults[first] or ("", "")
            tail = f"{advice} {SKIP_ADVICE}" if good else f"{advice.rstrip(',')}."
            raise BadInput(f"{name}, line {1 + int(numbers[first])}: {fact}. {tail}")
        return _joined(good)

    def _read(self, text: Any, where: str) -> tuple[Any, list[tuple[int, str, str]], Any]:
        """Read lines: their table, what is wrong with others, and the numbers of good ones."""
        clashing: list[str] = []
        if is_sound(text):
            try:
                return self._read_sound(text, where), [], None
            except pa.ArrowInvalid as error:
                clashing = [name.replace("/", ".") for name in _CLASHING.findall(str(error))]
        lines, numbers = lines_in(text)
        bad = unfit(lines, self._wanted)
        if not bad:  # others than members that are wanted clash
            self._others.update(set(clashing) - set(self.names))
        faults = [(int(numbers[k]), *explained(lines[k], self._wanted)) for k in bad]
        left = np.delete(np.arange(len(lines)), bad)
        with parsing(where, "the lines cannot be read together", "Check the file."):
            table = read_json(_joined(lines[k] for k in left), self._wanted, "ignore")
        return table, faults, numbers[left]

    def _read_sound(self, text: Any, where: str) -> Any:
        """Read lines with an object in each, members that are not known left out.

        Where none are, which is tried first, nothing needs to be counted.
        """
        self._require_table(len(self.names), text, where)
        if not self._others:
            with suppress(pa.ArrowInvalid):  # others, or members that clash
                return read_json(text, self._schema, "ignore" if self._unread else "error")
        self._require_columns(text, where)
        table = read_json(text, self._schema, "ignore" if self._unread else "infer")
        names = plain_schema(table.schema).names
        self._others.update(set(names) - set(self.names))
        if len(set(names)) < len(names):  # later ones are called like members inside others
            with parsing(where):
                table = read_json(text, self._schema, "ignore")
        return table

    def expands_to(self) -> float:
        """Estimate the bytes of the text, as if all files were compressed like the first one."""
        return text_bytes(self._addresses, self._longest_line)

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        return line_pieces(self._addresses, piece_bytes, self._longest_line, len(used))

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        text = np.ascontiguousarray(piece.content.bytes)
        last = piece.first_line + piece.content.lines - 1
        where = f"{piece.file}, lines {piece.first_line:,} to {last:,}"
        table, faults, numbers = self._read(text, where)
        result = cells_of(piece, table, self.names, used)

        def lines() -> Any:
            return piece.first_line + (lines_in(text)[1] if numbers is None else numbers)

        shifted = tuple((piece.first_line + line, fact, advice) for line, fact, advice in faults)
        return result._replace(lines=lines, faults=shifted)


def _dropped(options: SourceOptions, expected: Expected) -> tuple[str, ...]:
    """Return the names of members that nothing is read of, whatever they hold."""
    names = [name for name in options.drop if isinstance(name, str)]
    names += [name for name, kind in options.column.items() if kind == "drop"]
    schema = expected.schema
    if schema is not None and schema.names is not None:
        names += [schema.names[k] for k in schema.dropped]
    return tuple(name for name in names if name not in expected.read_anyway)


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _not_json(where: str, line: bytes, clash: Exception) -> BadInput:
    fact, _ = explained(line, pa.schema([]))
    return BadInput(f"{where}: {fact} ({clash}). Write an object on each line.")
