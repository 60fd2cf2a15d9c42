"""Rounds of dual steps from the same weights, added up: beyond the five papers.

The rows of a round are dealt to lanes.  Every lane begins at the weights w of the round and takes
serial steps of its own; then all moves are added.  What they have in common decides how far each
may go, and nearly all of it lies along one direction V, about the mean row.  So

- a lane counts its own moves s times across V, and s_V / rho times along it, as measured on the
  rounds before;
- what all lanes moved along V is owed, and paid out over the next `rho` rounds: rows are predicted
  by w - owed V;
- a round takes the share t of its moves that, by concavity, is best for D.

Lanes of one row each are mini-batches.  docs/methods.md, section 7.14; the kernel is
dual/rounds_steps.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.losses import Problem, conjugate, dual_step
from fewpass.solvers.papers.xu_2011 import Floats

FORGETS = 0.2  # of the four sums, in every round
ACROSS, AFTER_SHARE, ALONG = 1.05, 1.1, 1.1  # margins of s, of s after t < 1, and of s_V


class Along(NamedTuple):
    """State that goes on from round to round."""

    V: Floats  # (d,) a unit vector, or zeros
    owed: float = 0.0
    across: float = 2.0  # s
    along: float = 16.0  # s_V
    rho: float = 1.0
    #: Squares of all moves together and of each lane's, across V and along it, decaying.
    U: float = 0.0
    R: float = 0.0
    G: float = 0.0
    S: float = 0.0


def take_round(
    problem: Problem, X: Floats, y: Floats, weight: Floats, lanes: Sequence[NDArray[np.int64]],
    K: int, a: Floats, w: Floats, at: Along, late: float, most_rho: float,
) -> tuple[Floats, Floats, Along, float]:  # fmt: skip
    """Return dual variables and weights after a round, what goes on, and t.

    Parameters
    ----------
    problem
        Its lam is what the steps count with; a constant column is among those of X.
    X, y, weight
        As the package says.
    lanes
        Rows of each lane.
    K
        Lanes of a whole round.
    a : (n,), w : (d,)
        Dual variables and weights before.
    late
        rho over s_V: how much of s_V is paid out late, and not by shorter steps.
    most_rho
        Largest rho: a quarter of the rounds of a pass, as rows answer only when they are visited.
    """
    n, C, a_after = len(y), X @ at.V, a.copy()
    sides = np.ones(n) if problem.loss.takes_numbers else y
    f, moves, along, gain = at.along / at.rho - at.across, [], [], 0.0
    for lane in lanes:
        move, g = np.zeros(len(w)), 0.0
        for i in lane:
            p = X[i] @ (w + at.across * move) + C[i] * (f * g - at.owed)
            square = at.across * X[i] @ X[i] + f * C[i] ** 2
            q = weight[i] * max(0.0, square) / (problem.lam * n)
            delta = dual_step(problem.loss, a[i], p, y[i], q)
            a_after[i] = a[i] + delta
            gain += weight[i] * (conjugate(problem.loss, a[i], y[i])
                                 - conjugate(problem.loss, a_after[i], y[i]))  # fmt: skip
            unit = weight[i] * delta * sides[i] / (problem.lam * n)
            move, g = move + unit * X[i], g + unit * C[i]
        moves.append(move)
        along.append(g)
    u, T, paid = np.sum(moves, axis=0), float(sum(along)), 1.0 - 1.0 / at.rho
    line, square = float(w @ u) - at.owed * T, float(u @ u)
    t = share(gain / (problem.lam * n) - line, square - paid * T**2)
    a_after = a + t * (a_after - a)
    Q, H = sum(float(move @ move) for move in moves), float(sum(g * g for g in along))
    after = measured(at, (square - T**2, Q - H, T**2, H), t, K, late, most_rho)
    return a_after, w + t * u, after._replace(owed=(at.owed + t * T) * paid), t


def share(gain: float, square: float) -> float:
    """Return the t in [0, 1] that makes t gain - t^2 square / 2 largest, all where both are 0."""
    return 1.0 if gain >= square else max(0.0, gain / square)


def measured(
    at: Along, squares: tuple[float, float, float, float], t: float, K: int, late: float,
    most_rho: float,
) -> Along:  # fmt: skip
    """Return s, s_V and rho for the next round."""
    U, R, G, S = (
        (1.0 - FORGETS) * old + FORGETS * new
        for old, new in zip(at[-4:], squares, strict=True)
    )  # fmt: skip
    s = (ACROSS if t == 1.0 else AFTER_SHARE) * U / R if R > 0.0 else at.across
    s = min(max(1.0, s), K)
    s_V = min(max(s, ALONG * G / S if S > 0.0 else at.along), K)
    rho = max(1.0, min(late * s_V, most_rho))
    return at._replace(across=s, along=s_V, rho=rho, U=U, R=R, G=G, S=S)


def mean_direction(X: Floats) -> Floats:
    """Return the mean row at unit length, which is V but for some hundredths."""
    mean: Floats = X.mean(axis=0)
    size = float(np.linalg.norm(mean))
    return mean / size if size > 0.0 else mean


def dealt(order: NDArray[np.int64], K: int, m: int) -> Iterable[list[NDArray[np.int64]]]:
    """Yield m rounds of an order of rows, each of K lanes, those without rows left out."""
    for rows in np.array_split(order, m):
        yield [lane for lane in np.array_split(rows, K) if len(lane)]
