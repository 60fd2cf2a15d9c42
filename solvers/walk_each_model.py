"""A walk of one model turned into one of several: methods are written for one model only."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from fewpass.solvers.kernels.rows import lies_for_sparse_rows
from fewpass.solvers.kernels.simd.interleaved import pack, unpacked
from fewpass.solvers.kernels.simd.lanes import Eight
from fewpass.solvers.loss_monitor import MeanLosses, ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    ENDLESS,
    Block,
    ColumnMoments,
    Interleaved,
    JoinByPairs,
    Part,
    ProblemStats,
    State,
    Walk,
    copy_state,
)
from fewpass.solvers.tasks import EMPTY, Models, States, as_model_sees, keep_numbers


def walk_each(multi: Models, walk: Walk) -> Walk:
    """Turn a walk of one model into a walk of all models."""
    return walk._replace(
        step=partial(step_each, multi, walk),
        telling=None if walk.telling is None else partial(step_each, multi, walk),
        join=partial(join_each, multi, walk),
        metrics=partial(mean_metrics, multi, walk),
        diverged=partial(any_diverged, walk),
        recover=partial(recover_each, multi, walk),
        rows=None if walk.rows is None else partial(most_rows, multi, walk.rows),
        enter=partial(enter_each, walk)
        if walk.interleaved is None
        else partial(interleave, multi, walk, walk.interleaved),
        leave=partial(deinterleave, walk.interleaved),
        only_copied=partial(stays_apart, multi, walk),
        resize=None if walk.resize is None else partial(resize_each, multi, walk.resize),
        skips=None if walk.skips is None else partial(all_skip, walk.skips),
        pairs=None if walk.pairs is None else pairs_each(multi, walk.pairs),
        merge=None if walk.merge is None else pairs_each(multi, walk.merge),
    )


def all_skip(skips: Callable[[State], bool], state: States) -> bool:
    """Whether no model needs a walk."""
    return all(skips(model) for model in state.models)


def step_each(
    multi: Models,
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    block: Block,
    report: ReportLosses = ignore_losses,
) -> States:
    """Step every model over a block, except models that have converged or have no rows left."""
    to_look = rows_to_look(multi, walk, stats, state)
    if to_look < len(block.order):
        if to_look:
            first = block._replace(order=block.order[:to_look])
            state = step_each(multi, walk, problem, stats, state, first, report)
            block = block._replace(order=block.order[to_look:])
        state = with_best_lam(multi, walk, state)
    models, alone = list(state.models), going_alone(multi, walk, state)
    going = [k for k, model in enumerate(models) if not has_left(multi, walk, model)]
    still = [models[k] for k in going if k not in {*state.interleaved, *alone}]
    together = together_with(walk, still, len(going))
    report_mean = ignore_losses if report is ignore_losses else together.add
    if state.interleaved:
        assert walk.interleaved is not None, "only walks with `interleaved` have interleaved models"
        chosen, tasks = state.interleaved, [multi.tasks[k] for k in state.interleaved]
        stepped = walk.interleaved.step(
            [task.problem(problem) for task in tasks], stats, [models[k] for k in chosen], state.W,
            block,
            [task.label for task in tasks], chosen, report_mean,
        )  # fmt: skip
        for k, model in zip(chosen, stepped, strict=True):
            models[k] = model
    for k in alone:
        task = multi.tasks[k]
        mine = as_model_sees(block, task, k, len(models))
        own = (task.problem(problem), stats, models[k], mine)
        models[k] = walk.step(*own) if walk.telling is None else walk.telling(*own, report_mean)
        if walk.row_state == "update":
            keep_numbers(block.row_state, k, mine.row_state)
    together.report(report)
    return state._replace(models=tuple(models))


def rows_to_look(multi: Models, walk: Walk, stats: ProblemStats, state: States) -> int:
    """Return how many more rows are visited before the best lam goes on alone; or ENDLESS.

    Rows are counted from the beginning of the pass: no cut of them into blocks changes a bit.
    """
    rivalry = walk.rivalry
    if rivalry is None or not multi.rivals or any(map(rivalry.has_left, state.models)):
        return ENDLESS
    return rivalry.rows_to_look(stats, state.models[0])


def with_best_lam(multi: Models, walk: Walk, state: States) -> States:
    """Return the state with the models of all lam but the best one, by their mean loss, left.

    All stay where it is too early to tell.
    """
    rivalry, were_interleaved = walk.rivalry, bool(state.interleaved)
    assert rivalry is not None, "rows are counted until this moment"
    state, losses = deinterleave(walk.interleaved, state), dict[float, list[float]]()
    for task, model in zip(multi.tasks, state.models, strict=True):
        losses.setdefault(task.lam, []).append(rivalry.loss(model))
    if not rivalry.is_early(state.models[0]):
        best = min(losses, key=lambda lam: (np.mean(losses[lam]), -lam))
        state = States(tuple(
            model if task.lam == best else rivalry.leave(model)
            for task, model in zip(multi.tasks, state.models, strict=True)
        ))  # fmt: skip
    how = walk.interleaved
    if how is not None and to_interleave(multi, walk, how, state):
        return interleave(multi, walk, how, state)
    return enter_each(walk, state) if were_interleaved else state


def has_left(multi: Models, walk: Walk, model: State) -> bool:
    """Whether a model has left the pass to that of another lam."""
    return multi.rivals and walk.rivalry is not None and walk.rivalry.has_left(model)


def is_idle(multi: Models, walk: Walk, k: int, model: State) -> bool:
    """Whether model k takes no more steps."""
    return multi.is_converged(k, model) or has_left(multi, walk, model)


def going_alone(multi: Models, walk: Walk, state: States) -> list[int]:
    """Return the models that are stepped one by one, next to the interleaved ones."""
    return [
        k
        for k, model in enumerate(state.models)
        if k not in state.interleaved
        and not (walk.rows is not None and walk.rows(model) <= 0)
        and not is_idle(multi, walk, k, model)
    ]


def together_with(walk: Walk, still: list[State], models: int) -> MeanLosses:
    """Return the collector of all models' losses; idle models count with their last ones."""
    if walk.telling is None:
        return MeanLosses(models)
    had = [walk.metrics(model) for model in still]
    sums = [sum(one[name] for one in had) for name in ("n_monitored", "loss_sum")]
    return MeanLosses(models, *sums)


