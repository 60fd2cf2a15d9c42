"""Sweeps of one model turned into sweeps of several: methods are written for one model only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from fewpass.solvers.kernels.lanes import Eight
from fewpass.solvers.kernels.rows import lies_for_sparse_rows
from fewpass.solvers.kernels.simd.interleaved import pack, unpacked
from fewpass.solvers.loss_monitor import MeanLosses, ReportLosses, ignore_losses
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    ENDLESS,
    Block,
    ColumnMoments,
    JoinByPairs,
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


def walk_each(multi: Models, walk: Walk) -> Walk:
    """Turn a walk of one model into a walk of all models."""
    each = _WalkOfEach(multi, walk)
    return walk._replace(
        step=each.step, join=each.join, metrics=each.metrics,
        diverged=each.diverged, recover=each.recover, rows=walk.rows and each.rows,
        enter=each.enter, leave=each.leave, only_copied=each.stay_apart,
        resize=walk.resize and each.resize, skips=walk.skips and each.all_skip,
        pairs=each.pairs(walk.pairs), merge=each.pairs(walk.merge),
    )  # fmt: skip


@dataclass(frozen=True)
class _WalkOfEach:
    """The functions of a walk, for the states of all models."""

    multi: Models
    walk: Walk

    def _each(self, problem: Problem, *states: States) -> Iterator[tuple[Any, ...]]:
        """Yield of every model its problem, whether it has converged, and its states."""
        models = zip(*(state.models for state in states), strict=True)
        for k, (task, own) in enumerate(zip(self.multi.tasks, models, strict=True)):
            yield task.problem(problem), self.multi.is_converged(k, own[0]), own

    def step(
        self, problem: Problem, stats: ProblemStats, state: States, block: Block,
        report: ReportLosses = ignore_losses,
    ) -> States:  # fmt: skip
        """Step every model over a block, except those that have converged or have no rows left."""
        to_look = self._rows_to_look(stats, state)
        if to_look < len(block.order):
            if to_look:
                first = block._replace(order=block.order[:to_look])
                state = self.step(problem, stats, state, first, report)
                block = block._replace(order=block.order[to_look:])
            state = self._with_best_lam(state)
        models, alone = list(state.models), self._going_alone(state)
        going = [k for k, model in enumerate(models) if not self._has_left(model)]
        still = [models[k] for k in going if k not in {*state.interleaved, *alone}]
        together = self._together_with(still, len(going))
        report_mean = ignore_losses if report is ignore_losses else together.add
        if state.interleaved:
            how, chosen = self.walk.interleaved, state.interleaved
            assert how is not None, "only walks with `interleaved` have interleaved models"
            tasks = [self.multi.tasks[k] for k in chosen]
            stepped = how.step(
                [task.problem(problem) for task in tasks], stats, [models[k] for k in chosen],
                state.W, block, [task.label for task in tasks], chosen, report_mean,
            )  # fmt: skip
            for k, model in zip(chosen, stepped, strict=True):
                models[k] = model
        for k in alone:
            task, walk = self.multi.tasks[k], self.walk
            mine = as_model_sees(block, task, k, len(models))
            own = (task.problem(problem), stats, models[k], mine)
            models[k] = walk.step(*own, report_mean) if walk.reports else walk.step(*own)
            if walk.row_state == "update":
                keep_numbers(block.row_state, k, mine.row_state)
        together.report(report)
        return state._replace(models=tuple(models))

    def _rows_to_look(self, stats: ProblemStats, state: States) -> int:
        """Return how many more rows are visited before the best lam goes on alone; or ENDLESS.

        Rows are counted from the beginning of the pass: no cut of them into blocks changes a bit.
        """
        rivalry = self.walk.rivalry
        if rivalry is None or not self.multi.rivals or any(map(rivalry.has_left, state.models)):
            return ENDLESS
        return rivalry.rows_to_look(stats, state.models[0])

    def _with_best_lam(self, state: States) -> States:
        """Return the state with the models of all lam but the best one, by their mean loss, left.

        All stay where it is too early to tell.
        """
        rivalry, were_interleaved = self.walk.rivalry, bool(state.interleaved)
        assert rivalry is not None, "rows are counted until this moment"
        state, losses = self.leave(state), dict[float, list[float]]()
        for task, model in zip(self.multi.tasks, state.models, strict=True):
            losses.setdefault(task.lam, []).append(rivalry.loss(model))
        if not rivalry.is_early(state.models[0]):
            best = min(losses, key=lambda lam: (np.mean(losses[lam]), -lam))
            state = States(tuple(
                model if task.lam == best else rivalry.leave(model)
                for task, model in zip(self.multi.tasks, state.models, strict=True)
            ))  # fmt: skip
        return self.enter(state) if were_interleaved or self._to_interleave(state) else state

    def _has_left(self, model: State) -> bool:
        """Return whether a model has left the pass to that of another lam."""
        rivalry = self.walk.rivalry
        return self.multi.rivals and rivalry is not None and rivalry.has_left(model)

    def _is_idle(self, k: int, model: State) -> bool:
        """Return whether model k takes no more steps."""
        return self.multi.is_converged(k, model) or self._has_left(model)

    def _going_alone(self, state: States) -> list[int]:
        """Return the models that are stepped one by one, next to the interleaved ones."""
        rows = self.walk.rows
        return [
            k
            for k, model in enumerate(state.models)
            if k not in state.interleaved
            and not (rows is not None and rows(model) <= 0)
            and not self._is_idle(k, model)
        ]

    def _together_with(self, still: list[State], models: int) -> MeanLosses:
        """Return the collector of all models' losses; idle models count with their last ones."""
        if not self.walk.reports:
            return MeanLosses(models)
        had = [self.walk.metrics(model) for model in still]
        sums = [sum(one[name] for one in had) for name in ("n_monitored", "loss_sum")]
        return MeanLosses(models, *sums)

    def enter(self, state: States) -> States:
        """Copy every model's state, and interleave the models that `_to_interleave` names."""
        how, chosen = self.walk.interleaved, self._to_interleave(state)
        if how is None or not chosen:
            return state._replace(models=tuple(map(self.walk.enter, state.models)))
        models = tuple(
            copy_state(how.with_weights(model, EMPTY)) if k in chosen else self.walk.enter(model)
            for k, model in enumerate(state.models)
        )
        W = pack([how.weights(state.models[k]) for k in chosen])
        return States(models, tuple(chosen), W)

    def leave(self, state: States) -> States:
        """Copy the weights of interleaved models back into their own states."""
        models, how = list(state.models), self.walk.interleaved
        if state.interleaved:
            assert how is not None, "only walks with `interleaved` have interleaved models"
            weights = unpacked(state.W, len(state.interleaved))
            for k, W in zip(state.interleaved, weights, strict=True):
                models[k] = how.with_weights(models[k], W)
        return States(tuple(models))

    def stay_apart(self, state: States) -> bool:
        """Return whether no models are interleaved."""
        return not self._to_interleave(state)

    def _to_interleave(self, state: States) -> list[int]:
        """Return the models that have not converged, where they are faster interleaved; else none.

        They are faster for sparse rows, whose weights are (d, C) with the vectors side by side: the
        weights that one value of a row touches then lie in a few cache lines for all models.  Those
        of a single column lie alike for dense and sparse rows, and are left alone.  So are the few
        models of a last group that is mostly padding.
        """
        how = self.walk.interleaved
        if how is None or self.multi.has_folds:
            return []
        chosen = [k for k, model in enumerate(state.models) if not self._is_idle(k, model)]
        chosen = chosen[: filled(len(chosen), how.alone)]
        going = [state.models[k] for k in chosen]
        if len(going) < 2 or not how.fits(going):
            return []
        return chosen if lies_for_sparse_rows(how.weights(going[0])) else []

    def join(self, problem: Problem, stats: ProblemStats, states: list[States]) -> States:
        """Join the streams of every model."""
        return States(tuple(
            streams[0] if converged else self.walk.join(own, stats, [*streams])
            for own, converged, streams in self._each(problem, *states)
        ))  # fmt: skip

    def pairs(self, one: JoinByPairs | None) -> JoinByPairs | None:
        """Return the sum of all models' streams, where those of one model are joined by a sum."""
        if one is None:
            return None
        each = partial(each_model, one.copied)
        return JoinByPairs(partial(self.part, one), partial(self.end, one), each)

    def part(
        self, one: JoinByPairs, problem: Problem, stats: ProblemStats, state: States
    ) -> tuple[Part, ...]:
        """Return what a stream's models add to a sum; nothing of those that have converged."""
        return tuple(
            () if converged else one.part(own, stats, model)
            for own, converged, (model,) in self._each(problem, state)
        )

    def end(
        self, one: JoinByPairs, problem: Problem, stats: ProblemStats, first: States,
        total: tuple[Part, ...], streams: int,
    ) -> States:  # fmt: skip
        """Join the streams of every model by the sums of their parts."""
        each = zip(self._each(problem, first), total, strict=True)
        return States(tuple(
            model if part == () else one.end(own, stats, model, part, streams)
            for (own, _, (model,)), part in each
        ))  # fmt: skip

    def metrics(self, state: States) -> dict[str, float]:
        """Return the mean of each metric over the models that have not left the pass."""
        each = [self.walk.metrics(model) for model in state.models if not self._has_left(model)]
        return {name: float(np.mean([metrics[name] for metrics in each])) for name in each[0]}

    def diverged(self, state: States) -> bool:
        """Return whether any model diverged: all models restart then, to stay in step."""
        return any(map(self.walk.diverged, state.models))

    def recover(self, problem: Problem, stats: ProblemStats, state: States) -> States:
        """Restart all models, those that diverged with smaller steps.

        A step size that was shortened stays short, also if another model diverges later.
        """
        each = self._each(problem, state)
        return States(tuple(self.walk.recover(own, stats, model) for own, _, (model,) in each))

    def resize(
        self, problem: Problem, state: States, d: int, moments: ColumnMoments | None
    ) -> States:
        """Resize every model's state to d columns with these moments."""
        assert self.walk.resize is not None, "this walk takes new columns"
        each = self._each(problem, state)
        models = (self.walk.resize(own, model, d, moments) for own, _, (model,) in each)
        return state._replace(models=tuple(models))

    def rows(self, state: States) -> int:
        """Return the number of rows left for the model that has most."""
        assert self.walk.rows is not None, "this walk counts rows"
        going = (m for k, m in enumerate(state.models) if not self.multi.is_converged(k, m))
        return max(map(self.walk.rows, going), default=0)

    def all_skip(self, state: States) -> bool:
        """Return whether no model needs a walk."""
        assert self.walk.skips is not None, "this walk may be left out"
        return all(map(self.walk.skips, state.models))


