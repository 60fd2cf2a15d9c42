"""A method at work: its job on the data of a training, and what carries its states over them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from fewpass.pipeline.cores import usable_cores
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import Job
from fewpass.pipeline.planning.forecast import Forecast, forecast
from fewpass.pipeline.planning.job import (
    require_processes,
    solver_of_job,
    training_memory,
)
from fewpass.pipeline.planning.rate import Mark, left_passes, noted
from fewpass.pipeline.planning.source_job import source_job
from fewpass.pipeline.rows.resident import rows_in_memory
from fewpass.pipeline.rows.row_state import RowStateInMemory
from fewpass.pipeline.runs.events import Certification, Event
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_bytes
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.one_reading import OneReading
from fewpass.pipeline.training.sweeps import Sweeps
from fewpass.pipeline.training.trained_models import TrainedModels
from fewpass.solvers.protocol import Certificate, Reduce, Solver
from fewpass.storage.row_state_store import ITEM_BYTES, RowStateStore


@dataclass(frozen=True)
class MethodAtWork:
    """One of the methods that were chosen for a training, or the plan's own."""

    plan: TrainingPlan  # as asked for, with this method
    solver: Solver
    sweeps: Sweeps
    models: TrainedModels
    reading: OneReading | None  # where a source is read
    progress: Progress

    @classmethod
    def of(cls, training: Training, number: int, group: int) -> MethodAtWork:
        """Take the method of a number to the models of a group; BadInput where it cannot be."""
        methods = training.methods
        plan = methods.plan(training.plan, number) if methods else training.plan
        made = _on_source if training.source else _on_data_set
        job, solver, reading = made(training, plan, group)
        sweeps = Sweeps(
            training.executor, training.progress, job, solver, training.is_stopping, reading
        )
        return cls(
            plan,
            solver,
            sweeps,
            TrainedModels(training, plan, sweeps, reading),
            reading,
            training.progress,
        )

    @cached_property
    def forecast(self) -> Forecast:
        """Return the forecast of the training, on a data set."""
        return forecast(self.plan, self.sweeps.job)

    def proof(
        self, absorb: Callable[[Reduce], Certificate | None], *, spent: bool
    ) -> Certificate | None:
        """Certify the newest weights, if that is due after this epoch.

        Parameters
        ----------
        absorb
            Does a reduction of the method.
        spent
            Whether this was the last epoch.
        """
        if self.reading is not None:
            return None  # its rows do not come again
        if self.solver.certify_pass is not None:
            certified = self.sweeps.proven()
            if spent and not self.is_reached(certified):
                certified = absorb(self.solver.certify_pass)
            return certified
        if self.plan.tol is not None or (self.plan.certify and spent):
            return self.sweeps.certify()
        return None

    def is_reached(self, certified: Certificate | None) -> bool:
        """Return whether the tolerance is certified."""
        wanted = self.plan.tol
        return wanted is not None and certified is not None and certified.relative <= wanted

    def note(self, certified: Certificate | None, passes: float) -> None:
        """Remember a certificate with its passes, for the rate at which it falls."""
        if certified:
            now = Mark.of(passes, certified)
            self.progress.advance(marks=noted(self.progress.cursor.marks, now))

    def event(self, certified: Certificate) -> Event:
        """Return a certificate as an event, with the passes that are left at this rate."""
        tol = self.plan.tol
        left = None if tol is None else left_passes(self.progress.cursor.marks, tol)
        facts = Certification(certified.objective, certified.gap, certified.relative, left)
        return self.progress.event(facts)


def _on_source(
    training: Training, plan: TrainingPlan, _: int
) -> tuple[Job, Solver, OneReading | None]:
    """Return the job of a source that is read once, by this process."""
    assert training.source is not None, "rows come from a source"
    if not training.executor.near:
        raise BadInput(
            "A source is read by this process, not by workers. Leave `scheduler` and "
            "`workers` out, or train on a data set (`ingest_into`)."
        )
    job, solver = source_job(plan, training.source)
    assert job.source_rows is not None, "the rows of a source come once"
    return job, solver, OneReading(training, job.source_rows, solver)


def _on_data_set(
    training: Training, plan: TrainingPlan, group: int
) -> tuple[Job, Solver, OneReading | None]:
    """Return the job of spans on a data set, with the store of numbers per row."""
    job = training.planner.job(training_memory(plan), plan.solver)
    if job.in_place and not training.executor.near:
        raise BadInput(
            f"A memory budget of {format_bytes(plan.memory)} is too small for copies of "
            f"the state of {job.stats.d:,} columns, which tasks on workers need. Use more "
            "`memory`, or train in this process (leave `scheduler` and `workers` out)."
        )
    if training.executor.together is not None:
        require_processes(job, training.executor.together.threads())
    size = solver_of_job(plan, job, group).row_state_size(job.stats)
    numbers = training.run.row_state
    if numbers is not None:
        chunk_bytes = training.dataset.manifest.chunk_rows * size * ITEM_BYTES
        numbers = RowStateStore(numbers.folder, chunk_bytes)
    stay = job.resident and training.executor.near
    job = job._replace(
        threads=_threads_of_a_step(training.executor) if job.stats.streams == 1 else 1,
        row_state_size=size,
        row_state=RowStateInMemory(numbers) if stay else numbers,
        rows=rows_in_memory(training.dataset, job.rule),
    )
    return job, solver_of_job(plan, job, group), None


def _threads_of_a_step(executor: Executor) -> int:
    """Return how many threads may share a step: here no more than there are cores for them."""
    return min(executor.threads, usable_cores()) if executor.near else executor.threads
