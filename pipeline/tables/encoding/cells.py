"""Meanings of cells: cells of a column, typed or as text, as numbers and words.

A cell says what its text says, whatever it comes in: 3 and 3.0 are one whole number, a date is its
ISO 8601, and nothing is said by a null, a NaN and an empty text.  So a table that is read from CSV,
JSON, Parquet or memory says the same, and single rows (`fewpass.pipeline.models.serving`) do.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fewpass.pipeline.decimal_text import DECIMAL

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_FINITE = rf"^{DECIMAL}$"
NOT_FINITE = r"^[-+]?(?i:inf|infinity|nan)$"
_NUMBER = rf"{_FINITE}|{NOT_FINITE}"
#: Currencies, around a number; what may stand between thousands, other than the comma or the point.
CURRENCY = r"[$€£¥₹]|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD|SEK|NOK|DKK|PLN|BRL"
_MONEY = rf"(?:{CURRENCY})?"
_GAP = "[ \N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}]?"
_BETWEEN = "'’ \N{NO-BREAK SPACE}\N{THIN SPACE}\N{NARROW NO-BREAK SPACE}"
_BEFORE, _BEHIND = rf"[-+]?{_MONEY}{_GAP}[-+]?", rf"{_GAP}{_MONEY}%?"
_THOUSANDS = r"(?:[1-9]\d{0,2}(?:[MARK]\d{3})+|\d+)"
_COMMA = (
    rf"{_BEFORE}{_THOUSANDS.replace('MARK', '.' + _BETWEEN)}(?:,\d+)?(?:[eE][-+]?\d+)?{_BEHIND}"
)
_UNITS = rf"{_BEFORE}{_THOUSANDS.replace('MARK', ',' + _BETWEEN)}(?:\.\d+)?{_BEHIND}"
#: 11:47:00, 8:05 PM, 1 days 03:04:57 as pandas writes it; or ISO 8601's P1DT3H4M.
CLOCK = (
    r"^(?P<sign>-?)(?:(?P<days>\d+) days?,? \+?)?(?P<hours>\d+):(?P<minutes>[0-5]\d)"
    r"(?::(?P<seconds>[0-5]\d(?:\.\d+)?))? ?(?P<half>(?:[AaPp][Mm])?)$"
)
SPAN = (
    r"^(?P<sign>-?)P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?(?P<half>)$"
)
_CLOCK_PARTS = ("days", "hours", "minutes", "seconds")
_OTHERWISE = {
    "comma": rf"^(?:{_COMMA}|\({_COMMA}\))$",
    "units": rf"^(?:{_UNITS}|\({_UNITS}\))$",
    "clock": re.sub(r"\?P<\w+>", "?:", f"{CLOCK}|{SPAN}"),
}
#: What text looks like that is a finite number, by how it is written: all engines read these alike.
SHAPES = {"plain": _FINITE, **_OTHERWISE}
#: What people write, in any case, where there is nothing to write; and the errors of spreadsheets.
NOTHING = (
    r"^\s*(?i:[(<\[]?(?:n\.?[/\\ ]?a\.?|nan?|nat|null|none|nil|missing|blank|empty|unk(?:nown|n)?|"
    r"n[/.]?d\.?|tb[ad]|undefined|(?:not |un)(?:available|applicable|known|specified|recorded|"
    r"reported|provided|given|disclosed)|no (?:data|value|answer))[)>\]]?|-nan|[-–—?.*_]*|\\N|"
    r"#(?:n/?a|n/a n/a|value!|ref!|div/0!|num!|name\?|null!))\s*$"
)

#: Floats below are written as digits where they are whole; Arrow has no more of them.
_MOST_DIGITS = 1e37
#: Between them Arrow writes floats that are not whole as all others do.
_LEAST_ALIKE, _MOST_ALIKE = 1e-4, 1e10
#: What pandas writes behind whole numbers where some are missing.
_POINT, _WHOLE = ".0", re.compile(r"-?\d+", re.ASCII)
_NO_WORD = pa.nulls(1, pa.large_string())[0]  # pa.scalar imports pandas

#: What Arrow writes behind a time of a zone.
_OFFSET = r"Z|[-+]\d{4}|"

#: Share of the cells that may be no number, or no date, and are bad cells then.
STRAY = 0.01
#: A word stands for a missing value where at least this number, and this share, of cells hold it.
_CELLS, _SHARE = 10, 0.001

#: Numbers beyond are not squared to find the scale of others; encoded ones are no float32.
LARGEST_CELL, LARGEST_ENCODED = 1e70, 1e38
#: Units of Arrow's times, and of numbers that count since 1970, in seconds.
UNITS_OF_TIME = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}

#: How numbers are written in text: 1234.5, or 1.234,5 €, or $1,234.5 and 12 %, or 11:47 (seconds).
Written = Literal["plain", "comma", "units", "clock"]


#: Bytes of a cell beyond which it is a text, whatever it begins with.
LONGEST_CELL = 1 << 12


#: Cells that are tried before all others.
_FIRST = 64


class Read(NamedTuple):
    """Cells of one column, read as one kind of thing."""

    values: Floats  # (n,), NaN where a cell is missing or bad
    bad: Mask | None = None  # (n,) cells that are no such thing; None: there are none


def read_numbers(cells: Any, written: Written = "plain", missing: tuple[str, ...] = ()) -> Read:
    """Read numbers, typed or as text; what is infinite is missing, and so are the words given.

    Where such a word is a number, it is missing however it comes: typed, or with a point behind it.
    Words that everybody has for a missing value are missing, too.  Spans of time, and times of a
    day, are their seconds; a date is no number.
    """
    read = _read_numbers(cells, written, missing)
    if gone := numbers_among(missing, written):
        return read._replace(values=np.where(np.isin(read.values, gone), np.nan, read.values))
    return read


def unclipped_numbers(cells: Any) -> Read:
    """Read numbers as they are, typed or as text, infinite ones as well."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_floating(cells.type):
        return Read(cells.to_numpy(zero_copy_only=False))
    numbers = cells.cast(pa.int8()) if pa.types.is_boolean(cells.type) else cells
    try:
        values = pc.cast(numbers, pa.float64(), safe=False)
    except pa.ArrowInvalid:
        return read_numbers(cells)
    return Read(np.array(values.to_numpy(zero_copy_only=False), np.float64))


