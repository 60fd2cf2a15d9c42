"""Methods whose passes certify weights, and the best weights that they have certified."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.dual.duality import GAP, lowered_gap
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import (
    Block,
    Certificate,
    Method,
    Part,
    ProblemStats,
    Reduce,
    State,
    Sum,
    Walk,
    Weights,
)


class BestWeights(NamedTuple):
    """The best weights with a certificate; zeros before there are any."""

    coef: NDArray[np.float64]  # (d,), or (K, d) of several scores
    intercept: Any = 0.0  # a number, or (K,)
    objective: float = 0.0
    gap: float = 0.0  # at most this far are they above the optimum
    certified: bool = False  # whether there are any

    @property
    def certificate(self) -> Certificate | None:
        """Return the proof of them."""
        return Certificate(self.objective, self.gap) if self.certified else None

    @property
    def weights(self) -> Weights:
        """The weights themselves."""
        return Weights(self.coef, self.intercept)

    def replaced(self, at: Weights, certificate: Certificate) -> BestWeights:
        """Return others in their place; `coef` is written over."""
        self.coef[:] = at.coef
        return BestWeights(
            self.coef, at.intercept, certificate.objective, certificate.gap, certified=True
        )

    def smaller_gap(self, at: Weights, certificate: Certificate) -> BestWeights:
        """Keep the weights with the smaller gap to the larger dual bound."""
        current = self.certificate
        if current is None:
            return self.replaced(at, certificate)
        gap, own = lowered_gap(current, certificate), lowered_gap(certificate, current)
        if gap < own:
            return self._replace(gap=gap)
        return self.replaced(at, certificate._replace(gap=own))


def no_weights(d: int, K: int = 1) -> BestWeights:
    """Return zero weights of d columns and K scores, uncertified."""
    return BestWeights(np.zeros(d)) if K == 1 else BestWeights(np.zeros((K, d)), np.zeros(K))


class DualMethod(Method):
    """A method whose passes certify the weights that they begin with; states have the `best`.

    Between two passes a reduction certifies the newest ones.
    """

    #: What a pass proves are sums of numbers: weights are added up where a warm start begins.
    spare_copies: ClassVar[int] = 2
    gap: ClassVar[Sum] = GAP
    """The sum over all rows that certifies the newest weights."""

    @property
    def certify_pass(self) -> Reduce:
        """The duality gap of the newest weights."""
        return Reduce(self.gap, self.newest, self.proved)

    def program(self, epoch: int) -> tuple[Walk, ...]:
        """One walk an epoch; the first may take the rows as they lie."""
        return (
            Walk(
                name=f"walk-{self.kind}",
                step=self.step_rows,
                join=self.end_pass,
                order="stored" if epoch == 0 else "random",
                metrics=self.metrics,
                row_state="update",
            ),
        )

    @abstractmethod
    def newest(self, state: State) -> Any:
        """Read out the weights that a pass begins with, as `gap` takes them."""

    @abstractmethod
    def proved(
        self, problem: Problem, stats: ProblemStats, state: State, total: Part, _sweep: int
    ) -> State:
        """Keep the newest weights if they are better, by what the sums of `gap` prove of them."""

    @abstractmethod
    def step_rows(self, problem: Problem, stats: ProblemStats, state: State, block: Block) -> State:
        """Visit the rows of one block."""

    @abstractmethod
    def end_pass(self, problem: Problem, stats: ProblemStats, states: list[Any]) -> State:
        """Put the streams together, certify the weights that the pass began with, begin the next.

        Mid-pass: returns the weights so far, for display.
        """

    @abstractmethod
    def metrics(self, state: State) -> dict[str, float]:
        """Return the logged figures of the running pass."""

    def weights(self, state: State) -> Weights:
        """Return the best certified weights; before there are any, `uncertified`."""
        best: BestWeights = state.best
        return best.weights if best.certified else self.uncertified(state)

    @abstractmethod
    def uncertified(self, state: State) -> Weights:
        """Return what stands for the model before any weights have a certificate."""

    def certificate(self, state: State) -> Certificate | None:
        """Return what the passes so far proved: nothing before the second.

        No loss and no penalty is below 0, so no gap is above the objective.
        """
        best: BestWeights = state.best
        proven = best.certificate
        return proven and proven._replace(gap=min(proven.gap, proven.objective))
