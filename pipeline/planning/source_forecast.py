"""Forecast of a training on a source that is read once, by its first rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.planning.method_choice import MethodChoice
from fewpass.pipeline.planning.planned_problem import tasks_of
from fewpass.pipeline.planning.source_job import (
    SourceProblem,
    planned_for_source,
    require_buffers,
)
from fewpass.pipeline.planning.trial import WARM_UP_ROWS, step_over
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.from_source import OpenedSource
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.protocol import Solver, Walk


class SourceForecast(BaseModel):
    """Numbers of a training on a source that has not begun; None where nothing can be said."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    solver: str
    loss: str
    lam: float
    models: int
    """One per class where there are more than two, and that per value of lam."""
    n_rows: int
    """To learn from: exact where the first rows are all, else what is expected."""
    first_rows: int
    """Those that were looked at."""
    whole: bool
    """Whether these are all rows."""
    n_features: int
    """As many columns as the first rows have, or as the plan says."""
    columns_may_grow: bool
    """Whether later rows may have more, and the method then takes more memory."""
    bytes_to_read: int | None
    """Of the source; None where it is compressed or standard input."""
    state_bytes: int
    """The method's states with their copies, statistics of columns, held-out rows, pieces of the
    source that are parsed."""
    buffer_bytes: int
    """Rows that are shuffled, in all buffers at once, at most."""
    overhead_bytes: int
    """Of the program: kernels and libraries."""
    tried_rows: int
    """Of the first ones, that steps were timed on."""
    seconds: float | None
    """Of one reading: parsed by all threads, stepped by one."""


class Foreseen(NamedTuple):
    """A forecast, with the plan and the method that it is of."""

    plan: TrainingPlan
    choice: MethodChoice | None
    forecast: SourceForecast
    notes: tuple[str, ...]  # remarks on the rows


def forecast_of_source(
    plan: TrainingPlan, open_source: Callable[[TrainingPlan], OpenedSource]
) -> Foreseen:
    """Read the first rows of the plan's source, and forecast the cost of learning from all.

    Raises
    ------
    BadInput
        As the training itself would.
    """
    began = time.perf_counter()
    source = open_source(plan)
    read_s = time.perf_counter() - began
    plan, choice = planned_for_source(source.plan, source)
    plan = choice.plan(plan) if choice else plan
    planned = SourceProblem(plan, source)
    solver = planned.solver(plan.solver)  # type: ignore[arg-type]
    most = require_buffers(planned, solver)
    rows = source.first.position.rows
    step_s = _seconds_per_row(planned, solver, source)
    seconds = None if source.endless else planned.stats.n * max(step_s, read_s / rows)
    forecast = SourceForecast(
        **_numbers(plan, planned, source),
        state_bytes=planned.taken(solver) - PROGRAM_BYTES,
        buffer_bytes=Budget.buffers * source.most_in_buffer(most),
        overhead_bytes=PROGRAM_BYTES,
        tried_rows=rows,
        seconds=seconds,
    )
    source.close()
    return Foreseen(plan, choice, forecast, source.notes())


def _numbers(plan: TrainingPlan, planned: SourceProblem, source: OpenedSource) -> dict[str, Any]:
    return {
        "solver": plan.solver.kind, "loss": planned.problem.loss.name,
        "lam": planned.problem.penalty.total,
        "models": len(tasks_of(plan, planned.rule, planned.stats)), "n_rows": planned.stats.n,
        "first_rows": source.first.position.rows, "whole": source.whole,
        "n_features": planned.stats.d, "columns_may_grow": source.may_grow,
        "bytes_to_read": source.bytes_to_read,
    }  # fmt: skip


def _seconds_per_row(planned: SourceProblem, solver: Solver, source: OpenedSource) -> float:
    """Step the first rows, after a few for compiling kernels and choosing the first step."""
    table, dataset = source.dataset.table, source.dataset
    order = np.random.default_rng(0).permutation(table.n_rows)
    block = dataset_block(table, dataset, planned.rule, order)
    start = block._replace(order=block.order[:WARM_UP_ROWS])
    walk, problem, stats = solver.program(0)[0], planned.problem, planned.stats
    assert isinstance(walk, Walk), "a method of one pass walks"
    in_place, state = planned.in_place(solver), solver.init(problem, stats)
    state, _ = step_over(walk, problem, stats, [start], state, in_place=in_place)
    _, seconds = step_over(walk, problem, stats, [block], state, in_place=in_place)
    return seconds
