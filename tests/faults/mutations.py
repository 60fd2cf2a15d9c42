"""Bytes changed as accidents and as somebody who knows the format would change them."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

LENGTHS = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 62, (1 << 63) - 1,
           (1 << 64) - 1)  # fmt: skip
NUMBERS = (b"-1", b"0", b"1e308", b"-1e999", b"nan", b"9" * 20, b"9" * 400, b"1.2.3", b"+", b"0x1f")
ODD = (b"\0", b"\xff", b"\xed\xa0\x80", b'"', b"'", b"\\", b"\r", b"\n", b"\n\n", b"\xef\xbb\xbf", b"{", b"}",
       b"[", b"]", b":", b",", b"|", b"%", b"#", b"\xc2\x85", b"\xe2\x80\xa8", b" " * 300)  # fmt: skip

Change = Callable[[bytes, random.Random], bytes]


def a_bit(raw: bytes, chance: random.Random) -> bytes:
    """Flip one to four bits."""
    changed = bytearray(raw)
    for _ in range(chance.choice((1, 1, 2, 4))):
        changed[_place(raw, chance)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def a_cut(raw: bytes, chance: random.Random) -> bytes:
    """Keep what stands before a place."""
    return raw[: chance.randrange(1, len(raw))]


def left_out(raw: bytes, chance: random.Random) -> bytes:
    """Take some bytes away."""
    at = _place(raw, chance)
    return raw[:at] + raw[at + chance.choice((1, 2, 4, 8, 64, 500)) :] or b"\0"


def spliced(raw: bytes, chance: random.Random) -> bytes:
    """Write one part over another."""
    size, at, begin = chance.randrange(1, 100), _place(raw, chance), _place(raw, chance)
    return raw[:at] + raw[begin : begin + size] + raw[at + size :]


def repeated(raw: bytes, chance: random.Random) -> bytes:
    """Write a part several times, or the whole file twice."""
    if chance.random() < 0.1:
        return raw + raw
    at, size = _place(raw, chance), chance.randrange(1, 200)
    return raw[:at] + raw[at : at + size] * chance.choice((2, 3, 50)) + raw[at + size :]


def a_length(raw: bytes, chance: random.Random) -> bytes:
    """Put another number where one may stand: 4 or 8 bytes at a place divisible by 4."""
    size = chance.choice((4, 8))
    at = _place(raw, chance) & ~3
    if chance.random() < 0.5:
        found = int.from_bytes(raw[at : at + size], "little")
        number = found + chance.choice((-8, -1, 1, 8, 64, 4096))
    else:
        number = chance.choice(LENGTHS)
    return raw[:at] + (number % (1 << 8 * size)).to_bytes(size, "little") + raw[at + size :]


def a_word(raw: bytes, chance: random.Random) -> bytes:
    """Put another number in place of one that is written in digits, or odd bytes anywhere."""
    found = [*re.finditer(rb"-?\d+(?:\.\d+)?", raw)]
    if found and chance.random() < 0.5:
        number = chance.choice(found[:2000])
        return raw[: number.start()] + chance.choice(NUMBERS) + raw[number.end() :]
    at = _place(raw, chance)
    return raw[:at] + chance.choice(ODD) + raw[at:]


def a_tail(raw: bytes, chance: random.Random) -> bytes:
    """Write more behind the end."""
    return raw + chance.choice((b"\0" * 8, b"x", b"\n\0\n", raw[:50], bytes(chance.randbytes(40))))


def of_format(name: str) -> Change:
    """Return the change that knows a format; others of text and of binary files."""
    for end, change in KNOWING.items():
        if name.endswith(end):
            return change
    return a_word


def _nested(raw: bytes, chance: random.Random) -> bytes:
    """Brackets in each other, a name twice, no object, or two in a line."""
    lines = raw.split(b"\n")
    at, deep = chance.randrange(len(lines) - 1), chance.choice((2, 99, 150, 5000, 200_000))
    row = lines[at]
    lines[at] = chance.choice((
        b'{"l":' + b"[" * deep + b"]" * deep + b"}", b'{"a":' * deep + b"1" + b"}" * deep,
        row[:-1] + b',"s.p":3}', row[:-1] + b',"a":3}', row + row, b"[1,2]", b"7", b'"x"', b"null",
        b"[" * deep, row.replace(b":", b":\n", 1), row[:-1] + b',"":1}', row[:-1] + b',"l":[]}',
        row[:-1] + b',"s":[1]}', row.replace(b'"a"', b'"\xff"', 1),
    ))  # fmt: skip
    return b"\n".join(lines)


def _header_of_array(raw: bytes, chance: random.Random) -> bytes:
    """Another header of a NumPy array, as long as the one there, or longer."""
    end = raw.index(b"\n") + 1
    shape = chance.choice((
        b"(60, 2)", b"(-1, 2)", b"(60, -2)", b"(4611686018427387904, 8)", b"(30, 2)", b"(61, 2)",
        b"(True, 2)", b"(60,)", b"()", b"(2, 3, 20)", b"(60, 0)", b"(0, 2)", b"6.0",
        b"(" * 300 + b")" * 300, b"(" * 5000, b"[60, 2]", b"(120, 1)", b"('6', 2)", b"(1" + b"0" * 5000,
    ))  # fmt: skip
    descr = chance.choice((
        b"'<f8'", b"'|O'", b"'<U0'", b"'<U9'", b"'<M8[s]'", b"'<c16'", b"'<f2'", b"'>f8'", b"'|V8'",
        b"[('a', '<f8')]", b"('<f8', (2,))", b"'<f99'", b"None", b"'|b1'", b"'|S0'",
    ))  # fmt: skip
    header = b"{'descr': %s, 'fortran_order': %s, 'shape': %s, }" % (
        descr, chance.choice((b"False", b"True", b"0", b"__import__('os')")), shape,
    )  # fmt: skip
    header = chance.choice((header, header, header[:-1], header + b"}", b""))
    header = header.ljust(end - 11) + b"\n"
    mark = chance.choice(
        (raw[:8], raw[:8], b"\x93NUMPY\x02\x00", b"\x93NUMPY\x03\x00", b"\x93NUMPY\x09\x00")
    )
    size = len(header).to_bytes(2 if mark[6] == 1 else 4, "little")
    return mark + size + header + raw[end:]


KNOWING: dict[str, Change] = {
    ".jsonl": _nested,
    ".npy": _header_of_array,
}
CHANGES: dict[str, Change] = {
    "a bit": a_bit, "a cut": a_cut, "left out": left_out, "spliced": spliced, "repeated": repeated,
    "a length": a_length, "a word": a_word, "a tail": a_tail,
}  # fmt: skip


def changed(name: str, raw: bytes, what: str, number: int) -> bytes:
    """Return a file's bytes with one change, the same for the same number."""
    chance = random.Random(f"{name} {what} {number}")
    change = of_format(name) if what == "knowing" else CHANGES[what]
    return change(raw, chance)


def _place(raw: bytes, chance: random.Random) -> int:
    """Draw a place: anywhere, or near the end, where some formats keep what they are."""
    if chance.random() < 0.3:
        return max(0, len(raw) - 1 - int(chance.random() ** 2 * 1500))
    return chance.randrange(len(raw))
