"""Evaluation of several classes: top-1 error, and figures per class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.grades import are_grades
from fewpass.solvers.kernels.scores import rank
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.loss import loss_sum
from fewpass.solvers.protocol import Block, Sum, Weights
from fewpass.solvers.wide_gradient import losses_and_ranks
from fewpass.storage.manifest import Labels


class ClassFigures(NamedTuple):
    """Figures of one class; None where undefined."""

    label: str
    rows: float  # its rows, each as often as it weighs where all weigh 1 on average
    recall: float | None  # fraction of its rows that are predicted as this class
    precision: float | None  # fraction of the rows predicted as this class that are of it
    mistaken_for: str | None  # the most frequent prediction of its other rows


class ClassPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    rows: int
    weight: float
    losses: NDArray[np.float64]  # (K,) of every class against the rest, (1,) of all scores at once
    confusion: NDArray[np.float64]  # (K, K) weight of rows by class, then by predicted class


def no_ranks(at: Weights) -> ClassPart:
    """Return the zero of the sums."""
    K = len(at.coef)
    return ClassPart(0, 0.0, np.zeros(K), np.zeros((K, K)))


def add_ranks(problem: Problem, at: Weights, block: Block, part: ClassPart) -> ClassPart:
    """Add a block; its targets are class numbers."""
    K, weight, code = len(at.coef), block.weight, block.y.astype(np.int64)

    def hear(k: int, p: NDArray[np.float64]) -> None:
        y = np.where(code == k, 1.0, -1.0)
        part.losses[k] += loss_sum(problem.loss, p, y, weight)

    best = rank(at.coef, at.intercept * problem.intercept, block.rows, hear).best
    part.confusion[:] += np.bincount(code * K + best, weight, K * K).reshape(K, K)
    return _counted(part, weight)


def _counted(part: ClassPart, weight: NDArray[np.float64]) -> ClassPart:
    """Count rows (n,) of some weights in."""
    rows = part.rows + int(np.count_nonzero(weight))
    return part._replace(rows=rows, weight=part.weight + float(weight.sum()))


CLASS_SCORES = Sum("reduce-scores", no_ranks, add_ranks)


def no_joint_ranks(at: Weights) -> ClassPart:
    """Return the zero of the sums of one model's scores."""
    return no_ranks(at)._replace(losses=np.zeros(1))


def add_joint_ranks(problem: Problem, at: Weights, block: Block, part: ClassPart) -> ClassPart:
    """Add a block; its targets are class numbers."""
    K, weight, code = len(at.coef), block.weight, block.y.astype(np.int64)
    loss, best = losses_and_ranks(problem, at, block)
    part.losses[0] += loss
    part.confusion[:] += np.bincount(code * K + best, weight, K * K).reshape(K, K)
    return _counted(part, weight)


JOINT_SCORES = Sum("reduce-scores", no_joint_ranks, add_joint_ranks)


def penalty(problem: Problem, at: Weights) -> float:
    """Return the regularisation term: of models against the rest its mean over the classes."""
    up = at.intercept - problem.level
    charged = np.array([problem.penalty.value(w) for w in np.atleast_2d(at.coef)])
    each = charged + 0.5 * problem.lam_b * up**2
    return float(each.sum() if problem.loss.is_wide else each.mean())


def top_error(total: ClassPart) -> float:
    """Return the weighted fraction of misclassified rows."""
    return 1.0 - float(np.trace(total.confusion)) / total.weight


def r2_of_grades(total: ClassPart, targets: Labels) -> float | None:
    """Return R2 of the labels that are predicted; None where they are no grades, or all the same.

    A regression's is comparable.
    """
    if not are_grades(targets):
        return None
    grades, shares = np.array(targets.labels, float), total.confusion / total.weight
    given, square = shares.sum(axis=1), (grades[:, None] - grades) ** 2
    variance = float(given @ grades**2 - (given @ grades) ** 2)
    return 1.0 - float((shares * square).sum()) / variance if variance > 0.0 else None


def class_figures(total: ClassPart, labels: list[str]) -> tuple[ClassFigures, ...]:
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
