"""The purpose and the choice of a method, and the rules that several kinds of problems share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.planning.expected_passes import expected_passes
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


class MethodRequest(NamedTuple):
    """The purpose that a method is chosen for."""

    plan: TrainingPlan  # tolerance and passes decide whether one pass is enough
    problem: Problem
    stats: ProblemStats  # rows, norms, streams: what the passes of a method follow from
    fits: Callable[[Method], bool]  # whether a method's state fits into the memory
    fits_in_groups: Callable[[Method], bool] = lambda _: False  # of some models at a time
    sorted_rows: bool = False  # whether windows of rows do not stand for the whole set
    resident: bool = False  # whether rows stay in memory from pass to pass
    models: int = 1  # trained together: classes times values of lam
    classes: int = 0  # 0 for two, and for numbers
    would_do: Callable[[Method], str] = lambda _: ""  # words for the memory that a method takes

    @property
    def one_pass(self) -> str | None:
        """Reason for one pass; None where several lead to a tolerance."""
        if self.plan.source is not None or (self.plan.tol is not None and self.plan.passes == 1):
            return "one pass"
        return "no tolerance" if self.plan.tol is None else None

    @property
    def tol(self) -> float:
        """The tolerance of a plan that has one."""
        assert self.plan.tol is not None, "one pass has rules of its own"
        return self.plan.tol

    def passes_of(self, solver: Method) -> float:
        """Return the passes that a method usually takes."""
        return passes_of(solver, self.problem, self.stats, self.tol)


def chosen(reason: str, *methods: Method) -> MethodChoice:
    """Return a choice: the method to train with, and maybe one to fall back on."""
    return MethodChoice(methods=methods, reason=reason)


def where_memory_is_short(asked: MethodRequest, wanted: list[Method]) -> MethodChoice:
    """Choose where none of the wanted methods fits: a smaller state, or fewer models at a time."""
    if asked.fits(method(SMALLER_DUAL)):
        reason = f"{SMALLER_DUAL}, as {DUAL} does not fit into the memory"
        return chosen(reason, method(SMALLER_DUAL))
    for one in wanted:
        if asked.fits_in_groups(one):
            return chosen(f"{one.kind}, {IN_GROUPS}", one)
    return chosen(f"{ONE_LEARNER}, as no other method fits into the memory", method(ONE_LEARNER))


def for_one_pass(asked: MethodRequest) -> MethodChoice:
    """Choose several learners side by side, averaged SGD alone where they cannot be run.

    Streaming Newton is left out where that of all models would be too much work together.
    """
    stats, models, asked_for = asked.stats, asked.models, f"as {asked.one_pass} was asked for"
    most_work = method_class(SEVERAL_LEARNERS).most_work
    bearable = models <= FEW_MODELS or models * stats.n * stats.d**2 <= most_work
    learners = method(SEVERAL_LEARNERS, **({} if bearable else {"newton_columns": 0}))
    each = "; a model for each class" if asked.classes else ""
    if models > MOST_MODELS:
        why = f"is not taken for {models} models"
    elif stats.columns is None:
        why = "needs statistics of the columns"
    elif not asked.fits(learners):
        why = f"does not fit into the memory{asked.would_do(learners)}"
    else:
        return chosen(f"{SEVERAL_LEARNERS}, {asked_for}{each}", learners)
    reason = f"{ONE_LEARNER}, {asked_for}, and {SEVERAL_LEARNERS} {why}{each}"
    return chosen(reason, method(ONE_LEARNER))


def passes_of(solver: Method, problem: Problem, stats: ProblemStats, tol: float) -> float:
    """Return the passes that a method usually takes; infinitely many where it has no estimate."""
    usual = expected_passes(solver, problem, stats, min(tol, NOTHING)).usual
    return math.inf if usual is None else usual
