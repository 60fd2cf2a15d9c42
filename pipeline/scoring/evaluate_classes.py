"""Figures of several classes: one by one, and of labels that are grades."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.grades import are_grades
from fewpass.pipeline.scoring.figure_sums import FigureSums
from fewpass.storage.manifest import Labels


class ClassFigures(NamedTuple):
    """Figures of one class; None where undefined."""

    label: str
    rows: float  # its rows, each as often as it weighs where all weigh 1 on average
    recall: float | None  # fraction of its rows that are predicted as this class
    precision: float | None  # fraction of the rows predicted as this class that are of it
    mistaken_for: str | None  # the most frequent prediction of its other rows


def r2_of_grades(confusion: NDArray[np.float64], targets: Labels) -> float | None:
    """Return R2 of the labels that are predicted; None where they are no grades, or all the same.

    A regression's is comparable.
    """
    if not are_grades(targets):
        return None
    grades, shares = np.array(targets.labels, float), confusion / confusion.sum()
    given, square = shares.sum(axis=1), (grades[:, None] - grades) ** 2
    variance = float(given @ grades**2 - (given @ grades) ** 2)
    return 1.0 - float((shares * square).sum()) / variance if variance > 0.0 else None


def class_figures(total: FigureSums, labels: list[str]) -> tuple[ClassFigures, ...]:
    """Return the figures of each class from the sums over all rows."""
    figures, weigh = [], total.rows / total.weight
    for k, label in enumerate(labels):
        given, called = total.confusion[k], total.confusion[:, k]
        others = np.where(np.arange(len(labels)) == k, 0.0, given)
        figures.append(
            ClassFigures(
                label,
                weigh * float(given.sum()),
                float(given[k] / given.sum()) if given.any() else None,
                float(called[k] / called.sum()) if called.any() else None,
                labels[int(others.argmax())] if others.any() else None,
            )
        )
    return tuple(figures)
