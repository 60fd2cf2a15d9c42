"""JSON lines as rows of a table: Arrow reads a block, and where it cannot Python names the line.

Arrow's reader calls itself for every bracket inside another until the stack ends, takes an object
over several lines for a row, and fills a column for each member in every line.  So brackets are
looked at before, and members of the first lines are counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import require_distinct
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.tables.encoding.id_numbers import are_ids, is_whole
from fewpass.pipeline.tables.encoding.plain_types import plain_schema
from fewpass.pipeline.tables.readers.arrow_rows import cells_of
from fewpass.pipeline.tables.readers.characters import BACKSLASH, NEWLINE, QUOTE
from fewpass.pipeline.tables.readers.charsets import is_utf8
from fewpass.pipeline.tables.readers.dense_rows import refuse_text_settings
from fewpass.pipeline.tables.readers.exact_numbers import refuse_rounded
from fewpass.pipeline.tables.readers.finding import Address, described
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.lines import (
    WholeLines,
    first_lines,
    line_pieces,
    ranges_apart,
    spans_of,
    text_bytes,
)
from fewpass.pipeline.tables.readers.rejection import SKIP_ADVICE, shown
from fewpass.pipeline.tables.readers.source import (
    Expected,
    Piece,
    SourceSpan,
    TableCells,
    TableReader,
)
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.shapes import Bytes

HEAD_BYTES = 16 << 20  # of text that decides members and types
#: Brackets inside each other that are read.
MOST_DEEP = 100
_CELL_BYTES = 9  # of a number, or of one that is missing, as Arrow has it
_BEYOND_64_BITS, _WHOLE = 2.0**63, pa.decimal128(38, 0)
_DIGITS = 400  # Python reads no whole number of some thousand
_IN_ROW = re.compile(r" in row (\d+)$")
#: The bit by which brackets and braces differ, and what both are with it.
_CASE, _OPENS, _CLOSES = 32, 123, 125
_KINDS = (
    (lambda kind: pa.types.is_integer(kind) or pa.types.is_floating(kind), "a number"),
    (pa.types.is_boolean, "true or false"),
    (pa.types.is_list, "a list of like values"),
    (pa.types.is_struct, "an object"),
)
_LEFT_OUT = (
    f"Members of later lines were left out, as none of the first {format_bytes(HEAD_BYTES)} has "
    "them. Put a line with all members first."
)
_EXACT = "Write them as text, in quotes, or put a file in front that has such in its first lines."
Fault = tuple[str, str]  # fact and advice


class JsonRows(TableReader):
    """JSON lines, an object in each, as typed columns; see `TableReader` for the methods.

    The first lines decide columns and types; other members of later lines are left out.

    Attributes
    ----------
    notes
        Whether members were left out so far.
    """

    extensions: ClassVar[tuple[str, ...]] = (".jsonl", ".ndjson")
    unit: ClassVar[Literal["line", "row"]] = "line"

    def __init__(
        self, addresses: Sequence[Address], options: SourceOptions, expected: Expected
    ) -> None:
        refuse_text_settings(options, "JSON lines")
        self.files, self._addresses = described(addresses), tuple(addresses)
        self._longest_line, self._budget = expected.longest_line, expected.budget
        self._skips = options.on_bad_row == "skip"
        self._dropped, self._retained = _dropped(options, expected), frozenset(expected.passed)
        self._rounded: set[str] = set()  # kept, of whole numbers so far, and read as doubles
        name = addresses[0].name
        head = first_lines(addresses[0], self._longest_line, HEAD_BYTES)
        lines, dropped = self._objects(head, name)
        self._has_dropped = bool(dropped)
        self._schema = self._inferred(lines, name)
        plain = plain_schema(self._schema)
        require_distinct(plain.names, name)
        self.names: tuple[str, ...] = (*plain.names, *dropped)
        self.types = (*map(str, plain.types), *("any" for _ in dropped))

    def _objects(self, head: WholeLines, name: str) -> tuple[dict[int, bytes], list[str]]:
        """Return the objects of a head as lines, by number; BadInput where a line is none.

        Members that are dropped are left out, as their types may differ, and are returned second.
        """
        where = f"{name}, lines 1 to {head.lines:,}"
        lines, faults, members, dropped = {}, {}, set[str](), dict[str, None]()
        for number, line in _lines_in(head.bytes):
            row = _object_in(line)
            if isinstance(row, dict):
                _add_members(row, members)
                self._budget.require_columns(len(members), where, "encoded")
                lines[number] = line
                if here := [name for name in self._dropped if name in row]:
                    dropped |= dict.fromkeys(here)
                    left = {name: value for name, value in row.items() if name not in here}
                    lines[number] = json.dumps(left).encode()
            else:
                faults[number] = row
        if faults and not (lines and self._skips):
            raise _refusal(name, *next(iter(faults.items())), can_skip=bool(lines))
        if not lines:
            raise BadInput(f"{name}: there are no rows. Check the file.")
        self._require_table(len(members), head, where)
        return lines, list(dropped)

    def _require_table(self, n: int, text: WholeLines, where: str) -> None:
        """Refuse lines of n different members that take too much as a table; BadInput."""
        size = n * text.lines * _CELL_BYTES
        if size > 2 * len(text.bytes):  # most objects lack most members
            what = f"{where}: {text.lines:,} objects of {n:,} different members take, as a table,"
            advice = (
                "Write the members in a map of names and values, or as text in one (LIBSVM and VW "
                "have rows of few values)"
            )
            self._budget.require_side_by_side(size, what, advice)

    def _inferred(self, lines: Mapping[int, bytes], name: str) -> Any:
        """Return the schema of lines, by number; BadInput by line where their types clash.

        Where bad rows are skipped, what does not fit the lines before the first clash is left out.
        """
        text = _joined(lines.values())
        try:
            with parsing(name, "its first lines cannot be read as JSON", "Check the file."):
                read = _with_long_numbers(text, _read_json(text, None, "infer"))
        except BadInput as error:
            clash = _IN_ROW.search(str(error.__cause__))
            if not clash:
                raise
        else:
            self._rounded = {
                field.name for field in plain_schema(read.schema)
                if field.name in self._retained and not pa.types.is_floating(field.type)
            }  # fmt: skip
            return _wider(read, self._retained)
        at = int(clash[1])
        before = dict(list(lines.items())[:at])
        schema = self._inferred(before, name) if before else pa.schema([])
        number = list(lines)[at]
        if not self._skips:
            raise _refusal(name, number, _explained(lines[number], schema))
        bad = {*_unfit(list(lines.items()), schema)} or {number}
        return self._inferred({k: line for k, line in lines.items() if k not in bad}, name)

    def expands_to(self) -> float:
        """Estimate the bytes of the text, as if all files were compressed like the first one."""
        return text_bytes(self._addresses, self._longest_line)

    def pieces(self, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        return line_pieces(self._addresses, piece_bytes, self._longest_line, len(used))

    def spans(self, piece_bytes: int) -> list[SourceSpan]:
        return spans_of(self._addresses, piece_bytes)

    def ranges(self, piece_bytes: int) -> list[SourceSpan]:
        return ranges_apart(self._addresses, piece_bytes)

    def pieces_of(self, span: SourceSpan, piece_bytes: int, used: Sequence[int]) -> Iterator[Piece]:
        return line_pieces(self._addresses, piece_bytes, self._longest_line, len(used), span)

    def cells(self, piece: Piece, used: Sequence[int]) -> TableCells:
        last = piece.first_line + piece.content.lines - 1
        where = f"{piece.file}, lines {piece.first_line:,} to {last:,}"
        self._require_table(len(self.names), piece.content, where)
        text = np.ascontiguousarray(piece.content.bytes)
        try:
            is_safe = is_utf8(text) and _are_objects(text)
            table = self._read(text) if is_safe else None
        except pa.ArrowInvalid:
            table = None
        if table is not None:
            return self._cells_of(piece, table, used, where)
        table, numbers, faults = self._read_by_line(text, where)
        shifted = tuple((piece.first_line + number, *faults[number]) for number in sorted(faults))
        result = self._cells_of(piece, table, used, where)
        return result._replace(lines=lambda: piece.first_line + numbers, faults=shifted)

    def _cells_of(self, piece: Piece, table: Any, used: Sequence[int], where: str) -> TableCells:
        result = cells_of(piece, table, self.names, used)
        names = [self.names[k] for k in used]
        refuse_rounded(result.columns, names, self._rounded, where, _EXACT)
        return result

    def _read(self, text: Any) -> Any:
        """Return lines with an object in each as a table, without members of no column."""
        if not self.notes and not self._has_dropped:
            with suppress(pa.ArrowInvalid):
                return _read_json(text, self._schema, "error")
        table = _read_json(text, self._schema, "ignore")
        if not self._has_dropped:
            self.notes = (_LEFT_OUT,)
        return table

    def _read_by_line(
        self, text: Any, where: str
    ) -> tuple[Any, np.ndarray[Any, Any], dict[int, Fault]]:
        """Return the good lines as a table, their numbers, and what is wrong with the others."""
        good, faults = [], {}
        for number, line in _lines_in(text):
            row = _object_in(line)
            if isinstance(row, dict):
                good.append((number, line))
            else:
                faults[number] = row
        bad = {*_unfit(good, self._schema)}
        faults |= {number: _explained(line, self._schema) for number, line in good if number in bad}
        left = {number: line for number, line in good if number not in bad}
        with parsing(where, "the lines cannot be read together", "Check the file."):
            table = self._read(_joined(left.values()))
        return table, np.array([*left], np.int64), faults


def _read_json(text: Any, schema: Any, others: str) -> Any:
    """Read lines by a schema; `others` is what becomes of members that it does not have."""
    if schema is not None and not len(text):
        return schema.empty_table()
    return pa.json.read_json(
        pa.BufferReader(pa.py_buffer(text)),
        pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


@kernel
def _are_objects(text: Bytes) -> bool:
    """Return whether brackets in every line enclose one value, MOST_DEEP at most."""
    depth, values = 0, 0
    in_text = escaped = False
    for c in text:
        if in_text and c != NEWLINE:
            in_text = escaped or c != QUOTE
            escaped = c == BACKSLASH and not escaped
        elif c == QUOTE:
            in_text = True
        elif c | _CASE == _OPENS:
            values += depth == 0
            depth += 1
            if depth > MOST_DEEP:
                return False
        elif c | _CASE == _CLOSES:
            depth -= 1
        elif c == NEWLINE:
            if in_text or depth != 0 or values != 1:
                return False
            values = 0
    return True


def _lines_in(text: Any) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that are not blank, and the number of each, from 0."""
    lines = np.ascontiguousarray(text).tobytes().split(b"\n")
    return ((number, line) for number, line in enumerate(lines) if line.strip())