def each_model(copied: Callable[[State], State], state: States) -> States:
    """Copy the states of models that are stepped one by one."""
    return state._replace(models=tuple(map(copied, state.models)))


def filled(models: int, alone: int) -> int:
    """Return how many of these models are interleaved: not the `alone` or fewer of a last group."""
    whole, left = divmod(models, Eight().width)
    return models - left if whole and left <= alone else models


def reduce_each(multi: Models, reduce: Reduce) -> Reduce:
    """Turn a reduction of one model into a reduction of all models."""
    return Reduce(
        sum_each(reduce.sum, multi.tasks),
        partial(_points, multi, reduce.at),
        partial(_absorb, multi, reduce),
    )


def sum_each(what: Sum, tasks: Tasks) -> Sum:
    """Turn a sum for one model into a sum for all, evaluated at a tuple with one entry per model.

    The entry is None for a model that is left out.  Parts are tuples, too.
    """
    return what._replace(zero=partial(_zeros, what), add=partial(_add, what, tasks))


def _zeros(what: Sum, at: tuple[Any, ...]) -> tuple[Part, ...]:
    return tuple(() if own is None else what.zero(own) for own in at)


def _add(
    what: Sum, tasks: Tasks, problem: Problem, at: tuple[Any, ...], block: Block,
    parts: tuple[Part, ...], report: ReportLosses = ignore_losses, every: int = 0,
) -> tuple[Part, ...]:  # fmt: skip
    """Add a block to the sum of every model."""
    added, together = list(parts), MeanLosses(len(at))
    reports = what.reports and report is not ignore_losses
    for k, (task, own) in enumerate(zip(tasks, at, strict=True)):
        if own is not None:
            mine = as_model_sees(block, task, k, len(at))
            given = (task.problem(problem), own, mine, parts[k])
            added[k] = what.add(*given, together.add, every) if reports else what.add(*given)
            if what.row_state == "write":
                keep_numbers(block.row_state, k, mine.row_state)
    together.report(report)
    return tuple(added)


def _points(multi: Models, at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return the points at which the models' sums are evaluated."""
    return tuple(
        None if multi.is_converged(k, model) else at(model) for k, model in enumerate(state.models)
    )


def _absorb(
    multi: Models, reduce: Reduce, problem: Problem, stats: ProblemStats, state: States,
    total: tuple[Part, ...], sweep: int,
) -> States:  # fmt: skip
    """Pass every model its sum; a converged model only takes the new version of its row numbers."""
    models = list(state.models)
    for k, (task, part) in enumerate(zip(multi.tasks, total, strict=True)):
        if not multi.is_converged(k, models[k]):
            models[k] = reduce.absorb(task.problem(problem), stats, models[k], part, sweep)
        elif reduce.sum.row_state == "write":
            models[k] = with_row_version(models[k], sweep)
    return States(tuple(models))
