"""Prediction for any input, in its order, streamed to a file in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from fewpass.pipeline.scoring.output_table import OutputTable
from fewpass.pipeline.scoring.prediction_files import STANDARD_OUTPUT, defused
from fewpass.pipeline.scoring.prediction_folder import is_folder, predict_folder, predict_new
from fewpass.pipeline.scoring.probabilities import (
    Probabilities,
    class_scores,
    predicted_labels,
    probabilities_of,
    require_threshold,
)
from fewpass.pipeline.scoring.scored_file import (
    PredictionProgress,
    PredictionResult,
    ScoredOutput,
    write_rows,
)
from fewpass.pipeline.scoring.scoring_budget import scoring_budget
from fewpass.pipeline.scoring.table_choice import output_table
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.solvers.bad_input import MOST_WHOLE
from fewpass.solvers.kernels.scores import rank, scores
from fewpass.solvers.losses.loss import Link
from fewpass.solvers.protocol import Weights
from fewpass.storage.redaction import without_secrets
from fewpass.storage.table import SparseTable, Table

Columns = dict[str, NDArray[Any]]


class Predictor(NamedTuple):
    """Computes the columns of predictions from rows."""

    model: Model
    labels: NDArray[Any] | None  # of negative and positive scores, or of the classes; None:
    # regression
    probabilities: Probabilities | None  # if requested, or compared with the threshold
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
        p = None if self.probabilities is None else self.probabilities.of(every)
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


def predict(
    model: Model,
    inputs: Sequence[str],
    output: str,
    options: SourceOptions,
    *,
    overwrite: bool = False,
    probability: bool = False,
    defuse: bool = False,
    clip: bool = True,
    memory: int | None = None,
    keep: Sequence[str] = (),
    threshold: float | None = None,
    threads: int | None = None,
    table: str | None = None,
    only_new: bool = False,
    on_progress: Callable[[PredictionProgress], None] = lambda _: None,
) -> PredictionResult:
    """Predict every row of `inputs` (files, or one data set) into `output`.

    Parameters
    ----------
    model
        The model; raw rows are scaled as the training rows were.
    inputs
        Inputs as for `fewpass ingest`, labels optional; or the address of one data set.
    output
        A .parquet, .csv or .npy file, which appears only if complete; "-" for CSV on standard
        output.  A folder, with a slash at its end: a file for each file of the inputs, .csv for
        CSV and .parquet for others; the same call again goes on where one was killed.  A database
        (postgresql://..., .sqlite, .duckdb) or a table of Delta Lake (.delta): all rows are put
        there, or none, in place of what the same model has predicted there of the same sources.
    options
        Options for reading, and for matching the columns with the model's.
    overwrite
        Replace an existing `output`; never an input, a source of the model's rows, or a file in a
        data set or a run.  Of a table: all of its rows, if it has the columns of predictions.
    probability
        Add a column per class, `probability_LABEL`, and `probability`: of the positive label, or
        with several classes of the predicted label.  They are those of the run's calibration;
        without one those of the logistic loss, which with several classes are each model's divided
        by the sum of all models', and not calibrated.
    defuse
        Write a ' before labels that a spreadsheet would run as a formula (``=1+2``); .csv only.
    clip
        Clip predicted numbers to the range of the targets that the model learnt from, as its
        training was asked to; False: write the linear function as it is.
    memory
        Memory budget in bytes beyond that of imported libraries; default: 1 GiB plus the weights.
    keep
        Columns of the files that are written first, as they are, such as ids.
    threshold
        Call rows positive whose probability of the second of two labels is at least this; by
        default those whose score is above 0.
    threads
        Number of threads for parsing and scoring; default: the number of cores.
    table
        Name of the table, where the output is a database.
    only_new
        Of the files of the inputs predict only those that are not predicted there yet, by whatever
        model, as they are now; the output is a folder or a table.

    Raises
    ------
    BadInput
        Rows are unreadable or do not have the model's columns; there are no probabilities; the
        output is of another kind or must not be written.
    """
    model = model if clip else model._replace(seen=None)
    how = PredictedColumns(probability, defuse, tuple(keep), threshold)

    place = output_table(output, table)
    _require_several(output, place, overwrite=overwrite, only_new=only_new)

    def into(
        specs: Sequence[str], url: str, tell: Callable[[PredictionProgress], None]
    ) -> PredictionResult:
        out = ScoredOutput(url, overwrite, how.keep, memory, threads, tell, place, only_new)
        return write_rows(how.maker(model, out), model, specs, options, out)

    def into_one(
        spec: str, url: str, tell: Callable[[PredictionProgress], None]
    ) -> PredictionResult:
        return into([spec], url, tell)

    if place is not None and only_new:
        return predict_new(into_one, place, inputs, on_progress)
    if place is not None or not is_folder(output):
        return into(inputs, output, on_progress)
    settings = how._asdict() | {"clip": clip, "reading": options.model_dump(mode="json")}
    return predict_folder(
        into_one, model, inputs, output, settings, overwrite=overwrite, only_new=only_new,
        on_progress=on_progress,
    )  # fmt: skip


def _require_several(
    output: str, place: OutputTable | None, *, overwrite: bool, only_new: bool
) -> None:
    """Refuse `only_new` where nothing could be left as it is."""
    if not only_new:
        return
    if overwrite:
        raise BadInput("`overwrite` makes all anew, and `only_new` what is new. Leave one out.")
    if place is None and not is_folder(output):
        raise BadInput(
            f"`only_new` leaves what is predicted, and {without_secrets(output)} would be one file "
            "of all. Name a folder (with a slash at its end) or a table."
        )


class PredictedColumns(NamedTuple):
    """Which columns are written."""

    probability: bool
    defuse: bool
    keep: tuple[str, ...]
    threshold: float | None

    def maker(self, model: Model, out: ScoredOutput) -> Callable[[bool], Predictor]:
        """Return what makes the predictor of raw rows (True) or those of a data set."""
        budget = scoring_budget(model, out.memory)
        is_text = out.url.endswith((".csv", STANDARD_OUTPUT))

        def make(raw: bool) -> Predictor:
            predictor = make_predictor(
                model, probability=self.probability, raw=raw, threshold=self.threshold,
                budget=budget,
            )  # fmt: skip
            return predictor.defused() if self.defuse and is_text else predictor

        return make


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
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift) if raw else None
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
    positive = model.record.plan.positive
    if positive is None:
        return tuple(names)
    others = [name for name in names if label_text(name) != positive]
    label = next(name for name in names if name not in others)
    return (others[0] if len(others) == 1 else f"not {positive}"), label
