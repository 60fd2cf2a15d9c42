"""Scales for the steps, before the first row: moments of columns, unit of targets."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import Rows, dot_vector
from fewpass.solvers.kernels.shapes import Matrix, Order, PerColumn, PerRow
from fewpass.solvers.losses import Problem, counted_slope
from fewpass.solvers.onepass.adagrad import G_START, INVERSE_SCALE, INVERSE_SHARE, G, W
from fewpass.solvers.onepass.onepass_state import OnepassState
from fewpass.solvers.onepass.streaming_newton import scaled
from fewpass.solvers.protocol import Block, ColumnMoments, ProblemStats
from fewpass.solvers.sgd.first_step_size import TRIAL_ROWS

LEAST_SQUARE, MOST_SQUARE = (
    1e-280,
    1e280,
)  # mean square of a column's values; beyond, the column has no scale


def begun(problem: Problem, stats: ProblemStats, state: OnepassState, block: Block) -> OnepassState:
    """Return the state with moments of the columns, and mean and unit of the first targets.

    Rows that the start weights were trained on count in G with slopes as those of the first rows.
    """
    assert stats.columns is not None, "first_state requires them"
    columns, moments = state.columns, stats.columns()
    write_moments(columns, moments)
    if state.newton.used:
        scaled(state.newton, scales(moments, len(columns) - 1))
    first = block._replace(order=block.order[:TRIAL_ROWS])
    unit = unit_of(problem, stats, first)
    labelled_anew = state.t == 0 and not problem.loss.takes_numbers
    w = np.ascontiguousarray(columns[:, W])
    pull = 1.0 if labelled_anew else mean_square_slope(w, problem, *first[:4]) or 1.0
    share = np.append(moments.share, 1.0)
    columns[:, G] = columns[:, G + 1] = pull * (G_START + state.rows_before * share)
    values = float(moments.share.sum()) + (problem.intercept != 0.0)
    return state._replace(values_per_row=values or 1.0, unit=unit)


def scales(moments: ColumnMoments | None, d: int) -> NDArray[np.float64]:
    """Return the root mean square of every column, (d,); 1 if 0 or unknown."""
    if moments is None:
        return np.ones(d)
    mean_square = moments.share * moments.square
    return np.sqrt(np.where(mean_square > 0.0, mean_square, 1.0))


@kernel
def write_moments(columns: Matrix, moments: ColumnMoments) -> None:
    """Store 1/f and 1/S of every column; the weight of a column without a scale stays 0."""
    share, square = moments
    for j in range(share.shape[0]):
        has_scale = LEAST_SQUARE < square[j] < MOST_SQUARE
        columns[j, INVERSE_SCALE] = 1.0 / math.sqrt(square[j]) if has_scale else 0.0
        columns[j, INVERSE_SHARE] = 1.0 / share[j] if share[j] > 0.0 else 1.0
    columns[-1, INVERSE_SHARE] = columns[-1, INVERSE_SCALE] = 1.0


def unit_of(problem: Problem, stats: ProblemStats, first: Block) -> float:
    """Return the unit of steps: the standard deviation of the targets; 1 for labels and logs."""
    if not problem.loss.takes_numbers or problem.loss.is_steep:
        return 1.0
    return (
        float(np.sqrt(np.mean(np.square(first.y[first.order]))))
        or math.sqrt(stats.target_square)
        or 1.0
    )


@kernel
def mean_square_slope(
    w: PerColumn, problem: Problem, rows: Rows, y: PerRow, weight: PerRow, order: Order
) -> float:
    """Return the mean of (c phi')^2 over rows `order` at weights w, the intercept last."""
    total, d = 0.0, w.shape[0] - 1
    for r in range(order.shape[0]):
        i = order[r]
        p = dot_vector(rows, i, w[:d]) + problem.intercept * w[d]
        total += (weight[i] * counted_slope(problem.loss, p, y[i])) ** 2
    return total / max(order.shape[0], 1)
