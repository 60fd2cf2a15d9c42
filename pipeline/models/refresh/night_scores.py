"""Scores of models on a night's rows before these are learnt: mean losses, by row in pairs.

The columns that are averaged are the loss under the first model, and by how much the others' losses
differ from it (paired_mean.py: JointMeans).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.paired_mean import JointMeans

Vector = NDArray[np.float64]


class Scores(NamedTuple):
    """Mean losses of several models on the same rows, and how well these are known."""

    names: tuple[str, ...]  # of the models
    loss: tuple[float, ...]  # means
    covariance: tuple[
        tuple[float, ...], ...
    ]  # of the first loss, and differences of others from it
    rows: int

    @classmethod
    def of_sums(cls, names: Sequence[str], total: JointMeans) -> Scores:
        """Return the scores of models by name from the sums over all rows (`joint_losses`)."""
        first, *others = total.mean.tolist()
        loss = (first, *(first + other for other in others))
        return cls(tuple(names), loss, _as_tuples(total.covariance), total.rows)

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


def joint_losses(losses: Vector, weight: Vector) -> JointMeans:
    """Return the sums of rows with losses (M, n) and weights (n,): the columns of `Scores`."""
    columns = losses - losses[0]
    columns[0] = losses[0]
    return JointMeans.of(columns, weight)


def _as_tuples(square: Vector) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(map(float, row)) for row in square)
