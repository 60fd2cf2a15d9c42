"""Prediction for any input, in its order, streamed to a file in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.matching import Matched
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.outputs import OutputFile, is_data_set
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.rows.target_range import clipped
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.model import Model, require_same_columns, stored_weights
from fewpass.pipeline.scoring.prediction_files import (
    STANDARD_OUTPUT,
    PredictionFile,
    defused,
    open_predictions,
    require_ending,
)
from fewpass.pipeline.scoring.probabilities import Probabilities, class_scores, probabilities_of
from fewpass.pipeline.scoring.scoring_budget import piece_bytes, require_chunks, scoring_budget
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.tables.readers import Expected, Source, open_source
from fewpass.pipeline.tables.readers.source import Piece
from fewpass.pipeline.tables.stream.parsed_pieces import each_piece
from fewpass.pipeline.training.planning.problem import loss_of
from fewpass.solvers.kernels.scores import rank, scores
from fewpass.solvers.losses.loss import Link
from fewpass.solvers.protocol import Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import SparseTable, Table, cut, n_bytes

Columns = dict[str, NDArray[Any]]


class PredictionResult(NamedTuple):
    """The result of a prediction, as in `fewpass predict --json`."""

    output: str
    rows: int
    columns: tuple[str, ...]
    seconds: float
    peak_memory_bytes: int
    left_out: tuple[str, ...] = ()  # columns of the input that the model does not have
    beyond: int = 0  # values ignored, as their index is beyond the model's features


class PredictionProgress(NamedTuple):
    """Progress of a prediction."""

    rows: int
    fraction: float  # for files an estimate


class Batch(NamedTuple):
    """Predicted rows for the output file."""

    columns: Columns
    n_beyond: int  # values ignored
    done: int  # rows, or for files the bytes of their values in memory


class Predictor(NamedTuple):
    """Computes the columns of the output from rows."""

    model: Model
    labels: tuple[Any, ...] | None  # of negative and positive scores, or of the classes; None:
    # regression
    probabilities: Probabilities | None  # if requested
    scaler: Scaler | None  # None: rows are scaled already
    response: Link | None = None  # from scores to predictions of numbers

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output's columns."""
        if self.labels is None:
            return ("prediction",)
        if self.probabilities is None:
            return ("label", "score")
        return ("label", "score", *self._of_classes, "probability")

    @property
    def _of_classes(self) -> list[str]:
        return [f"probability_{label_text(label)}" for label in self.labels or ()]

    def defused(self) -> Predictor:
        """Return a copy whose labels no spreadsheet takes for formulas."""
        labels = self.labels and tuple(
            defused(label) if isinstance(label, str) else label for label in self.labels
        )
        return self._replace(labels=labels)

    def __call__(self, table: Table) -> dict[str, NDArray[Any]]:
        """Predict the rows of a table."""
        weights = self.model.weights
        if self.scaler is not None:
            weights, table = as_stepped(weights, self.scaler, table)
        rows = row_view(table)
        if self.labels is None:
            score = scores(weights.coef, weights.intercept, rows)
            score = score if table.offset is None else score + table.offset
            predictions = self.response(score) if self.response else score
            return {"prediction": clipped(predictions, self.model.bounds)}
        if weights.coef.ndim == 2 and self.probabilities is None:
            best, score = rank(weights.coef, weights.intercept, rows)
        else:
            every = class_scores(weights, rows, table.n_rows)
            best = every.argmax(axis=1) if every.ndim == 2 else (every > 0).astype(np.int64)
            score = every[np.arange(len(every)), best] if every.ndim == 2 else every
        columns = {"label": np.array(self.labels)[best], "score": score}
        return columns if self.probabilities is None else columns | self._shares(every, best)

    def _shares(self, every: NDArray[np.float64], best: NDArray[np.int64]) -> Columns:
        """Return a column per class, and last that of the positive or of the predicted label."""
        assert self.probabilities is not None, "they are asked for"
        p = self.probabilities.of(every)
        if p.ndim == 1:
            each, chosen = (1.0 - p, p), p
        else:
            each, chosen = tuple(p.T), p[np.arange(len(p)), best]
        return dict(zip(self._of_classes, each, strict=True)) | {"probability": chosen}


