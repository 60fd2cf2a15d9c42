"""Evaluation of a model on rows of files, read once, without making a data set."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, nullcontext
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.rows.buffers import table_block
from fewpass.pipeline.rows.targets import label_text, shown, similar_label
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluated_slices import SLICE_BITS, Slicing
from fewpass.pipeline.scoring.evaluation import Evaluation, figures_of
from fewpass.pipeline.scoring.evaluation_job import problem_and_rule
from fewpass.pipeline.scoring.figure_sums import Measured, sum_of_rows
from fewpass.pipeline.scoring.predictor import on_one_scale
from fewpass.pipeline.scoring.scored_rows import open_like
from fewpass.pipeline.scoring.scoring_budget import ScoredPieces, scored_pieces, scoring_budget
from fewpass.pipeline.scoring.summed_spans import sums_of_spans
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan
from fewpass.pipeline.tables.readers.label_texts import labelled
from fewpass.pipeline.tables.readers.source import ParsedRows, Piece, Source, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import (
    ReadExtent,
    ReadPieces,
    pieces_in_turn,
)
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece, each_piece
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.manifest import Labels
from fewpass.storage.table import n_bytes

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Cluster

Vector = NDArray[np.float64]


class EvaluatedRows(NamedTuple):
    """The result of an evaluation on rows of files."""

    evaluation: Evaluation
    others: tuple[Any, ...] = ()  # of the sums that were asked for besides


class LabelledPiece(NamedTuple):
    """Rows of a piece with what they are to be, and the weights that score them."""

    parsed: ParsedRows
    where: str
    at: Weights
    block: Block | None  # None: there are no rows

    @classmethod
    def of(
        cls, model: Model, problem: Problem, source: Source, number: int, piece: Piece
    ) -> LabelledPiece:
        """Read a piece; BadInput for rows or labels that the model cannot take."""
        _, _, parsed, _, where = ParsedPiece.of(source, number, piece)
        table = parsed.table
        if not table.n_rows:
            return cls(parsed, where, model.weights, None)
        y = targets_of(model, problem, parsed, where)
        at, rows = on_one_scale(model.weights, model.scaler, table)
        weight = np.ones(len(y)) if table.weight is None else table.weight
        return cls(parsed, where, at, table_block(rows, y, weight, offset=table.offset))


class EvaluatedSums(NamedTuple):
    """Sums over some rows."""

    parts: tuple[Any, ...] = ()  # of every sum; () without rows
    slices: Sequence[dict[str, Any]] = ()  # by each column, the sums of every slice
    skipped: int = 0
    rows: int = 0
    done: int = 0  # bytes of these rows in memory
    unlike: tuple[Any, ...] = ()  # cells that the recipe was not made for, as `UnlikeCells.of`
    read: ReadExtent = ReadExtent()  # of the span that they are

    @classmethod
    def none(cls, slicing: Slicing) -> EvaluatedSums:
        """Return the sums of no rows."""
        return cls(slices=[{} for _ in slicing.by])

    def joined(self, other: EvaluatedSums, slicing: Slicing) -> EvaluatedSums:
        """Return the sums with those of rows that follow; the slices are added up in place."""
        parts = self.parts or other.parts
        if self.parts and other.parts:
            parts = tuple(map(add_parts, self.parts, other.parts))
        if other.slices:
            slicing.add(self.slices, other.slices)
        n = (self.skipped + other.skipped, self.rows + other.rows, self.done + other.done)
        return EvaluatedSums(parts, self.slices, *n, (*self.unlike, *other.unlike))


@unpickled_once
class RowEvaluator(NamedTuple):
    """Sums over the rows of a source; the same in any process."""

    model: Model
    problem: Problem
    source: Source
    sums: tuple[Sum, ...]
    slicing: Slicing
    at_once: ScoredPieces

    @property
    def budget(self) -> Budget:
        """Shares of the memory of a process that reads a span."""
        return self.slicing.budget

    @property
    def spans(self) -> list[SourceSpan]:
        """Spans of the source; none: it is read as one."""
        return self.source.spans(self.at_once.bytes)

    def of_piece(self, number: int, piece: Piece) -> EvaluatedSums:
        """Return the sums of a piece."""
        given = LabelledPiece.of(self.model, self.problem, self.source, number, piece)
        parsed, block, at = given.parsed, given.block, given.at
        if block is None:
            return EvaluatedSums(skipped=parsed.n_skipped)
        parts = tuple(what.add(self.problem, at, block, what.zero(at)) for what in self.sums)
        slices = self.slicing.scored(self.problem, at, block, parsed.passed, given.where)
        n = parsed.n_skipped, parsed.table.n_rows, n_bytes(parsed.table)
        noted = self.source.unlike_cells
        unlike = () if noted is None else tuple(noted.of([piece.place]))
        return EvaluatedSums(parts, slices, *n, unlike)

    def of_span(self, span: SourceSpan) -> EvaluatedSums:
        """Return the sums of a span, as a task of a cluster."""
        pieces = ReadPieces(self.source, span, self.at_once.bytes)
        total = EvaluatedSums.none(self.slicing)
        for number, piece in enumerate(pieces):
            total = total.joined(self.of_piece(number, piece), self.slicing)
        return total._replace(read=pieces.extent)

    def by_span(self, threads: int) -> Iterator[EvaluatedSums]:
        """Yield the sums of every span in turn, by threads of this process."""

        def work(number: int, piece: tuple[int, Piece]) -> tuple[int, EvaluatedSums]:
            return piece[0], self.of_piece(number, piece[1])

        pieces = pieces_in_turn(self.source, self.spans, self.at_once.bytes)
        with closing(each_piece(pieces, threads, self.at_once.at_once, work)) as each:
            for _, sums in groupby(each, itemgetter(0)):
                total = EvaluatedSums.none(self.slicing)
                for _, one in sums:
                    total = total.joined(one, self.slicing)
                yield total


def evaluate_rows(
    model: Model,
    inputs: Sequence[str],
    plan: EvaluationPlan,
    *,
    others: Sequence[Sum] = (),
    threads: int | None = None,
    cluster: Cluster = nullcontext,
    on_progress: Callable[[int, float], None] = lambda _rows, _fraction: None,
) -> EvaluatedRows:
    """Evaluate a model on rows of files, read once.

    Parameters
    ----------
    model
        With the encoding of columns and the name of the label column in its run.
    inputs
        Inputs as for `fewpass ingest`, with labels.
    plan
        How they are read and matched with the model's columns, which figures are made, and the
        memory in bytes, beyond that of imported libraries, of each worker on a cluster; default:
        1 GiB plus the weights.
    others
        More sums over the rows, at the weights for them.
    threads
        That read and score; default: one per core.
    cluster
        Opens a cluster whose workers read spans of the files. Sums are added up span by span
        everywhere, so that figures have the same bits.
    on_progress
        Called with the rows read so far, and the fraction of all rows.

    Raises
    ------
    BadInput
        Rows are unreadable, or do not have the model's columns or labels.
    """
    problem, _ = problem_and_rule(model.record, model.lam)
    measured = Measured.of(model, plan)
    budget = scoring_budget(model, plan.memory)
    slicing = Slicing.of(plan.by, model, sum_of_rows(measured, SLICE_BITS), budget)
    source = open_like(model, inputs, plan.options, budget, slicing.columns, labelled=True)
    threads, whole = threads or os.cpu_count() or 1, source.estimated_bytes()

    def evaluator(tasks: int) -> RowEvaluator:
        sums = (sum_of_rows(measured), *others)
        at_once = scored_pieces(budget, model, threads, tasks=tasks)
        return RowEvaluator(model, problem, source, sums, slicing, at_once)

    total = EvaluatedSums.none(slicing)
    with closing(sums_of_spans("evaluate", evaluator, threads, cluster)) as each:
        for one in each:
            total = total.joined(one, slicing)
            on_progress(total.rows, min(1.0, total.done / max(1, whole)))
    if not total.parts or not total.parts[0].weight:
        raise BadInput("No row is left to evaluate the model on. Check the format and the weights.")
    summed = partial(figures_of, problem, model.record, model.weights, asked=plan)
    slices = slicing.figures(total.slices, summed)
    if (unlike := source.unlike_cells) is not None:
        unlike.join_state(total.unlike)  # of other processes
    figures = summed(total.parts[0])._replace(
        left_out=source.left_out, slices=slices, skipped=total.skipped, notes=source.cell_notes
    )
    return EvaluatedRows(figures, total.parts[1:])


def targets_of(model: Model, problem: Problem, parsed: ParsedRows, where: str) -> Vector:
    """Return y (n,) of a piece's rows: numbered as the model's labels, -1 and +1, or numbers.

    Raises BadInput for labels that the model does not have.
    """
    record, target = model.record, parsed.table.target
    positive = record.positive
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
