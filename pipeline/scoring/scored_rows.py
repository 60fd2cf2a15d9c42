"""Columns computed of the rows of any input, in their order, batch by batch."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.matching import Matched
from fewpass.pipeline.runs.model import Model, require_same_columns, stored_weights
from fewpass.pipeline.scoring.scoring_budget import ScoredPieces
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, Source, open_source
from fewpass.pipeline.tables.readers.source import BadRow, ParsedRows, Piece, SourceFile, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import ReadPieces
from fewpass.pipeline.tables.stream.parsed_pieces import each_piece
from fewpass.storage.dataset import Dataset
from fewpass.storage.ordered import ordered_map
from fewpass.storage.table import Table, cut, n_bytes

Columns = dict[str, Any]  # NumPy or Arrow arrays (n,)


class Batch(NamedTuple):
    """Predicted rows for the output file."""

    columns: Columns
    n_beyond: int  # values ignored
    done: int  # rows, or for files the bytes of their values in memory
    file: str = ""  # that rows of files are of
    n_skipped: int = 0  # bad rows that were left out
    skipped: tuple[BadRow, ...] = ()  # the first of them


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


class InputRows(NamedTuple):
    """The rows to predict, opened."""

    batches: Generator[Batch]
    left_out: tuple[str, ...]  # columns that the model does not have
    whole: int  # what `done` of the batches adds up to, for files an estimate
    files: tuple[SourceFile, ...]
    source: Source | None = None  # of files
    pieces: ReadPieces | None = None  # of a span


def rows_of_files(
    compute: RowColumns,
    inputs: Sequence[str],
    options: SourceOptions,
    budget: Budget,
    passed: tuple[str, ...],
    span: SourceSpan | None,
    at_once: ScoredPieces,
    threads: int,
) -> InputRows:
    """Open files, or a span of one, to be read in pieces, some at once."""
    source = open_like(compute.model, inputs, options, budget, passed)
    whole, left_out = source.estimated_bytes(), source.left_out
    read = None if span is None else ReadPieces(source, span, at_once.bytes)
    pieces = source.pieces(at_once.bytes) if read is None else read
    batches = _of_files(compute, source, pieces, passed, threads, at_once.at_once)
    return InputRows(batches, left_out, whole, source.files, source, read)


def rows_of_dataset(
    compute: RowColumns, dataset: Dataset, options: SourceOptions, threads: int
) -> InputRows:
    """Open a data set, to be read chunk by chunk."""
    matched = require_same_columns(compute.model.record, dataset, options)
    batches = _of_dataset(compute, dataset, matched, threads)
    files = (SourceFile(dataset.folder.url, None),)
    return InputRows(batches, matched.left_out, dataset.manifest.n_rows, files)


def open_like(
    model: Model,
    inputs: Sequence[str],
    options: SourceOptions,
    budget: Budget,
    passed: tuple[str, ...] = (),
    *,
    passes_features: bool = False,
    labelled: bool = False,
) -> Source:
    """Open files whose columns are those of a model, labels optional or not; see `Expected`."""
    like_model = {"n_features": model.record.n_features, "dtype": model.record.dtype}
    no_label = {} if labelled else {"label_required": False}
    options = options.model_copy(update=like_model | no_label)
    expected = Expected(
        model.record.columns, budget=budget, passed=passed, passes_features=passes_features
    )
    return open_source(inputs, options, expected=expected)


def _of_files(
    compute: RowColumns,
    source: Source,
    pieces: Iterable[Piece],
    passed: tuple[str, ...],
    threads: int,
    in_flight: int,
) -> Generator[Batch]:
    def job(_number: int, piece: Piece) -> Batch:
        parsed = source.parse(piece)
        columns = _computed(compute, parsed, passed)
        return Batch(
            columns, parsed.n_beyond, n_bytes(parsed.table), piece.file, parsed.n_skipped,
            parsed.skipped,
        )  # fmt: skip

    return each_piece(pieces, threads, in_flight, job)


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
