"""What is made of a single score: a number, or shares of several."""

from __future__ import annotations

import math

from fewpass.pipeline.calibration import Calibration, Sigmoid, Steps
from fewpass.pipeline.models.export.model_form import NumberOutput
from fewpass.pipeline.models.serving.single_steps import interpolated


def number_of(score: float, outcome: NumberOutput) -> float:
    """Return the predicted number."""
    number = _exp(score) if outcome.response == "exp" else score
    low, high = outcome.clip or (-math.inf, math.inf)
    return min(max(number, low), high)


def _exp(score: float) -> float:
    try:
        return math.exp(score)
    except OverflowError:
        return math.inf  # as NumPy has it


def shares_of_scores(scores: list[float], how: Calibration) -> list[float]:
    """Return the probability of every class."""
    if isinstance(how, Steps):
        second = interpolated(scores[0], how.scores, how.p)
        return [1.0 - second, second]
    if isinstance(how, Sigmoid):
        p = [sigmoid(how.slope * score + how.offset) for score in scores]
        if len(p) == 1:
            return [1.0 - p[0], p[0]]
    else:
        sloped = [how.slope * s + o for s, o in zip(scores, how.offsets, strict=True)]
        highest = max(sloped)
        p = [math.exp(s - highest) for s in sloped]
    whole = sum(p)
    return [one / whole for one in p] if whole else [1.0 / len(p)] * len(p)


def sigmoid(s: float) -> float:
    """Return 1 / (1 + exp(-s))."""
    e = math.exp(-abs(s))
    return (1.0 if s >= 0.0 else e) / (1.0 + e)
