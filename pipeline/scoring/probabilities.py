"""Scores of rows, and probabilities from them: by a calibration, else by the link of a loss."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import Calibration
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.problem import loss_of
from fewpass.pipeline.rows.buffers import cut_rows
from fewpass.pipeline.runs.model import Model
from fewpass.solvers.kernels.rows import Rows
from fewpass.solvers.kernels.scores import rank, scores
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.protocol import Block, Weights

Vector = NDArray[np.float64]

SCORES_TOGETHER = 1 << 20  # of all classes, for which several arrays are made at once


#: Whatever has a function `probabilities` of scores: p of the second of two classes (n,) for scores
#: (n,), or (n, K) for (n, K).
OfScores = Calibration | Loss


def probabilities_of(model: Model) -> OfScores:
    """Return what makes probabilities of a model's scores.

    Raises BadInput if there is none.
    """
    made = probabilities_if_any(model)
    if made is not None:
        return made
    if model.predicts_numbers:
        raise BadInput(
            "The model predicts numbers, which have no probabilities. Ask for none, or ingest the "
            "targets as labels (`task=classification`) and train on them."
        )
    raise BadInput(
        "Only the logistic loss models probabilities; this model's scores are distances. "
        "Train with `loss=logistic`, or with `held_out` rows and `calibrate=platt`."
    )


def probabilities_if_any(model: Model) -> OfScores | None:
    """Return its calibration, else its loss where that has probabilities; None if none has."""
    loss = loss_of(model.record.plan, model.record)
    if model.predicts_numbers or (model.calibration is None and loss.link is None):
        return None
    return loss if model.calibration is None else model.calibration


def predicted_labels(
    scores: Vector, p: Vector | None = None, threshold: float | None = None
) -> NDArray[np.intp]:
    """Return the numbers of the labels predicted (n,).

    The highest of scores (n, K); of scores (n,) the second label where they are above 0, or where
    its probability p (n,) is at least a threshold.
    """
    if scores.ndim == 2:
        best: NDArray[np.intp] = scores.argmax(axis=1)
        return best
    if threshold is None:
        return (scores > 0.0).astype(np.intp)
    assert p is not None, "a threshold is one of probabilities"
    return (p >= threshold).astype(np.intp)


def require_threshold(model: Model, threshold: float) -> None:
    """Refuse a threshold that is no probability, or that does not choose between two labels."""
    if not 0.0 <= threshold <= 1.0:
        raise BadInput(f"threshold is {threshold}. Give a probability, from 0 to 1.")
    require_two_labels(model, "threshold")
    probabilities_of(model)  # refuses a model without any


def require_two_labels(model: Model, setting: str) -> None:
    """Refuse what is said of the second of two labels where the model has others."""
    if model.predicts_numbers or model.weights.coef.ndim == 2:
        what = "numbers" if model.predicts_numbers else f"{len(model.weights.coef)} labels"
        raise BadInput(
            f"`{setting}` is for two labels, and this model predicts {what}. Leave it out."
        )


def caution(model: Model) -> str | None:
    """Return why a model's probabilities are not calibrated; None if they are."""
    if model.calibration is not None:
        return None
    one_each = not loss_of(model.record.plan, model.record).is_wide
    if model.weights.coef.ndim == 2 and one_each:
        why = "Each class's probability is its own model's over the sum of all models'"
    elif model.record.plan.class_weight is not None:
        why = "The rows were weighted by class, and so are the probabilities"
    else:
        return None
    return f"{why}: good for ranking, not honest. Train with `calibrate=platt` for honest ones."


def class_scores(at: Weights, rows: Rows, n_rows: int) -> Vector:
    """Return the scores of rows: (n,) of the second of two classes, else (n, K)."""
    if at.coef.ndim == 1:
        return scores(at.coef, float(at.intercept), rows)
    every = np.empty((len(at.coef), n_rows))
    rank(at.coef, at.intercept, rows, every.__setitem__)
    return np.ascontiguousarray(every.T)


class ScoredRows(NamedTuple):
    """Rows with their scores."""

    scores: Vector  # (n,) of the second of two labels, or that numbers follow of; (n, K) of classes
    y: Vector  # (n,) -1 and +1, numbers, or the number of a class
    weight: Vector  # (n,)
    offset: Vector | None  # (n,) of numbers, which the scores have in them

    @property
    def classes(self) -> NDArray[np.intp]:
        """The number of each row's label (n,)."""
        return (self.y if self.scores.ndim == 2 else self.y > 0.0).astype(np.intp)


def scored_parts(problem: Problem, at: Weights, block: Block) -> Iterator[ScoredRows]:
    """Yield the rows of a block with their scores, as many at a time as memory allows."""
    several = at.coef.ndim == 2
    n, step = len(block.y), max(1, SCORES_TOGETHER // (len(at.coef) if several else 1))
    at = at._replace(intercept=at.intercept * problem.intercept)
    for first in range(0, n, step):
        own = slice(first, min(first + step, n))
        scores = class_scores(at, cut_rows(block.rows, own.start, own.stop), own.stop - own.start)
        offset = None if block.offset is None else block.offset[own]
        scores = scores if offset is None else scores + offset
        yield ScoredRows(scores, block.y[own], block.weight[own], offset)


def responses(loss: Loss, p: Vector) -> Vector:
    """Return predictions, on the scale of the targets, for scores p."""
    return loss.response(p) if loss.response else p
