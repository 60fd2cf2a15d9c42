"""Evaluation of a model on a data set: one reduction with sums and two histograms of scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.calibration import BITS, score_bins
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.rows.buffers import free_buffers
from fewpass.pipeline.rows.targets import Targeted, TargetRule, clipped, label_text
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluate_classes import (
    CLASS_SCORES,
    JOINT_SCORES,
    ClassFigures,
    ClassPart,
    class_figures,
    penalty,
    r2_of_grades,
    top_error,
)
from fewpass.pipeline.scoring.evaluation_job import scored
from fewpass.pipeline.scoring.probabilities import block_scores, responses
from fewpass.pipeline.scoring.reliability import Reliability, reliability
from fewpass.pipeline.scoring.row_metrics import (
    USUAL,
    AskedMetrics,
    Measured,
    MetricFigures,
    MetricPart,
    metrics_of,
    side_by_side,
    sum_of_metrics,
)
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.solvers.losses import Loss, Problem, value
from fewpass.solvers.losses.loss import loss_sum
from fewpass.solvers.losses.quantile import Quantile
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels


class Evaluation(NamedTuple):
    """Result of an evaluation, as in `fewpass evaluate --json`; None: undefined for the targets."""

    rows: int
    objective: float  # mean loss + (lam/2) ||w||^2 + (lam_b/2) (b - b_0)^2
    loss: float  # mean, weighted by row weights
    error: float | None  # weighted fraction of misclassified rows
    auc: float | None  # area under the ROC curve
    auc_within: float | None  # error bound of auc (scores are binned)
    mse: float | None
    r2: float | None  # also of labels that are grades
    deviance: float | None = None  # mean; of the Poisson and the gamma loss
    d2: float | None = None  # fraction of the deviance of the mean that is explained
    classes: tuple[ClassFigures, ...] | None = None  # of more than two classes
    metrics: MetricFigures | None = None  # the others; None where nobody asked for them
    left_out: tuple[str, ...] = ()  # columns that the model does not have
    slices: tuple[tuple[str, tuple[Any, ...]], ...] = ()  # by the columns that were asked for, the
    # slices of each (evaluated_slices.py: Slice)
    pinball: float | None = None  # mean; of the quantile loss, which is that
    skipped: int = 0  # bad rows of files that were left out
    notes: tuple[str, ...] = ()  # on cells of files that the model's columns were not made for
    reliability: Reliability | None = None  # whether probabilities come true, where there are some


class ScorePart(NamedTuple):
    """Sums over some rows; parts can be added."""

    rows: int
    weight: float
    labelled: float  # weight of rows with labels, also under a loss of numbers
    loss: float
    wrong: float
    square: float  # of p - y
    y: float  # of y - b_0
    y_square: float
    null: NDArray[np.float64]  # (3,) of rows without offsets: weight, y, losses of zero scores
    positive: NDArray[np.float64]  # (2^18,) weight of rows with y > 0 by score
    negative: NDArray[np.float64]  # (2^18,)


def evaluate(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    on_report: Callable[[SpanReport], None] = lambda _: None,
    rules: Matching = BY_NAME,
    asked: AskedMetrics = USUAL,
) -> Evaluation:
    """Evaluate a model in one pass over a data set; columns are matched by `rules`.

    Raises BadInput when the data set's columns, scaling or labels are not the model's, or when a
    threshold is asked of a model that has no probabilities of two labels.
    """
    measured = Measured.of(model, asked)
    what = partial(full_sum, measured)
    job, total, matched = scored(model, dataset, executor, what, on_report, rules)
    executor.everywhere(free_buffers)
    figures = full_figures(job.problem, model.record, model.weights, total, asked)
    return figures._replace(left_out=matched.left_out)


def full_sum(measured: Measured, rule: TargetRule, bits: int = BITS) -> Sum:
    """Return the sum of an evaluation with all metrics."""
    return side_by_side((sum_of(measured, rule, bits), sum_of_metrics(measured)))


def full_figures(
    problem: Problem,
    trained: Targeted,
    at: Weights,
    total: tuple[Any, MetricPart],
    asked: AskedMetrics = USUAL,
) -> Evaluation:
    """Return the figures of an evaluation with all metrics from these sums."""
    figures = figures_of(problem, trained, at, total[0])
    sides = (total[0].positive, total[0].negative) if isinstance(total[0], ScorePart) else None
    metrics = metrics_of(total[1], sides, asked)
    return figures._replace(metrics=metrics, reliability=reliability(total[1].probabilities))


def sum_of(measured: Measured, rule: TargetRule, bits: int = BITS) -> Sum:
    """Return the sum of an evaluation; scores are counted by their first `bits`."""
    if rule.width > 1:
        return JOINT_SCORES
    if rule.n_classes:
        return CLASS_SCORES
    add = partial(add_scores, measured, bits)
    return Sum(CLASS_SCORES.name, partial(no_scores, bits), add)


def figures_of(
    problem: Problem, trained: Targeted, at: Weights, total: ScorePart | ClassPart
) -> Evaluation:
    """Return the figures of one model from the sums over all rows."""
    if isinstance(total, ClassPart):
        return class_summary(problem, trained, at, total)
    return summary(problem, at, total)


def score_part(
    measured: Measured, bits: int, problem: Problem, at: Weights, block: Block
) -> ScorePart:
    """Return the sums and histograms of a block; its loss is that of unclipped predictions."""
    p = block_scores(problem, at, block)
    y, weight = block.y, block.weight
    predicted, positive = clipped(responses(problem.loss, p), measured.bounds), y > 0
    bins, away = score_bins(p, bits), y - problem.target_level
    return ScorePart(
        rows=int(np.count_nonzero(weight)),
        weight=float(weight.sum()),
        labelled=float(weight.sum()) if measured.n_labels else 0.0,
        loss=loss_sum(problem.loss, p, y, weight),
        wrong=float(weight[measured.labels(p) != positive].sum()),
        square=float((weight * (predicted - y) ** 2).sum()),
        y=float((weight * away).sum()),
        y_square=float((weight * away * away).sum()),
        null=_null_sums(problem.loss, block) if problem.loss.is_steep else np.zeros(3),
        positive=_histogram(bins[positive], weight[positive], bits),
        negative=_histogram(bins[~positive], weight[~positive], bits),
    )


def no_scores(bits: int, _at: Weights) -> ScorePart:
    """Return the zero of the sums."""
    sums = dict.fromkeys(("weight", "labelled", "loss", "wrong", "square", "y", "y_square"), 0.0)
    empty = np.zeros(1 << bits)
    return ScorePart(rows=0, **sums, null=np.zeros(3), positive=empty, negative=empty)


def add_scores(
    measured: Measured, bits: int, problem: Problem, at: Weights, block: Block, part: ScorePart
) -> ScorePart:
    """Add a block."""
    total: ScorePart = add_parts(part, score_part(measured, bits, problem, at, block))
    return total


def _histogram(
    bins: NDArray[np.int64], weight: NDArray[np.float64], bits: int
) -> NDArray[np.float64]:
    return np.bincount(bins, weight, 1 << bits).astype(np.float64)


def summary(problem: Problem, at: Weights, total: ScorePart) -> Evaluation:
    """Return the figures from the sums over all rows."""
    loss = total.loss / total.weight
    figures: dict[str, Any] = dict.fromkeys(("error", "auc", "auc_within", "mse", "r2"))
    if not total.labelled:
        mean = total.y / total.weight
        variance = total.y_square / total.weight - mean * mean
        figures["mse"] = total.square / total.weight
        figures["r2"] = 1.0 - figures["mse"] / variance if variance > 0.0 else None
        if problem.loss.is_steep:
            figures |= deviances(problem.loss, total)
        if problem.loss.name == Quantile.name:
            figures["pinball"] = loss
    else:
        figures["error"] = total.wrong / total.weight
        figures["auc"], figures["auc_within"] = area(total.positive, total.negative)
    return Evaluation(rows=total.rows, objective=loss + penalty(problem, at), loss=loss, **figures)


def _null_sums(loss: Loss, block: Block) -> NDArray[np.float64]:
    """Return the sums that the loss of the best constant score follows from."""
    y, weight = block.y, block.weight
    if block.offset is not None:
        taken = loss.at_offset(y, block.offset)
        y, weight = taken.y, weight * taken.weight
    at_zero = loss_sum(loss, np.zeros(len(y)), y, weight)
    return np.array([weight.sum(), weight @ y, at_zero])


def deviances(loss: Loss, total: ScorePart) -> dict[str, float | None]:
    """Return the mean deviance, twice the loss, and D^2: the share that a constant leaves over.

    A loss is b(p) - y p, or y b(p) + p, and what does not depend on p: so the loss of any constant
    score differs from that of 0 by what it does at the mean target.
    """
    weight, y, at_zero = total.null.tolist()
    mean = y / weight
    p = loss.best_constant(np.array(mean))
    alone = at_zero + weight * float(value(loss, p, mean) - value(loss, 0.0, mean))
    explained = 1.0 - total.loss / alone if alone > 0.0 else None
    return {"deviance": 2.0 * total.loss / total.weight, "d2": explained}


def class_summary(problem: Problem, trained: Targeted, at: Weights, total: ClassPart) -> Evaluation:
    """Return the figures of several classes from the sums over all rows.

    The loss is the mean of all classes' against the rest, or the one of all scores.
    """
    loss = float(total.losses.mean()) / total.weight
    targets = trained.targets
    assert isinstance(targets, Labels), "classes were trained on"
    without: dict[str, Any] = dict.fromkeys(("auc", "auc_within", "mse"))
    return Evaluation(
        rows=total.rows,
        objective=loss + penalty(problem, at),
        loss=loss,
        error=top_error(total),
        r2=r2_of_grades(total, targets),
        **without,
        classes=class_figures(total, [label_text(label) for label in targets.labels]),
    )


def area(
    positive: NDArray[np.float64], negative: NDArray[np.float64]
) -> tuple[float | None, float | None]:
    """Return the area under the ROC curve of two histograms (ties count half), and its error."""
    pairs = float(positive.sum() * negative.sum())
    if pairs == 0.0:
        return None, None
    below = np.cumsum(negative) - negative
    tied = float(positive @ negative)
    return (float(positive @ below) + 0.5 * tied) / pairs, 0.5 * tied / pairs
