"""The kinds of a table's columns, inferred from a sample of its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.encoding import Kind
from fewpass.pipeline.tables.encoding.cells import (
    STRAY,
    Floats,
    Mask,
    Written,
    abridged,
    frequent,
    is_numeric,
    is_span,
    is_text,
    plain_numbers,
    read_numbers,
    says_nothing,
)
from fewpass.pipeline.tables.encoding.date_forms import dates_in, recurring
from fewpass.pipeline.tables.encoding.id_numbers import (
    are_ids,
    are_times,
    is_whole,
    unit_since_1970,
)
from fewpass.pipeline.tables.encoding.lists import is_list_of_numbers, is_list_of_words
from fewpass.pipeline.tables.encoding.maps import is_map_to_numbers
from fewpass.pipeline.tables.encoding.moments import read_moments
from fewpass.pipeline.tables.encoding.outliers import has_outliers

#: In a sample of fewer cells the majority tells.
FEW = 100
#: Most words with digits that may stand for a missing number.
MOST_CODES = 3
#: A column of no more different numbers, and of words, is a category.
FEW_NUMBERS = 20
#: Spaces in a cell, on average, from which it is text and no word.
SPACES_OF_TEXT = 3.0
#: Different cells of as many rows each that are phrases, chosen from a list, and no text.
MOST_PHRASES, ROWS_OF_PHRASE = 1000, 10
#: Cells that are tried as numbers before all are.
_TRIED = 1000
#: Share of the cells tried that are no numbers, from which no others are looked at.
_HOPELESS = 0.75

#: Ways to write numbers other than 1234.5: 1,234 is above a thousand, 12,5 is below.
_OTHERWISE: tuple[Written, ...] = ("units", "comma", "clock")
_COMPACT = r"^(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"


_LISTS: tuple[tuple[Callable[[Any], bool], Kind], ...] = (
    (is_list_of_numbers, "vector"), (is_list_of_words, "tags"), (is_map_to_numbers, "map"),
)  # fmt: skip


class Inferred(NamedTuple):
    """The contents of a column."""

    kind: Kind
    written: Written = "plain"  # how numbers are, as text
    form: str | None = None  # of dates as text, as `strptime` has it
    missing: tuple[str, ...] = ()  # words that stand for a missing number or date
    said: bool = False  # somebody said how cells are read that can be read two ways


#: As text, too: files and JSON have no type for times of a day, and databases write them so.
_SPANS = Inferred("number", "clock")


def infer(name: str, cells: Any) -> Inferred:
    """Return the kind of a column by the cells of a sample, an Arrow array.

    Raises
    ------
    BadInput
        When the column is of a type that becomes no numbers.
    """
    kind, types = cells.type, pa.types
    if is_whole(kind) and are_ids(cells) and not are_times(name, cells):
        return Inferred("category")
    if is_numeric(kind) or is_span(kind) or types.is_null(kind):
        return _SPANS if is_span(kind) else Inferred("number")
    if types.is_date(kind) or types.is_timestamp(kind):
        return Inferred("date")
    if types.is_boolean(kind) or types.is_dictionary(kind):
        return Inferred("category")
    for is_of_kind, list_kind in _LISTS:
        if is_of_kind(kind):
            return Inferred(list_kind)
    if is_text(kind):
        return _infer_text(name, cells.drop_null())
    raise BadInput(
        f"Column {name!r} holds {kind} values, which become no numbers. Leave it out with "
        f"`column={name}=drop`, or turn it into numbers, text or dates."
    )


def is_readable(kind: Any) -> bool:
    """Return whether columns of an Arrow type become numbers."""
    types = pa.types
    is_one = is_numeric(kind) or is_span(kind) or is_text(kind) or types.is_null(kind)
    is_other = types.is_date(kind) or types.is_timestamp(kind) or types.is_boolean(kind)
    is_of_lists = any(is_of_kind(kind) for is_of_kind, _ in _LISTS)
    return bool(is_one or is_other or is_of_lists or types.is_dictionary(kind))


def as_asked(name: str, asked: str, cells: Any) -> Inferred:
    """Return a kind that was asked for, with the style that the sample shows."""
    word, _, how = asked.partition(":")
    kind = cast("Kind", word)  # as settings checked
    if how and is_text(cells.type):
        return _as_said(kind, how, cells.drop_null())._replace(said=True)
    if kind == "date" and (unit := unit_since_1970(cells)):
        return Inferred("date", form=unit)
    inferred = _SPANS if is_span(cells.type) else Inferred(kind)
    if is_text(cells.type):
        inferred = _infer_text(name, cells.drop_null())
    return inferred if inferred.kind == kind else Inferred(kind)


def _as_said(kind: Kind, how: str, cells: Any) -> Inferred:
    """Return dates in the order, or numbers with the decimal mark, that was asked for."""
    if kind == "date":
        dates = dates_in(cells, how)
        return Inferred("date", **dates._asdict()) if dates else Inferred("date")
    ways: tuple[Written, ...] = ("comma",) if how == "comma" else ("plain", "units")
    return _best(cells, ways) or Inferred("number", ways[-1])


def _infer_text(name: str, cells: Any) -> Inferred:
    sample = abridged(cells)
    numbers, all_are = _as_numbers(sample, "plain")
    if numbers is not None:
        if _are_compact_dates(sample):
            return Inferred("date", form="%Y%m%d")
        if not all_are:  # some are written otherwise, maybe
            numbers = _best(sample, ("plain", *_OTHERWISE)) or numbers
        is_name = are_ids(sample) and not are_times(name, sample)
        return Inferred("category") if is_name else numbers
    if not pc.any(pc.match_substring_regex(sample, r"\d")).as_py():
        return _words(sample)  # neither dates nor numbers, however written
    dates = dates_in(sample)
    if dates is not None:
        return Inferred("date", form=dates.form, missing=dates.missing)
    return _best(sample, _OTHERWISE) or _words(sample)


def _words(cells: Any) -> Inferred:
    cells = pc.utf8_trim_whitespace(cells)  # of columns of one width
    spaces = pc.mean(pc.count_substring(cells, " ")).as_py() or 0.0
    is_text = spaces >= SPACES_OF_TEXT and not _are_phrases(cells)
    return Inferred("text" if is_text else "category")


def _are_phrases(cells: Any) -> bool:
    """Return whether cells of several words come again and again, as answers to choose from do."""
    different = pc.count_distinct(cells).as_py()
    return bool(0 < different <= min(MOST_PHRASES, len(cells) // ROWS_OF_PHRASE))


def _best(cells: Any, ways: Sequence[Written]) -> Inferred | None:
    """Return how numbers are written so that most cells are some; of several the first."""
    candidates = [
        inferred for written in ways if (inferred := _as_numbers(cells, written)[0]) is not None
    ]
    return min(candidates, key=lambda inferred: _unread(cells, inferred.written), default=None)


def _unread(cells: Any, written: Written) -> int:
    return int(np.isnan(read_numbers(cells, written).values).sum())


def is_open(cells: Any, written: Written, numbers: Floats) -> bool:
    """Return whether numbers are others with comma and point exchanged, and no cell tells which.

    Parameters
    ----------
    numbers
        What the cells (n,) are as they are written.
    """
    if not is_text(cells.type) or written == "clock" or _tells_its_mark(cells, written, numbers):
        return False
    other: Written = "units" if written == "comma" else "comma"
    for n in (_TRIED, len(cells)):
        one, two = numbers[:n], read_numbers(cells[:n], other).values
        read = ~np.isnan(one)
        if not (~np.isnan(two[read])).all() or (one[read] == two[read]).all():
            return False
    return True


def _tells_its_mark(cells: Any, written: Written, numbers: Floats) -> bool:
    """Return whether some number shows which of comma and point is decimal, or all have neither.

    Where that tells, nothing needs to be read the other way.
    """
    read, mark = pa.array(~np.isnan(numbers)), "," if written == "comma" else "."
    decimals = pc.match_substring_regex(cells, rf"\{mark}(\d{{0,2}}|\d{{4,}})(\D|$)")
    if pc.any(pc.and_(decimals, read)).as_py():
        return True
    return not pc.any(pc.and_(pc.match_substring_regex(cells, "[.,]"), read)).as_py()


def _as_numbers(cells: Any, written: Written) -> tuple[Inferred | None, bool]:
    """Take text for numbers where most of it is; what is not is then a code, or a bad cell.

    Returns
    -------
    tuple
        Numbers, or None where they are none; and whether each cell is one, or says nothing.
    """
    if written == "plain" and (plain := plain_numbers(cells)) is not None:
        return Inferred("number", missing=_gaps(cells, plain)), True
    few = cells.take(pa.array(range(0, len(cells), max(1, len(cells) // _TRIED)), pa.int64()))
    _, bad = read_numbers(few, written)
    if bad is not None and bad.mean() > _HOPELESS:
        return None, False
    numbers, bad = read_numbers(cells, written)
    if bad is None:
        return Inferred("number", written, missing=_gaps(cells, numbers)), True
    return _mostly_numbers(cells, written, bad), False


def _mostly_numbers(cells: Any, written: Written, bad: Mask) -> Inferred | None:
    if bad.mean() > 0.5:
        return None
    if len(cells) < FEW:  # of cells that say something; "unknown" is neither
        n_numbers = int((~np.isnan(read_numbers(cells, written).values)).sum())
        return Inferred("number", written) if bad.sum() <= n_numbers else None
    missing = _codes(cells, bad)
    numbers, left = read_numbers(cells, written, missing)
    if left is not None and left.mean() > STRAY:
        return None
    if missing and len(np.unique(numbers)) <= FEW_NUMBERS:  # such as 0, 1, 2, 3+
        return None
    return Inferred("number", written, missing=tuple(sorted({*missing, *_gaps(cells, numbers)})))


def _gaps(cells: Any, numbers: Any) -> tuple[str, ...]:
    """Return the words that everybody has for a missing number."""
    missing = cells.filter(pa.array(np.isnan(numbers)))
    return tuple(sorted(pc.unique(missing.filter(says_nothing(missing))).to_pylist()))


def _codes(cells: Any, bad: Any) -> tuple[str, ...]:
    """Return the words among numbers that come again and again: "closed", "3+"."""
    words = cells.filter(pa.array(bad))
    plain = recurring(words, len(cells)).to_pylist()
    with_digits = words.filter(pc.match_substring_regex(words, r"\d"))
    common = frequent(with_digits, len(cells)).to_pylist()
    return tuple(sorted([*plain, *common])) if len(common) <= MOST_CODES else ()


def _are_compact_dates(cells: Any) -> bool:
    """Return whether numbers are days, as in 20261231: all of some tens, and different ones."""
    if len(cells) < FEW or not pc.all(pc.match_substring_regex(cells, _COMPACT)).as_py():
        return False
    return pc.count_distinct(cells).as_py() > 1 and read_moments(cells, "%Y%m%d").bad is None


def needs_encoding(inferred: Inferred, cells: Any) -> bool:
    """Return whether a column is more than numbers: words, dates, gaps, or far outliers."""
    if pa.types.is_boolean(cells.type):
        return bool(cells.null_count)
    if (
        inferred.kind != "number"
        or inferred.written != "plain"
        or inferred.missing
        or is_span(cells.type)
    ):
        return True
    numbers, _ = read_numbers(cells)
    return bool(np.isnan(numbers).any()) or has_outliers(numbers)


def is_number_in_words(labels: Sequence[str]) -> bool:
    """Return whether targets that are no usual numbers are numbers after all, such as 1,5."""
    return infer("target", pa.array(labels, pa.large_string())).kind == "number"
