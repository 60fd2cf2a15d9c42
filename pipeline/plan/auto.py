"""`auto`: which method a plan is trained with, and when to fall back on another.

Without a tolerance, or in one pass, the several learners of `onepass`: nothing comes nearer by
then.  Averaged SGD alone for many models, which it takes side by side, and where their states do
not fit into the memory.

To a tolerance, the method that usually takes the fewest passes
(solvers/estimates/expected_passes.py), each weighed by what it costs: Newton's where the loss is
smooth and columns are few, whatever the conditioning.  The others begin where one pass brings them:
S2GD+ with a pass of averaged SGD, SDCA because its first pass is one, with a step for each row.
The plain hinge is certified by SDCA alone.  Where rows lie sorted, SDCA before S2GD+: its objective
never falls, whatever the order.

All of it follows from the plan and from what ingest measured, and is written down in the run's
record, so that a run goes on with what it began with.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict

from pipeline.settings.methods import Method
from pipeline.settings.training_plan import TrainingPlan
from solvers.batch.newton import Newton
from solvers.dual.sdca import Sdca
from solvers.estimates.expected_passes import conditioning
from solvers.losses import Problem
from solvers.onepass.onepass import Onepass
from solvers.protocol import Certificate, ProblemStats, Solver
from solvers.s2gd.s2gd import S2gdPlus
from solvers.sgd.averaged_sgd import Asgd

FEW_MODELS = 4  # averaged SGD takes eight for the price of two, onepass each for its own
FEW_COLUMNS = 500  # up to here a row's share of the matrix of columns by columns is bearable
#: What a pass costs beside one of sdca: in reductions no row waits for another, and half of the
#: passes of s2gd+ are reductions.  Where rows are read in every pass, that costs all of them the
#: same.
IN_MEMORY = {"newton": 0.4, "s2gd+": 0.55}
FROM_DISK = {"newton": 0.6, "s2gd+": 0.8}
KINKED = Sdca(
    shrink_rounds=100
)  # most dual variables sit at a bound: the others are worth more visits
FAR_BEHIND = 2.0  # times what is foreseen to be left
PATIENCE = {"sdca": 0.5, "s2gd+": 2.0, "newton": 2.0}  # times what is foreseen, before it is judged
STRETCH = 1.5  # from one look at the progress to the next, in passes
NOTHING, SMALLEST = 1.0 - 1e-9, 1e-300  # relative gaps


class MethodChoice(BaseModel):
    """What `auto` came to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[Method, ...]
    """The method to train with, then the one to fall back on, if there is one."""
    reason: str
    """A sentence."""

    def plan(self, plan: TrainingPlan, number: int = 0) -> TrainingPlan:
        """Return the plan with one of the methods in place of `auto`."""
        return plan.model_copy(update={"solver": self.methods[number]})


def choose(
    plan: TrainingPlan,
    problem: Problem,
    stats: ProblemStats,
    *,
    sorted_rows: bool,
    resident: bool,
    fits: Callable[[Method], bool],
    models: int = 1,
) -> MethodChoice:
    """Choose a plan's method.

    Parameters
    ----------
    plan
        Tolerance and passes decide whether one pass is enough.
    problem, stats
        Loss, lam, rows, norms, streams: what the passes of a method follow from.
    sorted_rows
        Whether windows of rows do not stand for the whole set.
    resident
        Whether rows stay in memory from pass to pass.
    fits
        Whether a method's state fits into the plan's memory.
    models
        How many are trained together: classes times values of lam.
    """
    if plan.tol is None or plan.passes == 1:
        return for_one_pass("no tolerance" if plan.tol is None else "one pass", stats, fits, models)
    if not problem.loss.is_smooth:
        return MethodChoice(methods=(KINKED,), reason="sdca, which alone certifies the plain hinge")
    if conditioning(problem, stats) is None:
        return MethodChoice(methods=(Sdca(),), reason="sdca, as lam is too small to foresee more")
    candidates = (Sdca(), S2gdPlus(), *((Newton(),) if stats.d <= FEW_COLUMNS else ()))
    usual = {m.kind: (m, passes_of(m, problem, stats, plan.tol)) for m in candidates}
    known = {k: (m, p) for k, (m, p) in usual.items() if p is not None and fits(m)}
    if not known:
        return MethodChoice(
            methods=(Asgd(),), reason="asgd, as no other method fits into the memory"
        )
    if sorted_rows and "sdca" in known:  # its objective never falls
        known.pop("s2gd+", None)
        if len(known) == 1:
            return MethodChoice(methods=(Sdca(),), reason="sdca, as the rows lie sorted")
    weights = IN_MEMORY if resident else FROM_DISK
    ranked = sorted(known.values(), key=lambda found: found[1] * weights.get(found[0].kind, 1.0))[
        :2
    ]
    told = ", ".join(f"{m.kind} about {p:.0f}" for m, p in ranked)
    reason = f"{ranked[0][0].kind}: passes to {plan.tol:g} usually are {told}"
    return MethodChoice(methods=tuple(m for m, _ in ranked), reason=reason)


def for_one_pass(
    asked: str, stats: ProblemStats, fits: Callable[[Method], bool], models: int
) -> MethodChoice:
    """Choose several learners side by side, averaged SGD alone where they cannot be run."""
    if models > FEW_MODELS:
        why = f"takes its {models} models one after the other"
    elif stats.columns is None:
        why = "needs statistics of the columns"
    elif not fits(Onepass()):
        why = "does not fit into the memory"
    else:
        return MethodChoice(methods=(Onepass(),), reason=f"onepass, as {asked} was asked for")
    return MethodChoice(
        methods=(Asgd(),), reason=f"asgd, as {asked} was asked for, and onepass {why}"
    )


def passes_of(method: Solver, problem: Problem, stats: ProblemStats, tol: float) -> float | None:
    """Return how many passes a method usually takes."""
    return method.expected_passes(problem, stats, tol).usual


class Mark(NamedTuple):
    """How far a training was at some moment."""

    passes: float
    digits: float  # of the certificate: 3 for a relative gap of 1e-3

    @classmethod
    def of(cls, passes: float, found: Certificate) -> Mark:
        """Read a certificate; one that proves nothing has no digits."""
        return cls(passes, -math.log10(min(1.0, max(found.relative, SMALLEST))))


def far_behind(
    choice: MethodChoice, problem: Problem, stats: ProblemStats, tol: float, before: Mark, now: Mark
) -> str | None:
    """Say in a sentence why the second method should go on; None while it should not.

    It should when the passes since `before` brought so little that what is left, at that rate, is
    twice what was foreseen and more than all that the other usually takes.  SDCA's gap falls
    evenly, and its rate tells early.  What S2GD+ proves may stand still for long before it falls.
    """
    first, second = choice.methods
    so_far = passes_of(first, problem, stats, min(10.0**-now.digits, NOTHING))
    whole, other = (passes_of(method, problem, stats, tol) for method in choice.methods)
    if (
        so_far is None
        or whole is None
        or other is None
        or now.passes < PATIENCE[first.kind] * whole
    ):
        return None
    rate = (now.digits - before.digits) / (now.passes - before.passes)
    left = (-math.log10(tol) - now.digits) / rate if rate > 0.0 else math.inf
    if left < FAR_BEHIND * (whole - so_far) or left < 1.0 + other:
        return None
    return (
        f"{first.kind} gained {now.digits - before.digits:.2g} digits in "
        f"{now.passes - before.passes:.0f} passes, too few for the "
        f"{-math.log10(tol) - now.digits:.2g} that are missing; {second.kind} goes on from there."
    )
