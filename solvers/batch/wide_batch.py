"""L-BFGS for a loss of several scores: one gradient of all, one step of all.

The algorithm is that of lbfgs.py, with the gradient and the certificate of wide_gradient.py.
docs/methods.md, section 8.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from fewpass.solvers.batch.batch_method import Trial
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.protocol import Sum, Weights
from fewpass.solvers.wide_gradient import (
    WIDE_GRADIENT,
    WideGradientPart,
    whole_wide_gradient,
    wide_certificate,
)


class WideLbfgs(Lbfgs):
    """L-BFGS for several scores; a vector has K times d weights, then K intercepts."""

    needs: ClassVar[Needs] = Needs(loss="smooth", several_scores=True)
    sum: ClassVar[Sum] = WIDE_GRADIENT
    width: PositiveInt
    """K, the number of scores."""

    def trial(self, problem: Problem, at: Weights, total: WideGradientPart) -> Trial:
        """Return a point with what its pass says of it."""
        return wide_trial(problem, at, total)

    def read(self, v: NDArray[np.float64], length: float) -> Weights:
        """Return the weights that a vector holds."""
        K = self.width
        return Weights(v[:-K].reshape(K, -1).copy(), length * v[-K:])


def wide_trial(problem: Problem, at: Weights, total: WideGradientPart) -> Trial:
    """Return a point with its gradient and certificate by the sums of a pass."""
    g = whole_wide_gradient(problem, at, total)
    return Trial(at, g, wide_certificate(problem, at, total))
