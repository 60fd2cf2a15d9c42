"""Sums over rows of which every fold has its own."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from fewpass.pipeline.rows.buffers import rows_taken
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Sum, Weights


def sum_of_folds(what: Sum, n_folds: int) -> Sum:
    """Return the sum of every fold's models over its own rows; models of a lam are side by side."""
    return Sum(what.name, partial(_zeros, what), partial(_add, what, n_folds))


def _zeros(what: Sum, at: tuple[Weights, ...]) -> tuple[Any, ...]:
    return tuple(what.zero(own) for own in at)


def _add(
    what: Sum,
    n_folds: int,
    problem: Problem,
    at: tuple[Weights, ...],
    block: Block,
    parts: tuple[Any, ...],
) -> tuple[Any, ...]:
    """Add the rows of a block to the sums of the folds that they are of."""
    assert block.folds is not None, "rows are dealt to folds"
    added = list(parts)
    for fold in np.unique(block.folds[block.folds >= 0]).tolist():
        own = rows_taken(block, np.flatnonzero(block.folds == fold))
        for k in range(fold, len(at), n_folds):
            added[k] = what.add(problem, at[k], own, added[k])
    return tuple(added)
