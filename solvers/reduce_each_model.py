"""A reduction of one model turned into one of several: methods are written for one model only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from fewpass.solvers.loss_monitor import MeanLosses, ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Part, ProblemStats, Reduce, State, Sum, with_row_version
from fewpass.solvers.tasks import Models, States, Tasks, as_model_sees, keep_numbers


def sum_each(what: Sum, tasks: Tasks) -> Sum:
    """Turn a sum for one model into a sum for all, evaluated at a tuple with one entry per model.

    The entry is None for a model that is left out.  Parts are tuples, too.
    """
    add = partial(add_each, what, tasks)
    return what._replace(
        zero=partial(zero_each, what), add=add, telling=None if what.telling is None else add
    )


def zero_each(what: Sum, at: tuple[Any, ...]) -> tuple[Part, ...]:
    """Return the zero of every model's sum."""
    return tuple(() if own is None else what.zero(own) for own in at)


def add_each(
    what: Sum,
    tasks: Tasks,
    problem: Problem,
    at: tuple[Any, ...],
    block: Block,
    parts: tuple[Part, ...],
    report: ReportLosses = ignore_losses,
    every: int = 0,
) -> tuple[Part, ...]:
    """Add a block to the sum of every model."""
    added, together = list(parts), MeanLosses(len(at))
    telling = what.telling if report is not ignore_losses else None
    for k, (task, own) in enumerate(zip(tasks, at, strict=True)):
        if own is not None:
            mine = as_model_sees(block, task, k, len(at))
            given = (task.problem(problem), own, mine, parts[k])
            added[k] = telling(*given, together.add, every) if telling else what.add(*given)
            if what.row_state == "write":
                keep_numbers(block.row_state, k, mine.row_state)
    together.report(report)
    return tuple(added)


def reduce_each(multi: Models, reduce: Reduce) -> Reduce:
    """Turn a reduction of one model into a reduction of all models."""
    return Reduce(
        sum_each(reduce.sum, multi.tasks),
        partial(at_each, multi, reduce.at),
        partial(absorb_each, multi, reduce),
    )


def at_each(multi: Models, at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return the points at which the models' sums are evaluated."""
    return tuple(
        None if multi.is_converged(k, model) else at(model) for k, model in enumerate(state.models)
    )


def absorb_each(
    multi: Models,
    reduce: Reduce,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    total: tuple[Part, ...],
    sweep: int,
) -> States:
    """Pass every model its sum; a converged model only takes the new version of its row numbers."""
    models = []
    each = zip(multi.tasks, state.models, total, strict=True)
    for k, (task, model, part) in enumerate(each):
        if not multi.is_converged(k, model):
            models.append(reduce.absorb(task.problem(problem), stats, model, part, sweep))
        else:
            written = reduce.sum.row_state == "write"
            models.append(with_row_version(model, sweep) if written else model)
    return States(tuple(models))
