"""The interface of methods: settings, a state, and a program of walks and reductions.

A solver is a frozen pydantic model that is both settings and method.  Its state is a NamedTuple of
arrays, numbers and NamedTuples of these; it is stored as it is.  `program` lists the sweeps of one
epoch, so every pass over the data is visible in the method's own file; `pipeline` can run a Walk
and a Reduce (walk_and_reduce.py) and nothing else.
Everything a method needs can be imported from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.certificate import Certificate
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs, refuse_unfit
from fewpass.solvers.solver_settings import BatchSize, Goal, Settings, Steps
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
    ENOUGH_MERGES,
    MOST_MERGES,
    Block,
    ColumnMoments,
    Interleaved,
    JoinByPairs,
    ProblemStats,
    Reduce,
    Rivalry,
    RowStateUse,
    Sum,
    Sweep,
    Walk,
    as_sides,
    never,
    no_recovery,
    rows_visited,
)


class Diverged(ArithmeticError):  # noqa: N818  users read the name, and it says enough
    """The objective grew without bound, and no smaller step size will be tried."""


class Outgrown(Diverged):
    """The model is too large for this method; another one that was chosen can go on from here."""


class Mispaired(ArithmeticError):  # noqa: N818  likewise
    """Weights and numbers per row that do not belong together, though each may be intact."""


class Weights(NamedTuple):
    """The linear function x -> coef . x + intercept, or one per class."""

    coef: NDArray[np.float64]  # (d,), or (n_classes, d)
    intercept: Any  # a number, or (n_classes,)


def constant_weights(problem: Problem, d: int) -> Weights:
    """Return where methods begin: zero weights for d features, the intercept at its level; or K."""
    K = problem.loss.width
    if K == 1:
        return Weights(np.zeros(d), problem.level)
    level = np.broadcast_to(np.asarray(problem.level, float), K).copy()
    return Weights(np.zeros((K, d)), level)


class ChosenLearner(NamedTuple):
    """The learner whose weights are the result of a method with several learners."""

    learner: str
    objective: float  # progressive
    runner_up: str  # itself where all others left before the end
    lead: float  # the runner-up's progressive objective minus this one


class Solver(ABC):
    """The methods that a training calls, of one model or of several of one method (multi_model.py).

    Every member is described here; those with a default have it here.
    """

    @property
    @abstractmethod
    def for_one_score(self) -> str | None:
        """The setting that only losses of one score can be trained with, if there is one."""

    @property
    @abstractmethod
    def goal(self) -> Goal:
        """Default stopping rule.

        After a number of "passes", at a certified "tolerance", or after a number of "steps", each
        far cheaper than a pass.
        """

    if TYPE_CHECKING:  # a field of methods, and pydantic warns of fields that hide a property

        @property
        def kind(self) -> str:
            """Name of the method."""

    @property
    @abstractmethod
    def needs(self) -> Needs:
        """Requirements on the problem."""

    @property
    @abstractmethod
    def states(self) -> tuple[type, ...]:
        """Types of its states, that of the first state first."""

    @property
    def certify_pass(self) -> Reduce | None:
        """Reduction that certifies the newest weights after a last pass.

        Only for a method that certifies its weights in walks; None: the gradient certifies them.
        """
        return None

    @property
    def warm_start_pass(self) -> Reduce | None:
        """Pass after `start_at` that computes the rest of the state; None: none needed."""
        return None

    @property
    def warm_epoch(self) -> int:
        """Epoch that follows `start_at`; above 0 if earlier epochs seek a start."""
        return 0

    @property
    def by_column(self) -> bool:
        """Return whether a column's weight depends only on that column's row of the state's W.

        W is then the only array, and `weights` of a state with some rows of W are those of these
        columns.
        """
        return False

    @property
    def spare_copies(self) -> int:
        """Number of states for which memory is reserved, next to two for every stream.

        A span takes one state and returns one.  The others are for weights read out of states, and
        for sums over rows as large as weights, of which a dozen may exist at a time.
        """
        return 5

    @abstractmethod
    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row.

        Raises ValueError if a setting does not fit the problem.
        """

    def start_at(
        self, _problem: Problem, _stats: ProblemStats, _weights: Weights, _rows_before: int
    ) -> State:
        """Return the state at given weights, which were trained on other rows."""
        raise ValueError(
            f"{self.kind} cannot start from another model. Leave `start_from` out, or choose "
            "another method."
        )

    def row_state_size(self, _stats: ProblemStats) -> int:
        """Return how many numbers are stored per row, if any are."""
        return max(1, self.needs.numbers_per_row)

    def adopted(self, state: State, *, midway: bool) -> State:  # noqa: ARG002
        """Return a state read from storage, `midway` in a walk or not, ready to continue.

        A method may mark the state here so that its numbers per row are verified.
        """
        return state

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of the arrays of its largest state."""
        return array_bytes(self.init(problem, stats))

    @abstractmethod
    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the sweeps of an epoch (0, 1, ...)."""

    @abstractmethod
    def weights(self, state: State) -> Weights:
        """Return the weights of a state."""

    def certificate(self, _state: State) -> Certificate | None:
        """Return the certificate of `weights(state)`; None if computing it takes a pass."""
        return None

    def learners(self, _state: State) -> tuple[ChosenLearner, ...]:
        """Return the learner behind `weights(state)`, one per model; () if there is only one."""
        return ()

    def before_steps(self, _state: State) -> tuple[float, ...]:
        """Return every model's mean loss of rows before their steps; () where nobody adds it up."""
        return ()


class Method(Settings, Solver):
    """Base class of methods made of walks and reductions."""

    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """Refuse problems that the method does not suit, then return `first_state`."""
        self.refuse_unfit(problem, stats)
        return self.first_state(problem, stats)

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Raise ValueError if the problem does not meet its requirements."""
        refuse_unfit(self.kind, self.needs, problem, stats.d, stats.streams)

    @abstractmethod
    def first_state(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row.

        Raises ValueError if a setting does not fit the problem.
        """
