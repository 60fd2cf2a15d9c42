"""Settings of methods, and what a method declares of itself next to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field

from fewpass.solvers.described import Described
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import Needs
from fewpass.solvers.walk_and_reduce import ProblemStats

Goal = Literal["passes", "tolerance", "steps"]
#: Rows per step; bounded, as they are stored next to the weights.
BatchSize = Annotated[int, Field(ge=1, le=1 << 20)]
#: Number of steps; at most about the milliseconds of a year.
Steps = Annotated[int, Field(ge=1, le=1 << 35)]


class Settings(Described):
    """Base class of every solver's settings: immutable, unknown fields refused."""

    goal: ClassVar[Goal] = "tolerance"
    """Default stopping rule: see protocol.py: Solver."""
    usual_passes: ClassVar[int] = 1
    """Default number of passes, with the goal "passes"."""
    needs: ClassVar[Needs] = Needs()
    """Requirements on the problem."""
    better: ClassVar[Mapping[str, Mapping[str, Any]]] = MappingProxyType({})
    """Better settings by name of a loss: used when the method is given by its name only."""
    scale_free: ClassVar[bool] = False
    """True where columns need no scaling."""
    uses_moments: ClassVar[bool] = False
    """True where its steps depend on the moments of every column."""
    tries_several_lam: ClassVar[bool] = False
    """True where one pass with held-out rows and without a given lam tries several."""
    halves_steps: ClassVar[bool] = False
    """True where its first step size may be too long, each halving costing an epoch."""
    is_sublinear: ClassVar[bool] = False
    """True where the excess falls like 1 / passes on every problem."""

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
        self, _problem: Problem, _stats: ProblemStats, _models: int,
        _fits: Callable[[Self, int], bool],
    ) -> Self:  # fmt: skip
        """Return settings that work if more columns than in `stats` may appear, in each model.

        `_fits` says whether the memory has space for these settings and that number of columns.
        """
        return self
