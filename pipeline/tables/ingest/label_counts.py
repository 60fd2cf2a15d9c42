"""Targets, counted while the rows stream by: words and numbers, by their text, in any order.

What is written as a number that no float gives back (007, 9007199254740993) is a name.  Counts of
pieces are added: whole numbers come out the same in any order, moments in that of the pieces.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.tables.encoding.labels_or_amounts import look_like_labels
from fewpass.pipeline.tables.readers.label_texts import LabelTexts, is_number
from fewpass.pipeline.tables.readers.source import LONGEST_LABEL, ParsedRows
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.storage.manifest import Values

Vector = NDArray[np.float64]
Label = str | float
#: Rows of training and of test with a label.
Pair = list[int]

#: More distinct whole numbers than this are taken for measurements, not labels.
MOST_LABELS_GUESSED = 1000
#: More distinct labels than this are refused: a model per label would not be of any use.
MOST_LABELS = 100_000
_LISTED = 8  # labels that a message names
#: All labels together; manifests and models name every one.
MOST_CHARACTERS = 1 << 24


class ListedTargets(NamedTuple):
    """Targets of some rows: numbers, or places in a list of labels."""

    values: Vector  # (n,)
    labels: tuple[Label, ...] | None = None  # None: the values are the targets
    are_words: bool = False  # whether labels are no numbers, whatever they look like

    @property
    def numbers(self) -> Vector:
        """The targets as numbers, which words are not."""
        if self.labels is None or self.are_words:
            return self.values
        return np.array([*map(float, self.labels)])[self.values.astype(np.int64)]

    def of(self, rows: NDArray[np.int64] | slice) -> ListedTargets:
        """Return those of some rows."""
        return self._replace(values=self.values[rows])


def listed_labels(labels: Sequence[float | str]) -> str:
    """Return the first labels as a message shows them, and how many there are."""
    shown = ", ".join(map(label_text, labels[:_LISTED]))
    return shown + (f", ... ({len(labels)} in all)" if len(labels) > _LISTED else "")


class TargetMoments:
    """Number, mean, deviation and range of targets; those that follow are joined (Chan)."""

    def __init__(self, target: Vector | None = None) -> None:
        self.n, self.mean, self.deviation = 0, 0.0, 0.0
        self.low, self.high = np.inf, -np.inf
        if target is not None and target.size:
            self.n, self.mean = target.size, float(target.mean())
            self.deviation = float(((target - self.mean) ** 2).sum())
            self.low, self.high = float(target.min()), float(target.max())

    def join(self, other: TargetMoments) -> None:
        """Take in those that follow."""
        if not other.n:
            return
        n, m, step = self.n, other.n, other.mean - self.mean
        self.deviation += other.deviation + step * step * n * m / (n + m)
        self.mean += step * m / (n + m)
        self.n, self.low, self.high = n + m, min(self.low, other.low), max(self.high, other.high)

    def values(self) -> Values:
        """Return the summary of a manifest."""
        variance = max(0.0, self.deviation) / max(self.n, 1)
        if not math.isfinite(self.mean * self.mean + variance):
            raise BadInput(
                f"The targets reach from {self.low:g} to {self.high:g}: too large to square. Give "
                "them in another unit."
            )
        return Values(mean=self.mean, variance=variance, minimum=self.low, maximum=self.high)

    def state(self) -> list[Any]:
        """Return them as JSON; floats survive it exactly."""
        return [self.n, self.mean, self.deviation, *([self.low, self.high] if self.n else [])]

    @classmethod
    def from_state(cls, state: Sequence[Any]) -> TargetMoments:
        """Inverse of `state`."""
        made = cls()
        made.n, made.mean, made.deviation = state[:3]
        if made.n:
            made.low, made.high = state[3:]
        return made


class LabelCounts:
    """Counts of the targets of two groups of rows, training (0) and test (1).

    Parameters
    ----------
    task
        That was asked for.
    where
        Which rows these are, for messages.
    """

    def __init__(self, task: str, where: str = "") -> None:
        self.task, self.where, self.are_words = task, where, False
        self.labels: dict[Label, Pair] | None = {}  # None: numbers too many to be labels
        self.whole, self._characters = True, 0
        self.moments = TargetMoments(), TargetMoments()

    @property
    def n_rows(self) -> tuple[int, int]:
        """Rows of each group."""
        training, test = self.moments
        return training.n, test.n

    @property
    def most(self) -> int:
        """The largest number of labels that are numbers."""
        return MOST_LABELS if self.task == "classification" else MOST_LABELS_GUESSED

    # -- of a piece --------------------------------------------------------------------------------

    def listed(self, parsed: ParsedRows) -> ListedTargets:
        """Return the targets of a piece, its names and words as places in a list."""
        target, labels = parsed.table.target, parsed.labels
        if labels is not None:
            if self.task == "regression":
                _refuse_words(labels)
            return ListedTargets(target, labels, are_words=True)
        if self.task == "regression" or parsed.texts is None:
            return ListedTargets(target)
        return _with_names(target, parsed.texts, self.most)

    def count(self, targets: ListedTargets, group: int) -> None:
        """Count targets of a group in."""
        values, labels, are_words = targets
        if not values.size:
            return
        every, counts = np.unique(values, return_counts=True)
        present: list[Any] = every.tolist()
        if labels is not None:
            present = [labels[int(place)] for place in present]
        if not are_words:
            numbers = np.array([*map(float, present)])
            self.whole = self.whole and bool(np.all(numbers == np.round(numbers)))
        self.are_words |= are_words
        self._require_few(len(present))
        for label, n in zip(present, counts.tolist(), strict=True):
            self._add(label, [n * (group == k) for k in (0, 1)])
        self._require_few()
        self.moments[group].join(TargetMoments(targets.numbers))

    def _add(self, label: Label, more: Sequence[int]) -> None:
        """Add rows of a label; words that are too long are refused while they are few."""
        if self.labels is None:
            return
        if self.are_words and label not in self.labels:
            size = len(str(label))
            self._characters += size
            if size > LONGEST_LABEL:
                raise BadInput(
                    f"{self.where}: a label of {size:,} characters, at most {LONGEST_LABEL} "
                    "were expected. Choose the label column with `label`."
                )
        own = self.labels.setdefault(label, [0, 0])
        own[:] = [a + b for a, b in zip(own, more, strict=True)]

    # -- of all ------------------------------------------------------------------------------------

    def add(self, other: LabelCounts) -> None:
        """Add the counts of rows that follow these, in place.

        Raises
        ------
        BadInput
            Labels are words in some rows and numbers in others; there are too many of them.
        """
        if sum(self.n_rows) and sum(other.n_rows) and self.are_words != other.are_words:
            raise BadInput(
                f"{other.where}: labels are words here and numbers elsewhere in the sources. "
                "Write all labels as words, or all as numbers."
            )
        self.where, self.whole = other.where, self.whole and other.whole
        self.are_words |= other.are_words
        for label, counts in (other.labels or {}).items():
            self._add(label, counts)
        self.labels = None if other.labels is None else self.labels
        self._require_few()
        for own, more in zip(self.moments, other.moments, strict=True):
            own.join(more)

    def _require_few(self, more: int = 0) -> None:
        """Refuse too many labels; numbers that are too many are none, unless they were to be."""
        most, n = MOST_LABELS if self.are_words else self.most, max(more, len(self.labels or ()))
        if self.are_words and (n > most or self._characters > MOST_CHARACTERS):
            raise BadInput(
                f"{self.where}: more than {MOST_LABELS} distinct labels, or more than "
                f"{MOST_CHARACTERS:,} characters of them. Choose the label column with `label`, "
                "or give numbers to regress on."
            )
        if n <= most:
            return
        self.labels = None
        if self.task == "classification":
            raise BadInput(
                f"More than {MOST_LABELS} distinct labels. "
                "Choose the label column with `label`, or the task regression."
            )

    def is_classification(self) -> bool:
        """Return whether targets are labels: asked for, words, or few distinct whole numbers."""
        if self.task == "regression":
            self.require_numbers()
            return False
        guessed = self.are_words or self._look_like_labels()
        return self.task == "classification" or guessed

    def require_numbers(self) -> None:
        """Refuse words, which nothing can be regressed on; BadInput."""
        _refuse_words([*map(str, self.labels or ())] if self.are_words else [])

    def _look_like_labels(self) -> bool:
        if self.labels is None or not self.whole:
            return False
        every: Mapping[Any, Pair] = self.labels
        return look_like_labels(every, sum(self.n_rows), has_names=self.has_names)

    @property
    def has_names(self) -> bool:
        """Return whether some labels are no words, and written as no number is."""
        return not self.are_words and any(isinstance(label, str) for label in self.labels or ())

    @property
    def numbers(self) -> list[float]:
        """The labels that are numbers, ascending."""
        return sorted(label for label in self.labels or () if not isinstance(label, str))

    def refuse_beyond_floats(self) -> None:
        """Refuse whole numbers so large that several of them are one float; BadInput."""
        if large := [value for value in self.numbers if abs(value) > MOST_WHOLE]:
            raise BadInput(
                f"The label {label_text(large[0])} is beyond 2^53, from where on several whole "
                "numbers are one float, so that labels may have become one. Write them as words, "
                "number them, or write the rows as a table (CSV, Parquet); of amounts say "
                "`task=regression`."
            )

    def label_counts(self, *, as_words: bool | None = None) -> dict[Label, Pair]:
        """Rows of each group per label, labels ascending.

        Parameters
        ----------
        as_words
            Whether numbers are words, too; None: they are where some of them have names.
        """
        as_words = self.has_names if as_words is None else as_words
        merged = LabelCounts(self.task)
        merged.are_words = self.are_words
        for label, counts in (self.labels or {}).items():
            own = label if self.are_words else label_as(label, as_words=as_words)
            merged._add(own, counts)
        by_label: dict[Any, Pair] = merged.labels or {}
        if len({type(label) for label in by_label}) > 1:  # unknown to labels that are numbers
            return by_label
        return {label: by_label[label] for label in sorted(by_label)}

    def state(self) -> dict[str, Any]:
        """Everything counted, as JSON; floats survive JSON exactly."""
        return {
            "are_words": self.are_words,
            "labels": None if self.labels is None else [*self.labels.items()],
            "whole": self.whole,
            "moments": [moments.state() for moments in self.moments],
        }

    @classmethod
    def from_state(cls, task: str, state: Mapping[str, Any]) -> LabelCounts:
        """Inverse of `state`."""
        made = cls(task)
        made.are_words, made.whole = state["are_words"], state["whole"]
        made.labels = None if state["labels"] is None else dict(state["labels"])
        training, test = map(TargetMoments.from_state, state["moments"])
        made.moments = training, test
        return made


def _refuse_words(words: Sequence[str]) -> None:
    if words:
        raise BadInput(
            f"The labels are words ({listed_labels(sorted(words))}), which no regression "
            "can use. Choose the target column with `label`, or the task classification."
        )


def listed_together(every: Sequence[ListedTargets]) -> ListedTargets:
    """Return the targets of all, with one list of labels where some have one."""
    if all(one.labels is None for one in every):
        return ListedTargets(np.concatenate([one.values for one in every]))
    listed = [one if one.labels is not None else _as_list(one.values) for one in every]
    labels = dict.fromkeys(label for one in listed for label in one.labels or ())
    places = {label: float(k) for k, label in enumerate(labels)}
    values = [
        np.array([places[label] for label in one.labels or ()])[one.values.astype(np.int64)]
        for one in listed
    ]
    return ListedTargets(np.concatenate(values), tuple(labels), listed[0].are_words)


def _as_list(numbers: Vector) -> ListedTargets:
    values, places = np.unique(numbers, return_inverse=True)
    return ListedTargets(places.astype(np.float64), tuple(values.tolist()))


def label_as(label: Label, *, as_words: bool) -> Label:
    """Return how a number, or a name, is known: as it is written, or as a number.

    Labels that are numbers know no zeros in front of them: 01 is 1 then.
    """
    if not isinstance(label, str):
        return label_text(label) if as_words else label
    return float(label) if not as_words and is_number(label, padded=False) else label


def _with_names(target: Vector, texts: LabelTexts, most: int) -> ListedTargets:
    """Return places of numbers and names; plain numbers where these are too many to be labels."""
    rows, names = texts.names()
    if not rows.size:
        return ListedTargets(target)
    plain = np.ones(target.size, np.bool_)
    plain[rows] = False
    numbers, places = np.unique(target[plain], return_inverse=True)
    numbers_of = {name: len(numbers) + k for k, name in enumerate(dict.fromkeys(names))}
    if len(numbers) + len(numbers_of) > most:
        return ListedTargets(target)
    listed = np.empty(target.size)
    listed[plain], listed[rows] = places, [*map(numbers_of.__getitem__, names)]
    return ListedTargets(listed, (*numbers.tolist(), *numbers_of))