@lru_cache(maxsize=512)
def numbers_among(words: tuple[str, ...], written: Written) -> tuple[float, ...]:
    """Return the numbers that words are."""
    if not words:
        return ()
    values, _ = _read_numbers(pa.array(words, pa.large_string()), written, ())
    return tuple(values[~np.isnan(values)].tolist())


def _read_numbers(cells: Any, written: Written, missing: tuple[str, ...]) -> Read:
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if is_span(cells.type):
        return Read(_seconds_of_spans(cells))
    if is_moment(cells.type):
        cells = words_of(cells)
    if not is_text(cells.type):
        return Read(_finite(pc.cast(cells, pa.float64(), safe=False)))
    cells = abridged(without(cells, missing))
    if written != "plain":
        return _read_where(cells, _OTHERWISE[written], _PLAIN[written])
    plain = plain_numbers(cells)
    if plain is not None:
        return Read(plain)
    return _read_where(cells, _NUMBER, lambda good: pc.cast(good, pa.float64()))


def plain_numbers(cells: Any) -> Floats | None:
    """Return the numbers of cells of text that are all written as 1234.5, or missing; or None.

    A cast that fails writes a message about every cell, so the first ones are tried alone.
    """
    try:
        pc.cast(cells[:_FIRST], pa.float64())
        return _finite(pc.cast(cells, pa.float64()))
    except pa.ArrowInvalid:
        return None