def _joined(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) < _DIGITS else float(digits)


def _object_in(line: bytes) -> dict[str, Any] | Fault:
    """Return the object of a line, or what is wrong with the line."""
    try:
        row = json.loads(line.decode(), parse_int=_whole)
    except UnicodeDecodeError as error:
        bad = shown(line[error.start : error.start + 8])
        return f"the bytes {bad} are no UTF-8", "Say what the text is written in (`charset`),"
    except RecursionError:
        row = {}
    except ValueError as error:
        return f"the line is not JSON ({error})", "Correct it,"
    if not isinstance(row, dict):
        return f"the line is {shown(line)}, an object was expected", "Write one on each line,"
    if not _are_objects(np.frombuffer(line + b"\n", np.uint8)):
        fact = f"brackets stand in each other more than {MOST_DEEP} deep"
        return fact, "Write the values flatter,"
    return row


def _add_members(value: Any, members: set[str], above: str = "") -> None:
    """Add the names of all members of an object, those inside others by their paths."""
    if isinstance(value, list):
        for inner in value:
            if isinstance(inner, dict | list):
                _add_members(inner, members, above)
        return
    members.update([f"{above}{name}" for name in value] if above else value)
    for name, inner in value.items():
        if isinstance(inner, dict | list):
            _add_members(inner, members, f"{above}{name}.")


