"""Scores of the rows of a block, and predictions of numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.scores import scores
from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.protocol import Block, Weights


def block_scores(problem: Problem, at: Weights, block: Block) -> NDArray[np.float64]:
    """Return the scores of a block's rows, (n,)."""
    p = scores(at.coef, at.intercept * problem.intercept, block.rows)
    return p if block.offset is None else p + block.offset


def responses(loss: Loss, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return predictions, on the scale of the targets, for scores p."""
    return loss.response(p) if loss.response else p
