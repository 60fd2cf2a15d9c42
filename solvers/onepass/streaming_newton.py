"""Streaming Newton: rows that have gone by live on as one quadratic, d x d, for few columns.

    A = 0, r = 0, w = 0
    for blocks T of rows, t the number of rows up to a block's end
        w <- argmin  w'Aw/2 - r'w + sum over T of c phi(x.w, y) + t/2 sum_j L_j w_j^2
             by a few Newton steps from the last w, with the curvature there
        H = sum over T of c phi'' x x',  g = sum of c phi' x,  both at the new w
        A <- A + H,   r <- r + H w - g

The first B0 = max(1024, 2 (d + 1)) rows stay in one block, fitted anew at 32, 64, 128, ... rows,
and are summed up once; later blocks double up to 2048 rows.  Columns are divided by the root of
their mean square, and L_j = lam over that square; a Newton step adds e to it.  Under the squared
loss every quadratic is exact, and one pass gives the ridge optimum with its certificate.  Under
others w comes as near as the optimum of all rows in the limit (Luo, Song 2020); it fails where
blocks are hardly larger than d and separable, so it is offered beside others.

Sources: Schifano et al. 2016 (online updating of estimating equations); Luo, Song 2020 (renewable
estimation).
"""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.gradient import GradientPart, certificate
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector
from fewpass.solvers.kernels.shapes import Matrix, Order, PerColumn
from fewpass.solvers.losses import Problem, curvature_at, slope, value
from fewpass.solvers.protocol import ENDLESS, Block, ProblemStats, Weights

ENOUGH = 50  # rows per column
MOST_WORK = 2e10  # rows times squared columns: some ten seconds of a core
FEW_COLUMNS = 128  # where nobody knows how many rows will come: some ten microseconds a row
FIRST_BLOCK, LARGEST_BLOCK, LEAST_START = 32, 2048, 1024  # rows
FEW_STEPS, MANY_STEPS = 3, 30  # Newton steps to a block, and to the rows at the start
ENOUGH_PRECISION = 1e-9  # of the mean objective that a block is fitted to
DECREASE, MOST_HALVINGS = 1e-4, 30
POLISH = 5  # and to what all blocks came to
RIDGE = 1e-9  # e: no column goes without a curvature, however small lam
MOST_LOSS = 1e100
ADDED = ("rows", "late", "weight", "losses", "level")  # of streams' numbers

Vector = NDArray[np.float64]


class Summary(NamedTuple):
    """What rows have come to; the constant column is the last one, all in scaled coordinates."""

    A: Matrix  # (d + 1, d + 1)
    r: Vector  # (d + 1,)
    w: Vector  # (d + 1,)
    prior: Vector  # (d + 1,) the w that it begins at
    scale: Vector  # (d,) root of the columns' mean square; 1 where there is nothing
    X: Matrix  # (rows, d + 1) of the block under way
    y: Vector  # (rows,)
    c: Vector  # (rows,) their weights
    start: int = 0  # rows that are kept before they are summed up
    filled: int = 0  # rows in the block under way; at the start all so far
    rows: int = 0  # that w is fitted to
    rows_before: int = 0  # that the prior learnt from
    late: float = 0.0  # sum of late-weighted losses before w knew of the rows
    weight: float = 0.0  # sum of these weights
    losses: float = 0.0  # sum of the same losses as they are
    level: float = 0.0  # what the quadratic, w'Aw/2 - r'w + level, is at 0

    @property
    def used(self) -> bool:
        """Whether there is one."""
        return len(self.w) > 0


def no_summary() -> Summary:
    """Return what stands where streaming Newton is not run."""
    none, empty = np.zeros((0, 0)), np.zeros(0)
    return Summary(none, empty, empty, empty, empty, none, empty, empty)


def suits(problem: Problem, stats: ProblemStats) -> bool:
    """Say whether the loss has a curvature, and a stream enough rows, but not too much work."""
    n, d = stats.stream_rows, stats.d
    bearable = d <= FEW_COLUMNS if n == ENDLESS else n <= MOST_WORK / (d * d)
    return problem.loss.is_smooth and n >= ENOUGH * d and bearable


def first_summary(d: int) -> Summary:
    """Return that of no rows."""
    start = max(LEAST_START, 2 * (d + 1))
    rows = max(start, LARGEST_BLOCK)
    return Summary(
        np.zeros((d + 1, d + 1)), np.zeros(d + 1), np.zeros(d + 1), np.zeros(d + 1), np.ones(d),
        np.zeros((rows, d + 1)), np.zeros(rows), np.zeros(rows), start,
    )  # fmt: skip


def scaled(summary: Summary, scale: Vector) -> Summary:
    """Return the summary of no rows with its columns' scales known."""
    summary.scale[:] = scale
    summary.w[:-1] *= scale
    summary.prior[:] = summary.w
    return summary