def _with_long_numbers(text: Any, table: Any) -> Any:
    """Read whole numbers of more than 64 bits as such, which Arrow otherwise makes doubles of."""
    pairs = zip(table.schema, table.columns, strict=True)
    schema = pa.schema([field.with_type(_exact_type(cells)) for field, cells in pairs])
    if schema == table.schema:
        return table
    try:
        return _read_json(text, schema, "infer")
    except pa.ArrowInvalid:  # not all of them are whole
        return table


def _exact_type(cells: Any) -> Any:
    """Return the type of cells; of doubles that may be longer whole numbers, that of such."""
    kind = cells.type
    if pa.types.is_struct(kind):
        pairs = zip(kind, _inner(cells), strict=True)
        return pa.struct([field.with_type(_exact_type(part)) for field, part in pairs])
    if not pa.types.is_float64(kind):
        return kind
    return _WHOLE if (pc.max(pc.abs(cells)).as_py() or 0.0) >= _BEYOND_64_BITS else kind


def _inner(cells: Any) -> list[Any]:
    """Return the fields of structures, each as cells."""
    return [pc.struct_field(cells, [k]) for k in range(cells.type.num_fields)]


def _wider(table: Any, retained: frozenset[str]) -> Any:
    """Return a schema whose whole numbers, and what was always null so far, may be any number.

    Not those that are names: doubles would make one of several.  Dates are the text that they are.
    """
    pairs = zip(table.schema, table.columns, strict=True)
    return pa.schema(
        [field.with_type(_wider_type(cells, field.name, retained)) for field, cells in pairs]
    )


