"""Columns computed of every row of any input, in its order, streamed to a file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import Matched, shown_name
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.outputs import OutputFile, is_data_set
from fewpass.pipeline.runs.model import Model, require_same_columns, stored_weights
from fewpass.pipeline.runs.saved import VERSION_DIGITS, weights_digest
from fewpass.pipeline.scoring.output_table import (
    ORIGIN,
    Origin,
    OutputTable,
    Replaced,
    source_version,
)
from fewpass.pipeline.scoring.prediction_files import (
    STANDARD_OUTPUT,
    PredictionFile,
    open_predictions,
    require_ending,
)
from fewpass.pipeline.scoring.scoring_budget import piece_bytes, require_chunks, scoring_budget
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.tables.readers import Expected, Source, open_source
from fewpass.pipeline.tables.readers.source import ParsedRows, Piece, SourceFile
from fewpass.pipeline.tables.stream.parsed_pieces import each_piece
from fewpass.storage.dataset import Dataset
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import Table, cut, n_bytes

Columns = dict[str, Any]  # NumPy or Arrow arrays (n,)


class PredictionResult(NamedTuple):
    """The result of a prediction, as in `fewpass predict --json`."""

    output: str
    rows: int
    columns: tuple[str, ...]
    seconds: float
    peak_memory_bytes: int
    left_out: tuple[str, ...] = ()  # columns of the input that the model does not have
    beyond: int = 0  # values ignored, as their index is beyond the model's features
    files: int = 0  # that were made of the files of a folder; 0 where one was made of all
    done_before: int = 0  # of these, by an earlier call
    table: str | None = None  # in a database, which `output` is
    notes: tuple[str, ...] = ()  # on cells that the model's columns were not made for


class PredictionProgress(NamedTuple):
    """Progress of a prediction."""

    rows: int
    fraction: float  # for files an estimate


class Batch(NamedTuple):
    """Predicted rows for the output file."""

    columns: Columns
    n_beyond: int  # values ignored
    done: int  # rows, or for files the bytes of their values in memory
    file: str = ""  # that rows of files are of


class RowColumns(Protocol):
    """Computes the columns of an output from rows."""

    @property
    def model(self) -> Model:
        """The model."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the output's columns."""

    @property
    def rows_at_once(self) -> int | None:
        """Rows of which there are columns at once; None: however many are read."""

    def __call__(self, table: Table) -> dict[str, NDArray[Any]]:
        """Return the columns of a table's rows."""

    def with_model(self, model: Model) -> RowColumns:
        """Return the same with another model, such as one of features in stored order."""


class ScoredOutput(NamedTuple):
    """What is written, and how."""

    url: str  # a .parquet, .csv or .npy file; "-" is CSV on standard output; or where a table is
    overwrite: bool = False
    passed: tuple[str, ...] = ()  # columns of the input that are written, too
    memory: int | None = None  # bytes; None: 1 GiB and the weights
    threads: int | None = None  # None: one per core
    on_progress: Callable[[PredictionProgress], None] = lambda _: None
    table: OutputTable | None = None  # in place of a file
    any_model: bool = False  # whether rows of other models give way in it


