"""Scores of any input, in its own order, streamed to a file in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.matching import Matched
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.outputs import Output
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.rows.scaling import Scaler, unscaled
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.model import Model, require_same_columns, stored_weights
from fewpass.pipeline.scoring.predictions import (
    STANDARD_OUTPUT,
    PredictionFile,
    defused,
    open_predictions,
    require_ending,
)
from fewpass.pipeline.scoring.probabilities import Probabilities, class_scores, probabilities_of
from fewpass.pipeline.scoring.room import PIECE_SHARE, budget, piece_bytes, require_chunks, room_of
from fewpass.pipeline.settings.matching import Matching
from fewpass.pipeline.settings.source_options import SourceOptions, refuse_reading
from fewpass.pipeline.tables.readers import Expected, Source, open_source
from fewpass.pipeline.tables.readers.finding import is_data_set
from fewpass.pipeline.training.planning.problem import loss_of
from fewpass.solvers.kernels.scores import rank, scores
from fewpass.solvers.protocol import Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import SparseTable, Table, cut, n_bytes

Columns = dict[str, NDArray[Any]]


class PredictionResult(NamedTuple):
    """What `fewpass predict --json` prints."""

    output: str
    rows: int
    columns: tuple[str, ...]
    seconds: float
    peak_memory_bytes: int
    left_out: tuple[str, ...] = ()  # columns of the input that the model does not know
    beyond: int = 0  # values left out, whose index is beyond the model's features


class PredictionProgress(NamedTuple):
    """How far a prediction is."""

    rows: int
    fraction: float  # of files an estimate


class Batch(NamedTuple):
    """Predicted rows, on their way into the file."""

    columns: Columns
    n_beyond: int  # values left out
    done: int  # rows, or of files the bytes of their values in memory


class Predictor(NamedTuple):
    """Turns rows into the columns of the output."""

    model: Model
    labels: tuple[Any, ...] | None  # of negative and positive scores, or of the classes; None:
    # numbers are predicted
    probabilities: Probabilities | None  # where these are asked for
    scaler: Scaler | None  # None: rows come scaled as the model wants them

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
        """Return the same with labels that no spreadsheet runs; no other column holds text."""
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
            return {"prediction": scores(weights.coef, weights.intercept, rows)}
        if weights.coef.ndim == 2 and self.probabilities is None:
            best, score = rank(weights.coef, weights.intercept, rows)
        else:
            every = class_scores(weights, rows, table.n_rows)
            best = every.argmax(axis=1) if every.ndim == 2 else (every > 0).astype(np.int64)
            score = every[np.arange(len(every)), best] if every.ndim == 2 else every
        found = {"label": np.array(self.labels)[best], "score": score}
        return found if self.probabilities is None else found | self._shares(every, best)

    def _shares(self, every: NDArray[np.float64], best: NDArray[np.int64]) -> Columns:
        """Return a column per class, and last that of the positive label, or of the label given."""
        assert self.probabilities is not None, "they are asked for"
        p = self.probabilities.of(every)
        if p.ndim == 1:
            each, told = (1.0 - p, p), p
        else:
            each, told = tuple(p.T), p[np.arange(len(p)), best]
        return dict(zip(self._of_classes, each, strict=True)) | {"probability": told}


def as_stepped(weights: Weights, scaler: Scaler, table: Table) -> tuple[Weights, Table]:
    """Return weights and rows that fit each other, of raw rows: mostly these are scaled."""
    if scaler.shift is not None and isinstance(table, SparseTable):
        return unscaled(weights, scaler), table  # a shift fills every zero
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
    memory: int | None = None,
    threads: int | None = None,
    storage_options: dict[str, Any] | None = None,
    on_progress: Callable[[PredictionProgress], None] = lambda _: None,
) -> PredictionResult:
    """Score every row of `inputs` (files, or one data set) into `output`.

    Parameters
    ----------
    model
        Weights and what they were trained on; raw rows are scaled as the training rows were.
    inputs
        What `fewpass ingest` reads, labels optional; or the address of one data set.
    output
        A .parquet, .csv or .npy file, which appears whole or not at all; "-" for CSV on standard
        output.
    options
        How to read the inputs, and how their columns are matched with the model's.
    overwrite
        Replace `output` if it is there; never an input, a source of the model's rows, or what lies
        in a data set or a run.
    probability
        Add a column per class, `probability_LABEL`, and `probability`: of the positive label, of
        several classes of the label predicted.  They are those of the run's calibration; without
        one the logistic loss's own, of several classes each model's over the sum of all models',
        which are not honest.
    defuse
        Write labels that a spreadsheet would run as a formula (``=1+2``) with a ' before them;
        .csv only.
    memory
        Budget in bytes beyond what importing the libraries takes; default: 1 GiB, and what the
        weights take.
    threads
        That parse and score; default: the machine's cores.

    Raises
    ------
    BadInput
        Rows that cannot be read or do not have the model's columns; probabilities that would not
        be honest; an output of another kind, or where it must not be.
    """
    began = time.perf_counter()
    require_ending(output)
    file = Output(output, overwrite, tuple(inputs), model.record, storage_options)
    if output != STANDARD_OUTPUT:
        file.require_free()
    dataset = _as_dataset(inputs, storage_options)
    predictor = make_predictor(model, probability=probability, raw=dataset is None)
    if defuse and output.endswith((".csv", STANDARD_OUTPUT)):
        predictor = predictor.defused()
    memory, threads = budget(model, memory), threads or os.cpu_count() or 1
    rows = beyond = done = size = 0
    if dataset is None:
        shares = max(1, len(predictor.columns) // 4)  # a row's columns may be wider than its text
        size = piece_bytes(model, memory, threads, shares)
    else:
        told = options.model_dump(exclude_defaults=True, exclude={*Matching.model_fields})
        refuse_reading(told, inputs[0])
        require_chunks(model, memory, dataset)
    with (
        open_predictions(
            output,
            predictor.columns,
            storage_options,
            replace=file.may_replace,
            before=file.require_free,
        ) as out,
        ThreadPoolExecutor(threads) as pool,
    ):
        if dataset is None:
            source = _source(model, inputs, options, memory, storage_options)
            left_out, whole = source.left_out, source.estimated_bytes()
            batches = _of_files(predictor, source, size, pool)
        else:
            matched = require_same_columns(model.record, dataset, options)
            left_out, whole = matched.left_out, dataset.manifest.n_rows
            batches = _of_dataset(predictor, dataset, matched, memory, pool)
        for batch in batches:
            rows += _keep(out, batch.columns)
            beyond, done = beyond + batch.n_beyond, done + batch.done
            on_progress(PredictionProgress(rows, min(1.0, done / max(1, whole))))
    seconds = time.perf_counter() - began
    peak = peak_memory_bytes()
    return PredictionResult(output, rows, predictor.columns, seconds, peak, left_out, beyond)


def make_predictor(model: Model, *, probability: bool, raw: bool) -> Predictor:
    """Work out what is predicted: labels, numbers, probabilities."""
    loss = loss_of(model.record.plan, model.record)
    made = probabilities_of(model) if probability else None
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift) if raw else None
    numbers = loss.takes_numbers and model.record.plan.positive is None
    return Predictor(model, None if numbers else label_names(model), made, scaler)


def label_names(model: Model) -> tuple[Any, ...]:
    """Return what negative and positive scores, or the classes, are called."""
    targets = model.record.targets
    assert targets.kind == "labels", "losses other than the squared one are refused on numbers"
    names: list[Any] = list(targets.labels)
    positive = model.record.plan.positive
    if positive is None:
        return tuple(names)
    others = [name for name in names if label_text(name) != positive]
    found = next(name for name in names if name not in others)
    return (others[0] if len(others) == 1 else f"not {positive}"), found


def _as_dataset(inputs: Sequence[str], storage: dict[str, Any] | None) -> Dataset | None:
    if len(inputs) != 1 or not is_data_set(inputs[0], storage):
        return None
    return Dataset.open(inputs[0], storage)


def _source(
    model: Model,
    inputs: Sequence[str],
    options: SourceOptions,
    memory: int,
    storage: dict[str, Any] | None,
) -> Source:
    """Open files whose columns are those of a model, labels optional."""
    width = model.record.n_features
    known = {"n_features": width, "label_required": False, "dtype": model.record.dtype}
    options = options.model_copy(update=known)
    expected = Expected(model.record.columns, room=room_of(model, memory))
    return open_source(inputs, options, storage, expected)


def _of_files(
    predictor: Predictor, source: Source, size: int, pool: ThreadPoolExecutor
) -> Iterator[Batch]:
    workers = pool._max_workers  # noqa: SLF001 - the pool is ours, and nothing public tells

    def job(piece: Any) -> Batch:
        parsed = source.parse(piece)
        return Batch(predictor(parsed.table), parsed.n_beyond, n_bytes(parsed.table))

    return ordered_map(pool, job, source.pieces(size), workers + 1)


def _of_dataset(
    predictor: Predictor,
    dataset: Dataset,
    matched: Matched,
    memory: int,
    pool: ThreadPoolExecutor,
) -> Iterator[Batch]:
    weights = stored_weights(predictor.model.weights, dataset, matched)
    predictor = predictor._replace(model=predictor.model._replace(weights=weights))

    def job(table: Table) -> Batch:
        return Batch(predictor(table), 0, table.n_rows)

    if predictor.probabilities is None or weights.coef.ndim == 1:
        read = lambda k: job(dataset.read_stored(k))  # noqa: E731 - a line
        yield from ordered_map(pool, read, range(dataset.n_chunks), 2)
        return
    step = max(1, memory // (PIECE_SHARE * 8 * len(weights.coef)))  # a column per class
    for table in ordered_map(pool, dataset.read_stored, range(dataset.n_chunks), 2):
        for first in range(0, table.n_rows, step):
            yield job(cut(table, first, min(first + step, table.n_rows)))


def _keep(out: PredictionFile, batch: dict[str, NDArray[Any]]) -> int:
    out.write(batch)
    return len(next(iter(batch.values())))
