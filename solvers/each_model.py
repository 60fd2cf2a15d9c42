"""Sweeps of one model made sweeps of several: the text of every method knows of one alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from fewpass.solvers.kernels.simd.interleaved import pack, taken_apart
from fewpass.solvers.loss_monitor import Tell, ToldTogether, untold
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    Block,
    ColumnMoments,
    Interleaved,
    Part,
    ProblemStats,
    Reduce,
    State,
    Sum,
    Walk,
    copy_state,
    with_row_version,
)
from fewpass.solvers.tasks import EMPTY, Models, States, Tasks, as_model_sees, keep_numbers

# -- walks ------------------------------------------------------------------------------------


def walk_each(multi: Models, walk: Walk) -> Walk:
    """Make a walk of one model one of all."""
    return walk._replace(
        step=partial(step_each, multi, walk),
        telling=None if walk.telling is None else partial(step_each, multi, walk),
        join=partial(join_each, multi, walk),
        metrics=partial(mean_metrics, walk),
        diverged=partial(any_diverged, walk),
        recover=partial(recover_each, multi, walk),
        rows=None if walk.rows is None else partial(most_rows, multi, walk.rows),
        enter=partial(enter_each, walk)
        if walk.interleaved is None
        else partial(interleave, multi, walk, walk.interleaved),
        leave=partial(deinterleave, walk.interleaved),
        resize=None if walk.resize is None else partial(resize_each, multi, walk.resize),
    )


def step_each(
    multi: Models,
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    block: Block,
    tell: Tell = untold,
) -> States:
    """Carry every model over a block that still has rows to visit and has not converged."""
    models, alone = list(state.models), going_alone(multi, walk, state)
    still = [model for k, model in enumerate(models) if k not in {*state.interleaved, *alone}]
    together = together_with(walk, still, len(models))
    hear = untold if tell is untold else together.hear
    if state.interleaved:
        assert walk.interleaved is not None, "models go interleaved in walks that know how"
        chosen, tasks = state.interleaved, [multi.tasks[k] for k in state.interleaved]
        stepped = walk.interleaved.step(
            [task.problem(problem) for task in tasks], stats, [models[k] for k in chosen], state.W,
            block,
            [task.label for task in tasks], chosen, hear,
        )  # fmt: skip
        for k, model in zip(chosen, stepped, strict=True):
            models[k] = model
    for k in alone:
        task = multi.tasks[k]
        mine = as_model_sees(block, task, k, len(models))
        own = (task.problem(problem), stats, models[k], mine)
        models[k] = walk.step(*own) if walk.telling is None else walk.telling(*own, hear)
        if walk.row_state == "update":
            keep_numbers(block.row_state, k, mine.row_state)
    together.tell(tell)
    return state._replace(models=tuple(models))


def going_alone(multi: Models, walk: Walk, state: States) -> list[int]:
    """Return which models step beside those that go interleaved."""
    return [
        k
        for k, model in enumerate(state.models)
        if k not in state.interleaved
        and not (walk.rows is not None and walk.rows(model) <= 0)
        and not multi.is_converged(model)
    ]


def together_with(walk: Walk, still: list[State], models: int) -> ToldTogether:
    """Return who hears the losses of all models: of some that stand still what they had."""
    if walk.telling is None:
        return ToldTogether(models)
    had = [walk.metrics(model) for model in still]
    sums = [sum(one[name] for one in had) for name in ("n_monitored", "loss_sum")]
    return ToldTogether(models, *sums)


def enter_each(walk: Walk, state: States) -> States:
    """Copy every model's state as the walk of one would."""
    return state._replace(models=tuple(walk.enter(model) for model in state.models))


def interleave(multi: Models, walk: Walk, how: Interleaved, state: States) -> States:
    """Copy a state; models that have not converged go interleaved where that pays and they can.

    It pays for sparse rows, whose weights are (d, C) with the vectors side by side: for each value
    of a row, what it touches then lies in a few cache lines for all models together.
    """
    chosen = [k for k, model in enumerate(state.models) if not multi.is_converged(model)]
    going = [state.models[k] for k in chosen]
    if len(going) < 2 or not how.fits(going):
        return enter_each(walk, state)
    weights = [how.weights(model) for model in going]
    if not weights[0].flags.c_contiguous:
        return enter_each(walk, state)
    models = list(state.models)
    for k, model in enumerate(models):
        models[k] = copy_state(how.with_weights(model, EMPTY) if k in chosen else model)
    return States(tuple(models), tuple(chosen), pack(weights))


