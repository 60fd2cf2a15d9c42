"""Passes over the data: walks and reductions, and the blocks of rows that they are given.

In-place rule: a step may modify the arrays of the state that it is given; callers that need the old
state copy it first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.rows import Rows
from fewpass.solvers.loss_monitor import ReportLosses
from fewpass.solvers.losses import Problem
from fewpass.solvers.states import Part, State, add_parts, copy_state, same

RowStateUse = Literal["none", "read", "write", "update"]


class Block(NamedTuple):
    """Rows in memory, and the order in which to visit them.

    Only the rows in `order` are visited; the arrays may hold others.
    """

    rows: Rows
    y: NDArray[np.float64]  # (n,) targets; -1 and +1 for classification
    weight: NDArray[np.float64]  # (n,) row weights, scaled so that their mean over the set is 1
    order: NDArray[np.int64]  # (m,) rows to visit
    row_state: NDArray[np.float64]  # (n,), or (n, k) for k > 1 numbers a row; (0,) without them
    offset: NDArray[np.float64] | None = None  # (n,) to be added to scores; no kernel knows it
    folds: NDArray[np.int64] | None = None  # (n,) the fold of every row; tasks leave one out
    threads: int = 1  # that a step may take, changing no bit


class ColumnMoments(NamedTuple):
    """Moments of every column as measured by ingest, columns in stored order."""

    share: NDArray[np.float64]  # (d,) fraction of the rows with a value other than 0
    square: NDArray[np.float64]  # (d,) mean square of these values; 0 without any


ENDLESS = 1 << 62  # rows of a stream of unknown length
MOST_MERGES = 64  # of streams in a pass: more bring nothing
ENOUGH_MERGES = 16  # with fewer, dual ascent takes up to twice the passes


class ProblemStats(NamedTuple):
    """Statistics of a data set as measured by ingest; step sizes follow from them."""

    n: int  # rows
    d: int  # features, without the intercept
    rows_kind: type  # DenseRows or SparseRows
    mean_square: float  # mean ||x||^2
    max_square: float  # max ||x||^2
    max_weight: float  # largest row weight, mean 1
    stream_rows: int  # rows that one stream visits in one pass, or ENDLESS
    shuffled: bool  # whether rows are stored in a global random order
    target_square: float  # mean y^2; 1 for classification
    sigma_square: float  # largest eigenvalue of mean x x^T: that of a sample, times 1.05
    streams: int
    seed: int
    columns: Callable[[], ColumnMoments] | None = None  # reads the moments, if there are any
    constants: tuple[float, ...] = (0.0,)  # F_0 of each class's model; 0: unknown
    target_mean: float = 0.0  # mean y of numbers
    merges: int = 1  # of streams, in a pass


def never(_state: State) -> bool:
    """Return False: this walk cannot diverge, or divergence is detected elsewhere."""
    return False


def always(_state: State) -> bool:
    """Return True."""
    return True


def no_recovery(_problem: Problem, _stats: ProblemStats, state: State) -> State:
    """Return the state itself, for walks that never need recovery."""
    return state


def as_sides(y: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    """Return +1 for class `label` and -1 for all others; y itself for label -1."""
    return y if label < 0 else np.where(y == label, 1.0, -1.0)


def weights_of(state: State) -> NDArray[np.float64]:
    """Return a state's field W."""
    W: NDArray[np.float64] = state.W
    return W


def with_weights(state: State, W: NDArray[np.float64]) -> State:
    """Return the state with this W."""
    return state._replace(W=W)


class Interleaved(NamedTuple):
    """Steps of several models at once, their weights side by side (interleaved.py).

    `step` takes the models' problems, states (with empty weights), weights W, labels (the class
    that counts as +1; -1: targets unchanged), and indices, which locate their numbers per row in
    the block.  It changes W and these numbers in place, and reports the mean losses.  Every model
    gets the same bits as alone.
    """

    fits: Callable[[list[State]], bool]  # whether these models can be interleaved now
    step: Callable[
        [
            list[Problem],
            ProblemStats,
            list[State],
            NDArray[np.float64],
            Block,
            list[int],
            tuple[int, ...],
            ReportLosses,
        ],
        list[State],
    ]
    weights: Callable[[State], NDArray[np.float64]] = weights_of  # (d, C), what is interleaved
    with_weights: Callable[[State, NDArray[np.float64]], State] = with_weights
    alone: int = 2  # so many that a last group would begin with go in turn: lanes are not free


