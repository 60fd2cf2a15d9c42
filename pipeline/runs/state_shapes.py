"""The border between a snapshot and the kernels: a state from storage has the shape of a state.

What is read is compared with a state that the method itself makes for the same problem: every array
must have its shape and type, every number its type and a sensible value.  Compiled code does not
look where it writes, so nothing that comes out of a file gets past here unseen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from fewpass.pipeline.runs.packing import named_fields
from fewpass.solvers.losses import Problem
from fewpass.solvers.multi_model import MultiModel
from fewpass.solvers.protocol import ProblemStats, Solver, State, Weights
from fewpass.solvers.tasks import States

Examples = Sequence[Callable[[], State]]  # one for each model
MOST = 1 << 62  # of whole numbers: what compiled code can still count on from
LEAST = {"row_version": -1, "t0": -1, "thinned": 1}  # of whole numbers; of all others 0


def examples_of(solver: Solver, problem: Problem, stats: ProblemStats, kind: str) -> Examples:
    """Say how every model's state of the type `kind` is made, as the method begins with it."""
    if not isinstance(solver, MultiModel):
        return [partial(_example, solver, problem, stats, kind)]
    return [
        partial(_example, solver.solver, task.problem(problem), stats, kind)
        for task in solver.tasks
    ]


def _example(solver: Solver, problem: Problem, stats: ProblemStats, kind: str) -> State:
    first = solver.init(problem, stats)
    if type(first).__name__ == kind:
        return first
    return solver.start_at(problem, stats, Weights(np.zeros(stats.d), 0.0), 0)


def misfit(state: State, examples: Examples) -> str | None:
    """Say how a state differs in kind from the method's own, if it does; one is made at a time."""
    found = models_of(state)
    if len(found) != len(examples):
        return f"it has the states of {len(found)} models, where {len(examples)} were expected"
    each = (_misfits(own, example()) for own, example in zip(found, examples, strict=True))
    return next((sentence for model in each for sentence in model), None)


def models_of(state: State) -> tuple[Any, ...]:
    """Return the states of all models, of one that has no others itself."""
    return state.models if isinstance(state, States) else (state,)


def _misfits(state: Any, example: Any) -> Iterator[str]:
    if type(state) is not type(example):
        yield f"it is a {type(state).__name__}, where a {type(example).__name__} was expected"
        return
    each = zip(named_fields(state), named_fields(example), strict=True)
    fields = [(name, found, own) for (_, found), (name, own) in each]
    for name, found, own in fields:
        if not isinstance(own, np.ndarray):
            yield from _number_misfit(name, found, own)
    for name, found, own in fields:
        if isinstance(own, np.ndarray):
            yield from _array_misfit(name, found, own.dtype, own.shape)


def _array_misfit(name: str, found: Any, dtype: Any, shape: tuple[int, ...]) -> Iterator[str]:
    if not isinstance(found, np.ndarray):
        yield f"{name} is no array"
    elif (found.dtype, found.shape) != (dtype, shape):
        yield f"{name} is {found.dtype} {found.shape}, where {dtype} {shape} was expected"
    elif not np.isfinite(found).all():
        yield f"{name} has numbers that are not finite"


def _number_misfit(name: str, found: Any, expected: Any) -> Iterator[str]:
    kinds = (int, float) if isinstance(expected, float) else (type(expected),)
    if isinstance(found, bool) is not isinstance(expected, bool) or not isinstance(found, kinds):
        yield f"{name} is {found!r}, where a {type(expected).__name__} was expected"
    elif isinstance(found, float) and not math.isfinite(found):
        yield f"{name} is {found!r}, where a finite number was expected"
    elif isinstance(expected, int) and not LEAST.get(name, 0) <= found <= MOST:
        yield f"{name} is {found!r}, where {LEAST.get(name, 0)} or more was expected, up to 2^62"