def abridged(cells: Any) -> Any:
    """Return cells of text, the long ones cut and an ellipsis behind, which no number or date has.

    Inference copies cells several times, which would take too much memory for long ones.
    """
    sizes = pc.binary_length(cells)
    if (pc.max(sizes).as_py() or 0) <= LONGEST_CELL:
        return cells
    ellipsis, nothing = (pa.scalar(text, cells.type) for text in ("\u2026", ""))
    ends = pc.if_else(pc.greater(sizes, LONGEST_CELL), ellipsis, nothing)
    begins = pc.utf8_slice_codeunits(cells, 0, LONGEST_CELL)
    return pc.binary_join_element_wise(begins, ends, nothing)


def _without_comma(cells: Any) -> Any:
    plain = pc.replace_substring_regex(cells, r"[^0-9,eE()+-]", "")
    return _signed(pc.replace_substring(_without_words(plain), ",", "."))


def _without_units(cells: Any) -> Any:
    return _signed(pc.replace_substring_regex(cells, r"[^0-9.()+-]", ""))


def _without_words(cells: Any) -> Any:
    """Take away the E of EUR, which is no exponent."""
    return pc.replace_substring_regex(cells, r"(^|[^0-9])[eE]|[eE]($|[^0-9+-])", r"\1")


def _signed(cells: Any) -> Any:
    """Return numbers; those in parentheses are below zero, as accountants write them."""
    sizes = pc.cast(pc.replace_substring_regex(cells, r"[()]", ""), pa.float64())
    return pc.if_else(pc.starts_with(cells, "("), pc.negate(sizes), sizes)


def _without_clock(cells: Any) -> Any:
    return pc.coalesce(*(_seconds_by(cells, pattern) for pattern in (CLOCK, SPAN)))


def _seconds_by(cells: Any, pattern: str) -> Any:
    """Return seconds of the cells that a pattern fits; where there are days the sign is theirs."""
    parts = pc.extract_regex(cells, pattern)
    days, hours, minutes, seconds = (
        pc.cast(pc.if_else(pc.equal(part, ""), "0", part), pa.float64())
        for part in (pc.struct_field(parts, name) for name in _CLOCK_PARTS)
    )
    half = pc.utf8_lower(pc.struct_field(parts, "half"))
    is_minus = pc.equal(pc.struct_field(parts, "sign"), "-")
    twelve = pc.subtract(hours, pc.multiply(pc.floor(pc.divide(hours, 12.0)), 12.0))
    hours = pc.if_else(pc.equal(half, ""), hours, twelve)
    hours = pc.if_else(pc.equal(half, "pm"), pc.add(hours, 12.0), hours)
    clock = pc.add(pc.multiply(pc.add(pc.multiply(hours, 60.0), minutes), 60.0), seconds)
    whole = pc.multiply(days, 86_400.0)
    of_days = pc.and_(is_minus, pc.greater(days, 0.0 if pattern == CLOCK else np.inf))
    both = pc.add(pc.if_else(of_days, pc.negate(whole), whole), clock)
    return pc.if_else(pc.and_(is_minus, pc.invert(of_days)), pc.negate(both), both)


_PLAIN = {"comma": _without_comma, "units": _without_units, "clock": _without_clock}


def _read_where(cells: Any, pattern: str, cast: Any) -> Read:
    """Read the cells that look right; all others that are not missing are bad."""
    trimmed = pc.utf8_trim_whitespace(cells)
    fits = pc.match_substring_regex(trimmed, pattern)
    numbers = cast(pc.if_else(fits, trimmed, pa.scalar(None, trimmed.type)))
    return as_read(cells, _finite(numbers), pc.is_null(numbers))


def as_read(cells: Any, values: Floats, unread: Any) -> Read:
    """Return values with the cells that were not read and say something all the same."""
    bad = np.asarray(pc.and_(unread, pc.is_valid(cells)), np.bool_)
    if bad.any():
        bad[bad] = ~np.asarray(says_nothing(cells.filter(pa.array(bad))), np.bool_)
    return Read(values, bad if bad.any() else None)


