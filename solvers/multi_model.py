"""Several models of one method, trained in the same passes: of several classes, of several lam.

    for each window of rows
        for each model k
            state_k <- step(problem, state_k, the window as model k sees it)

Rows are read, checked, decoded and permuted once for all models, and every model's state is the
one that it would have had alone, bit for bit.  A window's rows are gone over once per model: the
weights of one model stay in the processor's cache meanwhile.

A `MultiModel` is a Solver like any other, made of one.  Numbers kept per row lie model after model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.gradient import GRADIENT, GradientPart, certificate
from solvers.kernels.rows import SparseRows
from solvers.kernels.simd.interleaved import apart, beside, lanes_taken
from solvers.losses import Problem
from solvers.protocol import (
    Block,
    Certificate,
    ChosenLearner,
    ColumnMoments,
    ExpectedPasses,
    Goal,
    Interleaved,
    Part,
    ProblemStats,
    Reduce,
    Solver,
    State,
    Sum,
    Sweep,
    Walk,
    Weights,
    as_sides,
    copy_state,
    same,
    with_row_version,
)

EMPTY = np.empty((0, 0))


class States(NamedTuple):
    """The state of every model.

    Inside a walk some may go interleaved: their weights then lie side by side in W
    (interleaved.py), and their own field W is empty.
    """

    models: tuple[State, ...]
    interleaved: tuple[int, ...] = ()
    W: NDArray[np.float64] = EMPTY


class Task(NamedTuple):
    """What one model sees of the problem and of the targets."""

    label: int = -1  # the class that it tells from the rest; -1: targets are taken as they are
    lam: float = 0.0  # its strength of regularisation; 0: the problem's

    def problem(self, problem: Problem) -> Problem:
        """Return the problem with the model's own strength, the intercept's in proportion."""
        if self.lam == 0.0:
            return problem
        return problem._replace(lam=self.lam, lam_b=problem.lam_b / problem.lam * self.lam)

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return class `label` as +1 and all others as -1, or y itself."""
        return as_sides(y, self.label)


Tasks = tuple[Task, ...]


@dataclass(frozen=True)
class MultiModel:
    """A model per view."""

    solver: Solver
    views: Tasks
    tol: float | None = None  # a model whose certificate is at most this is left as it is

    @property
    def kind(self) -> str:
        """Return the method's own word."""
        return self.solver.kind

    @property
    def states(self) -> tuple[type, ...]:
        """Return the types that a model's states have."""
        return self.solver.states

    @property
    def goal(self) -> Goal:
        """Return the method's own goal."""
        return self.solver.goal

    @property
    def certify_pass(self) -> Reduce | None:
        """Return the method's own audit, for all models."""
        return (
            None
            if self.solver.certify_pass is None
            else reduce_each(self, self.solver.certify_pass)
        )

    @property
    def warm_start_pass(self) -> Reduce | None:
        """Return the method's own opening, for all models."""
        return (
            None
            if self.solver.warm_start_pass is None
            else reduce_each(self, self.solver.warm_start_pass)
        )

    @property
    def warm_epoch(self) -> int:
        """Return the method's own."""
        return self.solver.warm_epoch

    def row_state_size(self, stats: ProblemStats) -> int:
        """Return how many numbers all models together keep per row."""
        return len(self.views) * self.solver.row_state_size(stats)

    def init(self, problem: Problem, stats: ProblemStats) -> States:
        """Return the states before the first row; ValueError when a setting does not fit."""
        return States(tuple(self.solver.init(v.problem(problem), stats) for v in self.views))

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> States:
        """Let every model begin at its own weights, at its class's, or all at the same."""
        coef, intercept = np.atleast_2d(weights.coef), np.atleast_1d(weights.intercept)
        models = []
        for k, view in enumerate(self.views):
            row = k if len(coef) == len(self.views) else max(view.label, 0)
            at = Weights(coef[row], float(intercept[row]))
            models.append(self.solver.start_at(view.problem(problem), stats, at, rows_before))
        return States(tuple(models))

    def taken_up(self, state: States, *, midway: bool) -> States:
        """Let every model that goes on take up what is its own."""
        models = [
            model if self.is_settled(model) else self.solver.taken_up(model, midway=midway)
            for model in state.models
        ]
        return state._replace(models=tuple(models))

    def widened(self, problem: Problem, state: States, d: int) -> States:
        """Widen every model's."""
        each = zip(self.views, state.models, strict=True)
        models = tuple(self.solver.widened(v.problem(problem), s, d) for v, s in each)
        return state._replace(models=models)

    def remeasured(self, state: States, moments: ColumnMoments) -> States:
        """Let every model know."""
        models = tuple(self.solver.remeasured(s, moments) for s in state.models)
        return state._replace(models=models)

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return what the arrays of all states take, filled-up lanes included."""
        in_lanes = stats.rows_kind is SparseRows and any(
            isinstance(sweep, Walk) and sweep.interleaved for sweep in self.solver.program(0)
        )
        models = lanes_taken(len(self.views)) if in_lanes else len(self.views)
        return models * self.solver.state_bytes(problem, stats)

    def expected_passes(self, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
        """Return what one model is expected to take."""
        return self.solver.expected_passes(problem, stats, tol)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the method's sweeps, each for all models."""
        sweeps = self.solver.program(epoch)
        return tuple(
            walk_each(self, sweep) if isinstance(sweep, Walk) else reduce_each(self, sweep)
            for sweep in sweeps
        )

    def weights(self, state: States) -> Weights:
        """Return coef (models, d) and intercept (models,)."""
        return stacked([self.solver.weights(s) for s in state.models])

    def certificate(self, state: States) -> Certificate | None:
        """Return what is proven of all models, None while something is missing of one."""
        return jointly([self.solver.certificate(s) for s in state.models])

    def learners(self, state: States) -> tuple[ChosenLearner, ...]:
        """Return every model's."""
        return tuple(one for model in state.models for one in self.solver.learners(model))

    def is_settled(self, model: State) -> bool:
        """Say whether a model needs no more; that changes only where a sweep ends."""
        certified = None if self.tol is None else self.solver.certificate(model)
        return certified is not None and certified.relative <= (self.tol or 0.0)


