"""Sweeps of one model made sweeps of several: the text of every method knows of one alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from solvers.kernels.simd.interleaved import pack, unpack
from solvers.losses import Problem
from solvers.models import EMPTY, Models, States, Tasks, as_model_sees, keep_numbers
from solvers.protocol import (
    Block,
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

# -- walks ------------------------------------------------------------------------------------


def walk_each(together: Models, walk: Walk) -> Walk:
    """Make a walk of one model one of all."""
    return walk._replace(
        step=partial(step_each, together, walk),
        telling=None,
        join=partial(join_each, together, walk),
        metrics=partial(mean_metrics, walk),
        diverged=partial(any_diverged, walk),
        recover=partial(recover_each, together, walk),
        rows=None if walk.rows is None else partial(most_rows, together, walk.rows),
        enter=partial(enter_each, walk)
        if walk.interleaved is None
        else partial(interleave, together, walk, walk.interleaved),
        leave=partial(part_ways, walk.interleaved),
    )


def step_each(
    together: Models,
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    block: Block,
) -> States:
    """Carry every model over a block that still has rows to visit and has not converged."""
    models = list(state.models)
    if state.interleaved:
        assert walk.interleaved is not None, "models go interleaved in walks that know how"
        chosen, views = state.interleaved, [together.views[k] for k in state.interleaved]
        stepped = walk.interleaved.step(
            [view.problem(problem) for view in views], stats, [models[k] for k in chosen], state.W,
            block,
            [view.label for view in views], chosen,
        )  # fmt: skip
        for k, model in zip(chosen, stepped, strict=True):
            models[k] = model
    for k, (view, model) in enumerate(zip(together.views, state.models, strict=True)):
        arrived = walk.rows is not None and walk.rows(model) <= 0
        if not arrived and k not in state.interleaved and not together.is_converged(model):
            mine = as_model_sees(block, view, k, len(models))
            models[k] = walk.step(view.problem(problem), stats, model, mine)
            if walk.row_state == "update":
                keep_numbers(block.row_state, k, mine.row_state)
    return state._replace(models=tuple(models))


def enter_each(walk: Walk, state: States) -> States:
    """Copy every model's state as the walk of one would."""
    return state._replace(models=tuple(walk.enter(model) for model in state.models))


def interleave(together: Models, walk: Walk, how: Interleaved, state: States) -> States:
    """Copy a state; models that have not converged go interleaved where that pays and they can.

    It pays for sparse rows, whose weights are (d, C) with the vectors side by side: for each value
    of a row, what it touches then lies in a few cache lines for all models together.
    """
    chosen = [k for k, model in enumerate(state.models) if not together.is_converged(model)]
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


def part_ways(how: Interleaved | None, state: States) -> States:
    """Give models that went interleaved their own weights back."""
    models = list(state.models)
    if state.interleaved:
        assert how is not None, "models go interleaved in walks that know how"
        for k, W in zip(state.interleaved, unpack(state.W, len(state.interleaved)), strict=True):
            models[k] = how.with_weights(models[k], W)
    return States(tuple(models))


def join_each(
    together: Models, walk: Walk, problem: Problem, stats: ProblemStats, states: list[States]
) -> States:
    """Join every model's streams."""
    models = []
    for view, *streams in zip(together.views, *(state.models for state in states), strict=True):
        converged = together.is_converged(streams[0])
        joined = streams[0] if converged else walk.join(view.problem(problem), stats, streams)
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
    together: Models, walk: Walk, problem: Problem, stats: ProblemStats, state: States
) -> States:
    """Let the models that diverged recover; the others begin as they did, with what they found.

    A step that was shortened stays so: what one model loses gives no other its long step back.
    """
    models = []
    for view, model in zip(together.views, state.models, strict=True):
        own = view.problem(problem)
        if walk.diverged(model):
            models.append(walk.recover(own, stats, model))
        elif walk.again is not None:
            models.append(walk.again(own, stats, model))
        else:
            models.append(together.solver.init(own, stats))
    return States(tuple(models))


def most_rows(together: Models, rows: Callable[[State], int], state: States) -> int:
    """Return how many rows the model with the longest way wants."""
    return max((rows(m) for m in state.models if not together.is_converged(m)), default=0)


# -- reductions ----------------------------------------------------------------------------------


def sum_each(what: Sum, views: Tasks) -> Sum:
    """Make a sum for one model one for all, taken at a tuple: None of models left out.

    Its parts are tuples, too.
    """
    return what._replace(zero=partial(zero_each, what), add=partial(add_each, what, views))


def zero_each(what: Sum, at: tuple[Any, ...]) -> tuple[Part, ...]:
    """Return every model's sum over no rows."""
    return tuple(() if own is None else what.zero(own) for own in at)


def add_each(
    what: Sum,
    views: Tasks,
    problem: Problem,
    at: tuple[Any, ...],
    block: Block,
    parts: tuple[Part, ...],
) -> tuple[Part, ...]:
    """Add a block to every model's sum."""
    added = list(parts)
    for k, (view, own) in enumerate(zip(views, at, strict=True)):
        if own is not None:
            mine = as_model_sees(block, view, k, len(at))
            added[k] = what.add(view.problem(problem), own, mine, parts[k])
            if what.row_state == "write":
                keep_numbers(block.row_state, k, mine.row_state)
    return tuple(added)


def reduce_each(together: Models, reduce: Reduce) -> Reduce:
    """Make a reduction of one model one of all."""
    return Reduce(
        sum_each(reduce.sum, together.views),
        partial(at_each, together, reduce.at),
        partial(absorb_each, together, reduce),
    )


def at_each(together: Models, at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return what every model's sum is taken at."""
    return tuple(None if together.is_converged(model) else at(model) for model in state.models)


def absorb_each(
    together: Models,
    reduce: Reduce,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    total: tuple[Part, ...],
    sweep: int,
) -> States:
    """Give every model its sum; what has converged has none, and follows the numbers per row."""
    models = []
    for view, model, part in zip(together.views, state.models, total, strict=True):
        if not together.is_converged(model):
            models.append(reduce.absorb(view.problem(problem), stats, model, part, sweep))
        else:
            written = reduce.sum.row_state == "write"
            models.append(with_row_version(model, sweep) if written else model)
    return States(tuple(models))
