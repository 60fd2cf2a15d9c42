"""Shalev-Shwartz and Zhang (2013), "Accelerated mini-batch stochastic dual coordinate ascent".

The procedure ASDCA for g(w) = lam/2 ||w||^2: a vector alpha_i for every row, as it is printed.

The kernel (dual/asdca_batches.py) differs: alpha_i = -a_i x_i is one number per row, x - w(a) is
stored with a factor that shrinks, and batches are cut from permutations of the rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.papers.xu_2011 import Floats, Phi


class AsdcaProcedure:
    """x and alpha, from zero.

    Parameters
    ----------
    phi
        Values and slopes of the loss, which is 1/gamma-smooth.
    lam
        Strength of the penalty.
    X : (n, d)
        Rows, the constant column among them if there is one.
    y, weight : (n,)
        Targets, and what a row's loss counts.
    theta
        Between 0 and 1: how far an iteration goes.  Theorem 1, (3), says how large it may be.
    """

    def __init__(
        self, phi: Phi, lam: float, X: Floats, y: Floats, weight: Floats, theta: float
    ) -> None:
        self.phi, self.lam, self.X, self.y, self.weight = phi, lam, X, y, weight
        self.theta, self.alpha, self.x = theta, np.zeros_like(X), np.zeros(X.shape[1])

    @property
    def w(self) -> Floats:
        """The gradient of g* at the mean of alpha."""
        mean: Floats = self.alpha.mean(axis=0) / self.lam
        return mean

    def step(self, batch: NDArray[np.int64]) -> None:
        """Make an iteration with the rows of a batch."""
        theta = self.theta
        u = (1.0 - theta) * self.x + theta * self.w
        slopes = self.weight * self.phi(self.X @ u, self.y)[1]
        for i in batch:
            self.alpha[i] = (1.0 - theta) * self.alpha[i] - theta * slopes[i] * self.X[i]
        self.x = (1.0 - theta) * self.x + theta * self.w
