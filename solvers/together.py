"""Several models of one method, trained in the same passes: of several classes, of several lam.

    for each window of rows
        for each model k
            state_k <- step(problem, state_k, the window as model k sees it)

Rows are read, checked, decoded and permuted once for all models, and every model's state is the
one that it would have had alone, bit for bit.  A window's rows are gone over once per model: the
weights of one model stay in the processor's cache meanwhile.

A `Together` is a Solver like any other, made of one.  Numbers kept per row lie model after model.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.gradient import GRADIENT, GradientPart, certificate
from solvers.losses import Problem
from solvers.protocol import (
    Abreast,
    Block,
    Certificate,
    Facts,
    Gather,
    Part,
    Solver,
    State,
    Sum,
    Sweep,
    Walk,
    Weights,
    as_sides,
    copy_state,
    with_row_version,
)
from solvers.rows import SparseRows
from solvers.rows_abreast import apart, beside, lanes_taken

EMPTY = np.empty((0, 0))


class States(NamedTuple):
    """The state of every model.

    Inside a walk some may go abreast: their weights then lie side by side in W (rows_abreast.py),
    and their own field W is empty.
    """

    models: tuple[State, ...]
    abreast: tuple[int, ...] = ()
    W: NDArray[np.float64] = EMPTY


class View(NamedTuple):
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


Views = tuple[View, ...]


@dataclass(frozen=True)
class Together:
    """A model per view."""

    solver: Solver
    views: Views
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
    def audit(self) -> Gather | None:
        """Return the method's own audit, for all models."""
        return None if self.solver.audit is None else gather_each(self, self.solver.audit)

    @property
    def opening(self) -> Gather | None:
        """Return the method's own opening, for all models."""
        return None if self.solver.opening is None else gather_each(self, self.solver.opening)

    @property
    def warm_epoch(self) -> int:
        """Return the method's own."""
        return self.solver.warm_epoch

    def row_numbers(self, facts: Facts) -> int:
        """Return how many numbers all models together keep per row."""
        return len(self.views) * self.solver.row_numbers(facts)

    def init(self, problem: Problem, facts: Facts) -> States:
        """Return the states before the first row; ValueError when a setting does not fit."""
        return States(tuple(self.solver.init(v.problem(problem), facts) for v in self.views))

    def start_at(
        self, problem: Problem, facts: Facts, weights: Weights, rows_before: int
    ) -> States:
        """Let every model begin at its own weights, at its class's, or all at the same."""
        coef, intercept = np.atleast_2d(weights.coef), np.atleast_1d(weights.intercept)
        models = []
        for k, view in enumerate(self.views):
            row = k if len(coef) == len(self.views) else max(view.label, 0)
            at = Weights(coef[row], float(intercept[row]))
            models.append(self.solver.start_at(view.problem(problem), facts, at, rows_before))
        return States(tuple(models))

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what the arrays of all states take, filled-up lanes included."""
        in_lanes = facts.rows_kind is SparseRows and any(
            isinstance(sweep, Walk) and sweep.abreast for sweep in self.solver.program(0)
        )
        models = lanes_taken(len(self.views)) if in_lanes else len(self.views)
        return models * self.solver.state_bytes(problem, facts)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the method's sweeps, each for all models."""
        sweeps = self.solver.program(epoch)
        return tuple(
            walk_each(self, sweep) if isinstance(sweep, Walk) else gather_each(self, sweep)
            for sweep in sweeps
        )

    def weights(self, state: States) -> Weights:
        """Return coef (models, d) and intercept (models,)."""
        return stacked([self.solver.weights(s) for s in state.models])

    def certificate(self, state: States) -> Certificate | None:
        """Return what is proven of all models, None while something is missing of one."""
        return jointly([self.solver.certificate(s) for s in state.models])

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


def as_model_sees(block: Block, view: View, k: int, models: int) -> Block:
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


def walk_each(together: Together, walk: Walk) -> Walk:
    """Make a walk of one model one of all."""
    return walk._replace(
        step=partial(step_each, together, walk),
        join=partial(join_each, together, walk),
        metrics=partial(mean_metrics, walk),
        diverged=partial(any_diverged, walk),
        recover=partial(recover_each, together, walk),
        rows=None if walk.rows is None else partial(most_rows, together, walk.rows),
        enter=copy_state if walk.abreast is None else partial(go_abreast, together, walk.abreast),
        leave=part_ways,
    )


