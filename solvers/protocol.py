"""The interface of methods: settings, a state, and a program of walks and reductions.

A solver is a frozen pydantic model that is both settings and method.  Its state is a NamedTuple of
arrays, numbers and NamedTuples of these; it is stored as it is.  `program` lists the sweeps of one
epoch, so every pass over the data is visible in the method's own file; `pipeline` can run a Walk
and a Reduce (walk_and_reduce.py) and nothing else.
Everything a method needs can be imported from here.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
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
    JoinByPairs,
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
    "JoinByPairs",
    "Method",
    "Mispaired",
    "Outgrown",
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
    """Expected passes until a tolerance; None where unknown."""

    theory: float | None = (
        None  # that suffice in expectation for f - f* <= tol, with the best parameters
    )
    usual: float | None = None  # usual number until the tolerance is certified
    reductions: float = 0.0  # fraction of the passes that are reductions


class Certificate(NamedTuple):
    """Bounds on a state's weights, proven by a full gradient or a duality gap."""

    objective: float  # mean over several models
    gap: float  # objective minus optimum, at most; largest of several models
    models: tuple[tuple[float, float], ...] = ()  # objective and gap of each of several
    constants: tuple[float, ...] = ()  # F_0 of each model; (): unknown, as of earlier versions
    zeros: int = 0  # weights that are proven to be 0 at the optimum, of one model

    @property
    def each(self) -> tuple[Certificate, ...]:
        """The certificates of all models, of one model its own."""
        return tuple(Certificate(*pair, constants=(one,)) for pair, one in self._with_scales())

    @property
    def relative(self) -> float:
        """The gap / max(F, F_0 / 1000), the largest of several models; compared with `tol`.

        F is the objective, and F_0 the mean loss of the best constant prediction; where that is
        unknown, F alone counts, which makes the relative gap larger if anything.
        """
        return max(_over_scale(*pair, one) for pair, one in self._with_scales())

    def _with_scales(self) -> zip[tuple[tuple[float, float], float]]:
        """Yield objective and gap of each model, with its F_0."""
        pairs = self.models or ((self.objective, self.gap),)
        return zip(pairs, self.constants or (0.0,) * len(pairs), strict=True)

    @property
    def proves_nothing(self) -> bool:
        """Whether of some model it says no more than that no loss is below 0."""
        return self.relative >= 1.0

    def with_constants(self, constants: tuple[float, ...]) -> Certificate:
        """Return the same with F_0 of every model."""
        return self._replace(constants=constants)


#: Of F_0: objectives below this share of it count as this large.
LEAST_SHARE = 1e-3


def _over_scale(objective: float, gap: float, constant: float) -> float:
    scale = max(objective, LEAST_SHARE * constant)
    if scale > 0.0:
        return gap / scale
    return 0.0 if gap <= 0.0 else float("inf")


class ChosenLearner(NamedTuple):
    """The learner whose weights are the result of a method with several learners."""

    learner: str
    objective: float  # progressive
    runner_up: str  # itself where all others left before the end
    lead: float  # the runner-up's progressive objective minus this one


class Diverged(ArithmeticError):  # noqa: N818  users read the name, and it says enough
    """The objective grew without bound, and no smaller step size will be tried."""


class Outgrown(Diverged):
    """The model is too large for this method; another one that was chosen can go on from here."""


class Mispaired(ArithmeticError):  # noqa: N818  likewise
    """Weights and numbers per row that do not belong together, though each may be intact."""


#: Rows per step; bounded, as they are stored next to the weights.
BatchSize = Annotated[int, Field(ge=1, le=1 << 20)]
#: Number of steps; at most about the milliseconds of a year.
Steps = Annotated[int, Field(ge=1, le=1 << 35)]


