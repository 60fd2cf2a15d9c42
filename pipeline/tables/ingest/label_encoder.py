"""Targets, counted while the rows stream by: words and numbers, in codes that all pieces share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.tables.encoding.labels_or_amounts import look_like_labels
from fewpass.pipeline.tables.readers.label_texts import LabelTexts, is_number
from fewpass.pipeline.tables.readers.source import LONGEST_LABEL
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.storage.manifest import Values

Vector = NDArray[np.float64]

#: More distinct whole numbers than this are taken for measurements, not labels.
MOST_LABELS_GUESSED = 1000
#: More distinct labels than this are refused: a model per label would not be of any use.
MOST_LABELS = 100_000
_LISTED = 8  # labels that a message names
#: All labels together; manifests and models name every one.
MOST_CHARACTERS = 1 << 24

#: The floats that stand for names: so large that, as numbers, they would be refused.
_FIRST_CODE, _CODE_STEP = 2.0**1000, 2.0**960


def _code(place: int) -> float:
    """Return what stands for the name that was the k-th to come."""
    return _FIRST_CODE + place * _CODE_STEP


def _label(code: float, name: str | None, *, as_words: bool) -> str | float:
    """Return the label of a number, or of what has a name that is written as one."""
    if name is None:
        return label_text(code) if as_words else code
    return float(name) if not as_words and is_number(name, padded=False) else name


def listed_labels(labels: Sequence[object]) -> str:
    """Return the first labels as a message shows them, and how many there are."""
    shown = ", ".join(str(label) for label in labels[:_LISTED])
    return shown + (f", ... ({len(labels)} in all)" if len(labels) > _LISTED else "")


class LabelEncoder:
    """Counts the targets of two groups of rows, training (0) and test (1), piece by piece.

    Words get provisional codes in order of appearance; numbers stay themselves, and what is written
    as a number that no float gives back (007, 9007199254740993) gets a float that nobody writes.
    Pieces must come in source order, so that the codes do not depend on which thread parsed first.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.words: dict[str, int] = {}
        self.names: dict[str, float] = {}  # that are written as numbers, and what stands for them
        self.numbers: dict[float, list[int]] | None = {}  # None: too many to be labels
        self.word_counts: list[list[int]] = []
        self.whole = True
        self._characters = 0
        self.n_rows = [0, 0]
        self._mean, self._deviation = [0.0, 0.0], [0.0, 0.0]
        self._range = [[np.inf, -np.inf], [np.inf, -np.inf]]

    def encode(
        self,
        target: Vector,
        labels: tuple[str, ...] | None,
        where: str,
        texts: LabelTexts | None = None,
    ) -> Vector:
        """Targets of one piece in codes that hold for all pieces; see `ParsedRows`."""
        changed = any(self.n_rows) and bool(self.words) != (labels is not None)
        if changed and target.size:
            raise BadInput(
                f"{where}: labels are words here and numbers elsewhere in the sources. "
                "Write all labels as words, or all as numbers."
            )
        if labels is None:
            may_be_labels = self.task != "regression" and self.numbers is not None
            return self._with_names(target, texts) if texts and may_be_labels else target
        self._refuse_words(labels)
        for label in labels:
            self._add(label, where)
        codes = np.array([self.words[label] for label in labels], np.float64)
        return codes[target.astype(np.int64)]

    def _with_names(self, target: Vector, texts: LabelTexts) -> Vector:
        """Put the codes of names in place of the numbers that they were read as."""
        rows, names = texts.names()
        if not rows.size:
            return target
        target = target.copy()
        for row, name in zip(rows.tolist(), names, strict=True):
            if len(self.names) <= MOST_LABELS or name in self.names:
                target[row] = self.names.setdefault(name, _code(len(self.names)))
        return target

    def plain(self, target: Vector) -> Vector:
        """Return targets as numbers, those with names as well."""
        if not self.names:
            return target
        codes, numbers = [*self.names.values()], np.array([float(name) for name in self.names])
        places = np.minimum(np.searchsorted(codes, target), len(codes) - 1)
        return np.where(np.asarray(codes)[places] == target, numbers[places], target)

    def _add(self, label: str, where: str) -> None:
        """Give a word its code; too many or too long ones are refused while they are few."""
        if label in self.words:
            return
        self.words[label] = len(self.words)
        self.word_counts.append([0, 0])
        self._characters += len(label)
        if len(label) > LONGEST_LABEL:
            raise BadInput(
                f"{where}: a label of {len(label):,} characters, at most {LONGEST_LABEL} were "
                "expected. Choose the label column with `label`."
            )
        if len(self.words) > MOST_LABELS or self._characters > MOST_CHARACTERS:
            raise BadInput(
                f"{where}: more than {MOST_LABELS} distinct labels, or more than "
                f"{MOST_CHARACTERS:,} characters of them. Choose the label column with `label`, "
                "or give numbers to regress on."
            )

    def _refuse_words(self, words: Sequence[str]) -> None:
        if self.task == "regression" and words:
            raise BadInput(
                f"The labels are words ({listed_labels(sorted(words))}), which no regression "
                "can use. Choose the target column with `label`, or the task classification."
            )

    def count(self, target: Vector, group: int) -> None:
        """Count encoded targets of `group` in."""
        if not target.size:
            return
        values, counts = np.unique(target, return_counts=True)
        target = self.plain(target)
        if self.words:
            for code, times in zip(values.astype(int).tolist(), counts.tolist(), strict=True):
                self.word_counts[code][group] += times
        else:
            self._count_numbers(values, counts, group)
        self._merge_moments(target, group)

    def _count_numbers(self, values: Vector, counts: NDArray[np.int64], group: int) -> None:
        plain = self.plain(values)
        self.whole = self.whole and bool(np.all(plain == np.round(plain)))
        if self.numbers is None:
            return
        for value, times in zip(values.tolist(), counts.tolist(), strict=True):
            self.numbers.setdefault(value, [0, 0])[group] += times
        most = MOST_LABELS if self.task == "classification" else MOST_LABELS_GUESSED
        if len(self.numbers) > most:
            self.numbers = None
            if self.task == "classification":
                raise BadInput(
                    f"More than {MOST_LABELS} distinct labels. "
                    "Choose the label column with `label`, or the task regression."
                )

    def _merge_moments(self, target: Vector, group: int) -> None:
        n, m = self.n_rows[group], target.size
        mean = float(target.mean())
        step = mean - self._mean[group]
        self._deviation[group] += float(((target - mean) ** 2).sum()) + step * step * n * m / (
            n + m
        )
        self._mean[group] += step * m / (n + m)
        self.n_rows[group] = n + m
        low, high = self._range[group]
        self._range[group] = [min(low, float(target.min())), max(high, float(target.max()))]

    def is_classification(self) -> bool:
        """Whether the targets are labels: asked for, words, or few distinct whole numbers."""
        if self.task == "regression":
            self._refuse_words([*self.words])
            return False
        guessed = bool(self.words) or self._look_like_labels()
        return self.task == "classification" or guessed

    def _look_like_labels(self) -> bool:
        return (
            self.numbers is not None
            and self.whole
            and look_like_labels(self.numbers, sum(self.n_rows), has_names=bool(self.names))
        )

    def refuse_beyond_floats(self) -> None:
        """Refuse whole numbers so large that several of them are one float; BadInput."""
        named = {*self.names.values()}
        beyond = [value for value in self.numbers or () if abs(value) > MOST_WHOLE]
        if large := [value for value in beyond if value not in named]:
            raise BadInput(
                f"The label {label_text(large[0])} is beyond 2^53, from where on several whole "
                "numbers are one float, so that labels may have become one. Write them as words, "
                "number them, or write the rows as a table (CSV, Parquet); of amounts say "
                "`task=regression`."
            )

    def labels(self, *, as_words: bool) -> dict[float, Any]:
        """Return the label of each code, these ascending: a word, or a number.

        Labels that are numbers know no zeros in front of them: 01 is 1 then.
        """
        if self.words:
            return {float(code): word for word, code in self.words.items()}
        names = {code: name for name, code in self.names.items()}
        return {
            code: _label(code, names.get(code), as_words=as_words)
            for code in sorted(self.numbers or ())
        }

    def label_counts(self, *, as_words: bool | None = None) -> dict[str | float, list[int]]:
        """Rows of each group per label, labels ascending.

        Parameters
        ----------
        as_words
            Whether numbers are words, too; None: they are where some of them have names.
        """
        by_label: dict[Any, list[int]] = {}
        as_words = bool(self.names) if as_words is None else as_words
        for code, label in self.labels(as_words=as_words).items():
            counts = self.word_counts[int(code)] if self.words else (self.numbers or {})[code]
            before = by_label.setdefault(label, [0, 0])
            before[:] = [a + b for a, b in zip(before, counts, strict=True)]
        if len({type(label) for label in by_label}) > 1:  # unknown to labels that are numbers
            return by_label
        return {label: by_label[label] for label in sorted(by_label)}

    def values(self, group: int) -> Values:
        """Summary of the numbers of `group`."""
        low, high = self._range[group]
        variance = max(0.0, self._deviation[group]) / max(self.n_rows[group], 1)
        if not math.isfinite(self._mean[group] * self._mean[group] + variance):
            raise BadInput(
                f"The targets reach from {low:g} to {high:g}: too large to square. Give them in "
                "another unit."
            )
        return Values(mean=self._mean[group], variance=variance, minimum=low, maximum=high)

    def state(self) -> dict[str, Any]:
        """Everything counted, as JSON; floats survive JSON exactly."""
        numbers = None if self.numbers is None else list(self.numbers.items())
        return {
            "words": list(self.words),
            "names": list(self.names),
            "word_counts": self.word_counts,
            "numbers": numbers,
            "whole": self.whole,
            "n_rows": self.n_rows,
            "mean": self._mean,
            "deviation": self._deviation,
            "range": [
                ends if n else None for ends, n in zip(self._range, self.n_rows, strict=True)
            ],
        }

    @classmethod
    def from_state(cls, task: str, state: dict[str, Any]) -> LabelEncoder:
        """Inverse of `state`."""
        encoder = cls(task)
        encoder.words = {word: code for code, word in enumerate(state["words"])}
        encoder.names = {name: _code(k) for k, name in enumerate(state.get("names", ()))}
        encoder.word_counts, encoder.whole = state["word_counts"], state["whole"]
        numbers = state["numbers"]
        encoder.numbers = None if numbers is None else dict(numbers)
        encoder.n_rows, encoder._mean = state["n_rows"], state["mean"]
        encoder._deviation = state["deviation"]
        encoder._range = [ends or [np.inf, -np.inf] for ends in state["range"]]
        return encoder