def deinterleave(how: Interleaved | None, state: States) -> States:
    """Give models that went interleaved their own weights back, where they lay side by side."""
    models = list(state.models)
    if state.interleaved:
        assert how is not None, "models go interleaved in walks that know how"
        apart = taken_apart(state.W, len(state.interleaved))
        for k, W in zip(state.interleaved, apart, strict=True):
            models[k] = how.with_weights(models[k], W)
    return States(tuple(models))


def join_each(
    multi: Models, walk: Walk, problem: Problem, stats: ProblemStats, states: list[States]
) -> States:
    """Join every model's streams."""
    models = []
    for task, *streams in zip(multi.tasks, *(state.models for state in states), strict=True):
        converged = multi.is_converged(streams[0])
        joined = streams[0] if converged else walk.join(task.problem(problem), stats, streams)
        models.append(joined)
    return States(tuple(models))


def mean_metrics(walk: Walk, state: States) -> dict[str, float]:
    """Return the means over the models."""
    each = [walk.metrics(model) for model in state.models]
    return {name: float(np.mean([metrics[name] for metrics in each])) for name in each[0]}


def any_diverged(walk: Walk, state: States) -> bool:
    """Say whether any model has: all begin again then, in step with each other."""
    return any(walk.diverged(model) for model in state.models)


def recover_each(
    multi: Models, walk: Walk, problem: Problem, stats: ProblemStats, state: States
) -> States:
    """Let all models begin again, those that diverged with smaller steps.

    A step that was shortened stays so: what one model loses gives no other its long step back.
    """
    each = zip(multi.tasks, state.models, strict=True)
    return States(tuple(walk.recover(task.problem(problem), stats, model) for task, model in each))


def resize_each(
    multi: Models, resize: Callable[..., State], problem: Problem, state: States, d: int,
    moments: ColumnMoments | None,
) -> States:  # fmt: skip
    """Give every model's state d columns and these moments."""
    each = zip(multi.tasks, state.models, strict=True)
    models = tuple(resize(task.problem(problem), model, d, moments) for task, model in each)
    return state._replace(models=models)


def most_rows(multi: Models, rows: Callable[[State], int], state: States) -> int:
    """Return how many rows the model with the longest way wants."""
    return max((rows(m) for m in state.models if not multi.is_converged(m)), default=0)


# -- reductions ----------------------------------------------------------------------------------


def sum_each(what: Sum, tasks: Tasks) -> Sum:
    """Make a sum for one model one for all, taken at a tuple: None of models left out.

    Its parts are tuples, too.
    """
    add = partial(add_each, what, tasks)
    return what._replace(
        zero=partial(zero_each, what), add=add, telling=None if what.telling is None else add
    )


def zero_each(what: Sum, at: tuple[Any, ...]) -> tuple[Part, ...]:
    """Return every model's sum over no rows."""
    return tuple(() if own is None else what.zero(own) for own in at)


def add_each(
    what: Sum,
    tasks: Tasks,
    problem: Problem,
    at: tuple[Any, ...],
    block: Block,
    parts: tuple[Part, ...],
    tell: Tell = untold,
    every: int = 0,
) -> tuple[Part, ...]:
    """Add a block to every model's sum."""
    added, together = list(parts), ToldTogether(len(at))
    telling = what.telling if tell is not untold else None
    for k, (task, own) in enumerate(zip(tasks, at, strict=True)):
        if own is not None:
            mine = as_model_sees(block, task, k, len(at))
            given = (task.problem(problem), own, mine, parts[k])
            added[k] = telling(*given, together.hear, every) if telling else what.add(*given)
            if what.row_state == "write":
                keep_numbers(block.row_state, k, mine.row_state)
    together.tell(tell)
    return tuple(added)


def reduce_each(multi: Models, reduce: Reduce) -> Reduce:
    """Make a reduction of one model one of all."""
    return Reduce(
        sum_each(reduce.sum, multi.tasks),
        partial(at_each, multi, reduce.at),
        partial(absorb_each, multi, reduce),
    )


def at_each(multi: Models, at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return what every model's sum is taken at."""
    return tuple(None if multi.is_converged(model) else at(model) for model in state.models)


def absorb_each(
    multi: Models,
    reduce: Reduce,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    total: tuple[Part, ...],
    sweep: int,
) -> States:
    """Give every model its sum; what has converged has none, and follows the numbers per row."""
    models = []
    for task, model, part in zip(multi.tasks, state.models, total, strict=True):
        if not multi.is_converged(model):
            models.append(reduce.absorb(task.problem(problem), stats, model, part, sweep))
        else:
            written = reduce.sum.row_state == "write"
            models.append(with_row_version(model, sweep) if written else model)
    return States(tuple(models))