def as_stepped(weights: Weights, scaler: Scaler, table: Table) -> tuple[Weights, Table]:
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
    threads: int | None = None,
    storage_options: dict[str, Any] | None = None,
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
        output.
    options
        Options for reading, and for matching the columns with the model's.
    overwrite
        Replace an existing `output`; never an input, a source of the model's rows, or a file in a
        data set or a run.
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
    threads
        Number of threads for parsing and scoring; default: the number of cores.

    Raises
    ------
    BadInput
        Rows are unreadable or do not have the model's columns; there are no probabilities; the
        output is of another kind or must not be written.
    """
    began = time.perf_counter()
    require_ending(output)
    file = OutputFile(output, overwrite, tuple(inputs), model.record, storage_options)
    if output != STANDARD_OUTPUT:
        file.require_free()
    dataset = _as_dataset(inputs, storage_options)
    model = model if clip else model._replace(seen=None)
    predictor = make_predictor(model, probability=probability, raw=dataset is None)
    if defuse and output.endswith((".csv", STANDARD_OUTPUT)):
        predictor = predictor.defused()
    budget, threads = scoring_budget(model, memory), threads or os.cpu_count() or 1
    if dataset is None:
        wider = max(1, len(predictor.columns) // 4)  # a row may have more output columns than text
        size = piece_bytes(budget, model, threads, wider)
        open_rows = partial(
            _rows_of_files, predictor, inputs, options, budget, storage_options, size, threads
        )
    else:
        given = options.model_dump(exclude_defaults=True, exclude={*Matching.model_fields})
        refuse_reading(given, inputs[0])
        require_chunks(budget, model, dataset)
        open_rows = partial(_rows_of_dataset, predictor, dataset, options, budget, threads)
    with open_predictions(
        output,
        predictor.columns,
        storage_options,
        replace=file.may_replace,
        before=file.require_free,
    ) as out:
        given_rows = open_rows()
        rows, beyond = _written(out, given_rows, on_progress)
    seconds, peak = time.perf_counter() - began, peak_memory_bytes()
    left_out = given_rows.left_out
    return PredictionResult(output, rows, predictor.columns, seconds, peak, left_out, beyond)


class _GivenRows(NamedTuple):
    """The rows to predict, opened."""

    batches: Generator[Batch]
    left_out: tuple[str, ...]  # columns that the model does not have
    whole: int  # what `done` of the batches adds up to, for files an estimate


def _rows_of_files(
    predictor: Predictor,
    inputs: Sequence[str],
    options: SourceOptions,
    budget: Budget,
    storage: dict[str, Any] | None,
    size: int,
    threads: int,
) -> _GivenRows:
    source = _source(predictor.model, inputs, options, budget, storage)
    whole = source.estimated_bytes()
    return _GivenRows(_of_files(predictor, source, size, threads), source.left_out, whole)


def _rows_of_dataset(
    predictor: Predictor, dataset: Dataset, options: SourceOptions, budget: Budget, threads: int
) -> _GivenRows:
    matched = require_same_columns(predictor.model.record, dataset, options)
    batches = _of_dataset(predictor, dataset, matched, budget, threads)
    return _GivenRows(batches, matched.left_out, dataset.manifest.n_rows)


def _written(
    out: PredictionFile, given: _GivenRows, on_progress: Callable[[PredictionProgress], None]
) -> tuple[int, int]:
    """Write predictions; return the rows, and the values beyond the model's features."""
    rows = beyond = done = 0
    with closing(given.batches) as batches:
        for batch in batches:
            out.write(batch.columns)
            rows += len(next(iter(batch.columns.values())))
            beyond, done = beyond + batch.n_beyond, done + batch.done
            on_progress(PredictionProgress(rows, min(1.0, done / max(1, given.whole))))
    return rows, beyond


def make_predictor(model: Model, *, probability: bool, raw: bool) -> Predictor:
    """Return the predictor for the model: of labels, numbers, probabilities."""
    loss = loss_of(model.record.plan, model.record)
    made = probabilities_of(model) if probability else None
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift) if raw else None
    numbers = loss.takes_numbers and model.record.plan.positive is None
    labels = None if numbers else label_names(model)
    return Predictor(model, labels, made, scaler, loss.response)


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


def _as_dataset(inputs: Sequence[str], storage: dict[str, Any] | None) -> Dataset | None:
    if len(inputs) != 1 or not is_data_set(inputs[0], storage):
        return None
    return Dataset.open(inputs[0], storage)


def _source(
    model: Model,
    inputs: Sequence[str],
    options: SourceOptions,
    budget: Budget,
    storage: dict[str, Any] | None,
) -> Source:
    """Open files whose columns are those of a model, labels optional."""
    width = model.record.n_features
    like_model = {"n_features": width, "label_required": False, "dtype": model.record.dtype}
    options = options.model_copy(update=like_model)
    expected = Expected(model.record.columns, budget=budget)
    return open_source(inputs, options, storage, expected)


def _of_files(predictor: Predictor, source: Source, size: int, threads: int) -> Generator[Batch]:
    def job(_number: int, piece: Piece) -> Batch:
        parsed = source.parse(piece)
        return Batch(predictor(parsed.table), parsed.n_beyond, n_bytes(parsed.table))

    return each_piece(source, size, threads, threads + 1, job)


def _of_dataset(
    predictor: Predictor,
    dataset: Dataset,
    matched: Matched,
    budget: Budget,
    threads: int,
) -> Generator[Batch]:
    weights = stored_weights(predictor.model.weights, dataset, matched)
    predictor = predictor._replace(model=predictor.model._replace(weights=weights))

    def job(table: Table) -> Batch:
        return Batch(predictor(table), 0, table.n_rows)

    with ThreadPoolExecutor(threads) as pool:
        if predictor.probabilities is None or weights.coef.ndim == 1:
            read = lambda k: job(dataset.read_stored(k))  # noqa: E731 - a line
            yield from ordered_map(pool, read, range(dataset.n_chunks), 2)
            return
        step = max(1, budget.scored_piece // (8 * len(weights.coef)))  # a column per class
        for table in ordered_map(pool, dataset.read_stored, range(dataset.n_chunks), 2):
            for first in range(0, table.n_rows, step):
                yield job(cut(table, first, min(first + step, table.n_rows)))