def next_end(rows: int, start: int) -> int:
    """Return how many rows there are at the end of the block that begins after `rows`."""
    if rows < start:
        return min(start, 2 * rows if rows else FIRST_BLOCK)
    return rows + min(rows, LARGEST_BLOCK)


def weights_of(summary: Summary) -> Weights:
    """Return w in the columns' own units."""
    return Weights(summary.w[:-1] / summary.scale, float(summary.w[-1]))


def take(problem: Problem, summary: Summary, block: Block, horizon: float) -> Summary:
    """Take in a block's rows; w follows wherever one of this method's own blocks is full."""
    taken = 0
    while taken < len(block.order):
        room = next_end(summary.rows, summary.start) - summary.rows - pending(summary)
        if not 0 < room <= len(summary.X) - summary.filled:  # compiled code would write outside
            raise ValueError(
                f"Streaming Newton's {summary.filled} rows under way do not go with the "
                f"{summary.rows} before. Begin a new run at the model (`start_from`)."
            )
        part = block.order[taken : taken + room]
        first, last = summary.filled, summary.filled + len(part)
        copy_rows(summary.X[first:last], summary.scale, problem.intercept, block.rows, part)
        summary.y[first:last], summary.c[first:last] = block.y[part], block.weight[part]
        summary, taken = summary._replace(filled=last), taken + len(part)
        if len(part) == room:
            summary = fitted(problem, summary, horizon)
    return summary


def fitted(problem: Problem, summary: Summary, horizon: float, *, closing: bool = False) -> Summary:
    """Fit w to all rows up to here; sum them up where the start is over, or is to end here."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            if pending(summary):
                summary = refitted(problem, summary, horizon)
            if summary.filled and (closing or summary.rows >= summary.start):
                summary = summed_up(problem, summary)
        except np.linalg.LinAlgError:
            return given_up(summary)
    sound = all(np.isfinite(part).all() for part in (summary.A, summary.r, summary.w))
    return summary if sound else given_up(summary)


def refitted(problem: Problem, summary: Summary, horizon: float) -> Summary:
    """Hear what w makes of the rows that it does not know of, and fit it to them."""
    late, weight, losses = late_losses(problem, summary, horizon)
    summary = summary._replace(
        rows=summary.rows + pending(summary),
        late=summary.late + late, weight=summary.weight + weight, losses=summary.losses + losses,
    )  # fmt: skip
    at_start = summary.filled == summary.rows
    if at_start and summary.rows_before:
        take_prior(problem, summary)
    few = 1 if problem.loss.is_quadratic else FEW_STEPS
    steps = MANY_STEPS if at_start and not problem.loss.is_quadratic else few
    summary.w[:] = minimiser(problem, summary, steps, ENOUGH_PRECISION * summary.rows)
    return summary


def summed_up(problem: Problem, summary: Summary) -> Summary:
    """Put the block's losses into the quadratic, to the second order at w."""
    X, y, c = rows_of(summary)
    p = X @ summary.w
    H = squares(X, c * curvature_at(problem.loss, p, y))
    g, w = X.T @ (c * slope(problem.loss, p, y)), summary.w
    summary.A[:] += H
    summary.r[:] += H @ w - g
    here = float(c @ np.minimum(value(problem.loss, p, y), MOST_LOSS) - g @ w + 0.5 * w @ H @ w)
    return summary._replace(
        filled=0, start=min(summary.start, summary.rows), level=summary.level + here
    )


def take_prior(problem: Problem, summary: Summary) -> None:
    """Count the rows before as if they were like those here, and the prior their optimum."""
    X, y, c = rows_of(summary)
    h = c * curvature_at(problem.loss, X @ summary.prior, y)
    summary.A[:] = squares(X, h) * (summary.rows_before / len(y))
    own = summary.rows_before / (summary.rows + summary.rows_before) * charges(problem, summary)
    summary.r[:] = (summary.A + np.diag(own)) @ summary.prior


def given_up(summary: Summary) -> Summary:
    """Return a summary of nothing, which is never chosen: its numbers left all bounds."""
    for part in (summary.A, summary.r, summary.w):
        part[:] = 0.0
    return summary._replace(filled=0, start=0, late=MOST_LOSS, weight=1.0)


def pending(summary: Summary) -> int:
    """Count the rows that w does not know of."""
    return summary.filled - known(summary)


def known(summary: Summary) -> int:
    """Count the rows of the block under way that w is fitted to: those of the start."""
    return summary.rows if summary.rows < summary.start else 0


