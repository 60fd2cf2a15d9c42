"""Scaling of features: stored values are (x - shift) * scale, computed in float64.

`maxabs` divides every column by its largest absolute value among the training rows, `standard`
subtracts its mean and divides by its standard deviation (dense rows only: a shift would fill every
zero of a sparse row), `rms` divides it by the root of its mean square, `unit-rows` divides every
row by its Euclidean norm. Constant columns (or those of 0) keep the scale 1, rows of 0 stay 0.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.column_statistics import ColumnStatistics, LargestValues
from fewpass.pipeline.rows.units import FILLED, UNLIKE, unlike_sizes
from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.solvers.protocol import Weights
from fewpass.storage.array_text import as_text, from_text
from fewpass.storage.codec import checksum
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Scaling
from fewpass.storage.table import DenseTable, SparseTable, Table

Vector = NDArray[np.float64]
Measured = ColumnStatistics | LargestValues

#: Kinds that have a scale for every column.
BY_COLUMN = ("maxabs", "rms", "standard")
FEW_COLUMNS = 2000  # that are standardised whatever their sizes, where most numbers are not zero
#: Of the first rows, that decide on it.
FEWEST_ROWS, MOST_ROWS = 20, 10_000


class Scaler:
    """Applies one scaling to tables; `scale` and `shift` are None where the kind has none."""

    def __init__(
        self, kind: ScalingKind, scale: Vector | None = None, shift: Vector | None = None
    ) -> None:
        self.kind, self.scale, self.shift = kind, scale, shift

    @classmethod
    def fitted(cls, kind: ScalingKind, columns: Measured | None, n_features: int) -> Scaler:
        """Return the scaling of a kind to the `measured` columns of the training rows."""
        if columns is None:
            return cls(kind)
        if isinstance(columns, LargestValues):
            return cls(kind, _reciprocal(columns.values(n_features)))
        stats = columns.columns(n_features)
        _require_squares(stats["variance"])
        if kind == "rms":
            return cls(kind, _reciprocal(np.sqrt(stats["variance"] + stats["mean"] ** 2)))
        # Below this the deviation of a constant column is only the rounding of its mean.
        deviation = np.sqrt(stats["variance"])
        constant = deviation <= 1e-12 * np.abs(stats["mean"])
        return cls(kind, _reciprocal(np.where(constant, 0.0, deviation)), stats["mean"])

    @classmethod
    def of(cls, dataset: Dataset) -> Scaler:
        """Return the scaling that `dataset` was stored with."""
        kind = dataset.manifest.scaling.kind
        scale = dataset.column("scale") if kind in BY_COLUMN else None
        shift = dataset.column("shift") if kind == "standard" else None
        return cls(kind, scale, shift)

    def state(self) -> dict[str, Any]:
        """Return kind, scale and shift, every bit of them, as JSON."""
        columns = {"scale": self.scale, "shift": self.shift}
        texts = {name: None if v is None else as_text(v) for name, v in columns.items()}
        return {"kind": self.kind} | texts

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Scaler:
        """Inverse of `state`."""
        texts = state["scale"], state["shift"]
        return cls(state["kind"], *(None if t is None else from_text(t, np.float64) for t in texts))

    def columns(self) -> dict[str, Vector]:
        """Return `scale` and `shift`, where the kind has them: they are stored with the rows."""
        parts = {"scale": self.scale, "shift": self.shift}
        return {name: part for name, part in parts.items() if part is not None}

    def describe(self) -> Scaling:
        """Return the manifest's words for it; the digest is the crc32c of scale and shift."""
        if self.scale is None:
            return Scaling(kind=self.kind, digest="")
        shift = b"" if self.shift is None else self.shift.tobytes()
        return Scaling(kind=self.kind, digest=f"{checksum(self.scale.tobytes() + shift):08x}")

    def apply(self, table: Table) -> Table:
        """Return the table scaled; the given one is left alone."""
        if self.kind == "none":
            return table
        if isinstance(table, DenseTable):
            return table._replace(X=self._dense(table).astype(table.X.dtype))
        if self.shift is not None:
            raise BadInput(
                "Standard scaling would fill every zero of sparse rows. "
                "Choose the scaling maxabs or none."
            )
        return table._replace(data=self._sparse(table).astype(table.data.dtype))

    def _dense(self, table: DenseTable) -> NDArray[np.float64]:
        X = table.X.astype(np.float64)
        if self.scale is None:
            return X * _reciprocal(np.sqrt(np.einsum("ij,ij->i", X, X)))[:, None]
        if self.shift is not None:
            X -= self.shift
        return X * self.scale

    def _sparse(self, table: SparseTable) -> Vector:
        data = table.data.astype(np.float64)
        if self.scale is not None:
            return data * self.scale[table.indices]
        rows = np.repeat(np.arange(table.n_rows), np.diff(table.indptr))
        squares = np.bincount(rows, data * data, minlength=table.n_rows)
        return data * _reciprocal(np.sqrt(squares))[rows]


