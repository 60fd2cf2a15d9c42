"""Several models on the same rows: differences from the first one, row by row, with intervals.

With figures l_ij of rows i under models j, weights c_i, and differences d_ij = l_ij - l_i0,

    m_j = sum c_i d_ij / C,    e_j^2 = sum c_i^2 (d_ij - m_j)^2 / C^2,    C = sum c_i

and m_j +- 1.96 e_j is the 95 % interval.  What the rows have in common cancels, as they are the
same: a difference is known far better than the figures themselves.
"""

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
from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.rows.buffers import table_block
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.rows.target_range import clipped
from fewpass.pipeline.rows.targets import label_text, target_rule
from fewpass.pipeline.runs.model import Model, read_weights, require_same_columns
from fewpass.pipeline.scoring.block_scores import block_scores, responses
from fewpass.pipeline.scoring.calibrating import scored_parts
from fewpass.pipeline.scoring.evaluate_rows import targets_of
from fewpass.pipeline.scoring.evaluation import Evaluation, full_figures, full_sum
from fewpass.pipeline.scoring.evaluation_job import evaluation_job
from fewpass.pipeline.scoring.prediction import as_stepped
from fewpass.pipeline.scoring.reliability import NORMAL_975, several_classes, two_classes
from fewpass.pipeline.scoring.row_metrics import Measured, predicted_labels
from fewpass.pipeline.scoring.scoring_budget import piece_bytes, scoring_budget
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import Expected, open_source
from fewpass.pipeline.tables.readers.source import Piece, Source
from fewpass.pipeline.tables.stream.parsed_pieces import ParsedPiece, each_piece
from fewpass.pipeline.training.planning.column_groups import with_groups
from fewpass.pipeline.training.planning.problem import problem_of
from fewpass.pipeline.training.spans.reduce import reduce
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels

Vector = NDArray[np.float64]

#: Figures of a row, by what models predict.
OF_LABELS, OF_PROBABILITIES, OF_NUMBERS = ("error",), ("error", "log_loss", "brier"), ("mae", "mse")
MOST_MODELS = 20


class Difference(NamedTuple):
    """A figure of a model, and how far it is from that of the first model."""

    metric: str
    value: float
    difference: float  # value - that of the first
    within: float  # 95 % interval: difference - within to difference + within


class ComparedModel(NamedTuple):
    """What one model makes of the rows."""

    run: str
    evaluation: Evaluation
    differences: tuple[Difference, ...]


class ModelComparison(NamedTuple):
    """What several models make of the same rows; the first is what others are compared with."""

    rows: int
    models: tuple[ComparedModel, ...]


class Contestant(NamedTuple):
    """A model, ready to judge rows."""

    model: Model
    problem: Problem
    measured: Measured
    what: Sum
    names: tuple[str, ...]  # of the figures of a row


class PairedPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    weight: float
    squares: float  # of weights
    total: Vector  # (M, Q) weighted figures
    by_squares: Vector  # (M, Q) differences by squared weights
    difference_squares: Vector  # (M, Q)


def contestants(models: Sequence[Model]) -> list[Contestant]:
    """Make models ready; BadInput unless they predict the same."""
    if not 2 <= len(models) <= MOST_MODELS:
        raise BadInput(f"{len(models)} runs were named. Name 2 to {MOST_MODELS}.")
    first = models[0]
    for model in models[1:]:
        if _predicts(model) != _predicts(first):
            raise BadInput(
                f"{model.run.url} predicts {_in_words(model)}, and {first.run.url} "
                f"{_in_words(first)}. Compare models that predict the same."
            )
    measured = [Measured.of(model) for model in models]
    have_all = all(one.probabilities is not None for one in measured)
    names: tuple[str, ...] = OF_PROBABILITIES if have_all else OF_LABELS
    names = OF_NUMBERS if first.predicts_numbers else names
    return [_contestant(*pair, names) for pair in zip(models, measured, strict=True)]


def _contestant(model: Model, measured: Measured, names: tuple[str, ...]) -> Contestant:
    problem = problem_of(model.record.plan, model.record, model.lam)
    problem = with_groups(problem, model.record.feature_groups)
    rule = target_rule(model.record, problem.loss, model.record.plan.positive)
    return Contestant(model, problem, measured, full_sum(measured, rule), names)


def _predicts(model: Model) -> tuple[str, ...] | None:
    """Return the labels that a model tells apart; None of numbers."""
    targets = model.record.targets
    if model.predicts_numbers or not isinstance(targets, Labels):
        return None
    if model.record.plan.positive is not None:
        return ("not", model.record.plan.positive)
    return tuple(map(label_text, targets.labels))


def _in_words(model: Model) -> str:
    labels = _predicts(model)
    return "numbers" if labels is None else f"the labels {', '.join(labels[:20])}"