def write_rows(
    make: Callable[[bool], RowColumns],
    model: Model,
    inputs: Sequence[str],
    options: SourceOptions,
    out: ScoredOutput,
) -> PredictionResult:
    """Compute columns of every row of `inputs` and write them.

    Parameters
    ----------
    make
        Called with whether rows are raw (True), or those of a data set; returns what computes the
        columns.
    model
        The model whose columns the inputs have.
    inputs
        Files as for `fewpass ingest`, labels optional; or the address of one data set.

    Raises
    ------
    BadInput
        Rows are unreadable or do not have the model's columns; a column that is to be passed is not
        there; the output is of another kind or must not be written.
    """
    began = time.perf_counter()
    file = OutputFile(out.url, out.overwrite, tuple(inputs), model.record)
    if out.table is None:
        require_ending(out.url)
        if out.url != STANDARD_OUTPUT:
            file.require_free()
    dataset = _as_dataset(inputs)
    compute = make(dataset is None)
    columns = _all_columns(out.passed, compute.columns, () if out.table is None else ORIGIN)
    if out.table is not None:
        out.table.require_fit(columns)
    budget, threads = scoring_budget(model, out.memory), out.threads or os.cpu_count() or 1
    if dataset is None:
        wider = max(1, len(compute.columns) // 4)  # a row may have more output columns than text
        size = piece_bytes(budget, model, threads, wider)
        given = _rows_of_files(compute, inputs, options, budget, out, size, threads)
    else:
        _refuse_passed(out.passed, inputs[0])
        changed = options.model_dump(exclude_defaults=True, exclude={*Matching.model_fields})
        refuse_reading(changed, inputs[0])
        require_chunks(budget, model, dataset)
        given = _rows_of_dataset(compute, dataset, options, threads)
    if out.table is None:
        opened = open_predictions(
            out.url, columns, replace=file.may_replace, before=file.require_free
        )
    else:
        origins = _origins(model, given.files, options.query)
        given = given._replace(batches=_with_origin(given.batches, origins))
        whose = None if out.any_model else origins[0].model
        gone = None if out.overwrite else Replaced(tuple(one.source for one in origins), whose)
        opened = out.table.opened(columns, gone)
    with opened as target:
        rows, beyond = _written(target, given, out.on_progress)
    seconds, peak = time.perf_counter() - began, peak_memory_bytes()
    shown, name = (out.table.shown, out.table.name) if out.table else (out.url, None)
    return PredictionResult(
        shown, rows, columns, seconds, peak, given.left_out, beyond, table=name,
        notes=() if given.source is None else given.source.cell_notes,
    )  # fmt: skip


def _origins(model: Model, files: Sequence[SourceFile], query: str | None) -> list[Origin]:
    """Return what rows of each file have in the columns of `ORIGIN`."""
    version = weights_digest(model.weights)[:VERSION_DIGITS]
    asked = f" {query}" if query else ""
    return [
        Origin(version, file.name + asked, source_version(file.bytes, file.version))
        for file in files
    ]


def _with_origin(batches: Generator[Batch], origins: Sequence[Origin]) -> Generator[Batch]:
    """Yield batches with the columns of `ORIGIN`; of a table's own files its only origin."""
    by_file = {origin.source: origin for origin in origins}
    with closing(batches):
        for batch in batches:
            n = len(next(iter(batch.columns.values())))
            origin = by_file.get(batch.file, origins[0])
            yield batch._replace(columns=batch.columns | origin.columns(n))


def _all_columns(
    passed: tuple[str, ...], computed: tuple[str, ...], added: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the output's columns; BadInput where two have the same name."""
    computed = (*computed, *added)
    double = [name for name in passed if name in computed or passed.count(name) > 1]
    if double:
        why = "is a column of the output" if double[0] in computed else "is named twice"
        raise BadInput(
            f"`keep`: {shown_name(double[0])} {why}. Leave it out, or name the column of the input "
            "otherwise."
        )
    return (*passed, *computed)


def _refuse_passed(passed: tuple[str, ...], dataset: str) -> None:
    if passed:
        raise BadInput(
            f"{dataset} is a data set, which has features and no columns as they were "
            f"({shown_name(passed[0])}). Name the files that it was made of, or leave `keep` out."
        )


class _GivenRows(NamedTuple):
    """The rows to predict, opened."""

    batches: Generator[Batch]
    left_out: tuple[str, ...]  # columns that the model does not have
    whole: int  # what `done` of the batches adds up to, for files an estimate
    files: tuple[SourceFile, ...]
    source: Source | None = None  # of files


def _rows_of_files(
    compute: RowColumns,
    inputs: Sequence[str],
    options: SourceOptions,
    budget: Budget,
    out: ScoredOutput,
    size: int,
    threads: int,
) -> _GivenRows:
    source = open_like(compute.model, inputs, options, budget, out.passed)
    whole, left_out = source.estimated_bytes(), source.left_out
    batches = _of_files(compute, source, out.passed, size, threads)
    return _GivenRows(batches, left_out, whole, source.files, source)


def _rows_of_dataset(
    compute: RowColumns, dataset: Dataset, options: SourceOptions, threads: int
) -> _GivenRows:
    matched = require_same_columns(compute.model.record, dataset, options)
    batches = _of_dataset(compute, dataset, matched, threads)
    files = (SourceFile(dataset.folder.url, None),)
    return _GivenRows(batches, matched.left_out, dataset.manifest.n_rows, files)


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


def _as_dataset(inputs: Sequence[str]) -> Dataset | None:
    if len(inputs) != 1 or not is_data_set(inputs[0]):
        return None
    return Dataset.open(inputs[0])


def open_like(
    model: Model,
    inputs: Sequence[str],
    options: SourceOptions,
    budget: Budget,
    passed: tuple[str, ...],
) -> Source:
    """Open files whose columns are those of a model, labels optional."""
    width = model.record.n_features
    like_model = {"n_features": width, "label_required": False, "dtype": model.record.dtype}
    options = options.model_copy(update=like_model)
    expected = Expected(model.record.columns, budget=budget, passed=passed)
    return open_source(inputs, options, expected=expected)


def _of_files(
    compute: RowColumns, source: Source, passed: tuple[str, ...], size: int, threads: int
) -> Generator[Batch]:
    def job(_number: int, piece: Piece) -> Batch:
        parsed = source.parse(piece)
        columns = _computed(compute, parsed, passed)
        return Batch(columns, parsed.n_beyond, n_bytes(parsed.table), piece.file)

    return each_piece(source, size, threads, threads + 1, job)


def _computed(compute: RowColumns, parsed: ParsedRows, passed: tuple[str, ...]) -> Columns:
    """Return the columns of a piece, those that are handed on first."""
    n, step = parsed.table.n_rows, compute.rows_at_once
    if step is None or n <= step:
        computed = compute(parsed.table)
    else:
        parts = [
            compute(cut(parsed.table, first, min(first + step, n))) for first in range(0, n, step)
        ]
        computed = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return dict(zip(passed, parsed.passed, strict=True)) | computed


def _of_dataset(
    compute: RowColumns, dataset: Dataset, matched: Matched, threads: int
) -> Generator[Batch]:
    weights = stored_weights(compute.model.weights, dataset, matched)
    compute = compute.with_model(compute.model._replace(weights=weights))

    def job(table: Table) -> Batch:
        return Batch(dict(compute(table)), 0, table.n_rows)

    with ThreadPoolExecutor(threads) as pool:
        if (step := compute.rows_at_once) is None:
            read = lambda k: job(dataset.read_stored(k))  # noqa: E731 - a line
            yield from ordered_map(pool, read, range(dataset.n_chunks), 2)
            return
        for table in ordered_map(pool, dataset.read_stored, range(dataset.n_chunks), 2):
            for first in range(0, table.n_rows, step):
                yield job(cut(table, first, min(first + step, table.n_rows)))