class Rivalry(NamedTuple):
    """The leaving of models of one pass that differ in lam alone, but for the best one.

    `rows_to_look` returns how many more rows all of them visit before, or ENDLESS; `is_early`
    whether a state has seen too little then; `loss` what they are compared by; `leave` the state of
    one that takes no more steps, which `has_left` tells.
    """

    rows_to_look: Callable[[ProblemStats, State], int]
    is_early: Callable[[State], bool]
    loss: Callable[[State], float]
    leave: Callable[[State], State]
    has_left: Callable[[State], bool]


class JoinByPairs(NamedTuple):
    """A join of streams as a sum, which can be added up pair by pair where the states are.

    `part` is what the join takes of a stream's state; `end` makes the joined state of a copy (by
    `copied`) of the first stream's state, of the sum of all parts, and of their number.
    """

    part: Callable[[Problem, ProblemStats, State], Part]
    end: Callable[[Problem, ProblemStats, State, Part, int], State]
    copied: Callable[[State], State] = copy_state

    def join(self, problem: Problem, stats: ProblemStats, states: list[State]) -> State:
        """Join the states of all streams; a single stream stays the same, bit for bit."""
        if len(states) == 1:
            return states[0]
        parts = (self.part(problem, stats, state) for state in states)
        return self.end(problem, stats, states[0], reduce(add_parts, parts), len(states))


class Walk(NamedTuple):
    """A sequential pass: `step` updates a state block by block.

    With several streams, every stream starts from its own copy of the state, and `join` combines
    the results.  A state for which `diverged` is true ends its stream; once all streams are at
    their end, the whole training restarts from the state that `recover` makes of the first such
    one.  Models that did not diverge restart, too, with their step sizes.

    A walk that reads or updates numbers per row has states with a top-level field `row_version`:
    the sweep that wrote the numbers the state belongs to.  A walk that updates them changes
    `block.row_state` in place in `step`, and visits every row once.
    """

    name: str
    step: Callable[..., State]  # of (problem, stats, state, block)
    join: Callable[[Problem, ProblemStats, list[State]], State]
    order: Literal["stored", "random"]  # "stored": legal on a shuffled set only
    metrics: Callable[[State], dict[str, float]]  # for the log and the live display
    diverged: Callable[[State], bool] = never
    recover: Callable[[Problem, ProblemStats, State], State] = no_recovery
    rows: Callable[[State], int] | None = None  # rows left for a stream; None: each once
    row_state: RowStateUse = "none"
    interleaved: Interleaved | None = None
    reports: bool = False  # whether `step` takes a ReportLosses, for losses inside a block
    enter: Callable[[State], State] = copy_state  # once before any number of steps, ...
    leave: Callable[[State], State] = same  # ... and after them
    #: Whether `enter` does nothing but copy: a state of one's own is then stepped without.
    only_copied: Callable[[State], bool] = always
    #: Returns the state with d columns, the new ones zero, and steps by these moments, for sources
    #: with an unknown number of columns.  None: not supported.
    resize: Callable[[Problem, State, int, ColumnMoments | None], State] | None = None
    #: Whether a state before the first step needs no such walk: it is then left out, uncounted.
    skips: Callable[[State], bool] | None = None
    #: `join` of many streams; None: their states must come together.
    pairs: JoinByPairs | None = None
    #: What streams take of each other m times a pass: a state becomes `end` of a copy of its own
    #: and of the sum of all parts.  None: they meet at the end of the pass only.
    merge: JoinByPairs | None = None
    #: None: models of all lam go on to the end.
    rivalry: Rivalry | None = None


def rows_visited(walk: Walk, state: State, block: Block) -> int:
    """Return the number of rows of a block that the next step visits."""
    listed = len(block.order)
    return listed if walk.rows is None else min(walk.rows(state), listed)


class Sum(NamedTuple):
    """The sum of a reduction.

    `add` may modify the part that it is given, and returns it with a block added; parts of
    different spans are added by `add_parts`.
    """

    name: str
    zero: Callable[[Any], Part]  # from the point at which `add` is evaluated
    add: Callable[..., Part]  # of (problem, at, block, part)
    row_state: RowStateUse = "none"  # "write": `add` fills block.row_state
    #: Whether `add` takes a ReportLosses, and after how many rows each it is called inside a block.
    reports: bool = False


class Reduce(NamedTuple):
    """An order-free pass: a sum over all chunks in a fixed tree, given to `absorb`.

    `absorb` also takes the number of the sweep: the `row_version` of the numbers that were written.
    """

    sum: Sum
    at: Callable[[State], Any]  # the small part of a state that the sum needs
    absorb: Callable[[Problem, ProblemStats, State, Part, int], State]


Sweep = Walk | Reduce
