"""Advice about a tolerance that a run missed, and the method that would prove it."""

from __future__ import annotations

import math
from typing import NamedTuple

from fewpass.pipeline.planning.method_choice import passes_of
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.settings.method_kinds import Auto
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.solvers.registry import method_class
from fewpass.storage.dataset import Dataset

SOME_PROOF = 1e-2  # what is looked for where a plan asks for no tolerance
ENOUGH = 100  # passes that the other method may make: how many were allowed does not matter


class Prover(NamedTuple):
    """A method that would prove what was not proven."""

    method: str
    tol: float
    passes: float | None  # that it usually takes; None where that cannot be predicted

    @property
    def sentence(self) -> str:
        """Name it."""
        usually = "" if self.passes is None else f", usually in about {format_passes(self.passes)}"
        return f"`solver={self.method}` proves {self.tol:g}{usually}."


def other_prover(plan: TrainingPlan, result: TrainingResult) -> Prover | None:
    """Return the method that `auto` takes for a plan's tolerance.

    Parameters
    ----------
    plan
        As it was asked for, or as it stands in the run's record.
    result
        What it came to, with the method that was at work and the lam that was open, maybe.

    Returns
    -------
    Prover or None
        None where it is the one that was at work, where the plan left the choice to `auto`, and
        where the rows are stored nowhere.
    """
    if plan.source is not None or isinstance(plan.solver, Auto):
        return None
    tol = plan.tol or SOME_PROOF
    lam = Lam.of(result.lam)
    asked = plan.model_copy(update={"solver": Auto(), "lam": lam, "tol": tol, "passes": ENOUGH})
    planner = Planner(asked, Dataset.open(plan.dataset))
    best = planner.method(plan.memory)
    if best.kind == result.solver:
        return None
    job = planner.job(plan.memory)
    passes = passes_of(best, job.problem, job.stats, tol)
    return Prover(best.kind, tol, None if math.isinf(passes) else passes)


def what_helps(result: TrainingResult, prover: Prover | None) -> str:
    """Say how far a run still was, which method proves its tolerance, and how to go on."""
    said, left = [], result.left_passes
    if left is not None:
        said.append(
            f"At the rate of its last three passes {result.solver} needs about {left:,.0f} more."
        )
    if prover is not None:
        said.append(prover.sentence)
    elif left is None:
        said.append("No other method is known to prove it; rows or columns of one scale may help.")
    said.append(
        f"More passes from this model on: fewpass train with `start_from={result.run}`, more "
        "`passes`, and a new run. Or a larger `tol` or `lam`: `plan` says what they change."
    )
    return " ".join(said)


def goes_by_gradients(solver: str) -> bool:
    """Return whether a method proves the gradient's bound, and not a gap of dual variables."""
    method = method_class(solver)()
    return method.goal != "steps" and method.certify_pass is None
