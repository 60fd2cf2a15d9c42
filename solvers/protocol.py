"""What a method is: settings, a state, and a program of walks and reductions.

A solver is one frozen pydantic model, settings and method in one.  Its state is a NamedTuple of
arrays, numbers and groups of what changes together, NamedTuples themselves; it is saved as is.
`program` lists the sweeps of one epoch, so every pass over the data stands in the method's own
file; `pipeline` knows how to run a Walk and a Reduce and nothing else.

In-place rule: a step owns the arrays of the state that it is given; whoever needs the old state
copies it first.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from solvers.kernels.rows import Rows
from solvers.loss_monitor import Tell
from solvers.losses import Problem
from solvers.needs import Needs, refuse_unfit

State = Any  # a NamedTuple of arrays, numbers and groups; a method may have one type per phase
Part = Any  # a tuple of arrays, numbers and parts that add up, one type per reduce


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


class Weights(NamedTuple):
    """The linear function x -> coef . x + intercept, or one per class."""

    coef: NDArray[np.float64]  # (d,), or (n_classes, d)
    intercept: Any  # a number, or (n_classes,)


def zero_weights(d: int) -> Weights:
    """Return zero weights for d features."""
    return Weights(np.zeros(d), 0.0)


Goal = Literal["passes", "tolerance", "steps"]
RowStateUse = Literal["none", "read", "write", "update"]


class ExpectedPasses(NamedTuple):
    """Passes until a tolerance; None where nothing can be said."""

    theory: float | None = None  # enough in expectation for f - f* <= tol, best parameters
    usual: float | None = None  # what a certificate of the tolerance usually takes
    reductions: float = 0.0  # share of the passes that are reductions


def never(_state: State) -> bool:
    """Say that a walk has not diverged: this one cannot, or something else finds out."""
    return False


def no_recovery(_problem: Problem, _stats: ProblemStats, state: State) -> State:
    """Return the state itself: nothing is ever recovered from."""
    return state


def copy_state(state: State) -> State:
    """Copy a state's arrays (layout kept); its numbers are immutable."""
    return _each_field(_copy_value, state)


def _copy_value(value: Any) -> Any:
    if isinstance(value, tuple):
        return copy_state(value)
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def _each_field(change: Callable[..., Any], *tuples: Any) -> Any:
    """Return a tuple of the same type, plain or named, made of its fields changed."""
    kind, fields = type(tuples[0]), (change(*values) for values in zip(*tuples, strict=True))
    return tuple(fields) if kind is tuple else kind(*fields)


def same(state: State) -> State:
    """Return the state itself."""
    return state


def as_sides(y: NDArray[np.float64], label: int) -> NDArray[np.float64]:
    """Return class `label` as +1 and all others as -1; for label -1, y itself."""
    return y if label < 0 else np.where(y == label, 1.0, -1.0)


class Interleaved(NamedTuple):
    """How a walk carries several models at once, their weights side by side (interleaved.py).

    `step` gets the models' problems, states (their field W left empty), their weights W, labels
    (the class that counts as +1, -1 where targets are taken as they are), and which of all models
    they are: where their numbers per row stand in the block's.  It changes W and these in place.
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
        ],
        list[State],
    ]


class Walk(NamedTuple):
    """A sequential pass: `step` carries a state over one block after the other.

    With several streams every stream starts from its own copy of the state and `join` makes one
    of the results.  A step that says `diverged` ends the walk; `recover` gives the state to start
    the whole training from again.  Of several models those that did not diverge start again, too:
    from what `again` gives, where a method keeps what it found by itself, or else from `init`.

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
    again: Callable[[Problem, ProblemStats, State], State] | None = None
    rows: Callable[[State], int] | None = None  # how many a stream visits; None: each of its once
    row_state: RowStateUse = "none"
    interleaved: Interleaved | None = None
    #: `step` for who wants to hear the losses inside a block, too (loss_monitor.Tell).
    telling: Callable[[Problem, ProblemStats, State, Block, Tell], State] | None = None
    enter: Callable[[State], State] = copy_state  # once before any number of steps, ...
    leave: Callable[[State], State] = same  # ... and after them


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


