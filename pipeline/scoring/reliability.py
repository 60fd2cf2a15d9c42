"""Reliability of probabilities: Brier score, log loss, and the reliability diagram.

With two classes it is about the probability of the second one, with more about that of the most
probable class.  Sources: Brier (1950); Wilson (1927) for the intervals; Naeini et al. (2015) for
the expected calibration error.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.paired_mean import NORMAL_975

Vector = NDArray[np.float64]

BINS = 15  # equally wide
LEAST_P = float(np.finfo(np.float64).eps)  # in place of a probability of 0 in the log loss


class ReliabilityBin(NamedTuple):
    """Rows with a predicted probability in an interval, and the observed frequency."""

    lower: float  # of the interval
    upper: float
    rows: int
    predicted: float  # mean probability, weighted by row weights
    observed: float  # observed frequency, weighted
    low: float  # 95 % confidence interval of the observed frequency
    high: float


class Reliability(NamedTuple):
    """Reliability of probabilities on some rows, weighted by row weights."""

    rows: int
    brier: float  # mean squared error: of one probability for two classes, of all for more
    log_loss: float
    calibration_error: float  # mean of |predicted - observed| over the bins
    bins: tuple[ReliabilityBin, ...]  # non-empty ones


class ReliabilityPart(NamedTuple):
    """Sums over some rows; parts can be added."""

    brier: float
    log_loss: float
    counts: Vector  # (BINS, 5) rows, weight and its square, weighted probability, positive weight

    @classmethod
    def none(cls) -> ReliabilityPart:
        """Return the sums of no rows."""
        return cls(0.0, 0.0, np.zeros((BINS, 5)))

    @classmethod
    def of(cls, p: Vector, classes: NDArray[np.intp], weight: Vector) -> ReliabilityPart:
        """Return the sums of rows with probabilities p (n,) or (n, K)."""
        brier, log_loss, p, came_true = errors_of(p, classes)
        bins = np.minimum((p * BINS).astype(np.intp), BINS - 1)
        columns = (weight > 0.0, weight, weight**2, weight * p, weight * came_true)
        counts = np.stack([np.bincount(bins, column, BINS) for column in columns], axis=1)
        return cls(float(weight @ brier), float(weight @ log_loss), counts.astype(np.float64))


Errors = tuple[Vector, Vector, Vector, NDArray[np.bool_]]  # all (n,)


def errors_of(p: Vector, classes: NDArray[np.intp]) -> Errors:
    """Return squared errors, log losses, p of a class, and whether that is the true one.

    That class is the second one for p (n,), and the most probable one for p (n, K).
    """
    if p.ndim == 1:
        shown, came_true = p, classes == 1
        own = np.where(came_true, p, 1.0 - p)
        brier = (p - came_true) ** 2
    else:
        rows, best = np.arange(len(p)), p.argmax(axis=1)
        shown, came_true, own = p[rows, best], best == classes, p[rows, classes]
        brier = (p * p).sum(axis=1) - 2.0 * own + 1.0
    return brier, -np.log(np.maximum(own, LEAST_P)), shown, came_true


def reliability(total: ReliabilityPart) -> Reliability | None:
    """Return the figures from the sums over all rows; None where no row had probabilities."""
    if not total.counts[:, 1].any():
        return None
    weight = float(total.counts[:, 1].sum())
    error = float(np.abs(total.counts[:, 3] - total.counts[:, 4]).sum()) / weight
    bins = tuple(_bin(k, *row) for k, row in enumerate(total.counts.tolist()) if row[0])
    rows = round(total.counts[:, 0].sum())
    return Reliability(rows, total.brier / weight, total.log_loss / weight, error, bins)


def _bin(
    k: int, rows: float, weight: float, squares: float, predicted: float, true: float
) -> ReliabilityBin:
    share = true / weight
    effective = weight**2 / squares if squares else rows  # of equal weight that say as much
    return ReliabilityBin(
        k / BINS, (k + 1) / BINS, round(rows), predicted / weight, share, *wilson(share, effective)
    )


def wilson(share: float, rows: float) -> tuple[float, float]:
    """Return Wilson's 95 % interval for a frequency observed on a number of rows."""
    z = NORMAL_975
    middle = (share + z * z / (2.0 * rows)) / (1.0 + z * z / rows)
    variance = share * (1.0 - share) / rows + z * z / (4.0 * rows * rows)
    half = z * variance**0.5 / (1.0 + z * z / rows)
    return max(0.0, middle - half), min(1.0, middle + half)
