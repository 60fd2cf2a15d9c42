"""What a training straight from a source is going to take, by its first rows."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.rows.buffers import row_view, unit_weights
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.straight.first_rows import FirstRows, found_from_anywhere
from fewpass.pipeline.straight.known import Known, choose_straight, require_room
from fewpass.pipeline.straight.reading import STEADY_BYTES
from fewpass.pipeline.tables.ingest.reading import raw_bytes
from fewpass.pipeline.tables.readers.standard_input import is_standard_input
from fewpass.pipeline.training.planning.auto import MethodChoice
from fewpass.pipeline.training.planning.lam_path import with_lam_path
from fewpass.pipeline.training.planning.planned_problem import tasks_of
from fewpass.pipeline.training.planning.trial import WARM_UP_ROWS, step_over
from fewpass.solvers.protocol import Block, Solver, Walk


class StraightForecast(BaseModel):
    """Numbers of a straight training that has not begun; None where nothing can be said."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """The method's states with their copies, statistics of columns, rows held out, pieces of the
    source that are parsed."""
    buffer_bytes: int
    """Rows that are shuffled, in all buffers at once, at most."""
    overhead_bytes: int
    """Kernels and what not."""
    tried_rows: int
    """Of the first ones, that steps were timed on."""
    seconds: float | None
    """Of one reading: parsed by all threads, stepped by one beside them."""


class Foreseen(NamedTuple):
    """A forecast, and what was chosen on the way."""

    plan: TrainingPlan
    choice: MethodChoice | None
    forecast: StraightForecast
    notes: tuple[str, ...]  # what somebody should look at


def foresee(plan: TrainingPlan) -> Foreseen:
    """Read the first rows of the plan's source, and say what learning from all of them takes.

    Raises
    ------
    BadInput
        As the training itself would.
    """
    began = time.perf_counter()
    first = FirstRows(found_from_anywhere(plan))
    read_s = time.perf_counter() - began
    plan = with_lam_path(plan, first.dataset.manifest)
    choice = choose_straight(plan, first)
    plan = choice.plan(plan) if choice else plan
    known = Known(plan, first)
    solver = known.solver(plan.solver)  # type: ignore[arg-type]
    room = require_room(known, solver)
    rows = first.dataset.table.n_rows
    step_s = _seconds_per_row(known, solver, first)
    forecast = StraightForecast(
        **_numbers(plan, known, first),
        state_bytes=known.taken(solver) - PROGRAM_BYTES,
        buffer_bytes=_buffer_bytes(first, room),
        overhead_bytes=PROGRAM_BYTES,
        tried_rows=rows,
        seconds=None if _is_endless(first) else known.n * max(step_s, read_s / rows),
    )
    first.close()
    return Foreseen(plan, choice, forecast, first.notes())


def _numbers(plan: TrainingPlan, known: Known, first: FirstRows) -> dict[str, Any]:
    endless = _is_endless(first)
    return {
        "solver": plan.solver.kind, "loss": known.problem.loss.name, "lam": known.problem.lam,
        "models": len(tasks_of(plan, known.rule, known.n)), "n_rows": known.n,
        "first_rows": first.dataset.table.n_rows, "whole": first.whole,
        "n_features": known.stats.d,
        "columns_may_grow": first.open_end,
        "bytes_to_read": None if endless else raw_bytes(first.source),
    }  # fmt: skip


def _is_endless(first: FirstRows) -> bool:
    return is_standard_input(first.asked.sources) and not first.whole


def _buffer_bytes(first: FirstRows, room: int) -> int:
    """Say what buffers take: as long as pieces are alike, no more than what mixes them."""
    sorted_ones = first.intake.mixing.sorted
    return Budget.buffers * (room if sorted_ones else min(room, STEADY_BYTES))


def _seconds_per_row(known: Known, solver: Solver, first: FirstRows) -> float:
    """Step the first rows, after a few that kernels and the first step are found on."""
    table, dataset = first.dataset.table, first.dataset
    order = np.random.default_rng(0).permutation(table.n_rows)
    y, weight = known.rule.read(table.target), unit_weights(table, dataset, known.rule)
    block = Block(row_view(table), np.ascontiguousarray(y), weight, order, np.empty(0))
    start = block._replace(order=block.order[:WARM_UP_ROWS])
    walk, problem, stats = solver.program(0)[0], known.problem, known.stats
    assert isinstance(walk, Walk), "a method of one pass walks"
    in_place, state = known.in_place(solver), solver.init(problem, stats)
    state, _ = step_over(walk, problem, stats, [start], state, in_place=in_place)
    _, seconds = step_over(walk, problem, stats, [block], state, in_place=in_place)
    return seconds