class Reduce(NamedTuple):
    """An order-free pass: a sum over all chunks in a fixed tree, given to `absorb`.

    `absorb` gets the number of the sweep, too: the `row_version` of what the sum wrote.
    """

    sum: Sum
    at: Callable[[State], Any]  # the small part of a state that the sum needs
    absorb: Callable[[Problem, ProblemStats, State, Part, int], State]


Sweep = Walk | Reduce


class Certificate(NamedTuple):
    """What a full gradient or a duality gap proves of a state's weights."""

    objective: float  # of several models: their mean
    gap: float  # at most this far above the optimum; of several models: the largest
    models: tuple[tuple[float, float], ...] = ()  # objective and gap of each, where there are more

    @property
    def relative(self) -> float:
        """The gap over max(1, |objective|), of several models the largest: what `tol` is about."""
        each = self.models or ((self.objective, self.gap),)
        return max(gap / max(1.0, abs(objective)) for objective, gap in each)


class ChosenLearner(NamedTuple):
    """Whose weights a method that runs several learners hands on, and by how much."""

    learner: str
    objective: float  # progressive
    runner_up: str
    lead: float  # the runner-up's progressive objective is so much higher


class Diverged(ArithmeticError):  # noqa: N818  users read the name, and it says enough
    """The objective left all bounds, and no smaller step is going to be tried."""


class Mispaired(ArithmeticError):  # noqa: N818  likewise
    """Weights and numbers per row that do not belong together, though every byte may be whole."""


class Settings(BaseModel):
    """Base of every solver's settings: immutable, and nothing unknown is accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    goal: ClassVar[Goal] = "tolerance"
    """When it is done, if nobody says: see Solver."""
    needs: ClassVar[Needs] = Needs()
    """What it needs of a problem."""
    better: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Settings by the name of a loss on which the defaults do worse: taken where a method is asked
    for by its name alone."""


class Method(Settings):
    """Base of the methods that walk and reduce: what most of them say of themselves."""

    states: ClassVar[tuple[type, ...]]
    """The types that its states have, the first one's first."""
    warm_epoch: ClassVar[int] = 0
    """The epoch that follows `start_at`; above 0 where the first ones seek a start."""

    @property
    def certify_pass(self) -> Reduce | None:
        """See Solver; here for the methods that have nothing of their own to say."""
        return None

    @property
    def warm_start_pass(self) -> Reduce | None:
        """See Solver; here for the methods that can go on from any weights as they are."""
        return None

    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """See Solver: what does not fit is refused, then `first_state`."""
        self.refuse_unfit(problem, stats)
        return self.first_state(problem, stats)

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Raise ValueError where its needs are not met."""
        kind: str = self.kind  # type: ignore[attr-defined]
        refuse_unfit(kind, self.needs, problem, stats.d, stats.streams)

    @abstractmethod
    def first_state(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row; ValueError when a setting does not fit."""

    def expected_passes(
        self, _problem: Problem, _stats: ProblemStats, _tol: float
    ) -> ExpectedPasses:
        """Tell how many passes it takes until the gap over max(1, |objective|) is `tol`.

        Here for methods of few passes: they come to no certificate in any number worth telling.
        """
        return ExpectedPasses()

    def start_at(
        self, _problem: Problem, _stats: ProblemStats, _weights: Weights, _rows_before: int
    ) -> State:
        """See Solver; here for the methods whose weights are sums over their own steps."""
        raise ValueError(
            f"{getattr(self, 'kind', 'This method')} cannot start from another model. Leave "
            "start_from out, or choose another method."
        )

    def row_state_size(self, _stats: ProblemStats) -> int:
        """See Solver; here for the methods that keep as much whatever the streams."""
        return max(1, self.needs.numbers_per_row)

    def taken_up(self, state: State, *, midway: bool) -> State:  # noqa: ARG002
        """See Solver; here for the methods whose certificate counts on no number per row."""
        return state

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """See Solver; here for the methods whose largest state is the first one."""
        return array_bytes(self.init(problem, stats))

    def widened(self, _problem: Problem, _state: State, d: int) -> State:
        """See Solver; here for the methods whose states have no room for more columns."""
        raise ValueError(
            f"{getattr(self, 'kind', 'This method')} began with fewer columns than the {d} that "
            "rows have by now. Say how many there are (`n_features`)."
        )

    def remeasured(self, state: State, moments: ColumnMoments) -> State:  # noqa: ARG002
        """See Solver; here for the methods whose steps know nothing of columns."""
        return state

    def certificate(self, _state: State) -> Certificate | None:
        """See Solver; here for the methods that prove nothing without another pass."""
        return None

    def learners(self, _state: State) -> tuple[ChosenLearner, ...]:
        """See Solver; here for the methods that are one learner."""
        return ()


