"""What a pass over the data is: a walk or a reduction, and the blocks of rows that it is given.

In-place rule: a step owns the arrays of the state that it is given; whoever needs the old state
copies it first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.rows import Rows
from fewpass.solvers.loss_monitor import Tell
from fewpass.solvers.losses import Problem
from fewpass.solvers.states import Part, State, copy_state, same

RowStateUse = Literal["none", "read", "write", "update"]


class Block(NamedTuple):
    """What one visit to the data brings: rows, and the order to visit them in.

    Others may lie among the rows to visit, so only `order` says what the visit is about.
    """

    rows: Rows
    y: NDArray[np.float64]  # (n,) targets; -1 and +1 for classification
    weight: NDArray[np.float64]  # (n,) row weights, scaled so that their mean over the set is 1
    order: NDArray[np.int64]  # (m,) rows to visit
    row_state: NDArray[np.float64]  # (n,), or (n, k) for k > 1 numbers a row; (0,) if none are kept


class ColumnMoments(NamedTuple):
    """What ingest measured of every column, in the order in which rows are stored."""

    share: NDArray[np.float64]  # (d,) of the rows: those that have a value other than 0
    square: NDArray[np.float64]  # (d,) mean square of these values; 0 where there are none


ENDLESS = 1 << 62  # rows of a stream of which nobody knows how many will come


class ProblemStats(NamedTuple):
    """What ingest measured once and every step size needs."""

    n: int  # rows
    d: int  # features, without the intercept
    rows_kind: type  # DenseRows or SparseRows
    mean_square: float  # mean ||x||^2
    max_square: float  # max ||x||^2
    max_weight: float  # largest row weight, mean 1
    stream_rows: int  # rows that one stream visits in one pass, or ENDLESS
    shuffled: bool  # whether rows lie in a global random order
    target_square: float  # mean y^2; 1 for classification
    sigma_square: float  # largest eigenvalue of mean x x^T, from above: a sample's, times 1.05
    streams: int
    seed: int
    columns: Callable[[], ColumnMoments] | None = None  # reads them, where they are known


def never(_state: State) -> bool:
    """Say that a walk has not diverged: this one cannot, or something else finds out."""
    return False


def no_recovery(_problem: Problem, _stats: ProblemStats, state: State) -> State:
    """Return the state itself: nothing is ever recovered from."""
    return state


def as_sides(y: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    """Return class `label` as +1 and all others as -1; for label -1, y itself."""
    return y if label < 0 else np.where(y == label, 1.0, -1.0)


def weights_of(state: State) -> NDArray[np.float64]:
    """Return a state's field W."""
    found: NDArray[np.float64] = state.W
    return found


def with_weights(state: State, W: NDArray[np.float64]) -> State:
    """Return the state with this W."""
    return state._replace(W=W)


class Interleaved(NamedTuple):
    """How a walk carries several models at once, their weights side by side (interleaved.py).

    `step` gets the models' problems, states (their weights left empty), their weights W, labels
    (the class that counts as +1, -1 where targets are taken as they are), and which of all models
    they are: where their numbers per row stand in the block's.  It changes W and these in place,
    and tells the losses of all together.
    Every model comes to the bits that it would come to alone.
    """

    fits: Callable[[list[State]], bool]  # whether these can go together now
    step: Callable[
        [
            list[Problem],
            ProblemStats,
            list[State],
            NDArray[np.float64],
            Block,
            list[int],
            tuple[int, ...],
            Tell,
        ],
        list[State],
    ]
    weights: Callable[[State], NDArray[np.float64]] = weights_of  # (d, C), what goes side by side
    with_weights: Callable[[State, NDArray[np.float64]], State] = with_weights


class Walk(NamedTuple):
    """A sequential pass: `step` carries a state over one block after the other.

    With several streams every stream starts from its own copy of the state and `join` makes one
    of the results.  A step that says `diverged` ends the walk; `recover` gives the state to start
    the whole training from again.  Of several models those that did not diverge start again, too,
    in step with the others: `recover` shortens the steps of none of these.

    A walk that reads or updates what is kept per row has states with a field `row_version`, in no
    group: the sweep that wrote the numbers which the state goes with.  Where it updates, `step`
    changes `block.row_state` in place, and every row is visited once.
    """

    name: str
    step: Callable[[Problem, ProblemStats, State, Block], State]
    join: Callable[[Problem, ProblemStats, list[State]], State]
    order: Literal["stored", "random"]  # "stored": legal on a shuffled set only
    metrics: Callable[[State], dict[str, float]]  # numbers for the log and the live display
    diverged: Callable[[State], bool] = never
    recover: Callable[[Problem, ProblemStats, State], State] = no_recovery
    rows: Callable[[State], int] | None = None  # how many a stream visits; None: each of its once
    row_state: RowStateUse = "none"
    interleaved: Interleaved | None = None
    #: `step` for who wants to hear the losses inside a block, too (loss_monitor.Tell).
    telling: Callable[[Problem, ProblemStats, State, Block, Tell], State] | None = None
    enter: Callable[[State], State] = copy_state  # once before any number of steps, ...
    leave: Callable[[State], State] = same  # ... and after them
    #: The state with d columns, those that are new at zero, and steps that go by these moments of
    #: them: for rows whose columns are counted as they come.  None: columns are known before.
    resize: Callable[[Problem, State, int, ColumnMoments | None], State] | None = None


def rows_visited(walk: Walk, state: State, block: Block) -> int:
    """Return how many rows of a block the next step visits."""
    listed = len(block.order)
    return listed if walk.rows is None else min(walk.rows(state), listed)


class Sum(NamedTuple):
    """What a reduction adds up.

    `add` owns the part that it is given and returns it with a block's share added; parts of
    different spans are added by `add_parts`.
    """

    name: str
    zero: Callable[[Any], Part]  # of what `add` is taken at
    add: Callable[[Problem, Any, Block, Part], Part]
    row_state: RowStateUse = "none"  # "write": `add` fills block.row_state
    #: `add` for who wants to hear the losses inside a block, too, after every so many rows.
    telling: Callable[[Problem, Any, Block, Part, Tell, int], Part] | None = None


class Reduce(NamedTuple):
    """An order-free pass: a sum over all chunks in a fixed tree, given to `absorb`.

    `absorb` gets the number of the sweep, too: the `row_version` of what the sum wrote.
    """

    sum: Sum
    at: Callable[[State], Any]  # the small part of a state that the sum needs
    absorb: Callable[[Problem, ProblemStats, State, Part, int], State]


Sweep = Walk | Reduce
