"""ASDCA and SDCA with batches drawn independently of each other, as their theory has it.

The project's own walks visit every row once a pass; here a pass is n rows drawn, some of them
twice.  Kernels are the project's own, without what passes are for: certificates, and weights added
up afresh.
"""

from __future__ import annotations

import numpy as np

from solvers.asdca import LAG, NEXT, RUNNING
from solvers.asdca_batches import SUMS, visit_batches
from solvers.losses import Problem, conjugate
from solvers.protocol import Block, Facts
from solvers.rows import side_by_side
from solvers.sdca import Sdca


def batches_of(rng: np.random.Generator, n: int, m: int, count: int) -> np.ndarray:
    """`count` batches of m distinct rows, one behind the other."""
    if m == 1:
        return rng.integers(n, size=count)
    return np.concatenate([rng.permutation(n)[:m] for _ in range(count)])


class DrawnAsdca:
    """x, w and the dual variables, from zero; no intercept."""

    def __init__(
        self, problem: Problem, facts: Facts, block: Block, m: int, theta: float, seed: int = 0
    ) -> None:
        self.problem, self.facts, self.m, self.theta = problem, facts, m, theta
        self.block, self.rng, self.s = block, np.random.default_rng(seed), 1.0
        self.W = side_by_side(facts.rows_kind, facts.d + 1, 5)
        self.a = np.zeros(facts.n)

    def step(self, count: int) -> None:
        """Take so many batches."""
        order = batches_of(self.rng, self.facts.n, self.m, count)
        rows = self.block._replace(order=order, row_state=self.a)
        scale, W = 1.0 / (self.problem.lam * self.facts.n), self.W
        self.s = visit_batches(
            W, W[:, RUNNING:], W[:, NEXT:], self.s, self.theta, self.problem, 0.0, 0.0, scale, 1.0,
            *rows, count, np.zeros(SUMS),
        )  # fmt: skip

    @property
    def w(self) -> np.ndarray:
        return self.W[:-1, RUNNING]

    @property
    def x(self) -> np.ndarray:
        return self.w + self.s * self.W[:-1, LAG]


class DrawnSdca:
    """The same for serial steps."""

    def __init__(self, problem: Problem, facts: Facts, block: Block, seed: int = 0) -> None:
        self.problem, self.facts = problem, facts
        self.block, self.rng = block, np.random.default_rng(seed)
        self.state, self.a = Sdca().init(problem, facts), np.zeros(facts.n)

    def step(self, count: int) -> None:
        """Visit so many rows."""
        order = self.rng.integers(self.facts.n, size=count)
        rows = self.block._replace(order=order, row_state=self.a)
        self.state = Sdca().step_rows(self.problem, self.facts, self.state, rows)

    @property
    def x(self) -> np.ndarray:
        return self.state.W[:-1, 1]


def dual_objective(problem: Problem, block: Block, a: np.ndarray, w: np.ndarray) -> float:
    """D(a) with w = w(a)."""
    conjugates = [conjugate(problem.loss, v, y) for v, y in zip(a, block.y, strict=True)]
    return -float(np.mean(conjugates)) - 0.5 * problem.lam * float(w @ w)