class Solver(Protocol):
    """The verbs of a method."""

    @property
    def goal(self) -> Goal:
        """Return when it is done, if nobody says.

        After one of "passes", at a certified "tolerance", or after its own number of "steps", each
        far less than a pass.
        """

    @property
    def kind(self) -> str:
        """Return the word that names the method."""

    @property
    def states(self) -> tuple[type, ...]:
        """Return the types that its states have, the first one's first."""

    @property
    def certify_pass(self) -> Reduce | None:
        """Return what certifies the newest weights after a last pass.

        Only for a method that certifies itself while it walks; None: the gradient does it.
        """

    @property
    def warm_start_pass(self) -> Reduce | None:
        """Return the pass that makes what goes with given weights, after `start_at`; None: none."""

    @property
    def warm_epoch(self) -> int:
        """Return the epoch that follows `start_at`; above 0 where the first ones seek a start."""

    def row_state_size(self, stats: ProblemStats, /) -> int:
        """Return how many numbers are kept per row, where any are."""

    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row; ValueError when a setting does not fit."""

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> State:
        """Return the state before the first row, at a model that has learnt from so many rows."""

    def taken_up(self, state: State, *, midway: bool) -> State:
        """Return a state that another process left in storage, `midway` in a walk or not.

        Here a method may ask of itself to prove that the numbers per row go with it.
        """

    def widened(self, problem: Problem, state: State, d: int) -> State:
        """Return a state with room for d columns, those that are new at zero, on the way.

        For rows that are read once, whose columns nobody has counted; ValueError where a method
        cannot.
        """

    def remeasured(self, state: State, moments: ColumnMoments) -> State:
        """Return a state whose steps go by these moments of its columns, on the way."""

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return what the arrays of its largest state take."""

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the sweeps of that epoch (0, 1, ...)."""

    def weights(self, state: State) -> Weights:
        """Read the model out of a state."""

    def expected_passes(
        self, problem: Problem, stats: ProblemStats, tol: float, /
    ) -> ExpectedPasses:
        """Tell how many passes it takes until the gap over max(1, |objective|) is `tol`."""

    def certificate(self, state: State) -> Certificate | None:
        """Return what is proven of `weights(state)` already, None where that takes a pass."""

    def learners(self, state: State) -> tuple[ChosenLearner, ...]:
        """Return whose weights `weights(state)` are, a learner per model; none where all is one."""


def add_parts(left: Part, right: Part) -> Part:
    """Field by field sum of two parts of one reduce."""
    return _each_field(_add_values, left, right)


def _add_values(left: Any, right: Any) -> Any:
    """Add two fields of parts."""
    return add_parts(left, right) if isinstance(left, tuple) else left + right


def array_bytes(state: State) -> int:
    """Return what the arrays of a state take."""
    return sum(
        value.nbytes if isinstance(value, np.ndarray) else array_bytes(value)
        for value in state
        if isinstance(value, np.ndarray | tuple)
    )


def row_versions(state: State) -> tuple[int, ...]:
    """Return which versions of the numbers kept per row a state goes with: one per model."""
    models = getattr(state, "models", (state,))
    return tuple(m.row_version for m in models if hasattr(m, "row_version"))


def with_row_version(state: State, version: int) -> State:
    """Return a state, all its models, with the version of the numbers that were kept last."""
    if not hasattr(state, "models"):
        return state._replace(row_version=version)
    return state._replace(models=tuple(m._replace(row_version=version) for m in state.models))
