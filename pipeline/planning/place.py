"""The engine that a training runs on: plain threads for what takes seconds, else Dask.

Dask's scheduler and dashboard take a second or two to start, and some milliseconds per task.
Neither counts in a training of minutes, which one may want to watch.
"""

from __future__ import annotations

from typing import NamedTuple

from fewpass.pipeline.planning.forecast import stored_bytes
from fewpass.pipeline.settings.execution import LOCAL, NONE, Execution
from fewpass.pipeline.settings.method_kinds import Auto, Method
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.kernels.simd.interleaved import lanes_taken
from fewpass.solvers.multi_model import goes_interleaved
from fewpass.storage.manifest import Labels, Manifest

LONG_SECONDS = 30.0  # from here on Dask
#: Of chunks as they are stored, for one model: a rough middle of methods.
BYTES_PER_SECOND = {"sparse": 2e8, "dense": 8e8}
PACKED = 0.5  # of values and column numbers, where rows are not stored as these but as codes
SIDE_BY_SIDE = 0.25  # of one model's time, where eight go side by side over sparse rows
USUAL_PASSES = 20  # to a tolerance, whose forecast would have to read rows


class Place(NamedTuple):
    """The place where a training runs, with the reason."""

    execution: Execution  # its engine chosen
    why: str


def place_of(asked: Execution, plan: TrainingPlan, manifest: Manifest) -> Place:
    """Choose the engine of a training, unless one was asked for; changes no bit of the result."""
    if plan.solver.goal == "steps" and not _is_asked(asked):
        return Place(_at(asked, NONE), f"{plan.solver.kind}'s steps are far shorter than a task")
    return place_for(asked, rough_seconds(plan, manifest))


def place_for(asked: Execution, seconds: float) -> Place:
    """Choose the engine for some seconds of work, unless one was asked for."""
    if _is_asked(asked):
        return Place(asked, "asked for")
    engine = NONE if seconds < LONG_SECONDS else LOCAL
    return Place(_at(asked, engine), f"about {_shown(seconds)} of work")


def rough_seconds(plan: TrainingPlan, manifest: Manifest) -> float:
    """Estimate how long a training takes by the bytes that it goes through.

    No row is read for it, nor does it ask which method `auto` takes: a factor of three is enough.
    """
    passes = plan.passes if plan.tol is None else min(plan.passes, USUAL_PASSES)
    return passes * times_one_model(plan, manifest) * seconds_of_pass(manifest)


def times_one_model(plan: TrainingPlan, manifest: Manifest) -> float:
    """Estimate how many times as long as one model all of a plan's models take together."""
    classes = len(manifest.targets.labels) if isinstance(manifest.targets, Labels) else 1
    models = len(plan.lam.factors) * (classes if classes > 2 and plan.positive is None else 1)
    if models == 1 or manifest.layout == "dense" or not _goes_interleaved(plan.solver):
        return models
    return max(1.0, SIDE_BY_SIDE * lanes_taken(models))


def _goes_interleaved(solver: Method | Auto) -> bool:
    """Say whether models go side by side over sparse rows; most methods that `auto` takes do."""
    if isinstance(solver, Auto):
        return True
    return solver.goal != "steps" and goes_interleaved(solver)


def seconds_of_pass(manifest: Manifest) -> float:
    """Estimate how long it takes to read all rows for one model."""
    stored: float = stored_bytes(manifest)
    if manifest.coded:
        stored = PACKED * manifest.nnz * (manifest.index_dtype.itemsize + 4)
    return stored / BYTES_PER_SECOND[manifest.layout]


def _is_asked(place: Execution) -> bool:
    return place.scheduler is not None or place.workers is not None


def _at(asked: Execution, scheduler: str) -> Execution:
    return asked.model_copy(update={"scheduler": scheduler})


def _shown(seconds: float) -> str:
    """Write a rough duration: two digits, minutes where there are many seconds."""
    return f"{seconds:.2g} s" if seconds < 95.0 else f"{seconds / 60.0:,.0f} minutes"
