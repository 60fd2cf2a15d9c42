"""Scoring of a model on a data set: the job that reads it, and one reduction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.matching import Matched
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.reduce import reduce
from fewpass.pipeline.passes.span import Job, SpanReport
from fewpass.pipeline.planning.column_groups import with_groups
from fewpass.pipeline.planning.planned_problem import stats_of
from fewpass.pipeline.rows.resident import rows_in_memory
from fewpass.pipeline.rows.targets import TargetRule, label_text, shown, similar_label, target_rule
from fewpass.pipeline.rows.windows import chunk_bytes, plan_windows
from fewpass.pipeline.runs.model import Model, read_weights, require_same_columns
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Sum, Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Values


def scored(
    model: Model,
    dataset: Dataset,
    executor: Executor,
    what: Sum,
    on_report: Callable[[SpanReport], None] = lambda _: None,
    rules: Matching = BY_NAME,
) -> tuple[Job, Any, Matched]:
    """Evaluate a sum at the weights of a model over a data set.

    Returns the job, the sum, and how columns were matched.
    """
    job = evaluation_job(model.record, dataset, model.lam, rules)
    matched = require_same_columns(model.record, dataset, rules)
    at = executor.submit("weights", read_weights, model.run, model.snapshot, dataset, matched)
    total = executor.result(reduce(executor, job, what, at, on_report))
    return job, total, matched


def scored_together(
    models: Sequence[Model], dataset: Dataset, executor: Executor, what: Sum,
    rules: Matching = BY_NAME,
    on_report: Callable[[SpanReport], None] = lambda _: None,
) -> Any:  # fmt: skip
    """Evaluate a sum at the weights of several models over a data set, in one pass."""
    job = evaluation_job(models[0].record, dataset, models[0].lam, rules)
    matched = [require_same_columns(model.record, dataset, rules) for model in models]
    handles = [
        executor.submit("weights", read_weights, model.run, model.snapshot, dataset, own)
        for model, own in zip(models, matched, strict=True)
    ]
    at = executor.submit("weights", _all_of, *handles)
    return executor.result(reduce(executor, job, what, at, on_report))


def _all_of(*each: Weights) -> tuple[Weights, ...]:
    return each


def evaluation_job(
    trained: RunRecord, dataset: Dataset, lam: float | None = None, rules: Matching = BY_NAME
) -> Job:
    """Return a job that reads a data set with the labels of the training set.

    Raises BadInput when columns, scaling or labels are not those that were trained on.
    """
    require_same_columns(trained, dataset, rules)
    plan, manifest = trained.plan, dataset.manifest
    problem, trained_rule = problem_and_rule(trained, lam)
    if trained_rule.n_classes:
        rule = _same_classes(manifest.targets, trained.targets, problem.loss.width)
    else:
        rule = target_rule(manifest, problem.loss, trained.positive)
        if rule.positive >= 0 and plan.positive is None:  # a named one is told from any
            _labels_of_both(manifest.targets, trained.targets)
    weights = Budget.weights * 8 * manifest.n_features * max(1, rule.n_classes)
    most = plan.budget.rows - Budget.windows * chunk_bytes(manifest)
    state = max(0, min(weights, most))  # the training budget suffices, with windows of one chunk
    windows = plan_windows(manifest, budget=plan.budget, state_bytes=state, streams=1, seed=0)
    here = rows_in_memory(dataset, rule)
    return Job(dataset, problem, stats_of(manifest, rule, problem), rule, windows, rows=here)


def problem_and_rule(trained: RunRecord, lam: float | None) -> tuple[Problem, TargetRule]:
    """Return the problem that models of a run are scored by, and the rule of its targets.

    lam, "10/n" and the default label are those of the training set.
    """
    problem = with_groups(trained.problem(lam), trained.feature_groups)
    return problem, target_rule(trained, problem.loss, trained.plan.positive)


def _same_classes(targets: Labels | Values, trained: Labels | Values, width: int) -> TargetRule:
    """Return the rule that numbers a set's labels as the model does."""
    labels, names = _labels_of_both(targets, trained)
    values = tuple(float(names.index(label)) for label in labels)
    return TargetRule(values=values, n_classes=len(names), width=width)


def _labels_of_both(
    targets: Labels | Values, trained: Labels | Values
) -> tuple[list[str], list[str]]:
    """Return the labels of a set, and those of the model, which knows them all; else BadInput."""
    assert isinstance(trained, Labels), "classes were trained on"
    if not isinstance(targets, Labels):
        raise BadInput(
            f"The targets are numbers, but the model tells the labels {shown(trained)} apart. "
            "Ingest the rows with the training set as `like`."
        )
    labels, names = ([label_text(label) for label in each.labels] for each in (targets, trained))
    unknown = [label for label in labels if label not in names]
    if unknown:
        raise BadInput(
            f'The label "{unknown[0]}" is unknown to the model, which has {shown(trained)}. '
            f"{similar_label(unknown[0], names)}Ingest the rows with the training set as `like` to "
            "find where it is."
        )
    return labels, names