def _require_squares(variance: Vector) -> None:
    beyond = np.flatnonzero(~np.isfinite(variance))
    if len(beyond):
        raise BadInput(
            f"Column {beyond[0]} (counted from 0) has values too large to square, so it has no "
            "standard deviation. Choose the scaling maxabs, or drop the column."
        )


def _reciprocal(size: Vector) -> Vector:
    return 1.0 / np.where(size > 0, size, 1.0)


def resolved(
    kind: ScalingKind | Literal["auto"], first: Table | None, *, encoded: bool
) -> ScalingKind:
    """Decide on the scaling that `auto` stands for, by the first rows of a source.

    Without scaling, one pass over columns of very different sizes learns from the largest alone,
    and the penalty weighs on small columns most.  Columns that are mostly zero are counts or flags,
    which say nothing of units; where there are few others, and they are large, their mean square is
    made 1.

    Parameters
    ----------
    kind
        What was asked for.
    first
        The first rows.
    encoded
        Whether they are made by a recipe, which standardises numbers.
    """
    if kind != "auto":
        return kind
    if encoded or not isinstance(first, DenseTable) or first.n_rows < FEWEST_ROWS:
        return "none"
    X = first.X[:MOST_ROWS].astype(np.float64)
    if X.shape[1] <= FEW_COLUMNS:
        return _of_few(X)
    return "none" if unlike_sizes(X) is None else "standard"


def _of_few(X: NDArray[np.float64]) -> ScalingKind:
    """Decide on the scaling of a few columns (n, d)."""
    varies = X.std(axis=0) > 1e-12 * np.abs(X).max(axis=0, initial=0.0)
    if not varies.any():
        return "none"
    if (X != 0.0).mean() > FILLED or unlike_sizes(X) is not None:
        return "standard"
    return "rms" if np.abs(X).max() > UNLIKE else "none"


def measured(kind: ScalingKind, layout: str, n_features: int) -> Measured | None:
    """Return the statistics to be made of all training rows before the first is scaled, or None."""
    if kind == "maxabs":
        return LargestValues(n_features)
    return ColumnStatistics(layout, n_features) if kind in ("rms", "standard") else None


def scaled(weights: Weights, scaler: Scaler) -> Weights:
    """Return a model of the rows as given as the same of scaled rows, (x - shift) * scale."""
    coef, intercept = weights
    if scaler.shift is not None:
        intercept = intercept + coef @ scaler.shift
    return Weights(coef if scaler.scale is None else coef / scaler.scale, intercept)


def unscaled(weights: Weights, scaler: Scaler) -> Weights:
    """Return a model of scaled rows as the same of rows as they were given."""
    coef, intercept = weights
    coef = coef if scaler.scale is None else coef * scaler.scale
    return Weights(coef, intercept if scaler.shift is None else intercept - coef @ scaler.shift)
