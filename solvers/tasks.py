"""Several models of one method: tasks, states, and each model's view of a block.

Numbers per row are stored model after model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Solver, State, as_sides

EMPTY = np.empty((0, 0))


class States(NamedTuple):
    """The state of every model.

    Inside a walk some models may be interleaved: their weights are then side by side in W
    (interleaved.py), and their own field W is empty.
    """

    models: tuple[State, ...]
    interleaved: tuple[int, ...] = ()
    W: NDArray[np.float64] = EMPTY


class Task(NamedTuple):
    """One model's part of the problem: its class and its strength of regularisation."""

    label: int = -1  # the class that counts as +1; -1: targets unchanged
    lam: float = 0.0  # strength of regularisation; 0: the problem's
    constant: float = 0.0  # F_0 of its targets (protocol.py: Certificate)
    fold: int = -1  # whose rows it does not learn from: they weigh nothing; -1: it learns from all
    scale: float = 1.0  # of the other rows' weights, so that their mean over all rows stays 1

    def problem(self, problem: Problem) -> Problem:
        """Return the problem with the model's own level and lam, and lam_b in proportion to that.

        Without squares in the penalty lam_b does not depend on lam (intercept.py).
        """
        if isinstance(problem.level, tuple) and self.label >= 0:
            problem = problem._replace(level=problem.level[self.label])
        if self.lam == 0.0:
            return problem
        other = problem._replace(penalty=problem.penalty.at(self.lam))
        if problem.lam == 0.0:
            return other
        return other._replace(lam_b=problem.lam_b / problem.lam * other.lam)

    def weights(self, block: Block) -> NDArray[np.float64]:
        """Return the weights of a block's rows as this model learns from them."""
        if self.fold < 0:
            return block.weight
        assert block.folds is not None, "rows are dealt to folds"
        return np.where(block.folds == self.fold, 0.0, self.scale * block.weight)

    def targets(self, y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return +1 for class `label` and -1 for all others, or y itself."""
        return as_sides(y, self.label)


Tasks = tuple[Task, ...]


@dataclass(frozen=True)
class Models:
    """A method with one task per model."""

    solver: Solver
    tasks: Tasks
    tol: float | None = None  # models with a certificate of at most this are not trained further
    rivals: bool = False  # the best lam is all that is wanted: others may leave the pass

    @property
    def has_folds(self) -> bool:
        """Return whether models learn from other rows each: then none are stepped side by side."""
        return any(task.fold >= 0 for task in self.tasks)

    def is_converged(self, k: int, model: State) -> bool:
        """Return whether model k has reached the tolerance, as of the last sweep's end."""
        certified = None if self.tol is None else self.solver.certificate(model)
        if certified is None:
            return False
        return certified.with_constants((self.tasks[k].constant,)).relative <= (self.tol or 0.0)


def as_model_sees(block: Block, task: Task, k: int, models: int) -> Block:
    """Return a block with the targets, weights and numbers per row of model k.

    These are contiguous copies, as for a single model.
    """
    return block._replace(
        y=task.targets(block.y), weight=task.weights(block),
        row_state=numbers_of(block.row_state, k, models),
    )  # fmt: skip


def numbers_of(row_state: NDArray[np.float64], k: int, models: int) -> NDArray[np.float64]:
    """Return a copy of model k's numbers per row."""
    if row_state.shape[0] == 0:
        return row_state
    mine = row_state.reshape(row_state.shape[0], models, -1)[:, k]
    return mine[:, 0].copy() if mine.shape[1] == 1 else mine.copy()


def keep_numbers(row_state: NDArray[np.float64], k: int, mine: NDArray[np.float64]) -> None:
    """Write model k's numbers per row back."""
    n = row_state.shape[0]
    if n:
        own = mine.reshape(n, -1)
        row_state[:, k * own.shape[1] : (k + 1) * own.shape[1]] = own