class Settings(Described):
    """Base class of every solver's settings: immutable, unknown fields refused."""

    goal: ClassVar[Goal] = "tolerance"
    """Default stopping rule: see Solver."""
    usual_passes: ClassVar[int] = 1
    """Default number of passes, with the goal "passes"."""
    needs: ClassVar[Needs] = Needs()
    """Requirements on the problem."""
    better: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Better settings by name of a loss: used when the method is given by its name only."""
    scale_free: ClassVar[bool] = False
    """Whether columns need no scaling."""
    uses_moments: ClassVar[bool] = False
    """Whether its steps depend on the moments of every column."""
    tries_several_lam: ClassVar[bool] = False
    """Whether one pass with held-out rows and without a given lam tries several."""
    halves_steps: ClassVar[bool] = False
    """Whether its first step size may be too long, each halving costing an epoch."""
    is_sublinear: ClassVar[bool] = False
    """Whether the excess falls like 1 / passes on every problem."""

    @property
    def for_one_score(self) -> str | None:
        """The setting that only losses of one score can be trained with, if there is one."""
        return None

    def refuse_one_score(self, problem: Problem) -> None:
        """Raise ValueError if a setting does not go with a loss of several scores."""
        if name := self.for_one_score:
            kind: str = self.kind  # type: ignore[attr-defined]
            raise ValueError(
                f"{kind} with {name} = {getattr(self, name)} is for losses of one score, and "
                f"{problem.loss.name} has {problem.loss.width}. Leave solver.{name} out."
            )

    def for_more_columns(
        self,
        problem: Problem,  # noqa: ARG002
        stats: ProblemStats,  # noqa: ARG002
        models: int,  # noqa: ARG002
        fits: Callable[[Self, int], bool],  # noqa: ARG002
    ) -> Self:
        """Return settings that work if more columns than in `stats` may appear, in each model.

        `fits` says whether the memory has space for these settings and that number of columns.
        """
        return self


class Method(Settings):
    """Base class of methods made of walks and reductions, with defaults."""

    states: ClassVar[tuple[type, ...]]
    """Types of its states, that of the first state first."""
    warm_epoch: ClassVar[int] = 0
    """Epoch that follows `start_at`; above 0 if earlier epochs seek a start."""
    by_column: ClassVar[bool] = False
    spare_copies: ClassVar[int] = 5

    @property
    def certify_pass(self) -> Reduce | None:
        return None

    @property
    def warm_start_pass(self) -> Reduce | None:
        return None

    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """Refuse problems that the method does not suit, then return `first_state`."""
        self.refuse_unfit(problem, stats)
        return self.first_state(problem, stats)

    def refuse_unfit(self, problem: Problem, stats: ProblemStats) -> None:
        """Raise ValueError if the problem does not meet its requirements."""
        kind: str = self.kind  # type: ignore[attr-defined]
        refuse_unfit(kind, self.needs, problem, stats.d, stats.streams)

    @abstractmethod
    def first_state(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row.

        Raises ValueError if a setting does not fit the problem.
        """

    @abstractmethod
    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the sweeps of an epoch."""

    def expected_passes(
        self, _problem: Problem, _stats: ProblemStats, _tol: float
    ) -> ExpectedPasses:
        """Return the expected passes until the certificate's `relative` is `tol`.

        The default is for methods without a known rule, or without a certificate.
        """
        sweeps = self.program(self.warm_epoch)
        reductions = sum(isinstance(sweep, Reduce) for sweep in sweeps)
        return ExpectedPasses(reductions=reductions / len(sweeps))

    def start_at(
        self, _problem: Problem, _stats: ProblemStats, _weights: Weights, _rows_before: int
    ) -> State:
        raise ValueError(
            f"{getattr(self, 'kind', 'This method')} cannot start from another model. Leave "
            "`start_from` out, or choose another method."
        )

    def row_state_size(self, _stats: ProblemStats) -> int:
        return max(1, self.needs.numbers_per_row)

    def adopted(self, state: State, *, midway: bool) -> State:  # noqa: ARG002
        return state

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        return array_bytes(self.init(problem, stats))

    def certificate(self, _state: State) -> Certificate | None:
        return None

    def learners(self, _state: State) -> tuple[ChosenLearner, ...]:
        return ()

    def before_steps(self, _state: State) -> tuple[float, ...]:
        return ()


class Solver(Protocol):
    """The methods and properties of a solver."""

    @property
    def for_one_score(self) -> str | None:
        """The setting that only losses of one score can be trained with, if there is one."""

    @property
    def goal(self) -> Goal:
        """Default stopping rule.

        After a number of "passes", at a certified "tolerance", or after a number of "steps", each
        far cheaper than a pass.
        """

    @property
    def kind(self) -> str:
        """Name of the method."""

    @property
    def needs(self) -> Needs:
        """Requirements on the problem."""

    @property
    def states(self) -> tuple[type, ...]:
        """Types of its states, that of the first state first."""

    @property
    def certify_pass(self) -> Reduce | None:
        """Reduction that certifies the newest weights after a last pass.

        Only for a method that certifies its weights in walks; None: the gradient certifies them.
        """

    @property
    def warm_start_pass(self) -> Reduce | None:
        """Pass after `start_at` that computes the rest of the state; None: none needed."""

    @property
    def warm_epoch(self) -> int:
        """Epoch that follows `start_at`; above 0 if earlier epochs seek a start."""

    @property
    def by_column(self) -> bool:
        """Whether a column's weight depends only on that column's row of the state's W.

        W is then the only array, and `weights` of a state with some rows of W are those of these
        columns.
        """

    @property
    def spare_copies(self) -> int:
        """Number of states for which memory is reserved, next to two for every stream.

        A span takes one state and returns one.  The others are for weights read out of states, and
        for sums over rows as large as weights, of which a dozen may exist at a time.
        """

    def row_state_size(self, stats: ProblemStats, /) -> int:
        """Return how many numbers are stored per row, if any are."""

    def init(self, problem: Problem, stats: ProblemStats) -> State:
        """Return the state before the first row.

        Raises ValueError if a setting does not fit the problem.
        """

    def start_at(
        self, problem: Problem, stats: ProblemStats, weights: Weights, rows_before: int
    ) -> State:
        """Return the state at given weights, which were trained on `rows_before` other rows."""

    def adopted(self, state: State, *, midway: bool) -> State:
        """Return a state read from storage, `midway` in a walk or not, ready to continue.

        A method may mark the state here so that its numbers per row are verified.
        """

    def state_bytes(self, problem: Problem, stats: ProblemStats) -> int:
        """Return the bytes of the arrays of its largest state."""

    def program(self, epoch: int) -> tuple[Sweep, ...]:
        """Return the sweeps of an epoch (0, 1, ...)."""

    def weights(self, state: State) -> Weights:
        """Return the weights of a state."""

    def expected_passes(
        self, problem: Problem, stats: ProblemStats, tol: float, /
    ) -> ExpectedPasses:
        """Return the expected passes until the certificate's `relative` is `tol`."""

    def certificate(self, state: State) -> Certificate | None:
        """Return the certificate of `weights(state)`; None if computing it takes a pass."""

    def learners(self, state: State) -> tuple[ChosenLearner, ...]:
        """Return the learner behind `weights(state)`, one per model; () if there is only one."""

    def before_steps(self, state: State) -> tuple[float, ...]:
        """Return every model's mean loss of rows before their steps; () where nobody adds it up."""
