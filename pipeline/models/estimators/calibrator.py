"""Honest probabilities for any classifier with scores, learnt from held-out rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from fewpass.pipeline.calibration import (
    Part,
    ScoreCounts,
    Sigmoid,
    Softmax,
    fit_softmax,
    fit_two_classes,
    softmax_log_loss,
)
from fewpass.pipeline.models.estimators.checked_rows import checked_weights
from fewpass.pipeline.models.estimators.classifier import coded
from fewpass.pipeline.models.estimators.kinds_of_rows import is_collection
from fewpass.pipeline.models.estimators.lazy_predictions import example_of, lazily
from fewpass.pipeline.tables.readers.blocks import RowBlock
from fewpass.pipeline.tables.readers.collection_blocks import blocks_of
from fewpass.solvers.registry import LOSS_OF_LABELS

Vector = NDArray[np.float64]
METHODS = ("platt", "isotonic", "prior")


class ScoreCalibrator(ClassifierMixin, BaseEstimator):
    """Turn the scores of a fitted classifier into calibrated probabilities.

    Two classes: the scores of held-out rows are read once and counted in 2^18 bins, and Platt's
    sigmoid or an isotonic step function is fitted to the counts, in constant memory.  More classes:
    softmax(slope * scores + offset) is fitted by Newton's method, in a pass or more per step.

    "prior" needs no rows.  With class weights, a logistic model learns the odds of a population in
    which each class is that many times as frequent; log(w_1 / w_0) is subtracted from its scores
    (prior correction; King and Zeng, "Logistic regression in rare events data", 2001).

    Parameters
    ----------
    estimator : classifier
        A fitted classifier with `decision_function` and `classes_`.  It is not changed.
    method : {"platt", "isotonic", "prior"}, default="platt"
        For two classes.  "isotonic" needs some thousand rows; "prior" undoes the class_weight of a
        logistic `LinearClassifier`.  With more than two classes the softmax is used.

    Attributes
    ----------
    classes_ : ndarray (K,)
    calibration_ : Sigmoid, Steps or Softmax
        The fitted function.
    """

    def __init__(self, estimator: Any, *, method: str = "platt") -> None:
        self.estimator = estimator
        self.method = method

    def fit(self, X: Any = None, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit on rows that the estimator was not trained on.

        Parameters
        ----------
        X, y, sample_weight
            Rows (n, d), labels (n,) and row weights (n,), in memory or as Dask collections, which
            are read block by block.  None for "prior".  A weight is a number of equal rows, as in
            scikit-learn: weights that add up to 1 are one row, which says little.

        Raises
        ------
        ValueError
            If labels are not the estimator's or all the same, if there is no such method, or
            if "prior" cannot be applied to the estimator.
        """
        check_is_fitted(self.estimator)
        if self.method not in METHODS:
            raise ValueError(f"method is {self.method!r}. Choose one of {', '.join(METHODS)}.")
        self.classes_ = np.asarray(self.estimator.classes_)
        two = len(self.classes_) == 2
        if not two and self.method != "platt":
            raise ValueError(
                f"method={self.method!r} is for two classes, but there are {len(self.classes_)}. "
                "Leave it out."
            )
        if self.method == "prior":
            self.calibration_: Any = Sigmoid(1.0, -log_odds_of_weights(self.estimator))
            return self
        if X is None or y is None:
            raise ValueError(
                f"method={self.method!r} needs rows that the estimator was not trained on. Give X "
                "and y."
            )
        rows = Rows(self.estimator, X, y, sample_weight)
        if two:
            counts = reduce(add, (ScoreCounts.of(s, c == 1, w) for s, c, w in rows))
            self.calibration_ = fit_two_classes(counts, self.method)  # type: ignore[arg-type]
        else:
            self.calibration_ = fit_softmax(
                lambda at: reduce(add, (softmax_log_loss(at, part) for part in rows)),
                len(self.classes_),
            )
        return self

    def predict_proba(self, X: Any) -> Vector:
        """Return probabilities (n, K) of the classes; for Dask collections, a lazy Dask array."""
        check_is_fitted(self)
        if is_collection(X):
            probabilities: Vector = lazily(
                self.predict_proba, X, example_of(self.estimator.n_features_in_, X)
            )
            return probabilities
        p = self.calibration_.probabilities(self.estimator.decision_function(X))
        return p if isinstance(self.calibration_, Softmax) else np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the labels (n,) with the highest probability; for Dask collections, lazily."""
        if is_collection(X):
            labels: NDArray[Any] = lazily(
                self.predict, X, example_of(self.estimator.n_features_in_, X)
            )
            return labels
        best: NDArray[Any] = self.classes_[self.predict_proba(X).argmax(axis=1)]
        return best


def log_odds_of_weights(estimator: Any) -> float:
    """Return log(w_1 / w_0) of a logistic model's classes; ValueError where it knows none."""
    weights = getattr(estimator, "class_weight_", None)
    if weights is None or getattr(estimator, "loss", None) != LOSS_OF_LABELS:
        raise ValueError(
            "method='prior' undoes the class_weight of a LinearClassifier with "
            f"loss={LOSS_OF_LABELS!r}, and the estimator is {estimator!r}. Learn from held-out "
            "rows: method='platt'."
        )
    return float(np.log(weights[1] / weights[0]))


class Rows:
    """Scores, classes and weights of held-out rows, part by part, as often as they are wanted."""

    def __init__(self, estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
        self._estimator = estimator
        self._in_memory = None if is_collection(X) else (X, column_or_1d(y), sample_weight)
        if self._in_memory:
            check_consistent_length(X, y)
        self._blocks = [] if self._in_memory else blocks_of(X, y, sample_weight)

    def __iter__(self) -> Iterator[Part]:
        if self._in_memory:
            yield self._part(*self._in_memory)
        none_counts = bool(self._blocks)
        for block in self._blocks:
            rows: RowBlock = block.compute()
            if rows.n_rows and (rows.weight is None or np.any(rows.weight)):
                none_counts = False
                yield self._part(rows.X, rows.y, rows.weight)
        if none_counts:
            raise ValueError("There are no rows to calibrate on, or all weigh nothing. Give some.")

    def _part(self, X: Any, y: Any, sample_weight: Any) -> Part:
        classes = coded(np.asarray(y), np.asarray(self._estimator.classes_))
        weight = checked_weights(
            None if sample_weight is None else np.asarray(sample_weight), len(classes)
        )
        return np.asarray(self._estimator.decision_function(X), float), classes, weight
