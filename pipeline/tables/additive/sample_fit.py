"""Models of rows in memory, for several lam, only good enough to compare forms by.

    for A in 1000, 100, 10, 1, .1:    minimise mean loss + (A / 2n) ||w||^2

by sums of squares or Newton's steps where columns are few, and else by dual ascent, the models of
one score next to each other; of several scores without A = 1000.  Five and more share their kernels
with those that lam is chosen by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.rows.amounts import LEAST_ROWS, may_multiply
from fewpass.pipeline.rows.buffers import row_view
from fewpass.pipeline.tables.encoding.cells import Floats
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.solvers.batch.normal_equations import least_squares, moments_of
from fewpass.solvers.certified_minimum import Sizes
from fewpass.solvers.drive import NO_ROW_STATE, models_within, sweeps
from fewpass.solvers.estimates.spectrum import sigma_square
from fewpass.solvers.kernels.rows import Rows, SparseRows
from fewpass.solvers.kernels.scores import scores
from fewpass.solvers.losses import Problem, value
from fewpass.solvers.losses.constant_prediction import best_constants, some_of_each
from fewpass.solvers.losses.wide_loss import WideLoss
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, ColumnMoments, ProblemStats, Weights
from fewpass.solvers.registry import (
    DUAL,
    LOSS_OF_AMOUNTS,
    LOSS_OF_CLASSES,
    LOSS_OF_LABELS,
    LOSS_OF_NUMBERS,
    SEVERAL_LEARNERS,
    fit_for,
    loss_class,
    method_class,
)
from fewpass.solvers.softmax_of_scores import softmax
from fewpass.solvers.tasks import Task
from fewpass.storage.table import SparseTable, take

GRID = (1000.0, 100.0, 10.0, 1.0, 0.1)
TOL = 1e-2  # relative gap
MOST_PASSES = 20.0
#: Columns up to which sums of squares are solved, and Newton's steps taken: of more, passes of dual
#: ascent are faster.
MOST_SOLVED, MOST_STEPPED = 640, 160
HIGHEST = 30.0  # score of an amount, in units of the mean
ROUNDED = 1e-9  # of the mean: what standardising leaves of an amount of 0
FREE = 0.01  # of lam, charged for the intercept's distance from the best constant


class SampleTargets(NamedTuple):
    """Targets of the sample."""

    y: Floats  # (n,) standardised numbers, -1 and +1, or the number of a class
    classes: int = 0  # 0: numbers
    weight: Floats | None = None  # (n,) of rows; None: all count the same
    deviation: float = 1.0  # of numbers before they were standardised
    mean: float = 0.0  # of these
    per_exposure: bool = False  # whether numbers are counts for a unit of it
    multiply: bool = False  # whether numbers are amounts of mean 1, whose logarithm is the score

    @property
    def as_amounts(self) -> SampleTargets | None:
        """The same numbers as amounts; None where they are none."""
        if self.classes or self.per_exposure or len(self.y) < LEAST_ROWS:
            return None
        amounts = self.deviation * self.y + self.mean
        least = float(amounts.min())
        least = 0.0 if abs(least) <= ROUNDED * self.mean else least
        if not may_multiply(least, self.mean, self.deviation * self.deviation):
            return None
        y = np.maximum(amounts, 0.0) / self.mean
        return self._replace(y=y, multiply=True, deviation=self.mean, mean=0.0)

    def predictions(self, scores: Floats) -> Floats:
        """Return the numbers that scores predict, in the targets' own units."""
        own = np.exp(np.minimum(scores, HIGHEST)) if self.multiply else scores
        return self.deviation * own + self.mean

    @property
    def word(self) -> str:
        """The word of the loss that suits them."""
        if not self.classes:
            return LOSS_OF_AMOUNTS if self.multiply else LOSS_OF_NUMBERS
        return LOSS_OF_LABELS if self.classes == 2 else LOSS_OF_CLASSES

    @property
    def measure(self) -> str:
        """The loss in words, as recipes keep them."""
        if self.classes:
            return f"{self.word} loss"
        of = " of targets per unit of exposure" * self.per_exposure
        return f"{self.word} loss (half the squared error){of}"

    @property
    def unit(self) -> float:
        """Return the size of a loss of 1 in the targets' own units."""
        return self.deviation * self.deviation

    @property
    def grid(self) -> tuple[float, ...]:
        """The A that are tried."""
        return GRID if self.classes <= 2 else GRID[1:]

    @property
    def loss(self) -> Any:
        """The loss that suits them."""
        wide = (self.classes,) if self.classes > 2 else ()
        return loss_class(self.word)(*wide)

    @property
    def row_weight(self) -> Floats:
        """Weights (n,) of rows."""
        return np.ones(len(self.y)) if self.weight is None else self.weight

    @property
    def unit_weight(self) -> Floats:
        """Weights of mean 1."""
        return self.row_weight / max(float(self.row_weight.mean()), 1e-300)

    @property
    def level(self) -> Any:
        """The best constant score, or scores; 0 of numbers, which have the mean 0, or 1."""
        if not self.classes:
            return 0.0
        labels = range(self.classes) if self.classes > 2 else (-1.0, 1.0)
        own = some_of_each(np.array([self.unit_weight[self.y == label].sum() for label in labels]))
        if isinstance(self.loss, WideLoss):
            return self.loss.best_scores(own)
        sides = np.array([-1.0, 1.0])
        return best_constants(self.loss, sides, own[None], intercept=True).scores[0]

    def slopes(self, scores: Floats) -> tuple[Floats, Floats]:
        """Return g and h (K, n): how a score should change, and how surely."""
        g, h = self._slopes(scores)
        if self.weight is None:
            return g, h
        return g * self.unit_weight, h * self.unit_weight

    def _slopes(self, scores: Floats) -> tuple[Floats, Floats]:
        if self.multiply:
            expected = np.exp(np.minimum(scores, HIGHEST))
            return (self.y - expected)[None], expected[None]
        if not self.classes:
            return (self.y - scores)[None], np.ones((1, len(self.y)))
        if self.classes == 2:
            p = 1.0 / (1.0 + np.exp(-scores))
            return ((self.y > 0.0) - p)[None], (p * (1.0 - p))[None]
        p = softmax(scores.T).T
        is_one = self.y == np.arange(self.classes)[:, None]
        return is_one - p, p * (1.0 - p)

    def losses(self, scores: Floats) -> Floats:
        """Return the loss of every row, times its weight."""
        loss = self.loss
        if isinstance(loss, WideLoss):
            each = loss.losses(np.ascontiguousarray(scores.T), self.y)
        else:
            each = np.asarray(value(loss, scores, self.y))
        return each if self.weight is None else each * self.weight

    @property
    def total(self) -> float:
        """Return the divisor of the rows' losses for their mean."""
        return float(len(self.y)) if self.weight is None else float(self.weight.sum())

    def of(self, rows: NDArray[np.int64]) -> SampleTargets:
        """Return those of some rows."""
        weight = None if self.weight is None else self.weight[rows]
        return self._replace(y=self.y[rows], weight=weight)


