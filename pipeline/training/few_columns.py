"""Rows in memory with few columns: Newton's method at once, without the preparations of an engine.

Such a fit takes milliseconds; choosing a method and cutting windows would take as long again.
Where the tolerance is not reached, and for all other plans, the engine trains.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.targets import target_rule, with_offsets
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import Convergence, Trained
from fewpass.pipeline.runs.saved import Cursor
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.planning.auto import FEW_COLUMNS
from fewpass.pipeline.training.planning.best_constant import best_constants
from fewpass.pipeline.training.planning.planned_problem import stats_of
from fewpass.pipeline.training.planning.problem import problem_of
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.estimates.expected_passes import conditioning
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.protocol import Certificate, Weights
from fewpass.solvers.registry import SECOND_ORDER
from fewpass.storage.memory_dataset import MemoryDataset

LEAST_PASSES, MOST_PASSES = 10, 60  # that are allowed; that are tried


def train_few_columns(
    plan: TrainingPlan,
    dataset: MemoryDataset,
    start_at: tuple[Weights, int] | None,
    is_stopping: Callable[[], bool],
    on_event: Callable[[Event], None],
) -> Trained | None:
    """Return a model whose certificate is as small as the plan asks for; None where it is not.

    InterruptedError when it is to stop.
    """
    tol = plan.tol
    if tol is None or not _is_asked_for(plan) or dataset.n_features > FEW_COLUMNS:
        return None
    manifest, problem = dataset.manifest, problem_of(plan, dataset.manifest)
    rule = target_rule(manifest, problem.loss, plan.positive, plan.class_weight)
    rule = with_offsets(rule, manifest.offsets, problem.loss)
    stats = stats_of(manifest, rule)
    constants = best_constants(problem, rule, dataset, dataset.sample(MOST_ROWS))
    stats = stats._replace(constants=constants)
    foreseen = problem.loss.is_steep or conditioning(problem, stats) is not None
    if rule.n_classes or not foreseen or not problem.penalty.is_smooth:
        return None
    table, (start, before) = dataset.table, start_at or (None, 0)
    block = dataset_block(table, dataset, rule)
    began = time.perf_counter()

    def report(kind: str, passes: float, **facts: object) -> None:
        seconds, seen = time.perf_counter() - began, round(passes * table.n_rows)
        cursor = Cursor(passes=passes, rows_seen=seen, seconds=seconds, rows_before=before)
        on_event(Event.of(kind, cursor, **facts))

    def after_reading(passes: float, certified: Certificate | None) -> None:
        if is_stopping():
            raise InterruptedError("The training was given up before its end.")
        if certified:
            proven = {
                "objective": certified.objective, "gap": certified.gap,
                "relative_gap": certified.with_constants(stats.constants).relative,
            }  # fmt: skip
            report("certificate", passes, **proven, left_passes=None)

    if start is not None and not problem.intercept:
        start = start._replace(intercept=0.0)
    report("start", 0.0, n_rows=table.n_rows, method=SECOND_ORDER)
    most = min(plan.passes, MOST_PASSES)
    weights, certified, passes = minimise(problem, stats, block, tol, most, start, after_reading)
    if certified.relative > tol:
        return None
    report("finish", passes)
    return Trained(
        weights, Cursor(passes=passes, rows_before=before), SECOND_ORDER, problem.loss.name,
        problem.lam, None, None, certified, Convergence.of(tol, certified, finished=True).converged,
    )  # fmt: skip


def _is_asked_for(plan: TrainingPlan) -> bool:
    """Whether the plan is for one model, by Newton's method or by any."""
    more = plan.early_stopping or plan.held_out or plan.streams > 1
    return plan.solver.kind in ("auto", SECOND_ORDER) and plan.passes >= LEAST_PASSES and not more