def says_nothing(cells: Any) -> Any:
    """Return which cells of text stand for a missing value: an Arrow array."""
    return pc.match_substring_regex(cells, NOTHING)


def frequent(words: Any, n: int) -> Any:
    """Return the words, an Arrow array, that many of n cells are: each once."""
    counted = pc.value_counts(words)
    often = pc.greater_equal(counted.field("counts"), max(float(_CELLS), _SHARE * n))
    return counted.field("values").filter(often)


def without(cells: Any, words: tuple[str, ...]) -> Any:
    """Return cells of text, the words given missing."""
    if not words:
        return cells
    gone = pc.is_in(cells, value_set=pa.array(words, cells.type))
    if not pc.any(gone).as_py():
        return cells
    return pc.if_else(gone, pa.scalar(None, cells.type), cells)


def as_array(column: Any) -> Any:
    """Return a column of Arrow in one piece, as it is where it is one."""
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def table_without_nulls(table: Any, words: tuple[str, ...]) -> Any:
    """Return an Arrow table, words that stand for a missing value null in its columns of text."""
    columns = [without(one, words) if is_text(one.type) else one for one in table.columns]
    return pa.table(columns, names=table.column_names)


def _seconds_of_spans(spans: Any) -> Floats:
    integer = pa.int32() if pa.types.is_time32(spans.type) else pa.int64()
    ticks = pc.cast(pc.cast(spans, integer), pa.float64())
    per_second = round(1.0 / UNITS_OF_TIME[spans.type.unit])  # 15e9 times 1e-9 is more than 15
    return np.array(ticks.to_numpy(zero_copy_only=False)) / per_second


def _finite(numbers: Any) -> Floats:
    values = numbers.to_numpy(zero_copy_only=False)
    return np.where(np.isfinite(values), values, np.nan)


