"""Evaluation of a model on a data set: one reduction with sums and two histograms of scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.matching import Matched
from fewpass.pipeline.rows.buffers import let_go_of_buffers
from fewpass.pipeline.rows.resident import rows_in_memory
from fewpass.pipeline.rows.target_range import Bounds, clipped
from fewpass.pipeline.rows.targets import TargetRule, alike, label_text, shown, target_rule
from fewpass.pipeline.rows.windows import chunk_bytes, plan_windows
from fewpass.pipeline.runs.model import Model, read_weights, require_same_columns
from fewpass.pipeline.runs.run_folder import RunRecord
from fewpass.pipeline.scoring.evaluate_classes import (
    CLASS_SCORES,
    JOINT_SCORES,
    ClassFigures,
    ClassPart,
    class_figures,
    penalty,
    top_error,
)
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.planning.column_groups import with_groups
from fewpass.pipeline.training.planning.planned_problem import stats_of
from fewpass.pipeline.training.planning.problem import loss_word, problem_of
from fewpass.pipeline.training.spans.reduce import reduce
from fewpass.pipeline.training.spans.reduce_span import ReduceReport
from fewpass.pipeline.training.spans.span import Job
from fewpass.solvers.kernels.scores import scores
from fewpass.solvers.losses import Loss, Problem, value
from fewpass.solvers.losses.loss import loss_sum
from fewpass.solvers.protocol import Block, Sum, Weights, add_parts
from fewpass.solvers.registry import loss_class
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Values

HISTOGRAM_BITS = 18  # of a score's 32: sign, exponent and 9 bits of the number, 0.2 % apart


class Evaluation(NamedTuple):
    """Result of an evaluation, as in `fewpass evaluate --json`; None: undefined for the targets."""

    rows: int
    objective: float  # mean loss + (lam/2) ||w||^2 + (lam_b/2) b^2
    loss: float  # mean, weighted by row weights
    error: float | None  # weighted fraction of misclassified rows
    auc: float | None  # area under the ROC curve
    auc_within: float | None  # error bound of auc (scores are binned)
    mse: float | None
    r2: float | None
    deviance: float | None = None  # mean; of the Poisson and the gamma loss
    d2: float | None = None  # fraction of the deviance of the mean that is explained
    classes: tuple[ClassFigures, ...] | None = None  # of more than two classes
    left_out: tuple[str, ...] = ()  # columns that the model does not have


class ScorePart(NamedTuple):
    """Sums over some rows; parts can be added."""

    rows: int
    weight: float
    loss: float
    wrong: float
    square: float  # of p - y
    y: float
    y_square: float
    null: NDArray[np.float64]  # (3,) of rows without offsets: weight, y, losses of zero scores
    positive: NDArray[np.float64]  # (2^18,) weight of rows with y > 0 by score
    negative: NDArray[np.float64]  # (2^18,)


def evaluate(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    on_report: Callable[[ReduceReport], None] = lambda _: None,
    rules: Matching = BY_NAME,
) -> Evaluation:
    """Evaluate a model in one pass over a data set; columns are matched by `rules`.

    Raises BadInput when the data set's columns, scaling or labels are not the model's.
    """
    job, total, matched = judged(model, dataset, executor, None, on_report, rules)
    executor.everywhere(let_go_of_buffers)
    figures = figures_of(job.problem, model.record, model.weights, total)
    return figures._replace(left_out=matched.left_out)


def judged(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    what: Sum | None = None,
    on_report: Callable[[ReduceReport], None] = lambda _: None,
    rules: Matching = BY_NAME,
) -> tuple[Job, Any, Matched]:
    """Evaluate the sum `what`, by default that of an evaluation, over a data set.

    Returns the job, the sum, and how columns were matched.
    """
    job = evaluation_job(model.record, dataset, model.lam, rules)
    matched = require_same_columns(model.record, dataset, rules)
    at = executor.submit("weights", read_weights, model.run, model.snapshot, dataset, matched)
    total = executor.result(
        reduce(executor, job, what or sum_of(job.rule, model.bounds), at, on_report)
    )
    return job, total, matched


def sum_of(rule: TargetRule, bounds: Bounds | None = None) -> Sum:
    """Return the sum of an evaluation; predicted numbers are clipped to `bounds`."""
    if bounds is not None:
        return SCORES._replace(add=partial(add_scores, bounds=bounds))
    if rule.width > 1:
        return JOINT_SCORES
    return CLASS_SCORES if rule.n_classes else SCORES


def figures_of(
    problem: Problem, trained: RunRecord, at: Weights, total: ScorePart | ClassPart
) -> Evaluation:
    """Return the figures of one model from the sums over all rows."""
    if isinstance(total, ClassPart):
        return class_summary(problem, trained, at, total)
    return summary(problem, at, total)


def evaluation_job(
    trained: RunRecord, dataset: Dataset, lam: float | None = None, rules: Matching = BY_NAME
) -> Job:
    """Return a job that reads a data set with the labels of the training set.

    Raises BadInput when columns, scaling or labels are not those that were trained on.
    """
    require_same_columns(trained, dataset, rules)
    plan, manifest = trained.plan, dataset.manifest
    # lam, "10/n" and the default label are those of the training set.
    problem = with_groups(problem_of(plan, trained, lam), trained.feature_groups)
    trained_rule = target_rule(trained, problem.loss, plan.positive)
    if trained_rule.n_classes:
        rule = _same_classes(manifest.targets, trained.targets, problem.loss.width)
    else:
        rule = target_rule(manifest, problem.loss, positive_label(plan, trained))
    weights = Budget.weights * 8 * manifest.n_features * max(1, rule.n_classes)
    most = plan.budget.rows - Budget.windows * chunk_bytes(manifest)
    state = max(0, min(weights, most))  # the training budget suffices, with windows of one chunk
    windows = plan_windows(manifest, budget=plan.budget, state_bytes=state, streams=1, seed=0)
    here = rows_in_memory(dataset, rule)
    return Job(dataset, problem, stats_of(manifest, rule), rule, windows, rows=here)


def _same_classes(targets: Labels | Values, trained: Labels | Values, width: int) -> TargetRule:
    """Return the rule that numbers a set's labels as the model does."""
    assert isinstance(trained, Labels), "classes were trained on"
    if not isinstance(targets, Labels):
        raise BadInput(
            f"The targets are numbers, but the model tells the labels {shown(trained)} apart. "
            "Ingest the rows with the training set as `like`."
        )
    names = [label_text(label) for label in trained.labels]
    unknown = [label for label in map(label_text, targets.labels) if label not in names]
    if unknown:
        raise BadInput(
            f'The label "{unknown[0]}" is unknown to the model, which has {shown(trained)}. '
            f"{alike(unknown[0], names)}Ingest the rows with the training set as `like` to find "
            "where it is."
        )
    values = tuple(float(names.index(label_text(label))) for label in targets.labels)
    return TargetRule(values=values, n_classes=len(names), width=width)