def enter_each(walk: Walk, state: States) -> States:
    """Copy every model's state, as the walk of one model does."""
    return state._replace(models=tuple(walk.enter(model) for model in state.models))


def interleave(multi: Models, walk: Walk, how: Interleaved, state: States) -> States:
    """Copy a state, and interleave the models that `to_interleave` names."""
    chosen = to_interleave(multi, walk, how, state)
    if not chosen:
        return enter_each(walk, state)
    models = list(state.models)
    for k, model in enumerate(models):
        own = k in chosen
        models[k] = copy_state(how.with_weights(model, EMPTY)) if own else walk.enter(model)
    return States(
        tuple(models), tuple(chosen), pack([how.weights(state.models[k]) for k in chosen])
    )


def stays_apart(multi: Models, walk: Walk, state: States) -> bool:
    """Whether no models are interleaved."""
    return walk.interleaved is None or not to_interleave(multi, walk, walk.interleaved, state)


def to_interleave(multi: Models, walk: Walk, how: Interleaved, state: States) -> list[int]:
    """Return the models that have not converged, where they are faster interleaved; else none.

    They are faster for sparse rows, whose weights are (d, C) with the vectors side by side: the
    weights that one value of a row touches then lie in a few cache lines for all models.  Those of
    a single column lie alike for dense and sparse rows, and are left alone.  So are the few models
    of a last group that is mostly padding.
    """
    chosen = [k for k, model in enumerate(state.models) if not is_idle(multi, walk, k, model)]
    chosen = chosen[: filled(len(chosen), how.alone)]
    going = [state.models[k] for k in chosen]
    if len(going) < 2 or multi.has_folds or not how.fits(going):
        return []
    return chosen if lies_for_sparse_rows(how.weights(going[0])) else []


