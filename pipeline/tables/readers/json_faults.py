"""Lines that are not JSON, or whose members are of other types than those of the lines before."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json

from fewpass.pipeline.tables.readers.json_screen import fault_of
from fewpass.pipeline.tables.readers.rejection import shown

_ROW = re.compile(r" in row (\d+)$")  # of the first that Arrow does not take
_WHERE = re.compile(r" in row \d+$|^JSON parse error: ")
_DIGITS = 400
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def read_json(text: Any, schema: Any, others: str) -> Any:
    """Read lines by a schema; `others` is what becomes of members that it does not have.

    The lines are sound (json_screen.py).
    """
    if schema is not None and not len(text):
        return schema.empty_table()
    return pa.json.read_json(
        pa.BufferReader(pa.py_buffer(text)),
        pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
        pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior=others),
    )


def lines_in(text: Any) -> tuple[list[bytes], Any]:
    """Return the lines that are not blank, and the number of each, from 0."""
    lines = np.ascontiguousarray(text).tobytes().split(b"\n")
    numbers = [k for k, line in enumerate(lines) if line.strip()]
    return [lines[k] for k in numbers], np.array(numbers, np.int64)


def without_members(text: Any, names: Sequence[str]) -> tuple[bytes, tuple[str, ...]]:
    """Return lines without the members of these names, and the names that occurred."""
    dropped: dict[str, None] = {}
    lines = []
    for line in np.ascontiguousarray(text).tobytes().split(b"\n"):
        try:
            row = None if fault_of(line) else json.loads(line, parse_int=_whole)
        except ValueError:  # blank, or reported later
            row = None
        if isinstance(row, dict):
            here = [name for name in names if name in row]
            dropped |= dict.fromkeys(here)
            left = {name: value for name, value in row.items() if name not in here}
            lines.append(json.dumps(left).encode() if here else line)
        else:
            lines.append(line)
    return b"\n".join(lines), tuple(dropped)


def first_clash(error: Exception) -> int | None:
    """Return which of the lines that are not blank Arrow stopped at, if it says so."""
    match = _ROW.search(str(error))
    return int(match[1]) if match else None


def unfit(lines: Sequence[bytes], schema: Any) -> list[int]:
    """Return the numbers of the lines that cannot be read by a schema."""
    sound = [k for k, line in enumerate(lines) if fault_of(line) is None]
    bad = sorted({*range(len(lines))} - {*sound})
    open_: list[tuple[int, int]] = [(0, len(sound))]
    while open_:
        begin, end = open_.pop()
        part = [lines[k] for k in sound[begin:end]]
        if begin == end or _fits(b"\n".join(part) + b"\n", schema):
            continue
        if end - begin == 1:
            bad.append(sound[begin])
            continue
        middle = (begin + end) // 2
        open_ += [(middle, end), (begin, middle)]
    return sorted(bad)


def _fits(text: bytes, schema: Any) -> bool:
    try:
        read_json(text, schema, "ignore")
    except pa.ArrowInvalid:
        return False
    return True


def explained(line: bytes, schema: Any) -> tuple[str, str]:
    """Return fact and advice on a line that cannot be read by a schema."""
    if fault := fault_of(line):
        return fault
    row = json.loads(line, parse_int=_whole)
    for field in schema:
        fault = _member(row.get(field.name), field, field.name)
        if fault:
            return fault
    try:
        read_json(line + b"\n", schema, "ignore")
    except pa.ArrowInvalid as error:
        return f"the line cannot be read ({_WHERE.sub('', str(error))})", "Correct it,"
    return "the line cannot be read beside the others", "Correct it,"


def _whole(digits: str) -> int | float:
    """Return a whole number; Python reads none of more than some thousand digits."""
    return int(digits) if len(digits) < _DIGITS else float(digits)


def _member(value: Any, field: Any, path: str) -> tuple[str, str] | None:
    """Say what is wrong with a member, or with one of those inside it; None: nothing."""
    text = json.dumps({field.name: value}).encode() + b"\n"
    if value is None or _fits(text, pa.schema([field])):
        return None
    if pa.types.is_struct(field.type) and isinstance(value, dict):
        for inner in field.type:
            fault = _member(value.get(inner.name), inner, f"{path}.{inner.name}")
            if fault:
                return fault
    fact = f"column {path!r} holds {shown(json.dumps(value, ensure_ascii=False))}, {_wanted(field)}"
    return fact, f"Write all of its values alike, as words for example by jq -c {_jq(path)},"


def _wanted(field: Any) -> str:
    kind, types = field.type, pa.types
    if types.is_integer(kind) or types.is_floating(kind):
        return "a number was expected, as before"
    if types.is_boolean(kind):
        return "true or false was expected, as before"
    if types.is_timestamp(kind) or types.is_date(kind):
        return "a date was expected, as before"
    if types.is_list(kind):
        return "a list of like values was expected, as before"
    if types.is_struct(kind):
        return "an object was expected, as before"
    return "a word was expected, as before"


def _jq(path: str) -> str:
    parts = [p if _IDENTIFIER.fullmatch(p) else json.dumps(p) for p in path.split(".")]
    return f"'.{'.'.join(parts)} |= tostring'"
