"""Streaming Newton: past rows are summarised by one quadratic, d x d, for few columns.

    A = 0, r = 0, w = 0
    for blocks T of rows, t the number of rows up to a block's end
        w <- argmin  w'Aw/2 - r'w + sum over T of c phi(x.w, y) + t/2 sum_j L_j w_j^2
             by a few Newton steps from the last w, with the curvature there
        H = sum over T of c phi'' x x',  g = sum of c phi' x,  both at the new w
        A <- A + H,   r <- r + H w - g

The first B0 = max(1024, 2 (d + 1)) rows form one block, which is fitted again at 32, 64, 128, ...
rows and then added to the quadratic; later blocks double up to 2048 rows.  Columns are divided by
their root mean square, and L_j = lam over the mean square; a Newton step adds e to it.  For the
squared loss every quadratic is exact, and one pass gives the ridge optimum with its certificate.
For others w is asymptotically as good as the optimum of all rows (Luo, Song 2020); it fails if
blocks are hardly larger than d and separable, so it is one learner among others.

Sources: Schifano et al. 2016 (online updating of estimating equations); Luo, Song 2020 (renewable
estimation).
"""

from __future__ import annotations

import math
from functools import reduce
from operator import add
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.gradient import SUFFICIENT_DECREASE, GradientPart, certificate
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, add_vector
from fewpass.solvers.kernels.shapes import Matrix, Order, PerColumn
from fewpass.solvers.loss_monitor import MOST_LOSS
from fewpass.solvers.losses import Problem
from fewpass.solvers.losses.loss import at_scores
from fewpass.solvers.protocol import ENDLESS, Block, ProblemStats, Weights

ENOUGH = 50  # rows per column
MOST_WORK = 2e10  # rows times squared columns: about ten seconds of a core
FEW_COLUMNS = 128  # for an unknown number of rows: about ten microseconds per row
FIRST_BLOCK, LARGEST_BLOCK, LEAST_START = 32, 2048, 1024  # rows
FEW_STEPS, MANY_STEPS = 3, 30  # Newton steps per block, and for the first block
ENOUGH_PRECISION = 1e-9  # of the mean objective, for a block
MOST_HALVINGS = 30
POLISH = 5  # extra steps at the end
RIDGE = 1e-9  # e: curvature of every column, for any lam
ADDED = ("rows", "late", "weight", "losses", "level")  # numbers that are summed over streams

Vector = NDArray[np.float64]


class Summary(NamedTuple):
    """Summary of rows; the constant column is the last one, all in scaled coordinates."""

    A: Matrix  # (d + 1, d + 1)
    r: Vector  # (d + 1,)
    w: Vector  # (d + 1,)
    prior: Vector  # (d + 1,) initial w
    scale: Vector  # (d,) root mean square of the columns; 1 if 0
    X: Matrix  # (rows, d + 1) of the current block
    y: Vector  # (rows,)
    c: Vector  # (rows,) row weights
    start: int = 0  # size of the first block
    filled: int = 0  # rows in the current block
    rows: int = 0  # that w is fitted to
    rows_before: int = 0  # that the prior was trained on
    late: float = 0.0  # sum of late-weighted losses before w was fitted to the rows
    weight: float = 0.0  # sum of these weights
    losses: float = 0.0  # sum of the same losses, unweighted
    level: float = 0.0  # constant term of the quadratic w'Aw/2 - r'w + level

    @property
    def used(self) -> bool:
        """Return whether streaming Newton is run."""
        return len(self.w) > 0

    @property
    def left(self) -> bool:
        """Return whether it was given up: its weights are never chosen."""
        return self.late >= MOST_LOSS


def no_summary() -> Summary:
    """Return the empty summary, if streaming Newton is not run."""
    none, empty = np.zeros((0, 0)), np.zeros(0)
    return Summary(none, empty, empty, empty, empty, none, empty, empty)


