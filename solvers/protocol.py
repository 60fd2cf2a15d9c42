"""What a method is: settings, a state, and a program of walks and gathers.

A solver is one frozen pydantic model, settings and method in one.  Its state is a NamedTuple of
arrays and numbers, saved as is.  `program` lists the sweeps of one epoch, so every pass over the
data stands in the method's own file; `pipeline` knows how to run a Walk and a Gather and nothing
else.

In-place rule: a step owns the arrays of the state that it is given; whoever needs the old state
copies it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from solvers.losses import Problem
from solvers.rows import Rows

State = Any  # a NamedTuple of arrays and numbers, one type per method
Part = Any  # a NamedTuple of arrays and numbers that add up, one type per gather


class Block(NamedTuple):
    """What one visit to the data brings: rows, and the order to visit them in."""

    rows: Rows
    y: NDArray[np.float64]  # (n,) targets; -1 and +1 for classification
    weight: NDArray[np.float64]  # (n,) row weights, scaled so that their mean over the set is 1
    order: NDArray[np.int64]  # (m,) rows to visit


class Facts(NamedTuple):
    """What ingest measured once and every step size needs."""

    n: int  # rows
    d: int  # features, without the intercept
    rows_kind: type  # DenseRows or SparseRows
    mean_square: float  # mean ||x||^2
    max_square: float  # max ||x||^2
    max_weight: float  # largest row weight, mean 1
    stream_rows: int  # rows that one stream visits in one pass
    shuffled: bool  # whether rows lie in a global random order
    target_square: float  # mean y^2; 1 for classification


class Weights(NamedTuple):
    """The linear function x -> coef . x + intercept."""

    coef: NDArray[np.float64]  # (d,)
    intercept: float


class Walk(NamedTuple):
    """A sequential pass: `step` carries a state over one block after the other.

    With several streams every stream starts from its own copy of the state and `join` makes one
    of the results.  A step that says `diverged` ends the walk; `recover` gives the state to start
    the whole training from again.
    """

    name: str
    step: Callable[[Problem, Facts, State, Block], State]
    join: Callable[[list[State]], State]
    order: Literal["stored", "random"]  # "stored": legal on a shuffled set only
    diverged: Callable[[State], bool]
    recover: Callable[[Problem, Facts, State], State]
    metrics: Callable[[State], dict[str, float]]  # numbers for the log and the live display


class Gather(NamedTuple):
    """An order-free pass: `part` of every chunk, added up in a fixed tree, given to `absorb`."""

    name: str
    part: Callable[[Problem, State, Block], Part]
    absorb: Callable[[Problem, Facts, State, Part], State]


Sweep = Walk | Gather


class Settings(BaseModel):
    """Base of every solver's settings: immutable, and nothing unknown is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Solver(Protocol):
    """The three verbs of a method."""

    @property
    def kind(self) -> str:
        """Return the word that names the method."""

    def init(self, problem: Problem, facts: Facts) -> State:
        """Return the state before the first row; ValueError when a setting does not fit."""

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the sweeps of that epoch (0, 1, ...)."""

    def weights(self, state: State) -> Weights:
        """Read the model out of a state."""


def add_parts(left: Part, right: Part) -> Part:
    """Field by field sum of two parts of one gather."""
    return type(left)(*(a + b for a, b in zip(left, right, strict=True)))


def copy_state(state: State) -> State:
    """Copy a state's arrays (layout kept); its numbers are immutable."""
    return type(state)(*(v.copy(order="K") if isinstance(v, np.ndarray) else v for v in state))
