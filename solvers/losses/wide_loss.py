"""Losses of several scores: one score of a row for every class, and one model that makes them all.

    f(W, b) = (1/n) sum_i weight_i phi(v_i, y_i) + (lam/2) ||W||^2 + (lam_b/2) ||b - b_0||^2,
    v_i = W' x_i + b  in R^K,      y_i the number of row i's class

A loss of several scores is one file next to this one, as all losses are, with the formulas below
in place of those of `loss.py`.  Scores come as vectors of `wide` numbers: those of the K classes,
then padding (`PADDED`), which a formula may compute with; what it writes there has to be 0.  With

    a_i = -d phi / d v       S(a) = (1/n) sum_i weight_i x_i a_i'
    D(a) = -(1/n) sum_i weight_i phi*(-a_i) - ||S||^2 / (2 lam)   (of the intercept: duality.py)

D is never above the optimum, and f(W) - D(a) is the sum of the rows' brackets
phi(v) + phi*(-a) + a . v, none of which is negative, and (lam/2) ||W - S/lam||^2.  a = 0 has to be
in the domain: it is where the dual methods begin.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import by_type
from fewpass.solvers.kernels.shapes import Matrix
from fewpass.solvers.kernels.simd.wide_rows import PerClass, padded, padded_scores
from fewpass.solvers.losses.loss import Loss, Problem

#: Score of classes that there are not: their exponential is 0 next to any other.
PADDED = -1e30
SCRATCH = 4  # vectors of `scratch`
#: A WideLoss in a kernel: type checkers see a Loss in a Problem.
LossOfScores = Any


@by_type
def loss_and_slopes(  # type: ignore[empty-body]
    loss: WideLoss, v: PerClass, y: int, g: PerClass
) -> float:
    """Write d phi / d v into g; return phi(v, y)."""


@by_type
def loss_and_bracket(  # type: ignore[empty-body]
    loss: WideLoss, v: PerClass, a: PerClass, y: int, scratch: Matrix
) -> tuple[float, float]:
    """Return phi(v, y), and phi(v, y) + phi*(-a) + a . v.

    `scratch` (SCRATCH, wide) is for anything.
    """


@by_type
def worth_of(  # type: ignore[empty-body]
    loss: WideLoss, a: PerClass, y: int
) -> float:
    """Return -phi*(-a)."""


@by_type
def best_duals(  # type: ignore[empty-body]
    loss: WideLoss, a: PerClass, v: PerClass, y: int, q: float, new: PerClass, scratch: Matrix
) -> float:
    """Write argmax over a' of -phi*(-a') - (a' - a) . v - (q/2) ||a' - a||^2 into `new`.

    An a' that is better than a will do.  Returns phi(v, y).
    """


@by_type
def curvature_of_scores(loss: WideLoss, v: PerClass, y: int, g: PerClass, C: Matrix) -> None:
    """Write the second derivative at v into C (K, K); g (wide,) is for anything.

    Only Newton's method asks for it.
    """


def level_of_scores(problem: Problem) -> NDArray[np.float64]:
    """Return what the intercepts are charged from, (wide,)."""
    return padded_scores(problem.level, problem.loss.width)


class Classes(NamedTuple):
    """The parameter of a loss of several scores."""

    n_classes: int = 3  # K


class WideLoss(Loss):
    """Base class of losses of several scores."""

    __slots__ = ()

    formulas = (loss_and_slopes, loss_and_bracket, worth_of, best_duals, curvature_of_scores)
    is_wide: ClassVar[bool] = True
    n_classes: int

    @classmethod
    def parameters(cls) -> tuple[str, ...]:
        """Return none: the number of classes is the data's, and no setting."""
        return ()

    @property
    def width(self) -> int:
        """K."""
        return self.n_classes

    def losses(self, scores: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return phi of every row's scores (n, K) and class (n,)."""
        v = np.full((len(scores), padded(self.width)), PADDED)
        v[:, : self.width] = scores
        g = np.zeros(v.shape[1])
        each = zip(v, y.astype(np.int64).tolist(), strict=True)
        return np.array([loss_and_slopes(self, row, k, g) for row, k in each])

    def best_scores(self, weight: NDArray[np.float64]) -> tuple[float, ...]:
        """Return the best constant scores, of mean 0, for weights of the classes (K,) above 0.

        Here zeros, as `constant_loss` has them.
        """
        return (0.0,) * len(weight)

    def constant_loss(self, shares: NDArray[np.float64], *, intercept: bool) -> float:
        """Return the mean loss of the best constant scores for these shares of the classes (K,).

        Here that of zeros, which is no lower.
        """
        v = np.full(padded(self.width), PADDED)
        v[: self.width] = 0.0
        each = [loss_and_slopes(self, v, y, np.zeros(len(v))) for y in range(self.width)]
        return float(shares @ np.array(each))
