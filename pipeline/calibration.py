"""Calibration: a function from scores to probabilities, fitted on held-out rows.

With two classes, scores are counted in bins: constant memory, and counts can be added in any order.
Platt's sigmoid and an isotonic step function are fitted to the bins.  With more classes,
softmax(slope * scores + offset) is fitted by Newton's method, with one or more passes per step.

Sources: Platt, "Probabilistic outputs for support vector machines" (1999), with the numerics of
Lin, Lin and Weng (2007); Zadrozny and Elkan (2002) for isotonic regression; Guo et al. (2017) for
temperature and offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.softmax_of_scores import softmax, softmax_and_losses

Vector = NDArray[np.float64]
Method = Literal["platt", "isotonic"]
Part = tuple[Vector, NDArray[np.intp], Vector]  # scores (n, K), classes (n,), weights (n,)

#: By so many first bits of a float32 a score is counted: sign, exponent and 9 bits of the number.
#: Bins are 0.2 % wide then, in whatever unit scores are.
BITS = 18
BINS = 1 << BITS
MOST_STEPS = 100
SMALL_STEP = 1e-10


def score_bins(scores: Vector, bits: int = BITS) -> NDArray[np.int64]:
    """Return the bins of scores, in ascending order of scores."""
    whole = scores.astype(np.float32).view(np.int32).astype(np.int64)
    ordered = np.where(whole >= 0, whole, -(whole & 0x7FFFFFFF)) + (1 << 31)
    return ordered >> (32 - bits)


class ScoreCounts(NamedTuple):
    """Counts of scores by bin (`score_bins`); counts of disjoint rows can be added."""

    weight: Vector  # (BINS,) of all rows
    positive: Vector  # (BINS,) of the rows of the second class
    score: Vector  # (BINS,) sum of weight times score

    @classmethod
    def of(cls, scores: Vector, positive: NDArray[np.bool_], weight: Vector) -> ScoreCounts:
        """Return the counts of rows with scores (n,)."""
        bins = score_bins(scores)
        columns = (weight, weight * positive, weight * scores)
        return cls(*(np.bincount(bins, column, BINS).astype(float) for column in columns))

    def __add__(self, other: object) -> ScoreCounts:
        assert isinstance(other, ScoreCounts), "only counts are added"
        return ScoreCounts(*(a + b for a, b in zip(self, other, strict=True)))

    def points(self) -> tuple[Vector, Vector, Vector]:
        """Return mean score, weight and positive weight of the non-empty bins."""
        filled = self.weight > 0.0
        weight = self.weight[filled]
        return self.score[filled] / weight, weight, self.positive[filled]


class Sigmoid(NamedTuple):
    """p = 1 / (1 + exp(-(slope * score + offset)))."""

    slope: float
    offset: float

    def fits(self, n_classes: int) -> bool:
        """Return whether it is for `n_classes` classes; 0 for two."""
        return n_classes == 0

    def probabilities(self, scores: Vector) -> Vector:
        """Return p of the second class (n,)."""
        return _sigmoid(self.slope * scores + self.offset)

    def swapped(self) -> Sigmoid:
        """Return the same of two classes in the other order, whose scores have the other sign."""
        return Sigmoid(self.slope, -self.offset)


class Steps(NamedTuple):
    """p by linear interpolation between points of an isotonic fit."""

    scores: tuple[float, ...]  # (m,) ascending
    p: tuple[float, ...]  # (m,) ascending

    def fits(self, n_classes: int) -> bool:
        """Return whether it is for `n_classes` classes, 0 for two, and its points are valid."""
        rising = all((np.diff(part) >= 0.0).all() for part in self)
        within = len(self.p) > 0 and self.p[0] >= 0.0 and self.p[-1] <= 1.0
        return n_classes == 0 and len(self.scores) == len(self.p) and rising and within

    def probabilities(self, scores: Vector) -> Vector:
        """Return p of the second class (n,)."""
        return np.interp(scores, self.scores, self.p)

    def swapped(self) -> Steps:
        """Return the same of two classes in the other order, whose scores have the other sign."""
        return Steps(tuple(-one for one in self.scores[::-1]), tuple(1.0 - p for p in self.p[::-1]))


class Softmax(NamedTuple):
    """p_k = exp(slope * score_k + offset_k) over their sum."""

    slope: float
    offsets: tuple[float, ...]  # (K,), their sum is 0

    def fits(self, n_classes: int) -> bool:
        """Return whether it is for `n_classes` classes."""
        return n_classes == len(self.offsets)

    def probabilities(self, scores: Vector) -> Vector:
        """Return p (n, K)."""
        return softmax(self.slope * scores + np.asarray(self.offsets))


Calibration = Sigmoid | Steps | Softmax


def fit_two_classes(counts: ScoreCounts, method: Method) -> Sigmoid | Steps:
    """Fit the probability of the second class to counts of rows.

    Raises ValueError if all rows are of one class.
    """
    total, positive = float(counts.weight.sum()), float(counts.positive.sum())
    if not 0.0 < positive < total:
        raise ValueError(
            "The rows to calibrate on are of one class. Give rows of both, which the model has not "
            "been trained on."
        )
    return fit_sigmoid(counts) if method == "platt" else fit_steps(counts)


def fit_sigmoid(counts: ScoreCounts) -> Sigmoid:
    """Minimise the log loss with Platt's targets, which keep p away from 0 and 1."""
    scores, weight, positive = counts.points()
    n_positive = positive.sum()
    n_negative = weight.sum() - n_positive
    high, low = (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0)
    target = positive * high + (weight - positive) * low
    at = np.array([0.0, np.log((n_positive + 1.0) / (n_negative + 1.0))])
    columns = np.column_stack([scores, np.ones(len(scores))])

    def log_loss(point: Vector) -> LogLoss:
        s = columns @ point
        p = _sigmoid(s)
        curvature = columns * (weight * p * (1.0 - p))[:, None]
        return LogLoss(
            float(weight @ np.logaddexp(0.0, s) - target @ s),
            columns.T @ (weight * p - target),
            columns.T @ curvature,
        )

    slope, offset = _newton([at], log_loss)
    return Sigmoid(float(slope), float(offset))


