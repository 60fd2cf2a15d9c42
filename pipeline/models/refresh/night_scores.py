"""What models made of a night's rows before any of these was learnt: mean losses, by row in pairs.

With losses l_im of rows i under models m and weights c_i, the columns x_i are the loss under the
first model, and by how much the others' losses differ from it; their means and the covariance of
these means are

    m = sum c_i x_i / C,    V = sum c_i^2 (x_i - m)(x_i - m)' / C^2,    C = sum c_i

Rows that are hard for all models cancel in a difference, which is known far better than a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


class Scores(NamedTuple):
    """Mean losses of several models on the same rows, and how well these are known."""

    names: tuple[str, ...]  # of the models
    loss: tuple[float, ...]  # means
    covariance: tuple[
        tuple[float, ...], ...
    ]  # of the first loss, and differences of others from it
    rows: int

    def of(self, name: str) -> tuple[float, float]:
        """Return a model's mean loss and its standard error."""
        return self.loss[self.names.index(name)], self._error(self._columns(name))

    def difference(self, a: str, b: str) -> tuple[float, float]:
        """Return the mean of the loss of `a` less that of `b`, and its standard error."""
        mean = self.loss[self.names.index(a)] - self.loss[self.names.index(b)]
        return mean, self._error(self._columns(a) - self._columns(b))

    def renamed(self, names: Mapping[str, str]) -> Scores:
        """Return the scores of some models by other names: the new one, and the one here."""
        columns = np.array([self._columns(name) for name in names.values()])
        columns[1:] -= columns[0]
        covariance = columns @ np.array(self.covariance) @ columns.T
        loss = tuple(self.loss[self.names.index(name)] for name in names.values())
        return Scores(tuple(names), loss, _as_tuples(covariance), self.rows)

    def _columns(self, name: str) -> Vector:
        """Return by how much each column adds to the loss of a model."""
        columns = np.zeros(len(self.names))
        columns[[0, self.names.index(name)]] = 1.0
        return columns

    def _error(self, columns: Vector) -> float:
        return float(np.sqrt(max(columns @ np.array(self.covariance) @ columns, 0.0)))


class ScoreSums(NamedTuple):
    """Sums over some rows; parts can be added (`add_parts`)."""

    rows: int
    weight: float
    squares: float  # of weights
    total: Vector  # (M,) of columns by weights
    by_squares: Vector  # (M,) of columns by squared weights
    products: Vector  # (M, M) of pairs of columns by squared weights

    @classmethod
    def of_rows(cls, losses: Vector, weight: Vector) -> ScoreSums:
        """Return the sums of rows with losses (M, n) and weights (n,)."""
        columns = losses - losses[0]
        columns[0] = losses[0]
        squared = np.square(weight)
        return cls(
            len(weight), float(weight.sum()), float(squared.sum()), columns @ weight,
            columns @ squared, (columns * squared) @ columns.T,
        )  # fmt: skip

    def scores(self, names: Sequence[str]) -> Scores:
        """Return the mean losses of the models by name."""
        mean = self.total / self.weight
        both = np.outer(mean, self.by_squares)
        covariance = self.products - both - both.T + self.squares * np.outer(mean, mean)
        loss = (mean[0], *(mean[0] + mean[1:]))
        return Scores(
            tuple(names), tuple(map(float, loss)), _as_tuples(covariance / self.weight**2),
            self.rows,
        )  # fmt: skip


def _as_tuples(square: Vector) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in square)
