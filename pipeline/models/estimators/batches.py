"""One pass without an end, over batches of rows that come one after the other."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse
from sklearn.exceptions import ConvergenceWarning

from fewpass.pipeline.planning.best_constant import levelled
from fewpass.pipeline.planning.job import solver_of
from fewpass.pipeline.planning.method_choice import FEW_MODELS, MOST_MODELS
from fewpass.pipeline.planning.planned_problem import stats_of
from fewpass.pipeline.planning.problem import problem_of
from fewpass.pipeline.rows.buffers import table_block
from fewpass.pipeline.rows.running_moments import RunningMoments, Sums, moments_of
from fewpass.pipeline.rows.targets import target_rule
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.drive import visit_again
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.protocol import (
    ENDLESS,
    ProblemStats,
    State,
    Walk,
    Weights,
)
from fewpass.solvers.registry import ONE_LEARNER, SEVERAL_LEARNERS, method_class
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.memory_dataset import MemoryDataset

ONE_PASS = (SEVERAL_LEARNERS, ONE_LEARNER)
#: The start of averaging is sought while rows come, as their number is unknown.
AS_ROWS_COME = {"average_from": "auto"}


class Learnt(NamedTuple):
    """State of the pass after a batch."""

    method: str
    weights: Weights
    state: State
    stats: ProblemStats  # of the first batch: steps go by them, however the others are cut
    sums: Sums | None  # of every column's values, for methods whose steps use them
    rows: int  # that they are of
    level: Any  # what the intercept is charged from, by the first batch


def method_of(solver: Any, targets: Labels | Values, *, together: bool = False) -> dict[str, Any]:
    """Return the method that batches are learnt with, as plans have it.

    The one asked for where it is made for one pass; else several learners side by side, or averaged
    SGD for more models than these are taken for (planning/method_choice.py).  Streaming Newton,
    whose work nobody can foresee here, runs for up to four of them.

    `together`: by one model of all classes, which is averaged SGD's.
    """
    asked = dict(solver) if isinstance(solver, Mapping) else {"kind": solver}
    if together and isinstance(targets, Labels) and len(targets.labels) > 2:
        return asked if asked.get("kind") == ONE_LEARNER else {"kind": ONE_LEARNER}
    if asked.get("kind") not in ONE_PASS:
        models = len(targets.labels) if isinstance(targets, Labels) else 1
        asked = {"kind": SEVERAL_LEARNERS if models <= MOST_MODELS else ONE_LEARNER}
        if FEW_MODELS < models <= MOST_MODELS:
            asked["newton_columns"] = 0
    return AS_ROWS_COME | asked if asked["kind"] == ONE_LEARNER else asked


def learn(
    plan: TrainingPlan, batch: MemoryDataset, last: Learnt | None, at: tuple[Weights, int] | None
) -> Learnt:
    """Step through a batch in its order, once.

    Row weights count as they are.  With averaged SGD it does not matter how rows are cut into
    batches; several learners go by the moments that columns have in all rows up to a batch's end.

    Parameters
    ----------
    plan
        Its method is one of `method_of`, its lam a number.
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
    if last:
        problem = problem._replace(level=last.level)
    else:
        problem = levelled(problem, rule, batch, batch.sample(MOST_ROWS)).problem
    weight = np.ones(batch.n_rows) if batch.table.weight is None else batch.table.weight
    sums, rows = counted(plan, batch, last), batch.n_rows + (last.rows if last else 0)
    measured = stats_of(batch.manifest, rule, problem, seed=plan.seed)
    solver = solver_of(plan, rule, measured)
    (walk,) = solver.program(0)
    assert isinstance(walk, Walk), "a method of one pass walks"
    if last:
        stats, state = last.stats, last.state
        if sums is not None and walk.resize is not None:
            state = walk.resize(problem, state, stats.d, moments_of(sums, rows))
    else:
        stats = measured._replace(
            stream_rows=ENDLESS, max_weight=float(weight.max()),
            columns=None if sums is None else partial(moments_of, sums, rows),
        )  # fmt: skip
        state = solver.start_at(problem, stats, *at) if at else solver.init(problem, stats)
    block = table_block(batch.table, rule.read(batch.table.target), weight)
    state, _ = visit_again(walk, problem, stats, state, [block], on_restart=warn_of_restart)
    kind, stats = plan.solver.kind, stats._replace(columns=None)
    return Learnt(kind, solver.weights(state), state, stats, sums, rows, problem.level)


def laid_out_as(last: Learnt | None, X: Any) -> Any:
    """Return a batch (n, d) dense or CSR, as the first one was, which the state is laid out for."""
    if last is None or (last.stats.rows_kind is SparseRows) == issparse(X):
        return X
    return X.toarray() if issparse(X) else csr_matrix(X)


def counted(plan: TrainingPlan, batch: MemoryDataset, last: Learnt | None) -> Sums | None:
    """Return the sums of all columns with a batch counted in; None for methods without them."""
    if not method_class(plan.solver.kind).uses_moments:
        return None
    d = batch.n_features
    before = np.zeros((d, 2)) if last is None or last.sums is None else last.sums.copy()
    moments = RunningMoments(before)
    moments.add(batch.table, d - 1)
    return moments.sums


def warn_of_restart(_state: State) -> None:
    """Warn of the rows that are lost in a restart."""
    warnings.warn(
        "The loss exploded: the model begins anew with half the step, and has learnt from this "
        "batch alone. Scale the columns, or raise lam.",
        ConvergenceWarning,
        stacklevel=6,
    )
