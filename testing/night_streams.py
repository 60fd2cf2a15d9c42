"""Made-up nights of rows whose truth is given: what a month of a store may look like.

Ten numbers and four columns of five categories decide the odds of a label.  Each stream differs
from a month in which nothing happens by one thing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

Vector = np.ndarray

NIGHTS = 40
TURN, SPOILT = 15, 20  # nights
NUMBERS, COLUMNS, SHARES = 10, 4, (0.4, 0.3, 0.2, 0.07, 0.03)
WIDTH = 1 + NUMBERS + COLUMNS * len(SHARES)
CLEAN_ROWS = 6_000  # by which a model is measured
FARTHEST = 30.0  # scores are clipped there
SATURDAY, SUNDAY = 5, 6

#: Changes the weights of a night; it has those of the first night, and others to move to.
Weights = Callable[[Vector, Vector, int], Vector]


class Stream(NamedTuple):
    """What happens in a month."""

    weights: Weights = lambda first, other, night: first
    intercept: float = -0.5
    random_labels: Mapping[int, float] = {}  # shares of rows, by night
    unit: int | None = None  # a night on which a column is a thousand times as large
    numbers_move: bool = False  # and their squares count
    base: tuple[float, float] | None = None  # intercepts of the first and the last night


def _turned(first: Vector, other: Vector, night: int) -> Vector:
    """The largest effect has the other sign from a night on."""
    return np.where(np.arange(WIDTH) == 1, -first, first) if night >= TURN else first


def _added(**effects: float) -> Callable[[Vector], Vector]:
    """Return what adds to effects by their numbers: `of_1=.5`."""
    step = np.zeros(WIDTH)
    for name, size in effects.items():
        step[int(name.removeprefix("of_"))] = size
    return lambda first: first + step


_weekend, _sunday, _small = _added(of_0=0.6, of_2=0.5), _added(of_0=1.5, of_2=1.0), _added(of_5=0.6)

STREAMS = {
    "stable": Stream(),
    "rare": Stream(intercept=-6.0),
    "covariates": Stream(numbers_move=True),
    "turn": Stream(_turned),
    "small turn": Stream(lambda first, other, night: _small(first) if night >= TURN else first),
    "slow": Stream(lambda first, other, night: first + (other - first) * night / 20),
    "base rate": Stream(base=(-2.5, 0.0)),
    "weekday": Stream(
        lambda first, other, night: _weekend(first) if night % 7 in (SATURDAY, SUNDAY) else first
    ),
    "odd Sundays": Stream(
        lambda first, other, night: _sunday(first) if night % 7 == SUNDAY else first
    ),
    "broken": Stream(random_labels={SPOILT: 0.5}),
    "two broken": Stream(random_labels={SPOILT: 0.5, SPOILT + 1: 0.5}),
    "broken second night": Stream(random_labels={1: 0.5}),
    "unit": Stream(unit=SPOILT),
}


class Rows(NamedTuple):
    """Rows of a night, (n, d), and their labels, 0 or 1, or how likely each is."""

    x: Vector
    y: Vector


class Nights:
    """The nights of a stream, drawn once, and what models lose on clean rows."""

    def __init__(self, stream: Stream, rows: int, seed: int, until: int = NIGHTS) -> None:
        self.stream, self.rng = stream, np.random.default_rng(seed)
        scale = np.r_[0.0, np.full(NUMBERS, 0.35), np.full(WIDTH - 1 - NUMBERS, 0.45)]
        self.first = self.rng.normal(size=WIDTH) * scale
        self.first[:2] = stream.intercept, 0.9
        self.other = self.first.copy()
        self.other[1:6] += self.rng.normal(size=5) * 0.6
        self.clean = [self._clean(night, CLEAN_ROWS) for night in range(until + 1)]
        self.rows = [self._drawn(night, rows) for night in range(until)]

    def excess(self, weights: Vector, night: int) -> float:
        """Return the mean loss on a night's clean rows above that of the truth."""
        x, p = self.clean[night]
        truth = np.log(p / (1.0 - p))
        return float(np.mean(losses(weights, x, p)) - np.mean(np.logaddexp(0, truth) - p * truth))

    def _clean(self, night: int, rows: int) -> Rows:
        """Return rows with the probability of each label."""
        x = np.zeros((rows, WIDTH))
        x[:, 0] = 1.0
        x[:, 1 : 1 + NUMBERS] = self.rng.normal(size=(rows, NUMBERS))
        if self.stream.numbers_move:
            x[:, 1:4] += night / NIGHTS
        for column in range(COLUMNS):
            category = self.rng.choice(len(SHARES), rows, p=SHARES)
            x[np.arange(rows), 1 + NUMBERS + column * len(SHARES) + category] = 1.0
        curve = 0.15 * (x[:, 1] ** 2 - 1.0) if self.stream.numbers_move else 0.0
        return Rows(x, 1.0 / (1.0 + np.exp(-(x @ self._weights(night) + curve))))

    def _weights(self, night: int) -> Vector:
        weights = self.stream.weights(self.first, self.other, night).copy()
        if self.stream.base is not None:
            weights[0] = np.interp(night, (0, NIGHTS), self.stream.base)
        return weights

    def _drawn(self, night: int, rows: int) -> Rows:
        x, p = self._clean(night, rows)
        random = self.rng.random(rows) < self.stream.random_labels.get(night, 0.0)
        y = (self.rng.random(rows) < np.where(random, 0.5, p)).astype(float)
        if night == self.stream.unit:
            x[:, 2] *= 1000.0
        return Rows(x, y)


def losses(weights: Vector, x: Vector, y: Vector) -> Vector:
    """Return the log loss of every row."""
    scores = np.clip(x @ weights, -FARTHEST, FARTHEST)
    loss: Vector = np.logaddexp(0.0, scores) - y * scores
    return loss
