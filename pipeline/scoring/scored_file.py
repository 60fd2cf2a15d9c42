"""Columns of every row of any input, in its order, streamed to a file or a table."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from typing import NamedTuple

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import shown_name
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.outputs import OutputFile, is_data_set
from fewpass.pipeline.runs.model import Model
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
from fewpass.pipeline.scoring.scored_rows import (
    Batch,
    InputRows,
    RowColumns,
    rows_of_dataset,
    rows_of_files,
)
from fewpass.pipeline.scoring.scoring_budget import (
    ScoredPieces,
    require_chunks,
    scored_pieces,
    scoring_budget,
)
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.prediction_plan import ExplanationPlan, PredictionPlan
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.tables.readers.source import LISTED, BadRow, SourceFile, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import ReadExtent
from fewpass.pipeline.tables.readers.unlike_cells import UnlikeCells
from fewpass.storage.dataset import Dataset


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
    notes: tuple[str, ...] = ()  # on cells that the model's columns were not made for, and on
    # probabilities that are not calibrated
    skipped: int = 0  # bad rows that were left out, as was asked for
    skipped_rows: tuple[str, ...] = ()  # the first of them: file, line and reason; not of spans


class PredictionProgress(NamedTuple):
    """Progress of a prediction."""

    rows: int
    fraction: float  # for files an estimate


class PredictedRows(NamedTuple):
    """Predictions of rows that were read from a file, or from a span of one."""

    result: PredictionResult
    read: ReadExtent = ReadExtent()  # of a span
    unlike: UnlikeCells | None = None  # cells that the recipe was not made for


class ScoredOutput(NamedTuple):
    """Settings of the output."""

    url: str  # a .parquet, .csv or .npy file; "-" is CSV on standard output; or where a table is
    plan: PredictionPlan | ExplanationPlan
    on_progress: Callable[[PredictionProgress], None] = lambda _: None
    table: OutputTable | None = None  # in place of a file
    is_free: bool = False  # whether it was looked at that the file may be written
    span: SourceSpan | None = None  # of the only input, which is a file; None: all rows
    tasks: int = 1  # that share the memory

    @property
    def threads(self) -> int:
        """Threads that read and score."""
        return self.plan.threads or os.cpu_count() or 1


def written_rows(
    make: Callable[[bool], RowColumns],
    model: Model,
    inputs: Sequence[str],
    out: ScoredOutput,
) -> PredictedRows:
    """Compute columns of every row of `inputs`, or of the span of `out`, and write them.

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
    began, plan = time.perf_counter(), out.plan
    options = plan.options
    file = OutputFile(out.url, plan.overwrite, tuple(inputs), model.record)
    if out.table is None:
        require_ending(out.url)
        if out.url != STANDARD_OUTPUT and not out.is_free:
            file.require_free()
    dataset = _as_dataset(inputs)
    compute = make(dataset is None)
    columns = _all_columns(plan.keep, compute.columns, () if out.table is None else ORIGIN)
    if out.table is not None:
        out.table.require_fit(columns)
    budget = scoring_budget(model, plan.memory)
    if dataset is None:
        pieces = pieces_of_output(compute, out)
        given = rows_of_files(
            compute, inputs, options, budget, plan.keep, out.span, pieces, out.threads
        )
    else:
        _refuse_passed(plan.keep, inputs[0])
        changed = options.model_dump(exclude_defaults=True, exclude={*Matching.model_fields})
        refuse_reading(changed, inputs[0])
        require_chunks(budget, model, dataset)
        given = rows_of_dataset(compute, dataset, options, out.threads)
    if out.table is None and out.is_free:
        opened = open_predictions(out.url, columns)
    elif out.table is None:
        opened = open_predictions(
            out.url, columns, replace=file.may_replace, before=file.require_free
        )
    else:
        origins = _origins(model, given.files, options.query)
        given = given._replace(batches=_with_origin(given.batches, origins))
        whose = None if isinstance(plan, PredictionPlan) and plan.only_new else origins[0].model
        gone = None if plan.overwrite else Replaced(tuple(one.source for one in origins), whose)
        opened = out.table.opened(columns, gone)
    with opened as target:
        written = _written(target, given, out.on_progress)
    seconds, peak = time.perf_counter() - began, peak_memory_bytes()
    shown, name = (out.table.shown, out.table.name) if out.table else (out.url, None)
    notes = () if given.source is None else given.source.cell_notes
    listed = [row.in_words() for row in written.bad_rows] if out.span is None else ()
    result = PredictionResult(
        shown, written.rows, columns, seconds, peak, given.left_out, written.beyond, table=name,
        notes=notes, skipped=written.skipped, skipped_rows=tuple(listed),
    )  # fmt: skip
    if given.source is None:
        return PredictedRows(result)
    read = given.pieces.extent if given.pieces else ReadExtent()
    return PredictedRows(result, read, given.source.unlike_cells)


def pieces_of_output(compute: RowColumns, out: ScoredOutput) -> ScoredPieces:
    """Return how much of a file is read at once; BadInput where nothing fits."""
    budget = scoring_budget(compute.model, out.plan.memory)
    wider = max(1, len(compute.columns) // 4)  # a row may have more output columns than text
    return scored_pieces(budget, compute.model, out.threads, wider, out.tasks)


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


class _Written(NamedTuple):
    """Numbers of what was written, and of what was not."""

    rows: int = 0
    beyond: int = 0  # values beyond the model's features
    skipped: int = 0  # bad rows
    bad_rows: tuple[BadRow, ...] = ()  # the first of them
    done: int = 0

    def with_batch(self, batch: Batch) -> _Written:
        rows = self.rows + len(next(iter(batch.columns.values())))
        bad_rows = (*self.bad_rows, *batch.skipped)[:LISTED]
        beyond, skipped = self.beyond + batch.n_beyond, self.skipped + batch.n_skipped
        return _Written(rows, beyond, skipped, bad_rows, self.done + batch.done)


def _written(
    out: PredictionFile, given: InputRows, on_progress: Callable[[PredictionProgress], None]
) -> _Written:
    """Write predictions."""
    made = _Written()
    with closing(given.batches) as batches:
        for batch in batches:
            out.write(batch.columns)
            made = made.with_batch(batch)
            on_progress(PredictionProgress(made.rows, min(1.0, made.done / max(1, given.whole))))
    return made


def _as_dataset(inputs: Sequence[str]) -> Dataset | None:
    if len(inputs) != 1 or not is_data_set(inputs[0]):
        return None
    return Dataset.open(inputs[0])
