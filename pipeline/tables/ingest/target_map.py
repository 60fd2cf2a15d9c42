"""Targets once all rows were counted: a few labels, or numbers to regress on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import similar_label
from fewpass.pipeline.tables.ingest.label_counts import Label, LabelCounts, label_as, listed_labels
from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]


class TargetMap:
    """The final meaning of the targets, and the way from numbers and listed labels to it.

    Parameters
    ----------
    counts
        Of all rows.
    like
        Targets of the data set whose map is taken over, if any.

    Raises
    ------
    BadInput
        If a label is not in `like`'s map, or if all training rows have one label.
    """

    def __init__(self, counts: LabelCounts, like: Labels | Values | None) -> None:
        self._counts = counts
        self.labels: tuple[str, ...] | tuple[float, ...] = ()
        self.is_classification = (
            counts.is_classification() if like is None else like.kind == "labels"
        )
        if not self.is_classification:
            counts.require_numbers()
            return
        counts.refuse_beyond_floats()
        given: Any = () if like is None else like.labels  # type: ignore[union-attr]
        self._as_words = isinstance(given[0], str) if given else counts.has_names
        label_counts = counts.label_counts(as_words=self._as_words)
        if like is None:
            self._refuse_one_class(label_counts)
        self.labels = given or tuple(label_counts)
        if like is not None:
            self._refuse_unknown(label_counts)
        self._place: dict[Any, float] = {label: float(k) for k, label in enumerate(self.labels)}
        self._numbers, self._places = np.array(counts.numbers), self._places_of(counts.numbers)

    def _places_of(self, labels: Sequence[Label]) -> Vector:
        """Return where labels stand among those of the data set."""
        if not self._counts.are_words:
            labels = [label_as(label, as_words=self._as_words) for label in labels]
        return np.array([self._place[label] for label in labels])

    def _refuse_one_class(self, label_counts: dict[str | float, list[int]]) -> None:
        trained = [label for label, counts in label_counts.items() if counts[0]]
        if len(trained) < 2:
            of_words = any(isinstance(label, str) for label in trained)
            or_numbers = "" if of_words else ", or choose `task=regression`"
            raise BadInput(
                f"All {self._counts.n_rows[0]} training rows have the label "
                f"{listed_labels(trained)}; a classifier needs two. Check the label "
                f"column{or_numbers}."
            )

    def _refuse_unknown(self, label_counts: dict[str | float, list[int]]) -> None:
        unknown = [label for label in label_counts if label not in self.labels]
        if unknown or self._counts.labels is None:
            slip = similar_label(str(unknown[0]), [*map(str, self.labels)]) if unknown else ""
            raise BadInput(
                f"Labels {listed_labels(unknown)} are unknown to the data set that rows are to be "
                f"like, which has {listed_labels(self.labels)}. {slip}Mend the sources, or ingest "
                "all files anew."
            )

    def apply(self, target: Vector, labels: Sequence[Label] | None) -> Vector:
        """Targets as stored: the place in `labels`, or the number itself.

        Parameters
        ----------
        target
            (n,) Numbers; or places among labels.
        labels
            These; None: there are none.
        """
        if labels is not None:
            every = self._places_of(labels) if self.is_classification else _floats(labels)
            return every[target.astype(np.int64)]
        if not self.is_classification:
            return target
        return self._places[np.searchsorted(self._numbers, target)]

    def targets(self, group: int) -> Labels | Values:
        """Return the targets of group 0 (training) or 1 (test), as their manifest has them."""
        if not self.is_classification:
            return self._counts.moments[group].values()
        label_counts = self._counts.label_counts(as_words=self._as_words)
        counts = tuple(
            label_counts[label][group] if label in label_counts else 0 for label in self.labels
        )
        return Labels(labels=self.labels, counts=counts)

    def labels_of(self, group: int) -> Labels | None:
        """Return `targets` where they are labels, else None."""
        targets = self.targets(group)
        return targets if isinstance(targets, Labels) else None


def _floats(labels: Sequence[Label]) -> Vector:
    return np.array([*map(float, labels)])
