"""The distance of scores from a label's indicator."""

from __future__ import annotations

from fewpass.solvers.kernels.shapes import Matrix
from fewpass.solvers.kernels.simd.wide_rows import PerClass
from fewpass.solvers.losses.wide_loss import Classes, WideLoss


class Indicator(WideLoss, Classes):
    """||v - e_y||^2 / 2: least squares with a column of targets for each class."""

    __slots__ = ()

    name = "indicator"
    curvature = 1.0

    def loss_and_slopes(self, v: PerClass, y: int, g: PerClass) -> float:
        """The slopes are v - e_y."""
        total = 0.0
        for k in range(g.shape[0]):
            g[k] = 0.0
        for k in range(self.n_classes):
            g[k] = v[k] - (1.0 if k == y else 0.0)
            total += 0.5 * g[k] * g[k]
        return total

    def loss_and_bracket(
        self, v: PerClass, a: PerClass, y: int, scratch: Matrix
    ) -> tuple[float, float]:
        """The bracket is ||v - e_y + a||^2 / 2."""
        loss, bracket = 0.0, 0.0
        for k in range(self.n_classes):
            residual = v[k] - (1.0 if k == y else 0.0)
            loss += 0.5 * residual * residual
            bracket += 0.5 * (residual + a[k]) * (residual + a[k])
        return loss, bracket

    def worth_of(self, a: PerClass, y: int) -> float:
        """a_y - ||a||^2 / 2."""
        worth = a[y]
        for k in range(self.n_classes):
            worth -= 0.5 * a[k] * a[k]
        return worth

    def best_duals(
        self, a: PerClass, v: PerClass, y: int, q: float, new: PerClass, scratch: Matrix
    ) -> float:
        """(e_y - v + q a) / (1 + q)."""
        loss = 0.0
        for k in range(self.n_classes):
            residual = v[k] - (1.0 if k == y else 0.0)
            new[k] = (q * a[k] - residual) / (1.0 + q)
            loss += 0.5 * residual * residual
        return loss