def row_figures(of: Contestant, at: Weights, block: Block) -> Vector:
    """Return the figures of every row of a block, (n, Q)."""
    if not of.measured.n_labels:
        numbers = responses(of.problem.loss, block_scores(of.problem, at, block))
        error = clipped(numbers, of.measured.bounds) - block.y
        return np.stack([np.abs(error), error**2], axis=1)
    parts = []
    for scores, classes, _ in scored_parts(of.problem, at, block):
        made = of.measured.probabilities
        p = None if made is None else made.of(scores)
        columns = [(predicted_labels(of.measured, scores, p) != classes).astype(np.float64)]
        if len(of.names) > 1:
            assert p is not None, "all models have probabilities"
            errors = (two_classes if p.ndim == 1 else several_classes)(p, classes)
            columns += [errors[1], errors[0]]
        parts.append(np.stack(columns, axis=1))
    return np.concatenate(parts)


def paired(figures: Sequence[Vector], weight: Vector) -> PairedPart:
    """Return the sums of rows with figures (n, Q) of every model."""
    each = np.stack(figures)  # (M, n, Q)
    difference, squared = each - each[0], weight**2
    return PairedPart(
        float(weight.sum()), float(squared.sum()), np.einsum("i,miq->mq", weight, each),
        np.einsum("i,miq->mq", squared, difference),
        np.einsum("i,miq->mq", squared, difference**2),
    )  # fmt: skip


def _differences(total: PairedPart, names: tuple[str, ...], m: int) -> tuple[Difference, ...]:
    values = total.total / total.weight
    mean = values[m] - values[0]
    square = (
        total.difference_squares[m] - 2.0 * mean * total.by_squares[m] + mean**2 * total.squares
    )
    within = NORMAL_975 * np.sqrt(np.maximum(square, 0.0)) / total.weight
    columns = zip(names, values[m].tolist(), mean.tolist(), within.tolist(), strict=True)
    return tuple(Difference(*one) for one in columns)


def _comparison(
    those: Sequence[Contestant], sums: Sequence[Any], total: PairedPart
) -> ModelComparison:
    models = []
    for m, (of, own) in enumerate(zip(those, sums, strict=True)):
        figures = full_figures(of.problem, of.model.record, of.model.weights, own)
        differences = _differences(total, of.names, m)
        models.append(ComparedModel(of.model.run.url, figures, differences))
    return ModelComparison(models[0].evaluation.rows, tuple(models))


# -- a data set ------------------------------------------------------------------------------------


def compare(
    models: Sequence[Model], dataset: Dataset, executor: Executor, rules: Matching = BY_NAME
) -> ModelComparison:
    """Compare models on a data set whose columns all of them have, in one pass.

    Raises
    ------
    BadInput
        They do not predict the same, or the data set is not one of a model's.
    """
    those = contestants(models)
    job = evaluation_job(models[0].record, dataset, models[0].lam, rules)
    handles = []
    for model in models:
        matched = require_same_columns(model.record, dataset, rules)
        handles.append(
            executor.submit("weights", read_weights, model.run, model.snapshot, dataset, matched)
        )
    at = executor.submit("weights", _all_of, *handles)
    bare = [of._replace(model=_without_run(of.model)) for of in those]
    what = Sum("reduce-comparison", partial(_none, bare), partial(_add, bare))
    sums, total = executor.result(reduce(executor, job, what, at, lambda _report: None))
    return _comparison(those, sums, total)


def _without_run(model: Model) -> Model:
    """Return a model without its weights, which workers read themselves."""
    empty = Weights(np.empty(0), 0.0)
    return model._replace(weights=empty, scale=None, shift=None)


def _all_of(*each: Weights) -> tuple[Weights, ...]:
    return each


def _none(those: Sequence[Contestant], at: tuple[Weights, ...]) -> tuple[Any, PairedPart]:
    zeros = np.zeros((len(those), len(those[0].names)))
    none = PairedPart(0.0, 0.0, zeros, zeros.copy(), zeros.copy())
    return tuple(of.what.zero(own) for of, own in zip(those, at, strict=True)), none


def _add(
    those: Sequence[Contestant], _problem: Problem, at: tuple[Weights, ...], block: Block,
    part: tuple[Any, PairedPart],
) -> tuple[Any, PairedPart]:  # fmt: skip
    """Add a block to the sums of every model, and to those of all differences."""
    each = list(zip(those, at, strict=True))
    sums = tuple(
        of.what.add(of.problem, own, block, before)
        for (of, own), before in zip(each, part[0], strict=True)
    )
    figures = [row_figures(of, own, block) for of, own in each]
    return sums, add_parts(part[1], paired(figures, block.weight))


# -- files, which every model reads by its own recipe ---------------------------------------------


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
    return _comparison(those, [one[0] for one in sums], total)


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
    _, parsed, _, where = ParsedPiece.of(source, number, piece)
    table, model = parsed.table, of.model
    if not table.n_rows:
        return None
    y = targets_of(model, of.problem, parsed, where)
    scaler = Scaler(model.record.scaling.kind, model.scale, model.shift)
    at, rows = as_stepped(model.weights, scaler, table)
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
