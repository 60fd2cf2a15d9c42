"""What several models of one method are: their tasks, their states, and what each sees of a block.

Numbers kept per row lie model after model.
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
class Models:
    """A method, and a task for each of its models."""

    solver: Solver
    tasks: Tasks
    tol: float | None = None  # a model whose certificate is at most this is left as it is

    def is_converged(self, model: State) -> bool:
        """Say whether a model needs no more; that changes only where a sweep ends."""
        certified = None if self.tol is None else self.solver.certificate(model)
        return certified is not None and certified.relative <= (self.tol or 0.0)


def as_model_sees(block: Block, task: Task, k: int, models: int) -> Block:
    """Return a block with the targets and the numbers per row of model k.

    These are copies: contiguous, as a model of its own would have them.
    """
    return block._replace(y=task.targets(block.y), row_state=numbers_of(block.row_state, k, models))


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