class SampleModels(NamedTuple):
    """A model for each of `lams`."""

    lams: tuple[float, ...]
    models: tuple[Weights, ...]

    def scores(self, k: int, rows: Rows) -> Floats:
        """Return the k-th model's scores of n rows: (n,), or (K, n)."""
        at = self.models[k]
        if at.coef.ndim == 1:
            return scores(at.coef, float(at.intercept), rows)
        each = zip(at.coef, at.intercept, strict=True)
        return np.stack([scores(w, float(b), rows) for w, b in each])


def fitted_models(
    X: SparseTable, d: int, targets: SampleTargets, lams: tuple[float, ...]
) -> SampleModels:
    """Return models of rows: those that a way certified first, or its last ones."""
    n = X.n_rows
    problem = Problem(targets.loss, L2(min(lams) / n), 1.0, FREE * min(lams) / n, targets.level)
    block = Block(row_view(X), targets.y, targets.unit_weight, np.arange(n), NO_ROW_STATE)
    tasks = tuple(Task(-1, lam / n) for lam in lams)
    problems = [task.problem(problem) for task in tasks]
    if problem.loss.is_quadratic and d <= MOST_SOLVED:
        models = [*_solved(problems, d, block)]
    elif (targets.classes == 2 and d <= MOST_STEPPED) or (targets.multiply and d <= MOST_SOLVED):
        models = [*_stepped(problems, d, targets, block)]
    else:
        models = _by_dual_ascent(tasks, problem, stats_of_sample(X, d, targets, block), block)
    return SampleModels(lams, tuple(models))


def _solved(problems: Sequence[Problem], d: int, block: Block) -> Iterator[Weights]:
    """Yield the minimum of every problem of the squared loss, by one reading of the rows."""
    sums = moments_of(problems[0], d, block)
    for problem in problems:
        x, _ = least_squares(problem, sums)
        yield Weights(x[:-1], float(x[-1]))


def _stepped(
    problems: Sequence[Problem], d: int, targets: SampleTargets, block: Block
) -> Iterator[Weights]:
    """Yield models by Newton's method, each from the one before."""
    constant = float(targets.losses(np.full(len(targets.y), targets.level)).sum() / targets.total)
    at, sizes = None, Sizes(len(targets.y), d, (constant,))
    for problem in problems:
        at = minimise(problem, sizes, block, TOL, MOST_PASSES, at).weights
        yield at


def _by_dual_ascent(
    tasks: tuple[Task, ...], problem: Problem, stats: ProblemStats, block: Block
) -> list[Weights]:
    width = problem.loss.width
    solver = fit_for(method_class(DUAL)(), width, smooth=True)
    groups = [(task,) for task in tasks] if width > 1 or len(tasks) == 1 else [tasks]
    return [
        one
        for group in groups
        for one in models_within(solver, group, problem, stats, block, TOL, MOST_PASSES)
    ]


def stats_of_sample(X: SparseTable, d: int, targets: SampleTargets, block: Block) -> ProblemStats:
    """Return the statistics of rows (n, d) that methods need."""
    n = X.n_rows
    values = X.data.astype(np.float64)
    squares = np.add.reduceat(np.append(values * values, 0.0), X.indptr[:-1])
    squares = np.where(np.diff(X.indptr) > 0, squares, 0.0)
    largest = sigma_square(block.rows, block.weight, d, block.order)
    counts = np.bincount(X.indices, minlength=d)
    sums = np.bincount(X.indices, values * values, d)
    moments = ColumnMoments(counts / n, sums / np.maximum(counts, 1))
    square = 1.0 if targets.classes else float(np.mean(block.weight * np.square(targets.y)))
    return ProblemStats(
        n=n, d=d, rows_kind=SparseRows, mean_square=float(squares.mean()),
        max_square=float(squares.max()), max_weight=float(block.weight.max()), stream_rows=n,
        shuffled=True,
        target_square=square, sigma_square=min(largest, float(squares.max())), streams=1, seed=0,
        columns=lambda: moments,
    )  # fmt: skip


def rows_of(X: SparseTable, rows: NDArray[np.int64]) -> SparseTable:
    """Return some rows of a table."""
    chosen = take(X, rows)
    assert isinstance(chosen, SparseTable), "rows of one"
    return chosen


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
