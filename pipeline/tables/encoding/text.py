"""Text as signed hashes of its words and pairs of words, weighted by tf-idf, compiled.

A token is a run of letters, digits and bytes beyond ASCII, in lower case.  A row holds one value
per slot that any of its tokens, or any two neighbours, is hashed to: +-(1 + log count) idf, the
row's values together of length 1.  By characters, every three, four and five neighbours take the
place of tokens.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.encoding.hashing import buffers_of, murmur3
from fewpass.solvers.kernels.dispatch import kernel, part_of_kernels
from fewpass.solvers.kernels.shapes import Byte, Bytes, Vector, WholeNumbers

#: More slots would make the weights of the words too large to keep.
MOST_TEXT_BITS = 22
#: Characters that are hashed together.
SHORTEST, LONGEST = 3, 5
#: Weights of slots that all weigh the same.
ALIKE = np.ones(1)
#: Of text whose slots are counted at a time.
_COUNTED_BYTES = 1 << 20

Grams = Literal["words", "characters"]
Slots = NDArray[np.int64]


class Ragged(NamedTuple):
    """Entries of rows, as many in each as it has."""

    starts: NDArray[np.int64]  # (n + 1,)
    column: NDArray[np.int64]  # (nnz,) ascending and distinct in a row
    value: NDArray[np.float64]  # (nnz,)


@part_of_kernels
def _lowered(c: Byte) -> Byte:
    return c + 32 if 65 <= c <= 90 else c


@part_of_kernels
def _in_token(c: Byte) -> bool:
    return bool(48 <= c <= 57 or 97 <= c <= 122 or c >= 128)


@kernel
def _tokens(text: Bytes, begin: int, end: int, scratch: Bytes, codes: WholeNumbers) -> int:
    """Hash the words of text[begin:end] and every two neighbours; return how many there are."""
    n, start, before = 0, 0, -1
    for at in range(begin, end + 1):
        c = _lowered(text[at]) if at < end else 32
        here = at - begin
        scratch[here] = c if _in_token(c) else 32
        if _in_token(c):
            continue
        if here > start:
            codes[n] = murmur3(scratch, start, here)
            n += 1
            if before >= 0:
                codes[n] = murmur3(scratch, before, here)
                n += 1
            before = start
        start = here + 1
    return n


@kernel
def _characters(text: Bytes, begin: int, end: int, scratch: Bytes, codes: WholeNumbers) -> int:
    """Hash the runs of 3 to 5 characters of UTF-8 in text[begin:end]; return how many there are."""
    n, size = 0, end - begin
    for k in range(size):
        scratch[k] = _lowered(text[begin + k])
    for start in range(size):
        if scratch[start] & 0xC0 == 0x80:  # inside a character
            continue
        length = 0
        for stop in range(start + 1, size + 1):
            if stop < size and scratch[stop] & 0xC0 == 0x80:
                continue
            length += 1
            if length >= SHORTEST:
                codes[n] = murmur3(scratch, start, stop)
                n += 1
            if length == LONGEST:
                break
    return n


@kernel
def _encode(
    text: Bytes,
    ends: WholeNumbers,
    bits: int,
    weights: Vector,
    characters: bool,
    starts: WholeNumbers,
    out: tuple[WholeNumbers, Vector],
) -> int:
    """Fill (column, value) rows of `out`; starts (n + 1,)."""
    longest = 0
    for i in range(ends.size - 1):
        longest = max(longest, ends[i + 1] - ends[i])
    per_byte = LONGEST - SHORTEST + 1 if characters else 1
    scratch, codes = np.empty(longest + 1, np.uint8), np.empty(per_byte * longest + 2, np.int64)
    columns, values = out
    at, mask, last = 0, (1 << bits) - 1, weights.size - 1
    for i in range(ends.size - 1):
        if characters:
            n = _characters(text, ends[i], ends[i + 1], scratch, codes)
        else:
            n = _tokens(text, ends[i], ends[i + 1], scratch, codes)
        first, square = at, 0.0
        order = np.argsort(codes[:n] & mask, kind="mergesort")
        for k in range(n):
            code = codes[order[k]]
            slot, sign = code & mask, 1.0 if code >> 31 == 0 else -1.0
            if at == first or columns[at - 1] != slot:
                columns[at], values[at] = slot, 0.0
                at += 1
            values[at - 1] += sign
        for k in range(first, at):
            tf = abs(values[k])
            scaled = (1.0 + np.log(tf)) * weights[columns[k] & last] if tf > 0.0 else 0.0
            values[k] = scaled if values[k] > 0.0 else -scaled
            square += scaled * scaled
        for k in range(first, at):
            values[k] /= np.sqrt(square) if square > 0.0 else 1.0
        starts[i + 1] = at
    return at


def encode_text(
    words: Any, bits: int, grams: Grams = "words", weights: NDArray[np.float64] = ALIKE
) -> Ragged:
    """Encode the cells (n,) of a large string array; weights (2^bits,) are the slots' idf."""
    if words.null_count:  # bytes may lie beneath
        words = words.fill_null("")
    text, ends = buffers_of(words)
    by_characters = grams == "characters"
    most = int(ends[-1] - ends[0]) + len(words)  # a token and a separator make two entries
    most *= LONGEST - SHORTEST + 1 if by_characters else 1
    columns, values = np.empty(most, np.int64), np.empty(most)
    starts = np.zeros(len(words) + 1, np.int64)
    n = _encode(text, ends, bits, weights, by_characters, starts, (columns, values))
    return Ragged(starts, columns[:n], values[:n])


def slots_of(words: Any, bits: int, grams: Grams = "words") -> tuple[Slots, Slots]:
    """Return the slots that any of the cells (n,) has, and how many of the cells have each.

    Cells are encoded some at a time: the entries of all would take many times their text.
    """
    rows = np.zeros(1 << bits, np.int32)
    for part in _slices(words):
        slots, counts = np.unique(encode_text(part, bits, grams).column, return_counts=True)
        rows[slots] += counts.astype(np.int32)
    slots = np.flatnonzero(rows)
    return slots, rows[slots].astype(np.int64)


def _slices(words: Any) -> Iterator[Any]:
    """Yield cells (n,) in slices of about as many bytes, one cell at least in each."""
    _, ends = buffers_of(words)
    start = 0
    while start < len(words):
        stop = int(np.searchsorted(ends, ends[start] + _COUNTED_BYTES, "right")) - 1
        stop = max(start + 1, stop)
        yield words.slice(start, stop - start)
        start = stop


class DocumentCounts:
    """Counts of rows that have each slot, of all cells added so far."""

    def __init__(self, bits: int, grams: Grams) -> None:
        self.bits, self.grams = bits, grams
        self.n, self.rows = 0, np.zeros(1 << bits, np.int64)

    def add(self, n: int, slots: Slots, counts: Slots) -> None:
        """Count n cells in, as `slots_of` has them."""
        self.n += n
        self.rows[slots] += counts

    def weights(self) -> NDArray[np.float64]:
        """Return the idf of every slot, log((1 + n) / (1 + rows that have it)) + 1, (2^bits,)."""
        idf: NDArray[np.float64] = np.log((1.0 + self.n) / (1.0 + self.rows)) + 1.0
        return idf