def step_each(
    together: Together, walk: Walk, problem: Problem, facts: Facts, state: States, block: Block
) -> States:
    """Carry every model over a block that still has rows to visit and is not settled."""
    models = list(state.models)
    if state.abreast:
        assert walk.abreast is not None, "models go abreast in walks that know how"
        chosen, views = state.abreast, [together.views[k] for k in state.abreast]
        stepped = walk.abreast.step(
            [view.problem(problem) for view in views], facts, [models[k] for k in chosen], state.W,
            block,
            [view.label for view in views], chosen,
        )  # fmt: skip
        for k, model in zip(chosen, stepped, strict=True):
            models[k] = model
    for k, (view, model) in enumerate(zip(together.views, state.models, strict=True)):
        arrived = walk.rows is not None and walk.rows(model) <= 0
        if not arrived and k not in state.abreast and not together.is_settled(model):
            mine = as_model_sees(block, view, k, len(models))
            models[k] = walk.step(view.problem(problem), facts, model, mine)
            if walk.row_state == "update":
                keep_numbers(block.row_state, k, mine.row_state)
    return state._replace(models=tuple(models))


def go_abreast(together: Together, how: Abreast, state: States) -> States:
    """Copy a state; models that are not settled go abreast where that pays and they can.

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
    """Give models that went abreast their own weights back."""
    models = list(state.models)
    if state.abreast:
        for k, W in zip(state.abreast, apart(state.W, len(state.abreast)), strict=True):
            models[k] = models[k]._replace(W=W)
    return States(tuple(models))


def join_each(
    together: Together, walk: Walk, problem: Problem, facts: Facts, states: list[States]
) -> States:
    """Join every model's streams."""
    models = []
    for view, *streams in zip(together.views, *(state.models for state in states), strict=True):
        settled = together.is_settled(streams[0])
        joined = streams[0] if settled else walk.join(view.problem(problem), facts, streams)
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
    together: Together, walk: Walk, problem: Problem, facts: Facts, state: States
) -> States:
    """Let the models that diverged recover; the others begin as they did."""
    models = []
    for view, model in zip(together.views, state.models, strict=True):
        own = view.problem(problem)
        lost, begin = walk.diverged(model), together.solver.init
        models.append(walk.recover(own, facts, model) if lost else begin(own, facts))
    return States(tuple(models))


def most_rows(together: Together, rows: Callable[[State], int], state: States) -> int:
    """Return how many rows the model with the longest way wants."""
    return max((rows(m) for m in state.models if not together.is_settled(m)), default=0)


# -- gathers ----------------------------------------------------------------------------------


def sum_each(what: Sum, views: Views) -> Sum:
    """Make a sum for one model one for all, taken at a tuple: None of models left out.

    Its parts are tuples, too.
    """
    return what._replace(zero=partial(zero_each, what), add=partial(add_each, what, views))


def zero_each(what: Sum, at: tuple[Any, ...]) -> tuple[Part, ...]:
    """Return every model's sum over no rows."""
    return tuple(() if own is None else what.zero(own) for own in at)


def add_each(
    what: Sum,
    views: Views,
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


def gather_each(together: Together, gather: Gather) -> Gather:
    """Make a gather of one model one of all."""
    return Gather(
        sum_each(gather.sum, together.views),
        partial(at_each, together, gather.at),
        partial(absorb_each, together, gather),
    )


def at_each(together: Together, at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return what every model's sum is taken at."""
    return tuple(None if together.is_settled(model) else at(model) for model in state.models)


def absorb_each(
    together: Together,
    gather: Gather,
    problem: Problem,
    facts: Facts,
    state: States,
    total: tuple[Part, ...],
    sweep: int,
) -> States:
    """Give every model its sum; what is settled has none, and follows the numbers per row."""
    models = []
    for view, model, part in zip(together.views, state.models, total, strict=True):
        if not together.is_settled(model):
            models.append(gather.absorb(view.problem(problem), facts, model, part, sweep))
        else:
            written = gather.sum.row_state == "write"
            models.append(with_row_version(model, sweep) if written else model)
    return States(tuple(models))


# -- the gradient's certificate, for methods that have none of their own ------------------------


class Appraisal(NamedTuple):
    """A gather that certifies the weights of any state."""

    sum: Sum
    at: Callable[[State], Any]
    prove: Callable[[Problem, Any, Any], Certificate]


def appraisal(solver: Solver) -> Appraisal:
    """Return how the gradient certifies a method's newest weights."""
    if not isinstance(solver, Together):
        return Appraisal(GRADIENT, solver.weights, certificate)
    at = partial(weights_each, solver.solver)
    prove = partial(certificate_each, solver.views)
    return Appraisal(sum_each(GRADIENT, solver.views), at, prove)


def weights_each(solver: Solver, state: States) -> tuple[Weights, ...]:
    """Read every model out of a state, settled or not."""
    return tuple(solver.weights(model) for model in state.models)


def certificate_each(
    views: Views, problem: Problem, at: tuple[Weights, ...], total: tuple[GradientPart, ...]
) -> Certificate:
    """Return what the gradients of all models prove."""
    each = zip(views, at, total, strict=True)
    found = jointly([certificate(view.problem(problem), w, part) for view, w, part in each])
    assert found is not None, "every model's gradient proves something"
    return found
