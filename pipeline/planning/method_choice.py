"""A choice of methods, and the rules that several kinds of problems share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.settings.method_kinds import Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import takes
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import (
    DUAL,
    ONE_LEARNER,
    SECOND_ORDER,
    SEVERAL_LEARNERS,
    SMALLER_DUAL,
    method_class,
)

FEW_MODELS = 4  # of onepass: each may have a streaming Newton, as one alone
MOST_MODELS = 64  # of onepass: beyond, averaged SGD, which takes a ninth of the time for many
MORE_COLUMNS = 1000  # of Newton's method, where nothing else comes to a certificate
NOTHING = 1.0 - 1e-9  # relative gap
IN_GROUPS = "for some models at a time, as no method fits all of them into the memory"


def method(word: str, **settings: Any) -> Method:
    """Return a method, its class imported only now: each brings kernels of its own."""
    made: Method = method_class(word)(**settings)
    return made


def smallest(problem: Problem) -> str:
    """Return the name of the method with the smallest state that takes a loss and penalty."""
    words = (ONE_LEARNER, SMALLER_DUAL, SECOND_ORDER, DUAL)
    return next((w for w in words if takes(method_class(w).needs, problem)), ONE_LEARNER)


class MethodChoice(BaseModel):
    """The choice of `auto`."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    methods: tuple[Method, ...]
    """The method to train with, then the one to fall back on, if there is one."""
    reason: str
    """A sentence."""

    def plan(self, plan: TrainingPlan, number: int = 0) -> TrainingPlan:
        """Return the plan with one of the methods in place of `auto`."""
        return plan.named(self.methods[number])


def for_each_class(choice: MethodChoice, classes: int) -> MethodChoice:
    """Say of a choice that it trains a model for each class, where there are several."""
    if not classes:
        return choice
    return choice.model_copy(update={"reason": f"{choice.reason}; a model for each class"})


def where_memory_is_short(
    wanted: list[Method], fits: Callable[[Method], bool], fits_in_groups: Callable[[Method], bool]
) -> MethodChoice:
    """Choose where none of the wanted methods fits: a smaller state, or fewer classes at a time."""
    if fits(method(SMALLER_DUAL)):
        reason = f"{SMALLER_DUAL}, as {DUAL} does not fit into the memory"
        return MethodChoice(methods=(method(SMALLER_DUAL),), reason=reason)
    for one in wanted:
        if fits_in_groups(one):
            return MethodChoice(methods=(one,), reason=f"{one.kind}, {IN_GROUPS}")
    return MethodChoice(
        methods=(method(ONE_LEARNER),),
        reason=f"{ONE_LEARNER}, as no other method fits into the memory",
    )


def for_one_pass(
    asked: str,
    stats: ProblemStats,
    fits: Callable[[Method], bool],
    models: int,
    memory_for: Callable[[Method], str] = lambda _: "",
) -> MethodChoice:
    """Choose several learners side by side, averaged SGD alone where they cannot be run.

    Streaming Newton is left out where that of all models would be too much work together.
    `memory_for` says in words which memory a method that does not fit would do with.
    """
    most_work = method_class(SEVERAL_LEARNERS).most_work
    bearable = models <= FEW_MODELS or models * stats.n * stats.d**2 <= most_work
    learners: dict[str, Any] = {} if bearable else {"newton_columns": 0}
    if models > MOST_MODELS:
        why = f"is not taken for {models} models"
    elif stats.columns is None:
        why = "needs statistics of the columns"
    elif not fits(method(SEVERAL_LEARNERS, **learners)):
        learnt = method(SEVERAL_LEARNERS, **learners)
        why = f"does not fit into the memory{memory_for(learnt)}"
    else:
        return MethodChoice(
            methods=(method(SEVERAL_LEARNERS, **learners),),
            reason=f"{SEVERAL_LEARNERS}, as {asked} was asked for",
        )
    return MethodChoice(
        methods=(method(ONE_LEARNER),),
        reason=f"{ONE_LEARNER}, as {asked} was asked for, and {SEVERAL_LEARNERS} {why}",
    )


def passes_of(solver: Method, problem: Problem, stats: ProblemStats, tol: float) -> float:
    """Return the passes that a method usually takes; infinitely many where it has no estimate."""
    usual = solver.expected_passes(problem, stats, min(tol, NOTHING)).usual
    return math.inf if usual is None else usual
