"""The forecast of a training: passes, bytes and memory, before anything runs.

All of it follows from the plan and from what ingest measured; not a row is read.  The forecast is
stored in the run's record, where `fewpass report` compares it with the outcome, and changes no bit.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from fewpass.pipeline.budget import PROGRAM, PROGRAM_BYTES, Budget, TakenMemory, remaining
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.conditioning import conditioning
from fewpass.pipeline.planning.expected_passes import ExpectedPasses, expected_passes
from fewpass.pipeline.planning.job import (
    bytes_of_models,
    groups_of,
    is_grouped,
    method_for,
    streams_together,
)
from fewpass.pipeline.rows.windows import (
    chunk_bytes,
    largest_window,
    resident_bytes,
)
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.array_layout import chunk_parts
from fewpass.storage.manifest import Manifest


class Forecast(BaseModel):
    """Numbers of a training that has not begun; None where nothing can be said."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    solver: str
    loss: str
    lam: float
    n_rows: int
    models: int = 1
    """One per class where there are more than two, and that per value of lam."""
    groups: int = 1
    """In which the models are trained one after the other, each in passes of its own."""
    largest_smoothness: float | None
    """L: what every row's loss is smooth with, constant column and lam included; None: a kink."""
    mean_smoothness: float | None
    """The same on average over the rows."""
    strong_convexity: float
    """mu."""
    kappa: float | None
    """L / mu."""
    tol: float | None
    theory_passes: float | None
    """Enough in expectation, with the best parameters, for f - f* to reach the tolerance."""
    usual_passes: float | None
    """Passes that a certificate of the tolerance usually takes."""
    passes: float
    """Passes that the plan allows, or the usual number where that is smaller; of all groups."""
    certifying_passes: float
    """On top, where the plan asks for them and not the method."""
    reduce_passes: float
    """Of all of these, those that add up and can go over the rows in any order."""
    bytes_per_pass: int
    bytes_read: int
    state_bytes: int
    """The method's own arrays with all their copies."""
    window_bytes: int
    """Rows in memory, at most."""
    resident: bool = False
    """True where all of them stay there, so that they are read once."""
    overhead_bytes: int
    """Kernels, compressed chunks, the cluster in the process."""
    window_rows: int


def forecast(plan: TrainingPlan, job: Job) -> Forecast:
    """Predict what a plan takes on the job's data set."""
    manifest, problem = job.dataset.manifest, job.problem
    cond = conditioning(problem, job.stats)
    ahead = expected_passes_of(plan, job)
    groups = len(groups_of(job))
    passes = groups * min(plan.passes, ahead.usual or plan.passes)
    certifying = groups * certifying_passes(plan, ahead, passes / groups)
    per_pass = stored_bytes(manifest)
    return Forecast(
        solver=method_for(plan).kind,
        loss=problem.loss.name,
        lam=problem.penalty.total,
        n_rows=job.stats.n,
        models=job.all_models,
        groups=groups,
        largest_smoothness=cond.largest if cond else None,
        mean_smoothness=cond.mean if cond else None,
        strong_convexity=problem.lam,
        kappa=cond.kappa if cond else None,
        tol=plan.tol,
        theory_passes=ahead.theory,
        usual_passes=ahead.usual,
        passes=passes,
        certifying_passes=certifying,
        reduce_passes=(ahead.reductions or 0.0) * passes + certifying,
        bytes_per_pass=per_pass,
        bytes_read=round(per_pass * (1 if job.resident else passes + certifying)),
        overhead_bytes=PROGRAM_BYTES,
        **memory_of(plan, job),
    )


def expected_passes_of(plan: TrainingPlan, job: Job) -> ExpectedPasses:
    """Return the passes that the method takes; without a tolerance all that the plan allows."""
    ahead = expected_passes(method_for(plan), job.problem, job.stats, plan.tol or 1.0)
    return ahead if plan.tol is not None else ahead._replace(theory=None, usual=None)


def certifying_passes(plan: TrainingPlan, ahead: ExpectedPasses, passes: float) -> float:
    """Count the passes that are made for a certificate alone.

    One after every pass with a tolerance, one at the end when asked for; none where the method
    takes gradients anyway, and at most the last where it certifies itself while it walks.
    """
    if ahead.reductions:
        return 0.0
    if method_for(plan).certify_pass is not None:
        return 1.0
    return passes if plan.tol is not None else float(plan.certify)


def stored_bytes(manifest: Manifest) -> int:
    """Bytes of all chunks: what a pass reads."""
    parts = chunk_parts(manifest.layout, manifest.row_parts, coded=manifest.coded).values()
    return manifest.chunks.bytes_of(parts)


def memory_of(plan: TrainingPlan, job: Job) -> dict[str, Any]:
    """Return the bytes of states and rows, and the fields that explain them."""
    manifest, windows = job.dataset.manifest, job.windows
    in_flight = Budget.windows * streams_together(job) * windows.chunks_per_window
    streamed = in_flight * chunk_bytes(manifest, job.row_state_size)
    resident = resident_bytes(manifest, windows, job.row_state_size)
    return {
        "state_bytes": bytes_of_models(plan, job),
        "window_bytes": resident if job.resident else streamed,
        "resident": job.resident,
        "window_rows": largest_window(manifest, windows)[0],
    }


def shares_of(plan: TrainingPlan, job: Job, predicted: Forecast) -> list[TakenMemory]:
    """Return who takes what of the plan's memory, and what nobody takes."""
    windows = f"{Budget.windows} windows of {predicted.window_rows:,} rows for each stream"
    taken = [
        TakenMemory("program", predicted.overhead_bytes, PROGRAM),
        TakenMemory("states", predicted.state_bytes, _states_of(plan, job)),
        TakenMemory("rows", predicted.window_bytes, "all, read once" if job.resident else windows),
    ]
    if plan.early_stopping:
        taken.append(TakenMemory("held-out rows", plan.budget.held_out, Budget.held_out.why))
    return [*taken, remaining(plan.memory, taken)]


def _states_of(plan: TrainingPlan, job: Job) -> str:
    """Say how many copies of the state there are."""
    if job.in_place:
        return "one, stepped without a copy, and what a snapshot makes of it"
    copies = f"{Budget.states} for each stream, {method_for(plan).spare_copies} for sums"
    if is_grouped(job):
        return f"of {job.models} models at a time: {copies}; the weights of all"
    return copies if job.models == 1 else f"of {job.models} models: {copies}"
