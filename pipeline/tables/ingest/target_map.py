"""What the targets are once all rows were counted: a few labels, or numbers to regress on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import similar_label
from fewpass.pipeline.tables.ingest.label_encoder import LabelEncoder, listed_labels
from fewpass.storage.manifest import Labels, Values

Vector = NDArray[np.float64]


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
        self._encoder = encoder
        self.labels: tuple[str, ...] | tuple[float, ...] = ()
        self.is_classification = (
            encoder.is_classification() if like is None else like.kind == "labels"
        )
        if not self.is_classification:
            if encoder.words:
                encoder.task = "regression"
                encoder.is_classification()
            return
        encoder.refuse_beyond_floats()
        given: Any = () if like is None else like.labels  # type: ignore[union-attr]
        self._as_words = isinstance(given[0], str) if given else bool(encoder.names)
        counts = encoder.label_counts(as_words=self._as_words)
        if like is None:
            self._refuse_one_class(counts)
        self.labels = given or tuple(counts)
        if like is not None:
            self._refuse_unknown(counts)
        place = {label: float(k) for k, label in enumerate(self.labels)}
        labels = encoder.labels(as_words=self._as_words)
        self._codes, self._places = (
            np.array([*labels]),
            np.array([*map(place.get, labels.values())]),
        )

    def _refuse_one_class(self, label_counts: dict[str | float, list[int]]) -> None:
        trained = [label for label, counts in label_counts.items() if counts[0]]
        if len(trained) < 2:
            of_words = any(isinstance(label, str) for label in trained)
            or_numbers = "" if of_words else ", or choose `task=regression`"
            raise BadInput(
                f"All {self._encoder.n_rows[0]} training rows have the label "
                f"{listed_labels(trained)}; a classifier needs two. Check the label "
                f"column{or_numbers}."
            )

    def _refuse_unknown(self, label_counts: dict[str | float, list[int]]) -> None:
        unknown = [label for label in label_counts if label not in self.labels]
        if unknown or self._encoder.numbers is None:
            slip = similar_label(str(unknown[0]), [*map(str, self.labels)]) if unknown else ""
            raise BadInput(
                f"Labels {listed_labels(unknown)} are unknown to the data set given as `like`, "
                f"which has {listed_labels(self.labels)}. {slip}Mend the sources, or ingest "
                "without `like`."
            )

    def apply(self, target: Vector) -> Vector:
        """Targets as stored: the place in `labels`, or the number itself."""
        if not self.is_classification:
            return self._encoder.plain(target)
        if self._encoder.words:
            return self._places[target.astype(np.int64)]
        return self._places[np.searchsorted(self._codes, target)]

    def targets(self, group: int) -> Labels | Values:
        """What the manifest of group 0 (training) or 1 (test) says of its targets."""
        if not self.is_classification:
            return self._encoder.values(group)
        label_counts = self._encoder.label_counts(as_words=self._as_words)
        counts = tuple(
            label_counts[label][group] if label in label_counts else 0 for label in self.labels
        )
        return Labels(labels=self.labels, counts=counts)
