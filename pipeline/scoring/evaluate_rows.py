"""Evaluation of a model on rows of files, read once, without making a data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.column_groups import with_groups
from fewpass.pipeline.rows.buffers import table_block
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.targets import label_text, shown, similar_label, target_rule
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluated_slices import SLICE_BITS, Slicing
from fewpass.pipeline.scoring.evaluation import Evaluation, full_figures, full_sum
from fewpass.pipeline.scoring.evaluation_job import positive_label
from fewpass.pipeline.scoring.prediction import on_one_scale
from fewpass.pipeline.scoring.probabilities import probabilities_of
from fewpass.pipeline.scoring.reliability import Reliability, sum_of_reliability
from fewpass.pipeline.scoring.reliability import summary as reliability_figures
from fewpass.pipeline.scoring.row_metrics import USUAL, AskedMetrics, Measured
from fewpass.pipeline.scoring.scoring_budget import piece_bytes, scoring_budget
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.label_texts import labelled
from fewpass.pipeline.tables.readers.source import ParsedRows, Piece, Source
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece, each_piece
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Sum, add_parts
from fewpass.storage.manifest import Labels
from fewpass.storage.table import n_bytes

Vector = NDArray[np.float64]


class EvaluatedRows(NamedTuple):
    """The result of an evaluation on rows of files."""

    evaluation: Evaluation
    reliability: Reliability | None  # if requested
    skipped: int  # unreadable rows that were skipped
    others: tuple[Any, ...] = ()  # of the sums that were asked for besides


class _Part(NamedTuple):
    """The sums of a piece."""

    parts: tuple[Any, ...]  # of every sum; () without rows
    skipped: int
    rows: int
    done: int  # bytes of its rows in memory
    slices: tuple[dict[str, Any], ...] = ()  # by each column, the sums of every slice


def evaluate_rows(
    model: Model,
    inputs: Sequence[str],
    options: SourceOptions,
    *,
    with_reliability: bool = False,
    others: Sequence[Sum] = (),
    by: Sequence[str] = (),
    asked: AskedMetrics = USUAL,
    memory: int | None = None,
    on_progress: Callable[[int, float], None] = lambda _rows, _fraction: None,
) -> EvaluatedRows:
    """Evaluate a model on rows of files, read once.

    Parameters
    ----------
    model
        With the encoding of columns and the name of the label column in its run.
    inputs
        Inputs as for `fewpass ingest`, with labels.
    options
        Options for reading, and for matching their columns with the model's.
    with_reliability
        Whether to evaluate its probabilities, too.
    others
        More sums over the rows, at the weights for them.
    by
        Columns of the files whose values are slices, each evaluated by itself; of numbers with the
        edges of ranges, as in ``age:20,40,60``.
    asked
        What metrics depend on.
    memory
        Memory budget in bytes beyond that of imported libraries; default: 1 GiB plus the weights.
    on_progress
        Called with the rows read so far, and the fraction of all rows.

    Raises
    ------
    BadInput
        Rows are unreadable, or do not have the model's columns or labels.
    """
    problem = model.record.problem(model.lam)
    problem = with_groups(problem, model.record.feature_groups)
    rule = target_rule(model.record, problem.loss, model.record.plan.positive)
    measured = Measured.of(model, asked)
    sums = [full_sum(measured, rule)]
    if with_reliability:
        sums.append(sum_of_reliability(probabilities_of(model)))
    sums += others
    budget = scoring_budget(model, memory)
    slicing = Slicing.of(by, model, full_sum(measured, rule, SLICE_BITS), budget)
    expected = Expected(model.record.columns, budget=budget, passed=slicing.columns)
    like_model = {"n_features": model.record.n_features, "dtype": model.record.dtype}
    options = options.model_copy(update=like_model)
    source = open_source(inputs, options, expected=expected)
    threads = os.cpu_count() or 1
    size = piece_bytes(budget, model, threads)
    scored = partial(_sums_of_piece, model, problem, source, sums, slicing)
    each = each_piece(source, size, threads, threads + 1, scored)
    total = _added(each, source, slicing, on_progress)
    summed = partial(full_figures, problem, model.record, model.weights, asked=asked)
    slices = slicing.figures(total.slices, summed)
    figures = summed(total.sums[0])._replace(left_out=source.left_out, slices=slices)
    reliability = reliability_figures(total.sums[1]) if with_reliability else None
    more = tuple(total.sums[len(sums) - len(others) :])
    return EvaluatedRows(figures, reliability, total.skipped, more)


class _Total(NamedTuple):
    """The sums of all pieces."""

    sums: list[Any]
    slices: list[dict[str, Any]]  # by each column
    skipped: int


def _added(
    parts: Generator[_Part],
    source: Source,
    slicing: Slicing,
    on_progress: Callable[[int, float], None],
) -> _Total:
    """Add up the sums of pieces in their order; BadInput where no row is left."""
    total: list[Any] | None = None
    slices: list[dict[str, Any]] = [{} for _ in slicing.by]
    rows = skipped = done = 0
    whole = source.estimated_bytes()
    with closing(parts) as each:
        for part in each:
            rows, done, skipped = rows + part.rows, done + part.done, skipped + part.skipped
            if part.parts:
                both = zip(total, part.parts, strict=True) if total else ((p,) for p in part.parts)
                total = [add_parts(*pair) if len(pair) == 2 else pair[0] for pair in both]
                slicing.add(slices, part.slices)
            on_progress(rows, min(1.0, done / max(1, whole)))
    if total is None or not total[0][0].weight:
        raise BadInput("No row is left to judge the model by. Check the format and the weights.")
    return _Total(total, slices, skipped)


def _sums_of_piece(
    model: Model,
    problem: Problem,
    source: Source,
    sums: Sequence[Sum],
    slicing: Slicing,
    number: int,
    piece: Piece,
) -> _Part:
    """Return the sums of a piece."""
    _, _, parsed, _, where = ParsedPiece.of(source, number, piece)
    table = parsed.table
    if not table.n_rows:
        return _Part((), parsed.n_skipped, 0, 0)
    y = targets_of(model, problem, parsed, where)
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift)
    at, rows = on_one_scale(model.weights, scaler, table)
    weight = np.ones(len(y)) if table.weight is None else table.weight
    block = table_block(rows, y, weight, offset=table.offset)
    parts = tuple(what.add(problem, at, block, what.zero(at)) for what in sums)
    slices = slicing.scored(problem, at, block, parsed.passed, where)
    return _Part(parts, parsed.n_skipped, table.n_rows, n_bytes(table), slices)


def targets_of(model: Model, problem: Problem, parsed: ParsedRows, where: str) -> Vector:
    """Return y (n,) of a piece's rows: numbered as the model's labels, -1 and +1, or numbers.

    Raises BadInput for labels that the model does not have.
    """
    record, target = model.record, parsed.table.target
    positive = positive_label(record.plan, record)
    if problem.loss.takes_numbers and positive is None:
        if parsed.labels is not None:
            raise BadInput(
                f"{where}: the targets are words, but the model predicts numbers. Choose the "
                "target column with `label`."
            )
        return target
    assert isinstance(record.targets, Labels), "losses other than the squared one need labels"
    labels, places = _labels_of(parsed, padded=isinstance(record.targets.labels[0], str))
    names = [label_text(label) for label in record.targets.labels]
    unknown = [name for name in labels if name not in names]
    if unknown and record.plan.positive is None:
        raise BadInput(
            f'{where}: the label "{unknown[0]}" is unknown to the model, which has '
            f"{shown(record.targets)}. {similar_label(unknown[0], names)}Leave such rows out, or "
            "check `label`."
        )
    if positive is None:
        return np.array([float(names.index(name)) for name in labels])[places]
    return np.array([1.0 if name == positive else -1.0 for name in labels])[places]


def _labels_of(parsed: ParsedRows, *, padded: bool) -> tuple[list[str], NDArray[np.int64]]:
    """Return the labels of a piece, and the index of each row's label (n,).

    If the model's labels are words, 01 and 1 differ; if they are numbers, they are equal.
    """
    target = parsed.table.target
    if parsed.labels is None:
        codes, labels = labelled(target, parsed.texts, padded=padded)
        return labels, codes
    values, places = np.unique(target, return_inverse=True)
    return [parsed.labels[int(value)] for value in values.tolist()], places


def require_file(by: Sequence[str], dataset: str) -> None:
    """Refuse slices of a data set, whose columns have become features."""
    if by:
        raise BadInput(
            f"{dataset} is a data set, and `by` reads a column of a file as it was. Name the file "
            "that it was made of."
        )


def require_here(where: Execution) -> None:
    """Raise BadInput for a cluster, which can read data sets only."""
    if where.scheduler not in (None, "none"):
        raise BadInput(
            "Rows of files are read by this process, not by a cluster. Leave `scheduler` out, or "
            "ingest the files with `like`."
        )