def is_suitable(problem: Problem, stats: ProblemStats) -> bool:
    """Return whether the loss is smooth, and a stream has enough rows, but not too much work."""
    n, d = stats.stream_rows, stats.d
    bearable = d <= FEW_COLUMNS if n == ENDLESS else n <= MOST_WORK / (d * d)
    return problem.loss.is_smooth and n >= ENOUGH * d and bearable


def most_columns(problem: Problem, stats: ProblemStats, models: int) -> int:
    """Return the most columns that suit, where later rows may have some more; 0 if none do.

    The work is that of all models together, but those that there are already may have theirs.
    """
    if not is_suitable(problem, stats):
        return 0
    n = stats.stream_rows
    bearable = FEW_COLUMNS if n == ENDLESS else math.isqrt(int(MOST_WORK / (n * models)))
    return max(stats.d, min(n // ENOUGH, bearable))


def first_summary(d: int) -> Summary:
    """Return the summary of no rows."""
    start = max(LEAST_START, 2 * (d + 1))
    rows = max(start, LARGEST_BLOCK)
    return Summary(
        np.zeros((d + 1, d + 1)), np.zeros(d + 1), np.zeros(d + 1), np.zeros(d + 1), np.ones(d),
        np.zeros((rows, d + 1)), np.zeros(rows), np.zeros(rows), start,
    )  # fmt: skip


def with_columns(summary: Summary, scale: Vector) -> Summary:
    """Return the summary with more columns, which all rows so far lack; `scale` (d,) has theirs."""
    before, d = len(summary.scale), len(scale)
    wider = first_summary(d)
    places = np.append(np.arange(before), d)  # the constant column stays the last one
    wider.A[np.ix_(places, places)] = summary.A
    wider.r[places], wider.w[places], wider.prior[places] = summary.r, summary.w, summary.prior
    wider.scale[:before], wider.scale[before:] = summary.scale, scale[before:]
    rows = slice(summary.filled)
    wider.X[rows, places] = summary.X[rows]
    wider.y[rows], wider.c[rows] = summary.y[rows], summary.c[rows]
    start = wider.start if summary.rows < summary.start else summary.start
    parts = {
        name: getattr(wider, name) for name in ("A", "r", "w", "prior", "scale", "X", "y", "c")
    }
    return summary._replace(start=start, **parts)


def scaled(summary: Summary, scale: Vector) -> Summary:
    """Return the summary of no rows with the scales of its columns."""
    summary.scale[:] = scale
    summary.w[:-1] *= scale
    summary.prior[:] = summary.w
    return summary


def next_end(rows: int, start: int) -> int:
    """Return the number of rows at the end of the block that begins after `rows`."""
    if rows < start:
        return min(start, 2 * rows if rows else FIRST_BLOCK)
    return rows + min(rows, LARGEST_BLOCK)


def weights_of(summary: Summary) -> Weights:
    """Return w in the original units."""
    return Weights(summary.w[:-1] / summary.scale, float(summary.w[-1]))


def take(problem: Problem, summary: Summary, block: Block, horizon: float) -> Summary:
    """Add a block's rows; fit w whenever a block of this method is full."""
    taken = len(block.order) if summary.left else 0
    while taken < len(block.order):
        space = next_end(summary.rows, summary.start) - summary.rows - n_pending(summary)
        if not 0 < space <= len(summary.X) - summary.filled:  # or compiled code would write outside
            raise ValueError(
                f"Streaming Newton's {summary.filled} rows under way do not go with the "
                f"{summary.rows} before. Begin a new run at the model (`start_from`)."
            )
        part = block.order[taken : taken + space]
        first, last = summary.filled, summary.filled + len(part)
        copy_rows(summary.X[first:last], summary.scale, problem.intercept, block.rows, part)
        summary.y[first:last], summary.c[first:last] = block.y[part], block.weight[part]
        summary, taken = summary._replace(filled=last), taken + len(part)
        if len(part) == space:
            summary = fitted(problem, summary, horizon)
    return summary


def fitted(problem: Problem, summary: Summary, horizon: float, *, closing: bool = False) -> Summary:
    """Fit w to all rows so far; add the block to the quadratic unless the first one grows on."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        try:
            if n_pending(summary):
                summary = refitted(problem, summary, horizon)
            if summary.filled and (closing or summary.rows >= summary.start):
                summary = summed_up(problem, summary)
        except np.linalg.LinAlgError:
            return unusable(summary)
    sound = all(np.isfinite(part).all() for part in (summary.A, summary.r, summary.w))
    return summary if sound else unusable(summary)


def refitted(problem: Problem, summary: Summary, horizon: float) -> Summary:
    """Add the losses of w on the new rows, then fit w to them."""
    late, weight, losses = late_losses(problem, summary, horizon)
    summary = summary._replace(
        rows=summary.rows + n_pending(summary),
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
    """Add the block's losses to the quadratic, to second order at w."""
    X, y, c = rows_of(summary)
    losses, slopes, curvatures = at_scores(problem.loss, X @ summary.w, y)
    H = squares(X, c * curvatures)
    g, w = X.T @ (c * slopes), summary.w
    summary.A[:] += H
    summary.r[:] += H @ w - g
    here = float(c @ np.minimum(losses, MOST_LOSS) - g @ w + 0.5 * w @ H @ w)
    return summary._replace(
        filled=0, start=min(summary.start, summary.rows), level=summary.level + here
    )


def take_prior(problem: Problem, summary: Summary) -> None:
    """Add a prior as if earlier rows were like these, with the prior as their optimum."""
    X, y, c = rows_of(summary)
    _, _, curvatures = at_scores(problem.loss, X @ summary.prior, y)
    summary.A[:] = squares(X, c * curvatures) * (summary.rows_before / len(y))
    own = summary.rows_before / (summary.rows + summary.rows_before) * charges(problem, summary)
    summary.r[:] = (summary.A + np.diag(own)) @ summary.prior


def unusable(summary: Summary) -> Summary:
    """Return an unusable summary, never chosen, after an overflow."""
    for part in (summary.A, summary.r, summary.w):
        part[:] = 0.0
    return summary._replace(filled=0, start=0, late=MOST_LOSS, weight=1.0)


def n_pending(summary: Summary) -> int:
    """Return the number of rows that w is not fitted to yet."""
    return summary.filled - fitted_in_block(summary)


def fitted_in_block(summary: Summary) -> int:
    """Return the number of rows of the current block that w is fitted to."""
    return summary.rows if summary.rows < summary.start else 0


def late_losses(problem: Problem, summary: Summary, horizon: float) -> tuple[float, float, float]:
    """Return late-weighted losses, their weights, and plain losses of the rows not fitted yet."""
    X, y, c = (part[fitted_in_block(summary) :] for part in rows_of(summary))
    before = summary.rows_before + summary.rows
    share = ((before + 1.0 + np.arange(len(y))) / horizon) ** 5
    losses, _, _ = at_scores(problem.loss, X @ summary.w, y)
    loss = c * np.minimum(losses, MOST_LOSS)
    return float(share @ loss), float(share.sum()), float(loss.sum())


def rows_of(summary: Summary) -> tuple[Matrix, Vector, Vector]:
    """Return rows, targets and weights of the current block."""
    return tuple(part[: summary.filled] for part in (summary.X, summary.y, summary.c))  # type: ignore[return-value]


def charges(problem: Problem, summary: Summary) -> Vector:
    """Return t L_j of every column, (d + 1,)."""
    L = np.append(problem.lam / summary.scale**2, problem.lam_b)
    return (summary.rows + summary.rows_before) * L


def squares(X: Matrix, h: Vector) -> Matrix:
    """Return the sum of h x x'."""
    rooted = X * np.sqrt(h)[:, None]
    product: Matrix = rooted.T @ rooted
    return product


def minimiser(problem: Problem, summary: Summary, most_steps: int, enough: float) -> Vector:
    """Return the minimiser after at most `most_steps` Newton steps from w.

    Steps also end if the predicted decrease is at most `enough`.  In the first block the curvature
    is computed in every step; later a block adds little to A, and its curvature is computed at the
    first point only: a third of the time, for an excess a few percent larger.
    """
    (X, y, c), charge, w = rows_of(summary), charges(problem, summary), summary.w.copy()
    ridge = np.diag(charge + RIDGE * (summary.rows + summary.rows_before))
    at_start = summary.filled == summary.rows

    def total(w: Vector, losses: Vector) -> float:
        quadratic = 0.5 * w @ (summary.A @ w + charge * w) - summary.r @ w
        return float(quadratic + c @ np.minimum(losses, MOST_LOSS))

    losses, slopes, curvatures = at_scores(problem.loss, X @ w, y)
    before, H = total(w, losses), None
    for _step in range(most_steps):
        g = summary.A @ w - summary.r + charge * w + X.T @ (c * slopes)
        if H is None or at_start:
            H = summary.A + squares(X, c * curvatures) + ridge
        step = -np.linalg.solve(H, g)
        promised = float(g @ step)
        if -promised <= enough:
            break
        share = 1.0
        for _half in range(MOST_HALVINGS):
            there = w + share * step
            losses, slopes, curvatures = at_scores(problem.loss, X @ there, y)
            now = total(there, losses)
            if now <= before + SUFFICIENT_DECREASE * share * promised:
                break
            share *= 0.5
        else:  # up to rounding, w is the minimum
            break
        w, before = there, now
    return w


class Proof(NamedTuple):
    """The certificate of w."""

    objective: float = 0.0
    gap: float = -1.0  # negative: none


def joined(problem: Problem, summaries: list[Summary]) -> tuple[Summary, Proof]:
    """Return the mean of the streams' quadratics with its minimum, and the certificate."""
    first, several = summaries[0], len(summaries)
    if first.filled:
        return first, Proof()
    for name in ("A", "r", "w"):
        getattr(first, name)[:] = np.sum([getattr(s, name) for s in summaries], axis=0)
    # Not `sum`: its rounding depends on Python's version.
    added = {name: reduce(add, [getattr(s, name) for s in summaries]) for name in ADDED}
    total = first._replace(**added)
    total.w[:] = minimiser(problem, total._replace(w=first.w / several), POLISH, 0.0)
    proven, rows = proof(problem, total), total.rows // several
    share = rows / max(1, total.rows)  # of the quadratic, which stays the sum over as many rows
    total.A[:] *= share
    total.r[:] *= share
    shared = {name: added[name] / several for name in ("late", "weight", "losses")}
    return total._replace(rows=rows, start=0, level=share * total.level, **shared), proven


def proof(problem: Problem, summary: Summary) -> Proof:
    """Certify w if the quadratic is the objective: for the squared loss, with all rows added.

    By its gradient in the original units, as in gradient.py.
    """
    if not problem.loss.is_quadratic or summary.filled or summary.rows_before or not summary.rows:
        return Proof()
    n, w = summary.rows, summary.w
    g = (summary.A @ w - summary.r) / n
    losses = float(0.5 * w @ summary.A @ w - summary.r @ w + summary.level) / n
    part = GradientPart(losses, g[:-1] * summary.scale, float(g[-1]), 1)
    certified = certificate(problem, weights_of(summary), part)
    return Proof(certified.objective, certified.gap)


@kernel
def copy_rows(X: Matrix, scale: PerColumn, intercept: float, rows: Rows, order: Order) -> None:
    """X[k] = row order[k] divided by the columns' scales, the constant column last."""
    d = scale.shape[0]
    for k in range(order.shape[0]):
        X[k] = 0.0
        add_vector(rows, order[k], 1.0, X[k, :d])
        for j in range(d):
            X[k, j] /= scale[j]
        X[k, d] = intercept
