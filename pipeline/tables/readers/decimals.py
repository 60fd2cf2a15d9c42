"""Decimal text to the nearest double, in compiled code: the number that `float()` gives.

Two ways, tried in this order.  Digits behind the 19th are taken for zeros: the value differs by one
unit in the last place at most, in about one such number of a thousand.

1. Clinger (1990): a mantissa of at most 2^53 times or divided by a power of ten up to 10^22 takes
   one correctly rounded operation on exact numbers.
2. Eisel and Lemire (Lemire, Number parsing at a gigabyte per second, 2021): with 10^q = 5^q 2^q,
   the product of the 64-bit mantissa and a 128-bit 5^q leaves the 53 wanted bits and enough more
   to round them.  Up to 19 digits it always decides (Mushtak and Lemire, Fast number parsing
   without fallback, 2023).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.tables.readers.characters import DOT, MINUS, NINE, PLUS, ZERO
from fewpass.solvers.kernels.dispatch import called_by_kernels, reading_part
from fewpass.solvers.kernels.shapes import Bytes, Index

#: A place in text: unsigned, since numba would test signed ones for counting from the end.
Position = Any
STEP = np.uint64(1)

#: What became of a token.
OK, JUNK, NAN, INFINITE = 0, 1, 2, 3

_NAN, _INF, _INITY = tuple(b"nan"), tuple(b"inf"), tuple(b"inity")
#: 10^0 to 10^22: the powers of ten that are doubles.
TENS = np.array([10.0**k for k in range(23)])

#: As many digits are surely an integer of at most 2^53.
PLAIN_DIGITS = 15

#: Decimal exponents between which a 64-bit mantissa neither vanishes nor overflows.
_LOWEST, _HIGHEST = -342, 308
#: Digits that surely fit a signed and an unsigned 64-bit integer.
_SIGNED_DIGITS, _UNSIGNED_DIGITS = 18, 19
#: An exponent so large that no mantissa in a file brings it back; keeps sums of exponents exact.
_ENDLESS = 10**15


def _power_of_five(q: int) -> int:
    """5^q scaled to exactly 128 bits: rounded down for q >= 0, up below (as the proof wants it)."""
    if q >= 0:
        power: int = 5**q
        return (power << 128) >> power.bit_length()
    divisor: int = 5**-q
    quotient = (1 << (127 + divisor.bit_length())) // divisor
    return (quotient >> (quotient.bit_length() - 128)) + 1


def _table() -> NDArray[np.uint64]:
    powers = [_power_of_five(q) for q in range(_LOWEST, _HIGHEST + 1)]
    halves = [(power >> 64, power & ((1 << 64) - 1)) for power in powers]
    return np.array(halves, np.uint64)


_FIVES = _table()  # (651, 2) high and low words

_U0, _U1, _U3 = np.uint64(0), np.uint64(1), np.uint64(3)
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_NINE_BITS = np.uint64(0x1FF)
_HIDDEN = np.uint64(1 << 52)
_CARRIED = np.uint64(1 << 53)
_INFINITY = np.uint64(0x7FF << 52)


@reading_part
def plain_number(text: Bytes, at: Position) -> tuple[float, Position, Position, Position, Index]:
    """Read a sign, digits, and digits behind a dot, at text[at].

    Returns
    -------
    tuple
        The value, which is the nearest double where there are 1 to PLAIN_DIGITS digits; the
        positions of the first digit, of the dot, and behind the number; and how many digits.
    """
    mantissa = np.int64(0)
    negative = text[at] == MINUS
    at += np.uint64(negative)
    first = at
    while ZERO <= text[at] <= NINE:
        mantissa = mantissa * 10 + (np.int64(text[at]) - ZERO)
        at += STEP
    point = at
    if text[at] == DOT:
        at += STEP
        while ZERO <= text[at] <= NINE:
            mantissa = mantissa * 10 + (np.int64(text[at]) - ZERO)
            at += STEP
    fraction = np.int64(at - point)
    fraction -= fraction > 0
    digits = np.int64(point - first) + fraction
    value = mantissa / TENS[fraction] if 0 < digits <= PLAIN_DIGITS else 0.0
    return (-value if negative else value), first, point, at, digits


@called_by_kernels
def _product(a: np.uint64, b: np.uint64) -> tuple[np.uint64, np.uint64]:
    """High and low word of a b."""
    a1, a0, b1, b0 = a >> _HALF, a & _LOW, b >> _HALF, b & _LOW
    low = a0 * b0
    middle = a1 * b0 + (low >> _HALF)
    cross = a0 * b1 + (middle & _LOW)
    return a1 * b1 + (middle >> _HALF) + (cross >> _HALF), (cross << _HALF) | (low & _LOW)


@called_by_kernels
def _leading_zeros(word: np.uint64) -> int:
    zeros = 0
    for step in (32, 16, 8, 4, 2, 1):
        if word >> np.uint64(64 - step) == _U0:
            word <<= np.uint64(step)
            zeros += step
    return zeros


@called_by_kernels
def _subnormal(mantissa: np.uint64, shift: np.int64) -> np.uint64:
    """Round a mantissa whose exponent lies `shift` below the smallest normal one."""
    if shift >= 64:
        return _U0
    mantissa >>= np.uint64(shift)
    return (mantissa + (mantissa & _U1)) >> _U1  # 2^52 here is the smallest normal number's bits


@called_by_kernels
def eisel_lemire(mantissa: np.uint64, exponent: Index) -> np.uint64:
    """Bits of the double nearest to mantissa 10^exponent; infinity's bits on overflow."""
    if mantissa == _U0 or exponent < _LOWEST:
        return _U0
    if exponent > _HIGHEST:
        return _INFINITY
    zeros = _leading_zeros(mantissa)
    word = mantissa << np.uint64(zeros)
    high, low = _product(word, _FIVES[exponent - _LOWEST, 0])
    if high & _NINE_BITS == _NINE_BITS:  # a carry from the lower word could reach the leading bits
        second, _ = _product(word, _FIVES[exponent - _LOWEST, 1])
        low += second
        if low < second:
            high += _U1
    top = high >> np.uint64(63)
    shift = top + np.uint64(9)
    bits = high >> shift  # 54 bits: 53 and the one to round by
    power = ((217706 * exponent) >> 16) + 63 + np.int64(top) - zeros + 1023
    if power <= 0:
        return _subnormal(bits, np.int64(1 - power))
    exact = low <= _U1 and -4 <= exponent <= 23 and bits << shift == high
    if exact and bits & _U3 == _U1:  # halfway, and the neighbour below is even
        bits -= _U1
    bits = (bits + (bits & _U1)) >> _U1
    if bits == _CARRIED:
        bits = _HIDDEN
        power += 1
    if power >= 0x7FF:
        return _INFINITY
    return (bits - _HIDDEN) | (np.uint64(power) << np.uint64(52))


