"""Several models on rows of files, which every model reads by its own recipe."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.packed import unpickled_once
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluate_rows import LabelledPiece
from fewpass.pipeline.scoring.paired_figures import (
    Contestant,
    ModelComparison,
    PairedPart,
    comparison_of,
    contestants,
    paired,
)
from fewpass.pipeline.scoring.scored_rows import open_like
from fewpass.pipeline.scoring.scoring_budget import ScoredPieces, scored_pieces, scoring_budget
from fewpass.pipeline.scoring.summed_spans import sums_of_spans
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan
from fewpass.pipeline.tables.readers.source import Piece, Source, SourceSpan
from fewpass.pipeline.tables.readers.source_spans import ReadExtent, ReadPieces, pieces_in_turn
from fewpass.pipeline.tables.stream.parsed_pieces import each_piece
from fewpass.solvers.protocol import add_parts

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Cluster

Vector = NDArray[np.float64]


class _ScoredPiece(NamedTuple):
    """A model's sums over a piece, and the figures of its rows."""

    span: int
    part: Any
    figures: Vector
    weight: Vector


class ComparedSums(NamedTuple):
    """Sums over some rows."""

    parts: tuple[Any, ...] = ()  # of each model; () without rows
    differences: PairedPart | None = None
    rows: int = 0
    read: ReadExtent = ReadExtent()  # of the span that they are

    def joined(self, other: ComparedSums) -> ComparedSums:
        """Return the sums with those of rows that follow."""
        if not (self.parts and other.parts):
            return self if self.parts else other
        parts = tuple(map(add_parts, self.parts, other.parts))
        differences = add_parts(self.differences, other.differences)
        return ComparedSums(parts, differences, self.rows + other.rows)


@unpickled_once
class RowComparer(NamedTuple):
    """Sums over rows that several models read; the same in any process."""

    those: tuple[Contestant, ...]
    sources: tuple[Source, ...]
    budget: Budget
    at_once: ScoredPieces

    @property
    def spans(self) -> list[SourceSpan]:
        """Spans of the same rows for all models; none: they read all as one."""
        first, *others = (source.spans(self.at_once.bytes) for source in self.sources)
        if any(source.cuts_by_columns for source in self.sources):
            return [SourceSpan(file) for file in dict.fromkeys(span.file for span in first)]
        return first if all(one == first for one in others) else []

    def of_span(self, span: SourceSpan) -> ComparedSums:
        """Return the sums of a span, as a task of a cluster."""
        each = [ReadPieces(source, span, self.at_once.bytes) for source in self.sources]
        numbered = [((0, piece) for piece in pieces) for pieces in each]
        sums = next(self._summed(numbered, 1), ComparedSums())
        return sums._replace(read=each[0].extent)

    def by_span(self, threads: int) -> Iterator[ComparedSums]:
        """Yield the sums of every span in turn, by threads of this process."""
        spans, size = self.spans, self.at_once.bytes
        return self._summed([pieces_in_turn(one, spans, size) for one in self.sources], threads)

    def _summed(
        self, each: Sequence[Iterable[tuple[int, Piece]]], threads: int
    ) -> Iterator[ComparedSums]:
        with ExitStack() as stack:
            scored = [
                stack.enter_context(
                    closing(each_piece(pieces, threads, self.at_once.at_once, score))
                )
                for pieces, score in zip(each, self._scorers(), strict=True)
            ]
            yield from summed(scored)

    def _scorers(self) -> Iterator[Callable[[int, tuple[int, Piece]], _ScoredPiece | None]]:
        for of, source in zip(self.those, self.sources, strict=True):

            def score(
                number: int, piece: tuple[int, Piece], of: Contestant = of, source: Source = source
            ) -> _ScoredPiece | None:
                given = LabelledPiece.of(of.model, of.problem, source, number, piece[1])
                block, at = given.block, given.at
                if block is None:
                    return None
                part, figures = of.scored(at, block, of.what.zero(at))
                return _ScoredPiece(piece[0], part, figures, block.weight)

            yield score


def compare_rows(
    models: Sequence[Model],
    inputs: Sequence[str],
    plan: EvaluationPlan,
    *,
    threads: int | None = None,
    cluster: Cluster = nullcontext,
    on_progress: Callable[[int], None] = lambda _rows: None,
) -> ModelComparison:
    """Compare models on rows of files, each of which is read once for every model.

    For `plan`, `threads` and `cluster` see `evaluate_rows`.

    Raises
    ------
    BadInput
        The models do not predict the same; rows are unreadable, or not all of them fit a model.
    """
    if plan.options.on_bad_row == "skip":
        raise BadInput("Models are compared on the same rows. Leave `on_bad_row=skip` out.")
    those, total = contestants(models), ComparedSums()
    threads = threads or os.cpu_count() or 1
    comparer = partial(_comparer, those, inputs, plan, threads)
    with closing(sums_of_spans("compare", comparer, threads, cluster)) as each:
        for sums in each:
            total = total.joined(sums)
            on_progress(total.rows)
    if total.differences is None or not total.differences.difference.weight:
        raise BadInput("No row is left to compare models by. Check the format and the weights.")
    return comparison_of(those, total.parts, total.differences)


def _comparer(
    those: Sequence[Contestant],
    inputs: Sequence[str],
    plan: EvaluationPlan,
    threads: int,
    tasks: int,
) -> RowComparer:
    sources, each = [], []
    for of in those:
        budget = scoring_budget(of.model, plan.memory)
        sources.append(open_like(of.model, inputs, plan.options, budget, labelled=True))
        each.append(scored_pieces(budget, of.model, threads, len(those), tasks))
    return RowComparer(tuple(those), tuple(sources), budget, min(each))


def summed(each: Sequence[Iterator[_ScoredPiece | None]]) -> Iterator[ComparedSums]:
    """Yield the sums of the rows of every span.

    Pieces of the same span may be cut otherwise for each model, by the columns that it reads.
    """
    waiting: list[deque[_ScoredPiece]] = [deque() for _ in each]
    at, total = -1, ComparedSums()
    parts: list[Any] = [None] * len(each)
    while True:
        for k, (pieces, queue) in enumerate(zip(each, waiting, strict=True)):
            while not queue and (one := next(pieces, _END)) is not _END:
                if one is None:
                    continue
                if one.span != at:  # all are at the end of the span before
                    _require_none(waiting)
                    if total.rows:
                        yield total._replace(parts=tuple(parts))
                    at, total, parts = one.span, ComparedSums(), [None] * len(each)
                queue.append(one)
                parts[k] = one.part if parts[k] is None else add_parts(parts[k], one.part)
        if not all(waiting):
            break
        n = min(len(queue[0].weight) for queue in waiting)
        weight = waiting[0][0].weight[:n]
        part = paired([queue[0].figures[:n] for queue in waiting], weight)
        before = total.differences
        total = total._replace(
            differences=part if before is None else add_parts(before, part), rows=total.rows + n
        )
        _pass_over(waiting, n)
    _require_none(waiting)
    if total.rows:
        yield total._replace(parts=tuple(parts))


def _require_none(waiting: Sequence[deque[_ScoredPiece]]) -> None:
    if any(waiting):
        raise BadInput("Models read different numbers of rows. Compare them on other rows.")


def _pass_over(waiting: Sequence[deque[_ScoredPiece]], n: int) -> None:
    """Take n rows off the first pieces."""
    for queue in waiting:
        first = queue.popleft()
        if len(first.weight) > n:
            rest = first._replace(figures=first.figures[n:], weight=first.weight[n:])
            queue.appendleft(rest)


_END: Any = object()
