"""The columns of new rows, set against those that a model or a data set knows: by their names.

Where both sides have names, features are found by name: in any order, each of them, and no other
unless the user says so. Where the new rows have none, the user has to say that their order is the
known one. Where nothing is known of the names, only the number of columns can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.sizes import counted
from fewpass.storage.column_schema import Schema

_LISTED = 5
_SHOWN = 40


class Matched(NamedTuple):
    """Places of columns."""

    places: NDArray[np.int64] | None = None
    """(n,) which of the known features each column is, -1: none; None: they are the same."""
    left_out: tuple[str, ...] = ()
    """Names of the columns that are none."""

    def numbers(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return numbers (..., d) of the known features for the columns (..., n), 0 for others."""
        if self.places is None:
            return values
        return np.where(self.places < 0, 0.0, np.take(values, self.places, axis=-1))


def shown_name(name: str) -> str:
    """Quote a column's name for a message: on one line, printable, not too long."""
    quoted = repr(name)
    return f"{quoted[:_SHOWN]}...'" if len(quoted) > _SHOWN else quoted


def listed(names: Sequence[str]) -> str:
    """Quote the first few names."""
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(map(shown_name, names[:_LISTED])) + more


def left_out_sentence(names: Sequence[str]) -> str:
    """Tell which columns were left out."""
    several = counted(len(names), "column that is not known", "columns that are not known")
    return f"Left out {several}: {listed(names)}"


def require_distinct(names: Sequence[str], where: str) -> None:
    """Refuse columns of the same name; BadInput names the first."""
    if len(set(names)) == len(names):
        return
    seen: set[str] = set()
    double = next(name for name in names if name in seen or seen.add(name))  # type: ignore[func-returns-value]
    raise BadInput(
        f"{where}: {names.count(double)} columns are named {shown_name(double)}. "
        "Give each a name of its own; in CSV, `drop` by position leaves one out."
    )


def require_same(first: Sequence[str], names: Sequence[str], where: str) -> None:
    """Refuse a file whose columns are not the first one's, in any order; BadInput names them.

    Parameters
    ----------
    first, names
        Columns of the first file, and of another.
    where
        The other one.
    """
    lacks = [name for name in first if name not in set(names)]
    extra = [name for name in names if name not in set(first)]
    differences = [f"lacks {listed(lacks)}"] if lacks else []
    differences += [f"has {listed(extra)} besides"] if extra else []
    if not differences and sorted(first) != sorted(names):
        differences = [f"has some of its columns several times ({listed(names)})"]
    if differences:
        raise BadInput(
            f"{where}: its columns differ from the first file's: it {' and '.join(differences)}. "
            "Read files with the same columns together."
        )


def refuse_missing(wanted: Sequence[str], names: Sequence[str], where: str, whose: str) -> None:
    """Refuse columns that lack one that is wanted; BadInput names it."""
    there = set(names)
    missing = [name for name in wanted if name not in there]
    if missing:
        raise BadInput(
            f"{where} lacks {len(missing)} of the {counted(len(wanted), 'column')} of {whose}: "
            f"{listed(missing)}. It has {listed(list(names))}. Name its columns as they were "
            "named, or say `by_position=true` to take them in their order."
        )


def refuse_unknown(extra: Sequence[str], where: str, whose: str, rules: Matching) -> None:
    """Refuse columns that are not known, unless they may be ignored; BadInput names them."""
    if extra and rules.unknown_features == "refuse":
        raise BadInput(
            f"{where} has columns that {whose} does not know: {listed(extra)}. "
            "Leave them out with `unknown_features=ignore`."
        )


def refuse_nameless(expected: Schema | None, where: str, whose: str, rules: Matching) -> None:
    """Refuse columns without names where those that are known have some."""
    names = None if expected is None else expected.feature_names
    if names and not rules.by_position:
        raise BadInput(
            f"The columns of {where} have no names, but those of {whose} do: {listed(names)}. "
            "If they are these, in this order, say `by_position=true`; where a command does not "
            "know that, ingest them anew with it and `like`."
        )


def match_features(
    expected: Schema | None, actual: Schema | None, where: str, whose: str, rules: Matching
) -> Matched:
    """Set the features of a data set against those that are known; both have some.

    Raises
    ------
    BadInput
        A feature is missing, another one is there, or there are no names to tell.
    """
    names = None if actual is None else actual.feature_names
    wanted = None if expected is None else expected.feature_names
    encoded = actual is not None and actual.encoding is not None  # then all of them are the same
    if wanted is None or wanted == names or rules.by_position or encoded:
        return Matched()
    if names is None:
        refuse_nameless(expected, where, whose, rules)
        return Matched()
    refuse_missing(wanted, names, where, whose)
    position = {name: k for k, name in enumerate(wanted)}
    extra = tuple(name for name in names if name not in position)
    refuse_unknown(extra, where, whose, rules)
    return Matched(np.array([position.get(name, -1) for name in names]), extra)