@called_by_kernels
def _rounded(mantissa: np.uint64, exponent: Index) -> tuple[int, float]:
    """Status and value of mantissa 10^exponent."""
    bits = eisel_lemire(mantissa, exponent)
    if bits == _INFINITY:
        return INFINITE, np.inf
    return OK, np.uint64(bits).view(np.float64)


@called_by_kernels
def _first_digits(text: Bytes, at: Position, end: Position) -> tuple[np.uint64, int]:
    """First 19 significant digits of text[at:end], and the exponent they lack."""
    mantissa, n_digits, exponent = _U0, 0, 0
    fraction = False
    for k in range(at, end):
        c = text[k]
        if c == DOT:
            fraction = True
            continue
        if n_digits == _UNSIGNED_DIGITS:
            exponent += 0 if fraction else 1
            continue
        mantissa = mantissa * np.uint64(10) + np.uint64(np.int64(c) - ZERO)
        n_digits += 1 if mantissa != _U0 else 0
        exponent -= 1 if fraction else 0
    return mantissa, exponent


@called_by_kernels
def _exponent(text: Bytes, at: Position) -> tuple[np.int64, Position]:
    """Number after an `e` at text[at - 1], and where it ends: at `at` when there is none."""
    start = at
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += STEP
    digits, value = at, np.int64(0)
    while ZERO <= text[at] <= NINE:
        if value < _ENDLESS:
            value = value * 10 + np.int64(text[at]) - ZERO
        at += STEP
    if at == digits:
        return np.int64(0), start
    return (-value if negative else value), at


@called_by_kernels
def _behind_word(text: Bytes, at: Position, word: tuple[int, ...]) -> Position:
    """Position behind a word at text[at], in either case; `at` when something else stands there."""
    behind = at
    for letter in word:  # stops at the first that differs: a line end is never passed
        if text[behind] | 32 != letter:
            return at
        behind += STEP
    return behind


@called_by_kernels
def _no_number(text: Bytes, at: Position) -> tuple[int, float, Position]:
    """Tell nan and inf, as `float()` reads them, from junk."""
    behind = _behind_word(text, at, _NAN)
    if behind > at:
        return NAN, np.nan, behind
    behind = _behind_word(text, at, _INF)
    if behind > at:
        return INFINITE, np.inf, _behind_word(text, behind, _INITY)
    return JUNK, 0.0, at


@called_by_kernels
def decimal(text: Bytes, at: Position) -> tuple[int, float, Position]:
    """Read the number that begins at text[at].

    Parameters
    ----------
    text
        (size,) bytes, with a line end at or after the number: nothing beyond it is looked at.
    at
        Where the number begins.

    Returns
    -------
    status
        OK, JUNK, NAN or INFINITE (also on overflow).
    value
        The double nearest to the number, ties to even; 0 for JUNK.
    at
        The first position behind the number.  What stands there is the caller's to check.
    """
    negative = text[at] == MINUS
    if negative or text[at] == PLUS:
        at += STEP
    start, mantissa, exponent = at, np.int64(0), np.int64(0)
    while ZERO <= text[at] <= NINE:
        mantissa = mantissa * 10 + (np.int64(text[at]) - ZERO)
        at += STEP
    digits = np.int64(at - start)
    if text[at] == DOT:
        at += STEP
        point = at
        while ZERO <= text[at] <= NINE:
            mantissa = mantissa * 10 + (np.int64(text[at]) - ZERO)
            at += STEP
        exponent = -np.int64(at - point)
        digits -= exponent
    if digits == 0:
        status, value, at = _no_number(text, start)
        return status, -value if negative else value, at
    end, scale = at, np.int64(0)
    if text[at] | 32 == 101:  # e, E
        scale, behind = _exponent(text, at + STEP)
        at = behind if behind > at + STEP else at
        exponent += scale
    if digits <= _SIGNED_DIGITS:
        if mantissa <= 1 << 53 and -22 <= exponent <= 22:
            value = float(mantissa)
            value = value / TENS[-exponent] if exponent < 0 else value * TENS[exponent]
            return OK, -value if negative else value, at
        status, value = _rounded(np.uint64(mantissa), np.int64(exponent))
    else:
        first, lacking = _first_digits(text, start, end)
        status, value = _rounded(np.uint64(first), lacking + scale)
    return status, -value if negative else value, at
