"""Several strengths of regularisation in one training: what became of each, and which is best.

Models are trained for all values of lam in the same passes (`solvers/multi_model.py`); a snapshot's
states are all of them, its weights are those of one: the first until rows that none has learnt
from have chosen.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fewpass.pipeline.matching import shown_name
from fewpass.solvers.protocol import Certificate, Weights

ALIKE = 1e-3  # of a loss: models that are only good to a percent are alike where theirs differ less
CLOSE = 1e-2  # of a loss: further from the least no standard error makes up for it


#: Of a loss as it is stored: JSON has no infinity, and charts no range beyond.
LARGEST = 1e300


def finite(loss: float) -> float:
    """Return a loss, infinite where a model is infinitely wrong on a row, as a number."""
    return min(LARGEST, loss)  # of NaN the first


class Candidate(NamedTuple):
    """The result of one value of lam."""

    lam: float
    loss: float  # mean over the held-out rows; of several classes also over these
    error: float | None  # of the held-out rows; None for numbers
    objective: float | None = None  # over the training rows, with this lam, where it was certified
    gap: float | None = None
    standard_error: float | None = None  # of how far the loss is above the best one
    nonzeros: int | None = None  # weights that are not 0, of all classes, under an l1 penalty
    #: Of the metric asked for, lower is better; None: the loss, also where it has no meaning.
    cost: float | None = None

    @property
    def criterion(self) -> float:
        """Return the figure that candidates are compared by: the lower the better."""
        return self.loss if self.cost is None else self.cost


class Choice(NamedTuple):
    """The model that a snapshot's weights are, and what it was chosen from."""

    lam: float
    candidates: tuple[Candidate, ...] = ()  # none before the end


class LossChoice(NamedTuple):
    """The choice of a loss of numbers that nobody gave: by predictions of both, each with its lam.

    Differences are shares of what the usual loss comes to, with their standard errors.
    """

    loss: str
    usual: str
    square: float  # squared errors under the other loss, less those under the usual one
    square_error: float
    deviance: float  # the same of the other's own loss
    deviance_error: float

    def reason(self) -> str | None:
        """Say why it is not the usual one; None where it is."""
        if self.loss == self.usual:
            return None
        by = f"squared errors of held-out rows {_change(self.square, self.square_error)}"
        if self.square > -self.square_error:
            by += f", which does not tell, and {self.loss} losses "
            by += _change(self.deviance, self.deviance_error)
        return f"{self.loss}, not {self.usual}: {by}"


def _change(share: float, error: float) -> str:
    return f"are {abs(share):.1%} +- {error:.1%} {'lower' if share < 0.0 else 'higher'}"


class LamOrigin(NamedTuple):
    """The origin of a lam that nobody gave."""

    written: str  # as --lam takes it
    candidates: tuple[Candidate, ...]
    rows: int  # that the candidates learnt from
    held_out_rows: int  # that they were compared on
    folds: int = 1  # above 1: all of them in turn, each by models of the others
    times: int = 1  # that all rows were held out, in other folds each time
    beyond: str | None = None  # what to try next where the chosen one is the first or the last
    groups_of: str | None = None  # a column whose groups were held out as a whole, in the ingest
    loss: LossChoice | None = None  # of a loss that nobody gave, chosen with it

    def as_facts(self) -> dict[str, Any]:
        """Return the same for JSON."""
        return self._asdict() | {
            "candidates": [each._asdict() for each in self.candidates],
            "loss": self.loss and self.loss._asdict(),
        }

    def sentence(self) -> str:
        """Say what was chosen, from what, and how to do without."""
        by = f"the loss of {self.held_out_rows:,} held-out rows"
        if self.groups_of is not None:
            by += f" when the form was chosen, those of one {shown_name(self.groups_of)} together"
            return f"lam {self.written} by {by}; `lam=1/n` trains one"
        if self.folds > 1:
            by += f", in {self.folds} folds" + f", {self.times} times" * (self.times > 1)
        end = (
            f"; none beyond it was tried: `lam={self.beyond}` may be better" if self.beyond else ""
        )
        own = f"lam {self.written} of {len(self.candidates)} by {by}{end}; `lam=1/n` trains one"
        if self.loss is None or (reason := self.loss.reason()) is None:
            return own
        return f"loss {reason}; `loss={self.loss.usual}` keeps that. L{own[1:]}"


def best_of(candidates: list[Candidate], usual: float | None = None) -> Choice:
    """Choose the least held-out loss, of equal ones the larger lam; or by the metric asked for.

    Where standard errors are known, the largest lam whose loss is within its own of the least, or
    within a thousandth.  With a `usual` lam the nearest to it instead, at most a percent above the
    least: a standard error of few rows is large, and would take whatever fits worst.
    """
    if any(each.cost is not None for each in candidates):
        least_cost = min(candidates, key=lambda each: (each.criterion, -each.lam))
        return Choice(least_cost.lam, tuple(candidates))
    best = min(candidates, key=lambda each: (each.loss, -each.lam))
    least, most = ALIKE * abs(best.loss), np.inf if usual is None else CLOSE * abs(best.loss)

    def is_near(one: Candidate) -> bool:
        if one is best or one.standard_error is None:
            return one is best
        return one.loss - best.loss <= min(max(one.standard_error, least), most)

    near = [one.lam for one in candidates if is_near(one)]
    if usual is None:
        return Choice(max(near), tuple(candidates))
    return Choice(min(near, key=lambda lam: abs(np.log(lam / usual))), tuple(candidates))


def weights_of(weights: Weights, lams: int, k: int) -> Weights:
    """Return the model of the k-th lam, with all its classes, out of those of all lams."""
    if lams == 1:
        return weights
    size = len(weights.coef) // lams
    if size == 1:
        return Weights(weights.coef[k], float(weights.intercept[k]))
    own = slice(k * size, (k + 1) * size)
    return Weights(weights.coef[own], weights.intercept[own])


def certificate_of(certified: Certificate | None, lams: int, k: int) -> Certificate | None:
    """Return what is proven of the k-th lam's model out of what is proven of all."""
    if certified is None or lams == 1:
        return certified
    size = len(certified.models) // lams
    here = slice(k * size, (k + 1) * size)
    own, constants = certified.models[here], certified.constants[here]
    objective = float(np.mean([objective for objective, _ in own]))
    gap = max(gap for _, gap in own)
    return Certificate(objective, gap, own if size > 1 else (), constants)