def late_losses(problem: Problem, summary: Summary, horizon: float) -> tuple[float, float, float]:
    """Return late-weighted losses of the rows that w does not know of, the weights, and losses."""
    X, y, c = (part[known(summary) :] for part in rows_of(summary))
    before = summary.rows_before + summary.rows
    share = ((before + 1.0 + np.arange(len(y))) / horizon) ** 5
    loss = c * np.minimum(value(problem.loss, X @ summary.w, y), MOST_LOSS)
    return float(share @ loss), float(share.sum()), float(loss.sum())


def rows_of(summary: Summary) -> tuple[Matrix, Vector, Vector]:
    """Return the rows, targets and weights of the block under way."""
    return tuple(part[: summary.filled] for part in (summary.X, summary.y, summary.c))  # type: ignore[return-value]


def charges(problem: Problem, summary: Summary) -> Vector:
    """t L_j of every column, (d + 1,)."""
    L = np.append(problem.lam / summary.scale**2, problem.lam_b)
    return (summary.rows + summary.rows_before) * L


def squares(X: Matrix, h: Vector) -> Matrix:
    """Sum of h x x'."""
    rooted = X * np.sqrt(h)[:, None]
    found: Matrix = rooted.T @ rooted
    return found


def minimiser(problem: Problem, summary: Summary, most_steps: int, enough: float) -> Vector:
    """Return the minimiser, or what is found in so many Newton steps from w.

    Steps end, too, where the next one promises no more than `enough`.  At the start every step has
    its own curvature; later a block adds little to A, and is taken at the first point alone: that
    is a third of the time, for an excess a few percent larger.
    """
    (X, y, c), charge, w = rows_of(summary), charges(problem, summary), summary.w.copy()
    ridge = np.diag(charge + RIDGE * (summary.rows + summary.rows_before))
    at_start = summary.filled == summary.rows

    def total(w: Vector, p: Vector) -> float:
        losses = np.minimum(value(problem.loss, p, y), MOST_LOSS)
        return float(0.5 * w @ (summary.A @ w + charge * w) - summary.r @ w + c @ losses)

    p = X @ w
    before, H = total(w, p), None
    for _step in range(most_steps):
        g = summary.A @ w - summary.r + charge * w + X.T @ (c * slope(problem.loss, p, y))
        if H is None or at_start:
            H = summary.A + squares(X, c * curvature_at(problem.loss, p, y)) + ridge
        step = -np.linalg.solve(H, g)
        promised = float(g @ step)
        if -promised <= enough:
            break
        share = 1.0
        for _half in range(MOST_HALVINGS):
            there = w + share * step
            p = X @ there
            now = total(there, p)
            if now <= before + DECREASE * share * promised:
                break
            share *= 0.5
        else:  # up to rounding, w is the minimum
            break
        w, before = there, now
    return w


class Proof(NamedTuple):
    """What is proven of w."""

    objective: float = 0.0
    gap: float = -1.0  # below 0: nothing


def joined(problem: Problem, summaries: list[Summary]) -> tuple[Summary, Proof]:
    """Return the mean of the streams' quadratics with its minimum, and what their sum proves."""
    first, several = summaries[0], len(summaries)
    if first.filled:
        return first, Proof()
    for name in ("A", "r", "w"):
        getattr(first, name)[:] = np.sum([getattr(s, name) for s in summaries], axis=0)
    # Not `sum`: its rounding depends on Python's version.
    added = {name: reduce(add, [getattr(s, name) for s in summaries]) for name in ADDED}
    total = first._replace(**added)
    total.w[:] = minimiser(problem, total._replace(w=first.w / several), POLISH, 0.0)
    found = proof(problem, total)
    total.A[:] /= several
    total.r[:] /= several
    shared = {name: number / several for name, number in added.items() if name != "rows"}
    return total._replace(rows=total.rows // several, start=0, **shared), found


def proof(problem: Problem, summary: Summary) -> Proof:
    """Certify w where the quadratic is the objective itself: the squared loss, all rows summed up.

    By its gradient in the columns' own units, as gradient.py does it.
    """
    if not problem.loss.is_quadratic or summary.filled or summary.rows_before or not summary.rows:
        return Proof()
    n, w = summary.rows, summary.w
    g = (summary.A @ w - summary.r) / n
    losses = float(0.5 * w @ summary.A @ w - summary.r @ w + summary.level) / n
    part = GradientPart(losses, g[:-1] * summary.scale, float(g[-1]), 1)
    found = certificate(problem, weights_of(summary), part)
    return Proof(found.objective, found.gap)


@kernel
def copy_rows(X: Matrix, scale: PerColumn, intercept: float, rows: Rows, order: Order) -> None:
    """X[k] = row order[k] over the columns' scales, the constant column last."""
    d = scale.shape[0]
    for k in range(order.shape[0]):
        X[k] = 0.0
        add_vector(rows, order[k], 1.0, X[k, :d])
        for j in range(d):
            X[k, j] /= scale[j]
        X[k, d] = intercept
