"""Several models of one method, trained in the same passes: one per class, each against the rest.

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
)


class States(NamedTuple):
    """The state of every model."""

    models: tuple[State, ...]


@dataclass(frozen=True)
class Together:
    """One model per class: targets are class numbers 0 ... n_classes - 1."""

    solver: Solver
    n_classes: int

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
        return None if self.solver.audit is None else gather_each(self.solver.audit)

    @property
    def start_at(self) -> Callable[..., States] | None:
        """Return what begins at given weights, if the method can."""
        begin = getattr(self.solver, "start_at", None)
        return None if begin is None else partial(start_each, begin)

    def row_numbers(self, facts: Facts) -> int:
        """Return how many numbers all models together keep per row."""
        return self.n_classes * self.solver.row_numbers(facts)

    def init(self, problem: Problem, facts: Facts) -> States:
        """Return the states before the first row; ValueError when a setting does not fit."""
        return States(tuple(self.solver.init(problem, facts) for _ in range(self.n_classes)))

    def state_bytes(self, problem: Problem, facts: Facts) -> int:
        """Return what the arrays of all states take."""
        return self.n_classes * self.solver.state_bytes(problem, facts)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the method's sweeps, each for all models."""
        sweeps = self.solver.program(epoch)
        return tuple(
            walk_each(s, self.solver) if isinstance(s, Walk) else gather_each(s) for s in sweeps
        )

    def weights(self, state: States) -> Weights:
        """Return coef (n_classes, d) and intercept (n_classes,)."""
        return stacked([self.solver.weights(s) for s in state.models])

    def certificate(self, state: States) -> Certificate | None:
        """Return what is proven of all models, None while something is missing of one."""
        return jointly([self.solver.certificate(s) for s in state.models])


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


def as_model_sees(block: Block, k: int, models: int) -> Block:
    """Return a block with class k at +1 and all others at -1, and model k's numbers per row.

    These are copies: contiguous, as a model of its own would have them.
    """
    return block._replace(
        y=np.where(block.y == k, 1.0, -1.0), row_state=numbers_of(block.row_state, k, models)
    )


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


def walk_each(walk: Walk, solver: Solver) -> Walk:
    """Make a walk of one model one of all."""
    return walk._replace(
        step=partial(step_each, walk),
        join=partial(join_each, walk),
        metrics=partial(mean_metrics, walk),
        diverged=partial(any_diverged, walk),
        recover=partial(recover_each, walk, solver),
        rows=None if walk.rows is None else partial(most_rows, walk.rows),
    )


def step_each(walk: Walk, problem: Problem, facts: Facts, state: States, block: Block) -> States:
    """Carry every model over a block that still has rows to visit."""
    models = list(state.models)
    for k, model in enumerate(models):
        if walk.rows is None or walk.rows(model) > 0:
            mine = as_model_sees(block, k, len(models))
            models[k] = walk.step(problem, facts, model, mine)
            if walk.row_state == "update":
                keep_numbers(block.row_state, k, mine.row_state)
    return States(tuple(models))


def join_each(walk: Walk, problem: Problem, facts: Facts, states: list[States]) -> States:
    """Join every model's streams."""
    each = zip(*(state.models for state in states), strict=True)
    return States(tuple(walk.join(problem, facts, list(streams)) for streams in each))


def mean_metrics(walk: Walk, state: States) -> dict[str, float]:
    """Return the means over the models."""
    each = [walk.metrics(model) for model in state.models]
    return {name: float(np.mean([metrics[name] for metrics in each])) for name in each[0]}


def any_diverged(walk: Walk, state: States) -> bool:
    """Say whether any model has: all begin again then, in step with each other."""
    return any(walk.diverged(model) for model in state.models)


def recover_each(
    walk: Walk, solver: Solver, problem: Problem, facts: Facts, state: States
) -> States:
    """Let the models that diverged recover; the others begin as they did."""
    return States(
        tuple(
            walk.recover(problem, facts, s) if walk.diverged(s) else solver.init(problem, facts)
            for s in state.models
        )
    )


def most_rows(rows: Callable[[State], int], state: States) -> int:
    """Return how many rows the model with the longest way wants."""
    return max(rows(model) for model in state.models)


def start_each(
    begin: Callable[..., State], problem: Problem, facts: Facts, weights: Weights, *told: Any
) -> States:
    """Let every model begin at its own weights."""
    each = zip(weights.coef, np.asarray(weights.intercept).tolist(), strict=True)
    return States(tuple(begin(problem, facts, Weights(*own), *told) for own in each))


# -- gathers ----------------------------------------------------------------------------------


def sum_each(what: Sum) -> Sum:
    """Make a sum for one model one for all; it is taken at a tuple, and so are its parts."""
    return what._replace(zero=partial(zero_each, what), add=partial(add_each, what))


def zero_each(what: Sum, at: tuple[Any, ...]) -> tuple[Part, ...]:
    """Return every model's sum over no rows."""
    return tuple(what.zero(own) for own in at)


def add_each(
    what: Sum, problem: Problem, at: tuple[Any, ...], block: Block, parts: tuple[Part, ...]
) -> tuple[Part, ...]:
    """Add a block to every model's sum."""
    added = []
    for k, (own, part) in enumerate(zip(at, parts, strict=True)):
        mine = as_model_sees(block, k, len(at))
        added.append(what.add(problem, own, mine, part))
        if what.row_state == "write":
            keep_numbers(block.row_state, k, mine.row_state)
    return tuple(added)


def gather_each(gather: Gather) -> Gather:
    """Make a gather of one model one of all."""
    return Gather(
        sum_each(gather.sum), partial(at_each, gather.at), partial(absorb_each, gather.absorb)
    )


def at_each(at: Callable[[State], Any], state: States) -> tuple[Any, ...]:
    """Return what every model's sum is taken at."""
    return tuple(at(model) for model in state.models)


def absorb_each(
    absorb: Callable[..., State],
    problem: Problem,
    facts: Facts,
    state: States,
    total: tuple[Part, ...],
    sweep: int,
) -> States:
    """Give every model its sum."""
    each = zip(state.models, total, strict=True)
    return States(tuple(absorb(problem, facts, s, part, sweep) for s, part in each))


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
    at = partial(at_each, solver.solver.weights)
    return Appraisal(sum_each(GRADIENT), at, certificate_each)


def certificate_each(
    problem: Problem, at: tuple[Weights, ...], total: tuple[GradientPart, ...]
) -> Certificate:
    """Return what the gradients of all models prove."""
    found = jointly([certificate(problem, *own) for own in zip(at, total, strict=True)])
    assert found is not None, "every model's gradient proves something"
    return found