def stacked(weights: list[Weights]) -> Weights:
    """Put the weights of models on top of each other."""
    return Weights(np.array([w.coef for w in weights]), np.array([w.intercept for w in weights]))


def jointly(certificates: list[Certificate | None]) -> Certificate | None:
    """Return the mean objective and the largest gap, which holds for every model and their mean."""
    known = [found for found in certificates if found is not None]
    if len(known) < len(certificates):
        return None
    each = tuple((found.objective, found.gap) for found in known)
    objective = float(np.mean([found.objective for found in known]))
    return Certificate(objective, max(found.gap for found in known), each)


def as_model_sees(block: Block, view: Task, k: int, models: int) -> Block:
    """Return a block with the targets and the numbers per row of model k.

    These are copies: contiguous, as a model of its own would have them.
    """
    return block._replace(y=view.targets(block.y), row_state=numbers_of(block.row_state, k, models))


def numbers_of(row_state: NDArray[np.float64], k: int, models: int) -> NDArray[np.float64]:
    """Copy model k's share of numbers that are kept per row."""
    if row_state.shape[0] == 0:
        return row_state
    mine = row_state.reshape(row_state.shape[0], models, -1)[:, k]
    return mine[:, 0].copy() if mine.shape[1] == 1 else mine.copy()


def keep_numbers(row_state: NDArray[np.float64], k: int, mine: NDArray[np.float64]) -> None:
    """Write model k's numbers back."""
    n = row_state.shape[0]
    if n:
        own = mine.reshape(n, -1)
        row_state[:, k * own.shape[1] : (k + 1) * own.shape[1]] = own


# -- walks ------------------------------------------------------------------------------------


def walk_each(together: MultiModel, walk: Walk) -> Walk:
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
        else partial(interleave, together, walk.interleaved),
        leave=part_ways,
    )


def step_each(
    together: MultiModel,
    walk: Walk,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    block: Block,
) -> States:
    """Carry every model over a block that still has rows to visit and is not settled."""
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
        if not arrived and k not in state.interleaved and not together.is_settled(model):
            mine = as_model_sees(block, view, k, len(models))
            models[k] = walk.step(view.problem(problem), stats, model, mine)
            if walk.row_state == "update":
                keep_numbers(block.row_state, k, mine.row_state)
    return state._replace(models=tuple(models))


def enter_each(walk: Walk, state: States) -> States:
    """Copy every model's state as the walk of one would."""
    return state._replace(models=tuple(walk.enter(model) for model in state.models))