def fit_steps(counts: ScoreCounts) -> Steps:
    """Fit ascending probabilities to the bins, by pooling adjacent violators."""
    scores, weight, positive = counts.points()
    p = _pooled(np.minimum(positive / weight, 1.0), weight)
    corners = np.ones(len(p), np.bool_)  # between equal values no point is needed
    corners[1:-1] = (p[1:-1] != p[:-2]) | (p[1:-1] != p[2:])
    return Steps(tuple(scores[corners].tolist()), tuple(np.asarray(p, float)[corners].tolist()))


def _pooled(p: Vector, weight: Vector) -> Vector:
    """Return the ascending (m,) with the least weighted squared distance to p."""
    pools: list[tuple[float, float, int]] = []  # mean, weight, points
    for mean, heft in zip(p.tolist(), weight.tolist(), strict=True):
        pool = (mean, heft, 1)
        while pools and pools[-1][0] >= pool[0]:
            (before, much, many), (here, more, few) = pools.pop(), pool
            pool = ((much * before + more * here) / (much + more), much + more, many + few)
        pools.append(pool)
    means, _, counts = zip(*pools, strict=True)
    return np.repeat(means, counts)


class LogLoss(NamedTuple):
    """A log loss and its derivatives at a point (m,); those of disjoint rows can be added."""

    value: float
    gradient: Vector  # (m,)
    hessian: NDArray[np.float64]  # (m, m)

    @classmethod
    def none(cls, m: int) -> LogLoss:
        """Return the log loss of no rows."""
        return cls(0.0, np.zeros(m), np.zeros((m, m)))

    def __add__(self, other: object) -> LogLoss:
        assert isinstance(other, LogLoss), "only log losses are added"
        return LogLoss(
            self.value + other.value, self.gradient + other.gradient, self.hessian + other.hessian
        )


def fit_softmax(log_loss: Callable[[Vector], LogLoss], n_classes: int) -> Softmax:
    """Minimise the log loss by Newton's method, with one pass over the rows per point.

    Parameters
    ----------
    log_loss
        The sum of `softmax_log_loss` over all rows, at a point.
    n_classes
        K, more than two.
    """
    starts = np.zeros(n_classes), np.eye(1, n_classes)[0]  # equal shares; the scores as they are
    result = _newton(starts, log_loss)
    return Softmax(float(result[0]), tuple(_offsets(result).tolist()))


def _offsets(point: Vector) -> Vector:
    """Return the K offsets of a point (K,), whose sum is 0.

    Adding a constant to all of them changes no probability.
    """
    return np.append(point[1:], -point[1:].sum())


def softmax_log_loss(point: Vector, part: Part) -> LogLoss:
    """Return the log loss of some rows with slope and offsets at `point` (K,)."""
    scores, classes, weight = part
    K = scores.shape[1]
    contrasts = np.vstack([np.eye(K - 1), -np.ones(K - 1)])  # (K, K - 1)
    s = point[0] * scores + _offsets(point)
    p, losses = softmax_and_losses(s, classes)
    miss = p * weight[:, None]
    miss[np.arange(len(s)), classes] -= weight
    mean = (p * scores).sum(axis=1)
    centred = p * (scores - mean[:, None])  # d mean / d s
    gradient = np.append((miss * scores).sum(), contrasts.T @ miss.sum(axis=0))
    hessian = np.empty((K, K))
    hessian[0, 0] = weight @ (centred * scores).sum(axis=1)
    hessian[0, 1:] = hessian[1:, 0] = contrasts.T @ (weight @ centred)
    covariance = np.diag(weight @ p) - (p * weight[:, None]).T @ p
    hessian[1:, 1:] = contrasts.T @ covariance @ contrasts
    return LogLoss(float(weight @ losses), gradient, hessian)


def _newton(starts: Sequence[Vector], log_loss: Callable[[Vector], LogLoss]) -> Vector:
    """Minimise a convex function of a few numbers by Newton's method with step halving.

    From the best of some points: where shares are all 0 or 1 nothing is curved, and no step helps.
    """
    at, here = min(((at, log_loss(at)) for at in starts), key=lambda pair: pair[1].value)
    for _step in range(MOST_STEPS):
        ridge = 1e-12 * max(1.0, float(np.trace(here.hessian)))
        direction = np.linalg.solve(here.hessian + ridge * np.eye(len(at)), -here.gradient)
        downhill = float(here.gradient @ direction)
        length, there = 1.0, log_loss(at + direction)
        while not there.value <= here.value + 1e-4 * length * downhill and length > SMALL_STEP:
            length /= 2.0
            there = log_loss(at + length * direction)
        if there.value >= here.value:
            break
        at, here = at + length * direction, there
        if -downhill <= SMALL_STEP * max(1.0, abs(here.value)):
            break
    return at


def _sigmoid(s: Vector) -> Vector:
    """Return 1 / (1 + exp(-s)) without overflow."""
    e = np.exp(-np.abs(s))
    result: Vector = np.where(s >= 0.0, 1.0, e) / (1.0 + e)
    return result
