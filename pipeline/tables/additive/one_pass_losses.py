"""What a form loses while rows are read once: the losses of rows before they are learnt from.

A source that is read once is learnt from by a method of one pass, which may not get as far with
many features as the models do that forms are compared by.  So it is tried on the sample itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.tables.additive.sample_fit import FREE, SampleTargets, stats_of_sample
from fewpass.solvers.drive import NO_ROW_STATE, sweeps
from fewpass.solvers.losses import Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block
from fewpass.solvers.registry import SEVERAL_LEARNERS, method_class
from fewpass.storage.table import SparseTable


def progressive_loss(X: SparseTable, d: int, targets: SampleTargets, lam: float) -> float:
    """Return the mean progressive loss of rows in one pass at lam / n, in the targets' own units.

    Late rows count more.  Of several classes it is the sum over them, each against the rest.
    """
    n = X.n_rows
    total = 0.0
    for one in _of_one_score(targets):
        problem = Problem(one.loss, L2(lam / n), 1.0, FREE * lam / n, one.level)
        block = Block(row_view(X), one.y, one.unit_weight, np.arange(n), NO_ROW_STATE)
        solver = method_class(SEVERAL_LEARNERS)()
        first = next(iter(sweeps(solver, problem, stats_of_sample(X, d, one, block), block)))
        total += sum(solver.before_steps(first.state))
    return total * targets.unit


def _of_one_score(targets: SampleTargets) -> Iterator[SampleTargets]:
    if targets.classes <= 2:
        yield targets
        return
    for k in range(targets.classes):
        yield targets._replace(y=np.where(targets.y == k, 1.0, -1.0), classes=2)
