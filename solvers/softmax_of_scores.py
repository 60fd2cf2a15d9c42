"""The softmax of scores, for all who make probabilities of them; imports nothing but NumPy."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]


def softmax(scores: Scores) -> Scores:
    """Return p_k = exp(v_k) / sum exp(v), (n, K), for scores v (n, K)."""
    _, e, total = _exponentials(scores)
    p: Scores = e / total
    return p


def softmax_and_losses(scores: Scores, classes: NDArray[np.intp]) -> tuple[Scores, Scores]:
    """Return the same, and -log p of each row's own class (n,), which is above 0 where p is 1."""
    v, e, total = _exponentials(scores)
    losses: Scores = np.log(total[:, 0]) - v[np.arange(len(v)), classes]
    return e / total, losses


def _exponentials(scores: Scores) -> tuple[Scores, Scores, Scores]:
    """Return scores below the highest of each row, their exponentials, and the sums (n, 1)."""
    v = scores - scores.max(axis=1, keepdims=True)
    e = np.exp(v)
    return v, e, e.sum(axis=1, keepdims=True)
