"""Averaged SGD over batches of rows that come one after the other: one pass without an end."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pipeline.plan.job import solver_of, stats_of
from pipeline.plan.problem import problem_of
from pipeline.settings.training_plan import TrainingPlan
from pipeline.streaming.buffers import row_view
from pipeline.streaming.targets import target_rule
from solvers.protocol import Block, Diverged, ProblemStats, State, Walk, Weights
from storage.in_memory import MemoryDataset

MOST_RESTARTS = 30
#: When averaging begins is found as rows come: how many there will be, nobody knows.
METHOD = {"kind": "asgd", "average_from": "auto"}
ENDLESS = 1 << 62


class Learnt(NamedTuple):
    """Where the pass stands after a batch."""

    weights: Weights
    state: State
    stats: ProblemStats  # of the first batch: steps go by them, however the others are cut


def learn(
    plan: TrainingPlan, batch: MemoryDataset, last: Learnt | None, at: tuple[Weights, int] | None
) -> Learnt:
    """Step through a batch in its order, once.

    Row weights count as they are, so that it does not matter how rows are cut into batches.

    Parameters
    ----------
    plan
        Its method is `METHOD`, its lam a number.
    batch
        The rows; targets may lack some of the classes.
    last
        What came of the batch before, if there was one; it stays as it is.
    at
        Otherwise a model to start from, if there is one, and the rows that it learnt from.

    Raises
    ------
    Diverged
        When the loss explodes whatever the step.
    """
    problem = problem_of(plan, batch.manifest)
    rule = target_rule(batch.manifest, problem.loss, None)
    weight = np.ones(batch.n_rows) if batch.table.weight is None else batch.table.weight
    measured = stats_of(batch.manifest, rule, seed=plan.seed)._replace(
        stream_rows=ENDLESS, max_weight=float(weight.max())
    )
    stats = last.stats if last else measured
    y = np.ascontiguousarray(rule.read(batch.table.target))
    block = Block(row_view(batch.table), y, weight, np.arange(batch.n_rows), np.empty(0))
    solver = solver_of(plan, rule, batch.n_rows)
    (walk,) = solver.program(0)
    assert isinstance(walk, Walk), "SGD walks"
    if last:
        state = last.state
    else:
        state = solver.start_at(problem, stats, *at) if at else solver.init(problem, stats)
    for _attempt in range(MOST_RESTARTS):
        state = walk.leave(walk.step(problem, stats, walk.enter(state), block))
        if not walk.diverged(state):
            return Learnt(solver.weights(state), state, stats)
        warnings.warn(
            "The loss exploded: the model begins anew with half the step, and has learnt from this "
            "batch alone. Scale the columns, or raise lam.",
            ConvergenceWarning,
            stacklevel=4,
        )
        state = walk.recover(problem, stats, state)
    raise Diverged("The loss explodes whatever the step. Scale the columns, or raise lam.")
