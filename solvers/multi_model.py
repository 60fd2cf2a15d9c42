"""Several models of one method, trained in the same passes: of several classes, of several lam.

    for each window of rows
        for each model k
            state_k <- step(problem, state_k, the window as model k sees it)

Rows are read, checked, decoded and permuted once for all models, and every model's state is the
same as if it were trained alone, bit for bit.  The rows of a window are visited once per model, so
that the weights of that model stay in the processor's cache.

A `MultiModel` is a Solver that wraps another one; tasks.py has the models' views of a block,
each_model.py their sweeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from fewpass.solvers.each_model import reduce_each, sum_each, walk_each
from fewpass.solvers.gradient import GRADIENT, certificate
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.kernels.simd.interleaved import lanes_planned
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    Certificate,
    ChosenLearner,
    Part,
    ProblemStats,
    Reduce,
    Solver,
    State,
    Sum,
    Sweep,
    Walk,
    Weights,
    same,
)
from fewpass.solvers.tasks import Models, States, Tasks
from fewpass.solvers.wide_gradient import WIDE_GRADIENT


@dataclass(frozen=True)
class MultiModel(Models, Solver):
    """One model per task, as a Solver."""

    kind = property(attrgetter("solver.kind"))
    needs = property(attrgetter("solver.needs"))
    for_one_score = property(attrgetter("solver.for_one_score"))
    states = property(attrgetter("solver.states"))
    goal = property(attrgetter("solver.goal"))
    spare_copies = property(attrgetter("solver.spare_copies"))
    warm_epoch = property(attrgetter("solver.warm_epoch"))

    @property
    def certify_pass(self) -> Reduce | None:
        return self._of_each(self.solver.certify_pass)

    @property
    def warm_start_pass(self) -> Reduce | None:
        return self._of_each(self.solver.warm_start_pass)

    def _of_each(self, reduce: Reduce | None) -> Reduce | None:
        return reduce and reduce_each(self, reduce)

    def row_state_size(self, stats: ProblemStats) -> int:
        return len(self.tasks) * self.solver.row_state_size(stats)

    def init(self, problem: Problem, stats: ProblemStats) -> States:
        return States(tuple(self.solver.init(task.problem(problem), stats) for task in self.tasks))

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> States:
        """Start every model at its own weights, at its class's, or all at the same."""
        models = []
        for k, task in enumerate(self.tasks):
            at = model_at(weights, k, task.label, len(self.tasks), problem.loss.width)
            models.append(self.solver.start_at(task.problem(problem), stats, at, rows_before))
        return States(tuple(models))

    def adopted(self, state: States, *, midway: bool) -> States:
        models = [
            model if self.is_converged(k, model) else self.solver.adopted(model, midway=midway)
            for k, model in enumerate(state.models)
        ]
        return state._replace(models=tuple(models))

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the size of all states, with the lanes that are padded."""
        in_lanes = stats.rows_kind is SparseRows and goes_interleaved(self.solver)
        models = lanes_planned(len(self.tasks)) if in_lanes else len(self.tasks)
        return models * self.solver.state_bytes(self.tasks[0].problem(problem), stats)

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        sweeps = self.solver.program(epoch)
        return tuple(
            walk_each(self, sweep) if isinstance(sweep, Walk) else reduce_each(self, sweep)
            for sweep in sweeps
        )

    def weights(self, state: States) -> Weights:
        """Return coef (models, d) and intercept (models,); K rows a model of K scores."""
        return stacked([self.solver.weights(s) for s in state.models])

    def certificate(self, state: States) -> Certificate | None:
        """Return the certificate of all models; None while one is missing."""
        return joint_certificate([self.solver.certificate(s) for s in state.models])

    def before_steps(self, state: States) -> tuple[float, ...]:
        return tuple(one for model in state.models for one in self.solver.before_steps(model))

    def learners(self, state: States) -> tuple[ChosenLearner, ...]:
        return tuple(one for model in state.models for one in self.solver.learners(model))


def constants_of(solver: Solver, stats: ProblemStats) -> tuple[float, ...]:
    """Return F_0 of every model that a method trains."""
    if isinstance(solver, MultiModel):
        return tuple(task.constant for task in solver.tasks)
    return stats.constants[:1]


def goes_interleaved(solver: Solver) -> bool:
    """Return whether several models of a method are interleaved on sparse rows."""
    return any(isinstance(sweep, Walk) and sweep.interleaved for sweep in solver.program(0))


def stacked(weights: list[Weights]) -> Weights:
    """Stack the weights of several models."""
    coef = np.concatenate([np.atleast_2d(w.coef) for w in weights])
    return Weights(coef, np.concatenate([np.atleast_1d(w.intercept) for w in weights]))


def model_at(weights: Weights, k: int, label: int, models: int, width: int) -> Weights:
    """Return the weights at which model k of several begins: its own, its class's, or all."""
    coef, intercept = np.atleast_2d(weights.coef), np.atleast_1d(weights.intercept)
    if width > 1:
        own = slice(k * width, (k + 1) * width) if len(coef) == models * width else slice(None)
        return Weights(coef[own], intercept[own])
    row = k if len(coef) == models else max(label, 0)
    return Weights(coef[row], float(intercept[row]))


def joint_certificate(certificates: list[Certificate | None]) -> Certificate | None:
    """Return the mean objective and the largest gap, which holds for every model and their mean."""
    present = [each_one for each_one in certificates if each_one is not None]
    if len(present) < len(certificates):
        return None
    each = tuple((each_one.objective, each_one.gap) for each_one in present)
    of_each = [each_one.constants for each_one in present]
    constants = tuple(c for own in of_each for c in own) if all(of_each) else ()
    objective = float(np.mean([each_one.objective for each_one in present]))
    return Certificate(objective, max(each_one.gap for each_one in present), each, constants)


# -- the gradient's certificate, for methods that have none of their own ------------------------


class Appraisal(NamedTuple):
    """A reduction that certifies the weights of any state."""

    sum: Sum
    at: Callable[[State], Any]
    prove: Callable[[Problem, Any, Any], Certificate]
    at_weights: Callable[[Weights], Any]  # the same from weights (d,), or (K, d) of several models


def appraisal(solver: Solver) -> Appraisal:
    """Return the reduction that certifies a method's newest weights by the gradient."""
    own = solver.solver if isinstance(solver, MultiModel) else solver
    gradient = WIDE_GRADIENT if own.needs.several_scores else GRADIENT
    if not isinstance(solver, MultiModel):
        return Appraisal(gradient, solver.weights, certificate, same)
    at = partial(weights_each, own)
    prove_each = partial(certificate_each, solver.tasks)
    return Appraisal(sum_each(gradient, solver.tasks), at, prove_each, one_by_one)


def weights_each(solver: Solver, state: States) -> tuple[Weights, ...]:
    """Return the weights of every model of a state, converged or not."""
    return tuple(solver.weights(model) for model in state.models)


def one_by_one(weights: Weights) -> tuple[Weights, ...]:
    """Split the weights of several models, coef (K, d) and intercept (K,)."""
    each = zip(weights.coef, weights.intercept, strict=True)
    return tuple(Weights(coef, float(intercept)) for coef, intercept in each)


def certificate_each(
    tasks: Tasks, problem: Problem, at: tuple[Weights, ...], total: tuple[Part, ...]
) -> Certificate:
    """Return the joint certificate from the gradients of all models."""
    each = zip(tasks, at, total, strict=True)
    joint = joint_certificate(
        [certificate(task.problem(problem), w, part) for task, w, part in each]
    )
    assert joint is not None, "every model's gradient proves something"
    return joint
