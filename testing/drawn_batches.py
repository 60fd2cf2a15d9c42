"""ASDCA and SDCA with batches drawn independently of each other, as their theory has it.

The project's own walks visit every row once a pass; here a pass is n rows drawn, some of them
twice.  Kernels are the project's own, without what passes are for: certificates, and weights added
up afresh.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.dual.asdca import LAG, NEXT, RUNNING
from fewpass.solvers.dual.asdca_batches import SUMS, visit_batches
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.kernels.rows import side_by_side
from fewpass.solvers.losses import Problem, conjugate
from fewpass.solvers.protocol import Block, ProblemStats


def batches_of(rng: np.random.Generator, n: int, m: int, count: int) -> np.ndarray:
    """`count` batches of m distinct rows, one behind the other."""
    if m == 1:
        return rng.integers(n, size=count)
    return np.concatenate([rng.permutation(n)[:m] for _ in range(count)])


class DrawnAsdca:
    """x, w and the dual variables, from zero; no intercept."""

    def __init__(
        self,
        problem: Problem,
        stats: ProblemStats,
        block: Block,
        m: int,
        theta: float,
        seed: int = 0,
    ) -> None:
        self.problem, self.stats, self.m, self.theta = problem, stats, m, theta
        self.block, self.rng, self.s = block, np.random.default_rng(seed), 1.0
        self.W = side_by_side(stats.rows_kind, stats.d + 1, 5)
        self.a = np.zeros(stats.n)

    def step(self, count: int) -> None:
        """Take so many batches."""
        order = batches_of(self.rng, self.stats.n, self.m, count)
        rows = self.block._replace(order=order, row_state=self.a)
        scale, W = 1.0 / (self.problem.lam * self.stats.n), self.W
        self.s = visit_batches(
            W, W[:, RUNNING:], W[:, NEXT:], self.s, self.theta, self.problem, 0.0, 0.0, scale, 1.0,
            *rows[:5], count, np.zeros(SUMS),
        )  # fmt: skip

    @property
    def w(self) -> np.ndarray:
        return self.W[:-1, RUNNING]

    @property
    def x(self) -> np.ndarray:
        return self.w + self.s * self.W[:-1, LAG]


class DrawnSdca:
    """The same for serial steps."""

    def __init__(self, problem: Problem, stats: ProblemStats, block: Block, seed: int = 0) -> None:
        self.problem, self.stats = problem, stats
        self.block, self.rng = block, np.random.default_rng(seed)
        self.state, self.a = Sdca().init(problem, stats), np.zeros(stats.n)

    def step(self, count: int) -> None:
        """Visit so many rows."""
        order = self.rng.integers(self.stats.n, size=count)
        rows = self.block._replace(order=order, row_state=self.a)
        self.state = Sdca().step_rows(self.problem, self.stats, self.state, rows)

    @property
    def x(self) -> np.ndarray:
        return self.state.W[:-1, 1]


def dual_objective(problem: Problem, block: Block, a: np.ndarray, w: np.ndarray) -> float:
    """D(a) with w = w(a)."""
    conjugates = [conjugate(problem.loss, v, y) for v, y in zip(a, block.y, strict=True)]
    return -float(np.mean(conjugates)) - 0.5 * problem.lam * float(w @ w)
