"""What a method is: settings, a state, and a program of walks and reductions.

A solver is one frozen pydantic model, settings and method in one.  Its state is a NamedTuple of
arrays, numbers and groups of what changes together, NamedTuples themselves; it is saved as is.
`program` lists the sweeps of one epoch, so every pass over the data stands in the method's own
file; `pipeline` knows how to run a Walk and a Reduce (walk_and_reduce.py) and nothing else.
Everything a method needs can be imported from here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fewpass.solvers.described import Described
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs, refuse_unfit
from fewpass.solvers.states import (
    Part,
    State,
    add_parts,
    add_to_part,
    array_bytes,
    copy_state,
    row_versions,
    same,
    with_row_version,
)
from fewpass.solvers.walk_and_reduce import (
    ENDLESS,
    Block,
    ColumnMoments,
    Interleaved,
    ProblemStats,
    Reduce,
    RowStateUse,
    Sum,
    Sweep,
    Walk,
    as_sides,
    never,
    no_recovery,
    rows_visited,
)

__all__ = [
    "ENDLESS",
    "BatchSize",
    "Block",
    "Certificate",
    "ChosenLearner",
    "ColumnMoments",
    "Diverged",
    "ExpectedPasses",
    "Goal",
    "Interleaved",
    "Method",
    "Mispaired",
    "Part",
    "ProblemStats",
    "Reduce",
    "RowStateUse",
    "Settings",
    "Solver",
    "State",
    "Steps",
    "Sum",
    "Sweep",
    "Walk",
    "Weights",
    "add_parts",
    "add_to_part",
    "array_bytes",
    "as_sides",
    "copy_state",
    "never",
    "no_recovery",
    "row_versions",
    "rows_visited",
    "same",
    "with_row_version",
    "zero_weights",
]


class Weights(NamedTuple):
    """The linear function x -> coef . x + intercept, or one per class."""

    coef: NDArray[np.float64]  # (d,), or (n_classes, d)
    intercept: Any  # a number, or (n_classes,)


def zero_weights(d: int) -> Weights:
    """Return zero weights for d features."""
    return Weights(np.zeros(d), 0.0)


Goal = Literal["passes", "tolerance", "steps"]


class ExpectedPasses(NamedTuple):
    """Passes until a tolerance; None where nothing can be said."""

    theory: float | None = None  # enough in expectation for f - f* <= tol, best parameters
    usual: float | None = None  # what a certificate of the tolerance usually takes
    reductions: float = 0.0  # share of the passes that are reductions


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


#: Rows that share a step, for all of which there is room beside the weights.
BatchSize = Annotated[int, Field(ge=1, le=1 << 20)]
#: Steps one after the other, as many as a year has milliseconds.
Steps = Annotated[int, Field(ge=1, le=1 << 35)]


class Settings(Described):
    """Base of every solver's settings: immutable, and nothing unknown is accepted."""

    goal: ClassVar[Goal] = "tolerance"
    """When it is done, if nobody says: see Solver."""
    usual_passes: ClassVar[int] = 1
    """How many it makes where it is done by passes, and nobody says how many."""
    needs: ClassVar[Needs] = Needs()
    """What it needs of a problem."""
    better: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Settings by the name of a loss on which the defaults do worse: taken where a method is asked
    for by its name alone."""
    scale_free: ClassVar[bool] = False
    """Whether it takes columns of any scale as they are."""
    uses_moments: ClassVar[bool] = False
    """Whether its steps go by the moments of every column."""
    tries_several_lam: ClassVar[bool] = False
    """Whether one pass with held-out rows and no lam given tries several (plan/lam_path.py)."""
    halves_steps: ClassVar[bool] = False
    """Whether its first step may be too long, and each halving costs an epoch."""
    is_sublinear: ClassVar[bool] = False
    """Whether the excess falls like one over the number of passes on every problem."""

    def for_more_columns(self, problem: Problem, stats: ProblemStats) -> Self:  # noqa: ARG002
        """Return settings that can do with more columns than these stats have, as they come."""
        return self


class Method(Settings):
    """Base of the methods that walk and reduce: what most of them say of themselves."""

    states: ClassVar[tuple[type, ...]]
    """The types that its states have, the first one's first."""
    warm_epoch: ClassVar[int] = 0
    """The epoch that follows `start_at`; above 0 where the first ones seek a start."""
    by_column: ClassVar[bool] = False
    """See Solver; here for the methods whose weights are made of all of a state."""
    spare_copies: ClassVar[int] = 5
    """See Solver; here for the methods that add up vectors, such as gradients."""

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

    @abstractmethod
    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the sweeps of an epoch."""

    def expected_passes(
        self, _problem: Problem, _stats: ProblemStats, _tol: float
    ) -> ExpectedPasses:
        """Tell how many passes it takes until the gap over max(1, |objective|) is `tol`.

        Here for methods of which no rule is known, or whose few passes come to no certificate.
        """
        sweeps = self.program(self.warm_epoch)
        reductions = sum(isinstance(sweep, Reduce) for sweep in sweeps)
        return ExpectedPasses(reductions=reductions / len(sweeps))

    def start_at(
        self, _problem: Problem, _stats: ProblemStats, _weights: Weights, _rows_before: int
    ) -> State:
        """See Solver; here for the methods whose weights are sums over their own steps."""
        raise ValueError(
            f"{getattr(self, 'kind', 'This method')} cannot start from another model. Leave "
            "`start_from` out, or choose another method."
        )

    def row_state_size(self, _stats: ProblemStats) -> int:
        """See Solver; here for the methods that keep as much whatever the streams."""
        return max(1, self.needs.numbers_per_row)

    def adopted(self, state: State, *, midway: bool) -> State:  # noqa: ARG002
        """See Solver; here for the methods whose certificate counts on no number per row."""
        return state

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """See Solver; here for the methods whose largest state is the first one."""
        return array_bytes(self.init(problem, stats))

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

    @property
    def by_column(self) -> bool:
        """Return whether a column's weight is read out of that column's row of the state's W.

        W is its one array then, and `weights` of a state with some rows of W are those columns'.
        """

    @property
    def spare_copies(self) -> int:
        """Return for how many states memory is kept beside two for every stream.

        A span is given one and makes one.  The others are for what is read out of them, and for
        sums over the rows that are as large as weights, of which a dozen may exist at a time.
        """

    def row_state_size(self, stats: ProblemStats, /) -> int:
        """Return how many numbers are kept per row, where any are."""

    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row; ValueError when a setting does not fit."""

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> State:
        """Return the state before the first row, at a model that has learnt from so many rows."""

    def adopted(self, state: State, *, midway: bool) -> State:
        """Return a state that another process left in storage, `midway` in a walk or not.

        Here a method may ask of itself to prove that the numbers per row go with it.
        """

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