def _are_long(cells: Any) -> bool:
    """Say whether some cells are whole numbers beyond those that doubles are exact for."""
    if not is_whole(cells.type):
        return False
    ends = pc.min_max(cells).as_py().values()
    return any(end is not None and abs(end) >= MOST_WHOLE for end in ends)


def _wider_type(cells: Any, name: str, retained: frozenset[str]) -> Any:
    kind = cells.type
    if pa.types.is_struct(kind):
        pairs = zip(kind, _inner(cells), strict=True)
        return pa.struct(
            [
                field.with_type(_wider_type(part, f"{name}.{field.name}", retained))
                for field, part in pairs
            ]
        )
    if name in retained and _are_long(cells):
        return kind
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    is_amount = is_whole(kind) and not are_ids(cells.combine_chunks())
    return pa.float64() if is_amount or pa.types.is_null(kind) else _as_text(kind)


def _as_text(kind: Any) -> Any:
    """Return the type of what Arrow takes for dates as it is written, and any other type."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_as_text(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_as_text(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind


def _unfit(lines: Sequence[tuple[int, bytes]], schema: Any) -> list[int]:
    """Return the numbers of the lines that cannot be read by a schema."""
    if _refused(_joined(line for _, line in lines), schema) is None:
        return []
    if len(lines) == 1:
        return [lines[0][0]]
    middle = len(lines) // 2
    return _unfit(lines[:middle], schema) + _unfit(lines[middle:], schema)


def _refused(text: bytes, schema: Any) -> str | None:
    """Return Arrow's words on lines that it cannot read by a schema, or by none.

    None where it can.
    """
    try:
        _read_json(text, schema, "infer" if schema is None else "ignore")
    except pa.ArrowInvalid as error:
        return _IN_ROW.sub("", str(error)).removeprefix("JSON parse error: ")
    return None


def _explained(line: bytes, schema: Any) -> Fault:
    """Return fact and advice on a line, an object, that does not go with the lines before."""
    row = json.loads(line, parse_int=_whole)
    for field in schema:
        fact = _member(row.get(field.name), field, field.name)
        if fact:
            return fact, "Write all of its values alike,"
    words = _refused(line, schema) or _refused(line, None)
    words = words or "its types are not those of the lines before"
    return f"the line cannot be read ({words})", "Correct it,"


def _member(value: Any, field: Any, path: str) -> str | None:
    """Return what is wrong with a member, or with one of those inside it; None: nothing."""
    alone = json.dumps({field.name: value}).encode()
    if value is None or _refused(alone, pa.schema([field])) is None:
        return None
    if pa.types.is_struct(field.type) and isinstance(value, dict):
        for inner in field.type:
            fact = _member(value.get(inner.name), inner, f"{path}.{inner.name}")
            if fact:
                return fact
    wanted = next((words for is_kind, words in _KINDS if is_kind(field.type)), "a word")
    cell = shown(json.dumps(value, ensure_ascii=False))
    return f"column {path!r} holds {cell}, {wanted} was expected, as before"


def _dropped(options: SourceOptions, expected: Expected) -> tuple[str, ...]:
    """Return the names of members that nothing is read of, whatever they hold."""
    names = [name for name in options.drop if isinstance(name, str)]
    names += [name for name, kind in options.column.items() if kind == "drop"]
    schema = expected.schema
    if schema is not None and schema.names is not None:
        names += [schema.names[k] for k in schema.dropped]
    return tuple(name for name in names if name not in expected.read_anyway)


def _refusal(name: str, number: int, fault: Fault, *, can_skip: bool = True) -> BadInput:
    fact, advice = fault
    tail = f"{advice} {SKIP_ADVICE}" if can_skip else f"{advice.rstrip(',')}."
    return BadInput(f"{name}, line {1 + number}: {fact}. {tail}")
