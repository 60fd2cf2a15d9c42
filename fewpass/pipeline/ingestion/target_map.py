"""What the targets are: a few labels, or numbers to regress on; found while the rows stream by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sources.source import LONGEST_LABEL
from fewpass.pipeline.streaming.targets import alike
from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]

#: More distinct whole numbers than this are taken for measurements, not labels.
MOST_LABELS_GUESSED = 1000
#: So few are taken for labels in any case; of more, each must be in so many rows on average.
FEW_LABELS, ROWS_OF_LABEL = 20, 10
#: More distinct labels than this are refused: a model per label would not be of any use.
MOST_LABELS = 100_000
#: All labels together; manifests and models name every one.
MOST_CHARACTERS = 1 << 24


def _listed(labels: Sequence[object], most: int = 8) -> str:
    shown = ", ".join(str(label) for label in labels[:most])
    return shown + (f", ... ({len(labels)} in all)" if len(labels) > most else "")


class LabelEncoder:
    """Counts the targets of two groups of rows, training (0) and test (1), piece by piece.

    Words get provisional codes in order of appearance; numbers stay themselves. Pieces must come in
    source order, so that the codes do not depend on which thread parsed first.
    """

    def __init__(self, task: str) -> None:
        self.task = task
        self.words: dict[str, int] = {}
        self.numbers: dict[float, list[int]] | None = {}  # None: too many to be labels
        self.word_counts: list[list[int]] = []
        self.whole = True
        self._characters = 0
        self.n_rows = [0, 0]
        self._mean, self._deviation = [0.0, 0.0], [0.0, 0.0]
        self._range = [[np.inf, -np.inf], [np.inf, -np.inf]]

    def encode(self, target: Vector, labels: tuple[str, ...] | None, where: str) -> Vector:
        """Targets of one piece in codes that hold for all pieces."""
        changed = any(self.n_rows) and bool(self.words) != (labels is not None)
        if changed and target.size:
            raise BadInput(
                f"{where}: labels are words here and numbers elsewhere in the sources. "
                "Write all labels as words, or all as numbers."
            )
        if labels is None:
            return target
        self._refuse_words(labels)
        for label in labels:
            self._add(label, where)
        codes = np.array([self.words[label] for label in labels], np.float64)
        return codes[target.astype(np.int64)]

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
                f"The labels are words ({_listed(sorted(words))}), which no regression "
                "can use. Choose the target column with `label`, or the task classification."
            )

    def count(self, target: Vector, group: int) -> None:
        """Count encoded targets of `group` in."""
        if not target.size:
            return
        values, counts = np.unique(target, return_counts=True)
        if self.words:
            for code, times in zip(values.astype(int).tolist(), counts.tolist(), strict=True):
                self.word_counts[code][group] += times
        else:
            self._count_numbers(values, counts, group)
        self._merge_moments(target, group)

    def _count_numbers(self, values: Vector, counts: NDArray[np.int64], group: int) -> None:
        self.whole = self.whole and bool(np.all(values == np.round(values)))
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
        """Whether numbers are whole and few, or at least come again and again."""
        if self.numbers is None or not self.whole:
            return False
        return len(self.numbers) <= FEW_LABELS or sum(self.n_rows) >= ROWS_OF_LABEL * len(
            self.numbers
        )

    def label_counts(self) -> dict[str | float, list[int]]:
        """Rows of each group per label, labels ascending."""
        if self.words:
            return {label: self.word_counts[self.words[label]] for label in sorted(self.words)}
        return (
            {label: self.numbers[label] for label in sorted(self.numbers)} if self.numbers else {}
        )

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
        encoder.word_counts, encoder.whole = state["word_counts"], state["whole"]
        numbers = state["numbers"]
        encoder.numbers = None if numbers is None else dict(numbers)
        encoder.n_rows, encoder._mean = state["n_rows"], state["mean"]
        encoder._deviation = state["deviation"]
        encoder._range = [ends or [np.inf, -np.inf] for ends in state["range"]]
        return encoder


class TargetMap:
    """The final meaning of the targets, and the way from provisional codes to it.

    Parameters
    ----------
    encoder
        All rows, counted.
    like
        Targets of the data set whose map is taken over, if any.

    Raises
    ------
    BadInput
        If a label is not in `like`'s map, or if all training rows have one label.
    """

    def __init__(self, encoder: LabelEncoder, like: Labels | Values | None) -> None:
        self._encoder, self._codes = encoder, None
        self.labels: tuple[str, ...] | tuple[float, ...] = ()
        self.is_classification = (
            encoder.is_classification() if like is None else like.kind == "labels"
        )
        if not self.is_classification:
            if encoder.words:
                encoder.task = "regression"
                encoder.is_classification()
            return
        found = encoder.label_counts()
        if like is None:
            self._refuse_one_class(found)
        self.labels = tuple(found) if like is None else like.labels  # type: ignore[union-attr,assignment]
        if like is not None:
            self._refuse_unknown(found)
        if encoder.words:
            place = {label: float(k) for k, label in enumerate(self.labels)}
            self._codes = np.array([place[word] for word in encoder.words])

    def _refuse_one_class(self, found: dict[str | float, list[int]]) -> None:
        trained = [label for label, counts in found.items() if counts[0]]
        if len(trained) < 2:
            raise BadInput(
                f"All {self._encoder.n_rows[0]} training rows have the label {_listed(trained)}; a "
                "classifier needs two. Check the label column, or choose the task regression."
            )

    def _refuse_unknown(self, found: dict[str | float, list[int]]) -> None:
        unknown = [label for label in found if label not in self.labels]
        if unknown or self._encoder.numbers is None:
            slip = alike(str(unknown[0]), [*map(str, self.labels)]) if unknown else ""
            raise BadInput(
                f"Labels {_listed(unknown)} are unknown to the data set given as `like`, which has "
                f"{_listed(self.labels)}. {slip}Mend the sources, or ingest without `like`."
            )

    def apply(self, target: Vector) -> Vector:
        """Targets as stored: the place in `labels`, or the number itself."""
        if not self.is_classification:
            return target
        if self._codes is not None:
            return self._codes[target.astype(np.int64)]
        return np.searchsorted(np.array(self.labels, np.float64), target).astype(np.float64)

    def targets(self, group: int) -> Labels | Values:
        """What the manifest of group 0 (training) or 1 (test) says of its targets."""
        if not self.is_classification:
            return self._encoder.values(group)
        found = self._encoder.label_counts()
        counts = tuple(found[label][group] if label in found else 0 for label in self.labels)
        return Labels(labels=self.labels, counts=counts)
