"""Computation of the columns of predictions from rows."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.problem import loss_of
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.rows.targets import clipped, label_text
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.prediction_files import STANDARD_OUTPUT, defused
from fewpass.pipeline.scoring.probabilities import (
    OfScores,
    class_scores,
    predicted_labels,
    probabilities_of,
    require_threshold,
)
from fewpass.pipeline.scoring.scoring_budget import scoring_budget
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.solvers.kernels.scores import rank, scores
from fewpass.solvers.losses.loss import Link
from fewpass.solvers.protocol import Weights
from fewpass.storage.table import SparseTable, Table

Columns = dict[str, NDArray[Any]]


class Predictor(NamedTuple):
    """Computes the columns of predictions from rows."""

    model: Model
    labels: NDArray[Any] | None  # of negative and positive scores, or of the classes; None:
    # regression
    probabilities: OfScores | None  # if requested, or compared with the threshold
    scaler: Scaler | None  # None: rows are scaled already
    response: Link | None = None  # from scores to predictions of numbers
    shows_probabilities: bool = False
    threshold: float | None = None  # of the second label's probability; None: score 0
    rows_at_once: int | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output's columns."""
        if self.labels is None:
            return ("predicted",)
        if not self.shows_probabilities:
            return ("predicted", "score")
        return ("predicted", "score", *self._of_classes, "probability")

    def with_model(self, model: Model) -> Predictor:
        """Return the same with another model."""
        return self._replace(model=model)

    @property
    def _of_classes(self) -> list[str]:
        return [] if self.labels is None else [f"probability_{label_text(x)}" for x in self.labels]

    def defused(self) -> Predictor:
        """Return a copy whose labels no spreadsheet takes for formulas."""
        if self.labels is None or self.labels.dtype.kind != "U":
            return self
        return self._replace(labels=np.array([defused(label) for label in self.labels.tolist()]))

    def __call__(self, table: Table) -> Columns:
        """Predict the rows of a table."""
        weights = self.model.weights
        if self.scaler is not None:
            weights, table = on_one_scale(weights, self.scaler, table)
        rows = row_view(table)
        if self.labels is None:
            score = scores(weights.coef, weights.intercept, rows)
            score = score if table.offset is None else score + table.offset
            predictions = self.response(score) if self.response else score
            return {"predicted": clipped(predictions, self.model.bounds)}
        if weights.coef.ndim == 2 and self.probabilities is None:
            best, score = rank(weights.coef, weights.intercept, rows)
            return {"predicted": self.labels[best], "score": score}
        every = class_scores(weights, rows, table.n_rows)
        p = None if self.probabilities is None else self.probabilities.probabilities(every)
        best = predicted_labels(every, p, self.threshold)
        score = every if every.ndim == 1 else every[np.arange(len(every)), best]
        columns = {"predicted": self.labels[best], "score": score}
        if p is None or not self.shows_probabilities:
            return columns
        return columns | self._shares(p, best)

    def _shares(self, p: NDArray[np.float64], best: NDArray[np.intp]) -> Columns:
        """Return a column per class, and last that of the positive or of the predicted label."""
        if p.ndim == 1:
            each, chosen = (1.0 - p, p), p
        else:
            each, chosen = tuple(p.T), p[np.arange(len(p)), best]
        return dict(zip(self._of_classes, each, strict=True)) | {"probability": chosen}


def on_one_scale(weights: Weights, scaler: Scaler, table: Table) -> tuple[Weights, Table]:
    """Return matching weights and rows, from raw rows: usually scaled rows."""
    if scaler.shift is not None and isinstance(table, SparseTable):
        return unscaled(weights, scaler), table  # with a shift, scaled rows have no zeros
    return weights, scaler.apply(table)


def planned_predictor(plan: PredictionPlan, model: Model, url: str, raw: bool) -> Predictor:
    """Return the predictor of raw rows, or those of a data set, into an output."""
    predictor = make_predictor(
        model, probability=plan.probability, raw=raw, threshold=plan.threshold,
        budget=scoring_budget(model, plan.memory),
    )  # fmt: skip
    is_text = url.endswith((".csv", STANDARD_OUTPUT))
    return predictor.defused() if plan.defuse and is_text else predictor


def make_predictor(
    model: Model,
    *,
    probability: bool = False,
    raw: bool,
    threshold: float | None = None,
    budget: Budget | None = None,
) -> Predictor:
    """Return the predictor for the model: of labels, numbers, probabilities.

    Parameters
    ----------
    raw
        Whether rows are as their source has them, and not scaled yet.
    threshold
        Of the probability of the second of two labels.
    budget
        That bounds the probabilities in memory; None: of all rows that are given at once.

    Raises
    ------
    BadInput
        There are no probabilities, or not two labels for a threshold.
    """
    loss = loss_of(model.record.plan, model.record)
    if threshold is not None:
        require_threshold(model, threshold)
    made = probabilities_of(model) if probability or threshold is not None else None
    scaler = model.scaler if raw else None
    at_once = None
    if made is not None and model.weights.coef.ndim == 2 and budget is not None:
        at_once = max(1, budget.scored_piece // (8 * len(model.weights.coef)))
    labels = None if model.predicts_numbers else typed_labels(model)
    return Predictor(model, labels, made, scaler, loss.response, probability, threshold, at_once)


def typed_labels(model: Model) -> NDArray[Any]:
    """Return the labels as an array: words, whole numbers or numbers."""
    labels = np.array(label_names(model))
    whole = labels.dtype.kind == "f" and bool((labels == np.rint(labels)).all())
    return labels.astype(np.int64) if whole and bool((abs(labels) < MOST_WHOLE).all()) else labels


def label_names(model: Model) -> tuple[Any, ...]:
    """Return the labels of negative and positive scores, or of the classes."""
    targets = model.record.targets
    assert targets.kind == "labels", "losses other than the squared one are refused on numbers"
    names: list[Any] = list(targets.labels)
    positive = model.record.positive
    if positive is None:
        return tuple(names)
    others = [name for name in names if label_text(name) != positive]
    if len(others) > 1:
        return f"not {positive}", positive
    return others[0], next(name for name in names if name not in others)


def classes_of(model: Model) -> tuple[str, ...]:
    """Return the labels of a model of several scores; none of one that has a single score."""
    if model.weights.coef.ndim == 1:
        return ()
    return tuple(map(label_text, label_names(model)))


def row_of_class(model: Model, label: str) -> int:
    """Return which of a model's scores is a class's; BadInput where it has none of that class."""
    classes = classes_of(model)
    if not classes:
        raise BadInput(f"The model has one score and no class {label!r}. Leave the class out.")
    if label not in classes:
        raise BadInput(
            f"The model has no scores of a class {label!r}. It has {', '.join(classes[:20])}."
        )
    return classes.index(label)