def positive_label(plan: TrainingPlan, trained: RunRecord) -> str | None:
    """Return the label that counts as +1; None for several classes, and for numbers."""
    targets = trained.targets
    if plan.positive is None and isinstance(targets, Labels) and len(targets.labels) == 2:
        as_numbers = loss_class(loss_word(plan, targets)).takes_numbers
        return None if as_numbers else label_text(targets.labels[1])
    return plan.positive


def score_part(
    problem: Problem, at: Weights, block: Block, bounds: Bounds | None = None
) -> ScorePart:
    """Return the sums and histograms of a block; its loss is that of unclipped predictions."""
    p = block_scores(problem, at, block)
    y, weight, predicted = block.y, block.weight, clipped(responses(problem.loss, p), bounds)
    positive = y > 0
    bins = score_bins(p)
    return ScorePart(
        rows=len(y),
        weight=float(weight.sum()),
        loss=loss_sum(problem.loss, p, y, weight),
        wrong=float(weight[(p > 0) != positive].sum()),
        square=float((weight * (predicted - y) ** 2).sum()),
        y=float((weight * y).sum()),
        y_square=float((weight * y * y).sum()),
        null=_null_sums(problem.loss, block) if problem.loss.is_steep else np.zeros(3),
        positive=_histogram(bins[positive], weight[positive]),
        negative=_histogram(bins[~positive], weight[~positive]),
    )


def block_scores(problem: Problem, at: Weights, block: Block) -> NDArray[np.float64]:
    """Return the scores of a block's rows, (n,)."""
    p = scores(at.coef, at.intercept * problem.intercept, block.rows)
    return p if block.offset is None else p + block.offset


def responses(loss: Loss, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return predictions, on the scale of the targets, for scores p."""
    return loss.response(p) if loss.response else p


def no_scores(_at: Weights) -> ScorePart:
    """Return the zero of the sums."""
    sums = dict.fromkeys(("weight", "loss", "wrong", "square", "y", "y_square"), 0.0)
    empty = np.zeros(1 << HISTOGRAM_BITS)
    return ScorePart(rows=0, **sums, null=np.zeros(3), positive=empty, negative=empty)


def add_scores(
    problem: Problem, at: Weights, block: Block, part: ScorePart, bounds: Bounds | None = None
) -> ScorePart:
    """Add a block."""
    total: ScorePart = add_parts(part, score_part(problem, at, block, bounds))
    return total


SCORES = Sum("reduce-scores", no_scores, add_scores)


def _histogram(bins: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.bincount(bins, weight, 1 << HISTOGRAM_BITS).astype(np.float64)


def score_bins(p: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the bins of scores, in ascending order of scores."""
    bits = p.astype(np.float32).view(np.int32).astype(np.int64)
    ordered = np.where(bits >= 0, bits, -(bits & 0x7FFFFFFF)) + (1 << 31)
    return ordered >> (32 - HISTOGRAM_BITS)


def summary(problem: Problem, at: Weights, total: ScorePart) -> Evaluation:
    """Return the figures from the sums over all rows."""
    loss = total.loss / total.weight
    figures: dict[str, Any] = dict.fromkeys(("error", "auc", "auc_within", "mse", "r2"))
    if problem.loss.takes_numbers:
        mean = total.y / total.weight
        variance = total.y_square / total.weight - mean * mean
        figures["mse"] = total.square / total.weight
        figures["r2"] = 1.0 - figures["mse"] / variance if variance > 0.0 else None
        if problem.loss.is_steep:
            figures |= deviances(problem.loss, total)
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
    p = loss.level(mean)
    alone = at_zero + weight * float(value(loss, p, mean) - value(loss, 0.0, mean))
    explained = 1.0 - total.loss / alone if alone > 0.0 else None
    return {"deviance": 2.0 * total.loss / total.weight, "d2": explained}


def class_summary(
    problem: Problem, trained: RunRecord, at: Weights, total: ClassPart
) -> Evaluation:
    """Return the figures of several classes from the sums over all rows.

    The loss is the mean of all classes' against the rest, or the one of all scores.
    """
    loss = float(total.losses.mean()) / total.weight
    targets = trained.targets
    assert isinstance(targets, Labels), "classes were trained on"
    without: dict[str, Any] = dict.fromkeys(("auc", "auc_within", "mse", "r2"))
    return Evaluation(
        rows=total.rows,
        objective=loss + penalty(problem, at),
        loss=loss,
        error=top_error(total),
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
