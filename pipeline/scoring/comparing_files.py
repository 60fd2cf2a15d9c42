"""Several models on rows of files, which every model reads by its own recipe."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.buffers import table_block
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluate_rows import targets_of
from fewpass.pipeline.scoring.paired_figures import (
    Contestant,
    ModelComparison,
    PairedPart,
    comparison_of,
    contestants,
    paired,
    row_figures,
)
from fewpass.pipeline.scoring.prediction import on_one_scale
from fewpass.pipeline.scoring.scoring_budget import piece_bytes, scoring_budget
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.source import Piece, Source
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece, each_piece
from fewpass.solvers.protocol import add_parts

Vector = NDArray[np.float64]


class _ScoredPiece(NamedTuple):
    """A model's sums over a piece, and the figures of its rows."""

    part: Any
    figures: Vector
    weight: Vector


def compare_rows(
    models: Sequence[Model],
    inputs: Sequence[str],
    options: SourceOptions,
    *,
    memory: int | None = None,
    threads: int | None = None,
    on_progress: Callable[[int], None] = lambda _rows: None,
) -> ModelComparison:
    """Compare models on rows of files, each of which is read once for every model.

    Raises
    ------
    BadInput
        The models do not predict the same; rows are unreadable, or not all of them fit a model.
    """
    if options.on_bad_row == "skip":
        raise BadInput("Models are compared on the same rows. Leave `on_bad_row=skip` out.")
    those, rows = contestants(models), 0
    sums: list[list[Any]] = [[] for _ in those]
    total: PairedPart | None = None
    with ExitStack() as stack:
        each = [
            stack.enter_context(closing(_pieces(of, inputs, options, memory, threads, len(those))))
            for of in those
        ]
        for figures, weight in aligned(each, sums):
            part = paired(figures, weight)
            total = part if total is None else add_parts(total, part)
            rows += len(weight)
            on_progress(rows)
    if total is None or not total.weight:
        raise BadInput("No row is left to compare models by. Check the format and the weights.")
    return comparison_of(those, [one[0] for one in sums], total)


def _pieces(
    of: Contestant,
    inputs: Sequence[str],
    options: SourceOptions,
    memory: int | None,
    threads: int | None,
    models: int,
) -> Generator[_ScoredPiece | None]:
    record = of.model.record
    budget = scoring_budget(of.model, memory)
    threads = threads or os.cpu_count() or 1
    like = options.model_copy(update={"n_features": record.n_features, "dtype": record.dtype})
    source = open_source(inputs, like, None, Expected(record.columns, budget=budget))
    size = max(1, piece_bytes(budget, of.model, threads) // models)
    judge: Callable[[int, Piece], _ScoredPiece | None] = partial(_scored_piece, of, source)
    return each_piece(source, size, threads, threads + 1, judge)


def _scored_piece(of: Contestant, source: Source, number: int, piece: Piece) -> _ScoredPiece | None:
    _, _, parsed, _, where = ParsedPiece.of(source, number, piece)
    table, model = parsed.table, of.model
    if not table.n_rows:
        return None
    y = targets_of(model, of.problem, parsed, where)
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift)
    at, rows = on_one_scale(model.weights, scaler, table)
    weight = np.ones(len(y)) if table.weight is None else table.weight
    block = table_block(rows, y, weight, offset=table.offset)
    part = of.what.add(of.problem, at, block, of.what.zero(at))
    return _ScoredPiece(part, row_figures(of, at, block), weight)


def aligned(
    each: Sequence[Iterator[_ScoredPiece | None]], sums: list[list[Any]]
) -> Iterator[tuple[list[Vector], Vector]]:
    """Yield the figures of the same rows of all models, and the weights by the first.

    Pieces of the same file may be cut otherwise for each model, by the columns that it reads.  The
    sums of every model are added up in `sums`.
    """
    waiting: list[deque[_ScoredPiece]] = [deque() for _ in each]
    while True:
        for k, (pieces, queue) in enumerate(zip(each, waiting, strict=True)):
            while not queue and (one := next(pieces, _END)) is not _END:
                if one is not None:
                    queue.append(one)
                    sums[k] = [add_parts(sums[k][0], one.part) if sums[k] else one.part]
        if not all(waiting):
            if any(waiting):
                raise BadInput("Models read different numbers of rows. Compare them on other rows.")
            return
        n = min(len(queue[0].weight) for queue in waiting)
        yield [queue[0].figures[:n] for queue in waiting], waiting[0][0].weight[:n]
        for queue in waiting:
            first = queue.popleft()
            if len(first.weight) > n:
                rest = first._replace(figures=first.figures[n:], weight=first.weight[n:])
                queue.appendleft(rest)


_END: Any = object()
