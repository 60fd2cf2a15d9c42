"""Encodings of columns that are more than numbers: words, dates, text, missing values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from fewpass.solvers.described import Described

Kind = Literal[
    "number", "bins", "category", "hash", "date", "text", "chars", "vector", "tags", "map"
]  # fmt: skip
KINDS = ("drop", "number", "category", "hash", "date", "text", "chars")
#: Kinds with a word on how cells are read where they can be read two ways.
READ_KINDS = ("date:dmy", "date:mdy", "number:point", "number:comma")
_BINS = re.compile(r"bins:(\d{1,4})")


def _as_pairs(given: Any) -> Any:
    """Take NAME=KIND words as a mapping, too, or a single one."""
    given = [given] if isinstance(given, str) else given
    if isinstance(given, Mapping) or not isinstance(given, Iterable):
        return given
    pairs = [word.rpartition("=") if isinstance(word, str) else ("", "", "") for word in given]
    if not all(name and equals for name, equals, _ in pairs):
        raise ValueError(
            f"{', '.join(map(str, given))} is not of the form NAME=KIND. Write for example "
            "zip=category."
        )
    return {name: kind for name, _, kind in pairs}


def several(given: Any) -> Any:
    """Take a single name or position where there may be several."""
    return (given,) if isinstance(given, str | int) else given


def _is_kind(word: str) -> str:
    match = _BINS.fullmatch(word)
    if word not in (*KINDS, *READ_KINDS) and not (match and int(match[1]) > 1):
        kinds = ", ".join((*KINDS, *READ_KINDS))
        raise ValueError(f"{word!r} is no kind. Choose {kinds} or bins:64.")
    return word


def column_kinds(given: Any) -> dict[str, str]:
    """Return what columns hold, by name, as the setting `column` takes it; ValueError if none."""
    pairs = _as_pairs({} if given is None else given)
    if not isinstance(pairs, Mapping):
        raise ValueError(  # noqa: TRY004 - as of all settings
            f'{given!r} names no kinds of columns. Write for example {{"zip": "category"}}.'
        )
    return {str(name): _is_kind(str(kind)) for name, kind in pairs.items()}


#: Columns that a column of many values, or of text, is hashed to at most: 2 to this power.
HASH_BITS = 20
MOST_BITS = 30

ColumnKind = Annotated[str, BeforeValidator(_is_kind)]


def _is_pair(text: str) -> str:
    if not re.fullmatch(r"[^,]+,[^,]+", text):
        raise ValueError(f"{text!r} is no pair of columns. Write two names, as A,B.")
    return text


Pair = Annotated[str, AfterValidator(_is_pair)]


def _asked_pairs(given: Any) -> Any:
    """Take a number of pairs, or A:B words, several of them with commas between."""
    if isinstance(given, str) and re.fullmatch(r"\s*\d+\s*", given):
        return int(given)
    words = given.split(",") if isinstance(given, str) else given
    if isinstance(words, list | tuple):
        words = tuple(words)
        wrong = [word for word in words if not re.fullmatch(r"[^:]+:[^:]+", str(word))]
        if wrong or not words:
            raise ValueError(
                f"{', '.join(map(repr, wrong)) or 'nothing'} is no pair of columns. Write two "
                "names, as A:B, or how many pairs to choose."
            )
    return words


Encode = Literal["auto", "linear", "always", "none", "additive", "splines"]
#: Of these the ones that add curves of numbers.
ADDITIVE: tuple[Encode, ...] = ("additive", "splines")


class Encoding(Described):
    """Settings by which columns become numbers."""

    encode: Encode = "auto"
    """Encode the columns of a table as numbers, by what a sample of its rows contains: words,
    dates, text, missing values, far outliers; auto: if there are any, and with curves and pairs as
    `additive` has them where these are better on held-out rows by more than a standard error
    (tables of 50 to 500,000 rows without text); linear: the same without curves; always: without
    curves, whatever they hold; none: accept numbers only, and leave them as they are; additive:
    with a curve for every number and functions of some pairs of columns, as far as held-out rows of
    the sample approve; splines: with the curves alone. `--additive [splines]` is short for
    these."""
    pairs: Annotated[
        Annotated[int, Field(ge=0, le=1000)] | tuple[str, ...] | None, BeforeValidator(_asked_pairs)
    ] = None
    """Of an additive model, how many pairs to choose, or which: A:B,C:D [default: as many as the
    rows bear, by what a sample tells]."""
    knots: int | None = Field(default=None, ge=2, le=4096)
    """Pieces of every curve of an additive model, rounded up to a power of two [default: 8 or 32,
    by the number of rows]."""
    pair_bins: int | None = Field(default=None, ge=2, le=64)
    """Pieces of a number in a pair of an additive model [default: 4 or 8, by the number of
    rows]."""
    column: Annotated[dict[str, ColumnKind], BeforeValidator(_as_pairs)] = Field(
        default_factory=dict
    )
    """What a column contains, as NAME=KIND: drop, number, category, hash, date, text, chars (text
    as runs of 3 to 5 characters) or bins:64 (replace a number by one of 64 ranges); date:dmy and
    date:mdy say which of day and month comes first, number:point and number:comma what stands
    before decimals; may be repeated [default: decided by the sample]."""
    cross: Annotated[tuple[Pair, ...], BeforeValidator(several)] = ()
    """Two columns whose pairs of values become features, as A,B; may be repeated."""
    idf: Literal["sample", "exact"] = "sample"
    """Rows that the tf-idf weights of text are computed from: the sample, or all (exact), which are
    read once more for it."""
    hash_bits: int = Field(default=HASH_BITS, ge=1, le=MOST_BITS)
    """A column of text, or of more than 1000 different values, is hashed to at most 2 to this
    power features."""
    ranks: bool = True
    """Add to a number its rank in the sample, and whether it is the lowest, if that says more than
    the number alone."""
    bins: int | None = Field(default=None, ge=2, le=4096)
    """Replace every number by one feature for each of this many ranges between quantiles."""


def bins_of(kind: str) -> int | None:
    """Return the ranges that a kind asks for."""
    match = _BINS.fullmatch(kind)
    return int(match[1]) if match else None