def mean_and_deviation(numbers: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation along the first axis, NaN left out; 0 where there is none.

    Numbers are halved or doubled until the largest is near 1, which is exact, as squares of 1e200
    are no numbers any more.
    """
    sizes = np.abs(np.nan_to_num(numbers, nan=0.0))
    _, exponent = np.frexp(sizes.max(axis=0, initial=0.0))
    near_one = np.ldexp(numbers, -exponent)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # no number at all
        mean, deviation = np.nanmean(near_one, axis=0), np.nanstd(near_one, axis=0)
    return np.ldexp(np.nan_to_num(mean), exponent), np.ldexp(np.nan_to_num(deviation), exponent)


def words_of(cells: Any) -> Any:
    """Return what cells say as text, an Arrow array of large strings; null where they say nothing.

    Whole numbers are digits alone, and no zeros stand behind decimals, or behind a whole second.
    Spans of time are their seconds.
    """
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_duration(cells.type):
        cells = pa.array(_seconds_of_spans(cells), from_pandas=True)
    words = pc.cast(cells, pa.large_string())
    if pa.types.is_floating(cells.type):
        words = _without_points(cells, words)
    elif _has_decimals(cells.type):
        words = pc.replace_substring_regex(words, rf"(\.\d*?)0+({_OFFSET})$", r"\1\2")
        words = pc.replace_substring_regex(words, rf"\.({_OFFSET})$", r"\1")
    empty = pc.equal(words, "")
    return pc.if_else(empty, _NO_WORD, words) if pc.any(empty).as_py() else words


def _has_decimals(kind: Any) -> bool:
    """Return whether Arrow writes as many decimals for every cell as its type has."""
    is_decimal = pa.types.is_decimal(kind) and kind.scale > 0
    return bool(is_decimal or is_moment(kind) or pa.types.is_time(kind))


def _without_points(numbers: Any, words: Any) -> Any:
    """Return the text of floats, given as Arrow writes them: whole ones as digits, NaN as null.

    Others have the digits that tell them, from 0.0001 on without an exponent, as in Python.
    """
    values = pc.cast(numbers, pa.float64())
    whole = pc.and_(pc.equal(pc.round(values), values), pc.less(pc.abs(values), _MOST_DIGITS))
    digits = pc.cast(pc.if_else(whole, values, 0.0), pa.decimal128(38, 0))
    words = pc.if_else(whole, pc.cast(digits, pa.large_string()), words)
    sizes, limits = pc.abs(values), pa.array([_LEAST_ALIKE, _MOST_ALIKE])
    least, most = pc.cast(pc.cast(limits, numbers.type), pa.float64())
    rare = pc.or_(pc.less(sizes, least), pc.greater_equal(sizes, most))
    rare = pc.and_(rare, pc.and_(pc.invert(whole), pc.is_finite(values))).fill_null(
        fill_value=False
    )
    if pc.any(rare).as_py():
        said = [str(number) for number in numbers.filter(rare).to_numpy(zero_copy_only=False)]
        words = pc.replace_with_mask(words, rare, pa.array(said, pa.large_string()))
    return pc.if_else(pc.is_nan(values), _NO_WORD, words)


def hashable(cells: Any) -> Any:
    """Return words, `3.0` as `3`: as pandas writes whole numbers where some are missing.

    Columns of few values know by these whether 3 and 3.0 are one (`places_among`).
    """
    words = words_of(cells)
    if not pc.any(pc.ends_with(words, _POINT)).as_py():
        return words
    return pc.replace_substring_regex(words, rf"^(-?\d+){re.escape(_POINT)}$", r"\1")


def places_among(values: Sequence[str]) -> dict[str, int]:
    """Return the places of words among values, also as others write these.

    True and false are alike in any case; 3 and 3.0 are, unless both are values.
    """
    places, flags = {word: k for k, word in enumerate(values)}, are_flags(values)
    for word, k in [*places.items()]:
        if flags:
            places |= {
                "".join(each): k for each in product(*({c, c.upper()} for c in word.lower()))
            }
        if (whole := word.removesuffix(_POINT)) and _WHOLE.fullmatch(whole):
            places.setdefault(whole if whole != word else word + _POINT, k)
    return places


def levels_of_words(words: Any, values: Sequence[str]) -> NDArray[np.int64]:
    """Return the place (n,) of words among values; other words are next, missing ones last."""
    places = places_among(values)
    keys = pc.index_in(words, value_set=pa.array([*places], pa.large_string()))
    place_of = np.array([*places.values(), len(values)], np.int64)
    levels: NDArray[np.int64] = place_of[keys.fill_null(len(places)).to_numpy(zero_copy_only=False)]
    levels[words.is_null().to_numpy(zero_copy_only=False)] = len(values) + 1
    return levels


def are_flags(words: Collection[str]) -> bool:
    """Return whether words are true and false, each in one spelling: they are alike in any case.

    Python writes True, a spreadsheet TRUE, and what is a boolean is true.
    """
    if len(words) > 2:
        return False
    folded = [word.lower() for word in words]
    return set(folded) <= {"true", "false"} and 0 < len(set(folded)) == len(folded)


def is_text(kind: Any) -> bool:
    """Return whether an Arrow type is text."""
    types = pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_single(kind: Any) -> bool:
    """Return whether a cell of an Arrow type is one number, or the lack of one."""
    types = pa.types
    is_number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return bool(is_number or types.is_boolean(kind) or types.is_null(kind) or is_span(kind))


def is_span(kind: Any) -> bool:
    """Return whether an Arrow type is one of spans of time, or of times of a day."""
    return bool(pa.types.is_duration(kind) or pa.types.is_time(kind))


def is_moment(kind: Any) -> bool:
    """Return whether an Arrow type is one of dates and times."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def is_numeric(kind: Any) -> bool:
    """Return whether an Arrow type is one of numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind))
