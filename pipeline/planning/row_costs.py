"""The cost of a row in a pass of Newton's method and of dual ascent, where rows are in memory.

A pass of Newton's method adds up products of all pairs of a row's numbers, side by side where rows
are dense, each to its own place where they are sparse; one of dual ascent goes over the numbers
three times.  In nanoseconds, as measured on one thread with 20 to 305 columns (docs/methods.md,
section 10.1); what counts is which is less.
"""

from __future__ import annotations

import numpy as np

from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.protocol import ProblemStats

NEWTON_ROW, DUAL_ROW = 100.0, 150.0
NUMBER = 1.0  # a number of a row, in either
DENSE_PAIR, SPARSE_PAIR = 0.06, 1.0
FACTOR = 0.1  # a product of the factor of a large matrix, of which d^3/6 are added up
CLEARLY = 1.5  # by this factor an estimate has to be less


def numbers_per_row(stats: ProblemStats) -> float:
    """Return the mean number of a row's numbers that are stored."""
    if stats.rows_kind is DenseRows or stats.columns is None:
        return float(stats.d)
    return float(np.sum(stats.columns().share))


def newton_row(stats: ProblemStats) -> float:
    """Return what a row costs in a pass of Newton's method."""
    numbers = numbers_per_row(stats)
    pair = DENSE_PAIR if stats.rows_kind is DenseRows else SPARSE_PAIR
    return NEWTON_ROW + NUMBER * numbers + 0.5 * pair * numbers * numbers


def dual_row(stats: ProblemStats) -> float:
    """Return what a row costs in a pass of dual ascent."""
    return DUAL_ROW + NUMBER * numbers_per_row(stats)


def newton_pass(stats: ProblemStats) -> float:
    """Return what a pass of Newton's method costs where columns are many, its step included."""
    return stats.n * newton_row(stats) + FACTOR * stats.d**3 / 6.0


def dual_pass(stats: ProblemStats) -> float:
    """Return what a pass of dual ascent costs."""
    return stats.n * dual_row(stats)