def filled(models: int, alone: int) -> int:
    """Return how many of these models are interleaved: not the `alone` or fewer of a last group."""
    whole, left = divmod(models, Eight().width)
    return models - left if whole and left <= alone else models


def deinterleave(how: Interleaved | None, state: States) -> States:
    """Copy the weights of interleaved models back into their own states."""
    models = list(state.models)
    if state.interleaved:
        assert how is not None, "only walks with `interleaved` have interleaved models"
        weights = unpacked(state.W, len(state.interleaved))
        for k, W in zip(state.interleaved, weights, strict=True):
            models[k] = how.with_weights(models[k], W)
    return States(tuple(models))


def join_each(
    multi: Models, walk: Walk, problem: Problem, stats: ProblemStats, states: list[States]
) -> States:
    """Join the streams of every model."""
    models = []
    own_streams = zip(*(state.models for state in states), strict=True)
    for k, (task, streams) in enumerate(zip(multi.tasks, own_streams, strict=True)):
        converged = multi.is_converged(k, streams[0])
        joined = streams[0] if converged else walk.join(task.problem(problem), stats, [*streams])
        models.append(joined)
    return States(tuple(models))


def pairs_each(multi: Models, pairs: JoinByPairs) -> JoinByPairs:
    """Turn the join of one model's streams by pairs into that of all models' streams."""
    return JoinByPairs(partial(part_each, multi, pairs), partial(end_each, multi, pairs))


def part_each(
    multi: Models, pairs: JoinByPairs, problem: Problem, stats: ProblemStats, state: States
) -> tuple[Part, ...]:
    """Return what a stream's models add to a join; nothing of those that have converged."""
    return tuple(
        () if multi.is_converged(k, model) else pairs.part(task.problem(problem), stats, model)
        for k, (task, model) in enumerate(zip(multi.tasks, state.models, strict=True))
    )


def end_each(
    multi: Models,
    pairs: JoinByPairs,
    problem: Problem,
    stats: ProblemStats,
    first: States,
    total: tuple[Part, ...],
    streams: int,
) -> States:
    """Join the streams of every model by the sums of their parts."""
    each = zip(multi.tasks, first.models, total, strict=True)
    return States(tuple(
        model if part == () else pairs.end(task.problem(problem), stats, model, part, streams)
        for task, model, part in each
    ))  # fmt: skip


def mean_metrics(multi: Models, walk: Walk, state: States) -> dict[str, float]:
    """Return the mean of each metric over the models that have not left the pass."""
    each = [walk.metrics(model) for model in state.models if not has_left(multi, walk, model)]
    return {name: float(np.mean([metrics[name] for metrics in each])) for name in each[0]}


def any_diverged(walk: Walk, state: States) -> bool:
    """Whether any model diverged: all models restart then, to stay in step."""
    return any(walk.diverged(model) for model in state.models)


def recover_each(
    multi: Models, walk: Walk, problem: Problem, stats: ProblemStats, state: States
) -> States:
    """Restart all models, those that diverged with smaller steps.

    A step size that was shortened stays short, also if another model diverges later.
    """
    each = zip(multi.tasks, state.models, strict=True)
    return States(tuple(walk.recover(task.problem(problem), stats, model) for task, model in each))


def resize_each(
    multi: Models, resize: Callable[..., State], problem: Problem, state: States, d: int,
    moments: ColumnMoments | None,
) -> States:  # fmt: skip
    """Resize every model's state to d columns with these moments."""
    each = zip(multi.tasks, state.models, strict=True)
    models = tuple(resize(task.problem(problem), model, d, moments) for task, model in each)
    return state._replace(models=models)


def most_rows(multi: Models, rows: Callable[[State], int], state: States) -> int:
    """Return the number of rows left for the model that has most."""
    going = (m for k, m in enumerate(state.models) if not multi.is_converged(k, m))
    return max(map(rows, going), default=0)