def interleave(together: MultiModel, how: Interleaved, state: States) -> States:
    """Copy a state; models that are not settled go interleaved where that pays and they can.

    It pays for sparse rows, whose weights are (d, C) with the vectors side by side: for each value
    of a row, what it touches then lies in a few cache lines for all models together.
    """
    chosen = [k for k, model in enumerate(state.models) if not together.is_settled(model)]
    going = [state.models[k] for k in chosen]
    if len(going) < 2 or not going[0].W.flags.c_contiguous or not how.fits(going):
        return States(tuple(copy_state(model) for model in state.models))
    models = list(state.models)
    for k, model in enumerate(models):
        models[k] = copy_state(model._replace(W=EMPTY) if k in chosen else model)
    return States(tuple(models), tuple(chosen), beside([model.W for model in going]))


def part_ways(state: States) -> States:
    """Give models that went interleaved their own weights back."""
    models = list(state.models)
    if state.interleaved:
        for k, W in zip(state.interleaved, apart(state.W, len(state.interleaved)), strict=True):
            models[k] = models[k]._replace(W=W)
    return States(tuple(models))


def join_each(
    together: MultiModel, walk: Walk, problem: Problem, stats: ProblemStats, states: list[States]
) -> States:
    """Join every model's streams."""
    models = []
    for view, *streams in zip(together.views, *(state.models for state in states), strict=True):
        settled = together.is_settled(streams[0])
        joined = streams[0] if settled else walk.join(view.problem(problem), stats, streams)
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
    together: MultiModel, walk: Walk, problem: Problem, stats: ProblemStats, state: States
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


def most_rows(together: MultiModel, rows: Callable[[State], int], state: States) -> int:
    """Return how many rows the model with the longest way wants."""
    return max((rows(m) for m in state.models if not together.is_settled(m)), default=0)


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


def reduce_each(together: MultiModel, reduce: Reduce) -> Reduce:
    """Make a reduction of one model one of all."""
    return Reduce(
        sum_each(reduce.sum, together.views),
        partial(at_each, together, reduce.at),
        partial(absorb_each, together, reduce),
    )


def at_each(together: MultiModel, at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return what every model's sum is taken at."""
    return tuple(None if together.is_settled(model) else at(model) for model in state.models)


def absorb_each(
    together: MultiModel,
    reduce: Reduce,
    problem: Problem,
    stats: ProblemStats,
    state: States,
    total: tuple[Part, ...],
    sweep: int,
) -> States:
    """Give every model its sum; what is settled has none, and follows the numbers per row."""
    models = []
    for view, model, part in zip(together.views, state.models, total, strict=True):
        if not together.is_settled(model):
            models.append(reduce.absorb(view.problem(problem), stats, model, part, sweep))
        else:
            written = reduce.sum.row_state == "write"
            models.append(with_row_version(model, sweep) if written else model)
    return States(tuple(models))


# -- the gradient's certificate, for methods that have none of their own ------------------------


class Appraisal(NamedTuple):
    """A reduction that certifies the weights of any state."""

    sum: Sum
    at: Callable[[State], Any]
    prove: Callable[[Problem, Any, Any], Certificate]
    at_weights: Callable[[Weights], Any]  # the same of weights (d,), or (K, d) of several models


def appraisal(solver: Solver) -> Appraisal:
    """Return how the gradient certifies a method's newest weights."""
    if not isinstance(solver, MultiModel):
        return Appraisal(GRADIENT, solver.weights, certificate, same)
    at = partial(weights_each, solver.solver)
    prove = partial(certificate_each, solver.views)
    return Appraisal(sum_each(GRADIENT, solver.views), at, prove, one_by_one)


def weights_each(solver: Solver, state: States) -> tuple[Weights, ...]:
    """Read every model out of a state, settled or not."""
    return tuple(solver.weights(model) for model in state.models)


def one_by_one(weights: Weights) -> tuple[Weights, ...]:
    """Take the weights of several models apart, coef (K, d) and intercept (K,)."""
    each = zip(weights.coef, weights.intercept, strict=True)
    return tuple(Weights(coef, float(intercept)) for coef, intercept in each)


def certificate_each(
    views: Tasks, problem: Problem, at: tuple[Weights, ...], total: tuple[GradientPart, ...]
) -> Certificate:
    """Return what the gradients of all models prove."""
    each = zip(views, at, total, strict=True)
    found = jointly([certificate(view.problem(problem), w, part) for view, w, part in each])
    assert found is not None, "every model's gradient proves something"
    return found
