"""A training run: a plan turned into events, snapshots and a model.

A run is an iterator: it yields an event after every span, and the loop's body is the callback.
What goes over the data is an engine's (engine.py); lease, clock, log, snapshots, the end and the
result are the same for all.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import numpy as np

from fewpass.pipeline.errors import NoWorkers
from fewpass.pipeline.lease import Lease
from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.planning.forecast import Forecast
from fewpass.pipeline.planning.rate import left_passes
from fewpass.pipeline.rows.resident import free_rows
from fewpass.pipeline.runs.events import Compiled, Event, Finish, Resume, Start, Stop
from fewpass.pipeline.runs.learnt_from import learnt_by
from fewpass.pipeline.runs.outcome import Convergence, TrainingResult, hinge_gap
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.runs.run_record import RunRecord
from fewpass.pipeline.runs.saved import Cursor, Saved
from fewpass.pipeline.settings.training_plan import StorageOptions, TrainingPlan
from fewpass.pipeline.training.driver import Driver
from fewpass.pipeline.training.engine import Checkpoints, Stopped, Training
from fewpass.pipeline.training.prepared import (
    OpenSource,
    Prepared,
    no_source,
    prepare,
    prepared_again,
    target_bounds,
)
from fewpass.solvers.kernels.compiling import Compiling
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats, Weights

if TYPE_CHECKING:
    from fewpass.pipeline.training.feature_steps import FeatureSteps

logger = logging.getLogger(__name__)
COMPILING = "Compiling kernels for %s: once per machine."


def engine_of(training: Training) -> Driver | FeatureSteps:
    """Return the engine for the plan's method."""
    if training.plan.solver.goal == "steps":
        from fewpass.pipeline.training.feature_steps import FeatureSteps  # noqa: PLC0415 - kernels that others do without

        return FeatureSteps(training)
    return Driver(training)


def zeros_of(problem: Problem, saved: Saved) -> dict[str, Any]:
    """Return how many weights are not 0, and how many are proven to be, where a penalty asks."""
    if problem.penalty.is_smooth:
        return {"nonzeros": None, "proven_zeros": None}
    proven = saved.certificate.zeros if saved.certificate else 0
    return {"nonzeros": int(np.count_nonzero(saved.weights.coef)), "proven_zeros": proven or None}


class StopRequest:
    """A flag that somebody asked for the end; without a lock, as a signal handler may ask.

    It refers to nothing, so that a training whose run is dropped frees its memory at once.
    """

    made = False

    def __call__(self) -> bool:
        """Return whether it was made."""
        return self.made


class TrainingRun:
    """One training, new or continued; iterate over it, then ask for `result`.

    Attributes
    ----------
    run : RunFolder
        Where it lies.
    methods : MethodChoice or None
        Those in place of `auto`.
    lam_origin : LamOrigin or None
        Where a lam comes from that nobody gave.
    """

    def __init__(
        self,
        begins: Prepared,
        executor: Executor,
        start_at: tuple[Weights, int] | None = None,
    ) -> None:
        run, plan, dataset, planner, methods, source, held_out, origin = begins
        self.run, self.methods, self._source, self.lam_origin = run, methods, source, origin
        self._executor, self._stop_request, self._dataset = executor, StopRequest(), dataset
        self._progress = Progress(run.log)
        self._checkpoints = Checkpoints(run, dataset, self._progress, plan.snapshot_every)
        self._training = Training(
            run, plan, dataset, planner, executor, methods, self._progress, self._checkpoints,
            self._stop_request, start_at, held_out, source,
        )  # fmt: skip
        self._engine = engine_of(self._training)

    @classmethod
    def start(
        cls,
        plan: TrainingPlan,
        url: str,
        executor: Executor,
        storage_options: StorageOptions = None,
        start_at: tuple[Weights, int] | None = None,
        open_source: OpenSource = no_source,
    ) -> TrainingRun:
        """Begin a run at `url`, or go on with the one that is there if its plan is the same.

        A new one starts at zero weights, at those of the plan's `start_from`, or at the weights
        `start_at`, in the order of the stored columns, with the number of rows learnt from.
        `open_source` opens the source of a plan that has one.

        Raises PlanMismatch when another plan or other data lie there, BadInput when plan, data set
        and executor do not fit, NotADataset when there is none (all are ValueErrors).
        """
        workers = len(executor.together.threads()) if executor.together else 1
        begins = prepare(
            plan, url, storage_options, open_source, near=executor.near, workers=workers
        )
        made, dataset = cls(begins, executor, start_at), begins.dataset
        record = RunRecord.of(
            begins.plan,
            dataset.manifest,
            forecast=made.forecast,
            warnings=made.warnings,
            methods=made.methods,
            columns=dataset.schema,
            hashed_names=dataset.hashed_names,
            lam_origin=begins.lam_origin,
            seen=target_bounds(begins),
            level=made.problem.level,
            learnt_before=() if begins.run.exists() else learnt_by(begins.plan.start_from),
            held_out_fingerprint=begins.held_out.manifest.fingerprint if begins.held_out else None,
        )
        begins.require_fit(record)
        begun = made.run.begin(record, dataset.manifest).methods
        if begun == begins.methods:
            return made
        return cls(begins._replace(methods=begun), executor, start_at)

    @classmethod
    def resume(
        cls,
        url: str,
        executor: Executor,
        storage_options: StorageOptions = None,
        open_source: OpenSource = no_source,
    ) -> TrainingRun:
        """Continue the run at `url` from its newest whole snapshot."""
        begins = prepared_again(url, storage_options, open_source, near=executor.near)
        return cls(begins, executor)

    def __iter__(self) -> Iterator[Event]:
        mine = threading.get_ident()
        self._executor.heed(self._stop_request)
        with Lease(self.run.folder) as self._checkpoints.lease, self._listening() as compiling:
            try:
                yield from self._train(compiling)
            finally:
                self._executor.heed(StopRequest())
                # An iterator that was dropped is closed by whichever thread collects it, perhaps
                # one that a span runs on: waiting there for spans would be for ever.
                if threading.get_ident() == mine:
                    self._executor.everywhere(free_rows)

    def stop(self) -> None:
        """Ask the run to stop: after the span under way iteration takes a snapshot and ends.

        The last event is `stop` then, unless all was done.  A signal handler may call this.  A sum
        that writes numbers per row goes on to its end before; the first one of a training that
        starts from another's weights is given up, and nothing of it is saved.
        """
        self._stop_request.made = True

    def hear(self, on_reduce: Callable[[Event], None]) -> None:
        """Report every span of a reduction, which iteration does not yield, to a display.

        Its kind is `reduce`; `counts` says whether the sum counts as a pass.
        """
        self._progress.on_reduce = on_reduce

    def _listening(self) -> Compiling:
        """Return a context that notices the compilation of kernels."""
        whose = f"{self.plan.solver.kind}, {self.problem.loss.name}"
        return Compiling(lambda: logger.info(COMPILING, whose))

    def _train(self, compiling: Compiling) -> Iterator[Event]:
        yield self._pick_up()
        with suppress(Stopped), self._without_workers():
            yield from self._engine.go_on()
        if compiling.kernels:
            yield self._progress.event(Compiled(compiling.kernels, compiling.seconds))
        if self.finished:
            yield self._progress.event(Finish(**self._outcome()))
            return
        with self._without_workers():
            yield from self._engine.rest()
        name = self.newest.name if self.newest else None
        yield self._progress.event(Stop(name))

    @contextmanager
    def _without_workers(self) -> Iterator[None]:
        """Let a training that is to stop end where nobody is left to take a snapshot."""
        try:
            yield
        except NoWorkers:
            if not self._stop_request.made:
                raise

    def _pick_up(self) -> Event:
        """Go on from the newest whole snapshot; from the method's first state if there is none."""
        newest, damaged = self.run.snapshots.latest()
        if newest is None:
            self._engine.begin()
        else:
            self.run.require_own(newest)
            saved = Saved.of(newest)
            self._progress.continue_at(saved.cursor)
            self._engine.restore(newest, saved)
            self._checkpoints.newest = saved if saved.finished else saved.without_weights()
        self._executor.show_run(self.run.url)
        self._executor.check_workers(self.plan.memory, self.run.url, self.run.exists)
        facts = (Resume if newest else Start)(
            snapshot=newest.name if newest else None,
            damaged=damaged,
            finished=self.finished,
            engine=self._executor.engine,
            why=self._executor.why,
            dashboard=self._executor.dashboard,
            n_rows=self.stats.n,
            method=self.plan.solver.kind,
            memory=self.plan.memory,
            **self._in_groups(),
            chosen=self.methods.reason if self.methods else None,
            lam=self.lam_origin.sentence() if self.lam_origin else None,
        )
        return self._progress.event(facts)

    def _in_groups(self) -> dict[str, Any]:
        """Tell of classes that are not trained all at once."""
        foreseen, newest = self.forecast, self.newest
        if foreseen is None or foreseen.groups == 1:
            return {}
        trained = newest.groups if newest else ()
        return {
            "groups": foreseen.groups,
            "models": foreseen.models,
            "groups_trained": len(trained),
            "passes_before": sum(done.passes for done in trained),
        }

    # -- properties ------------------------------------------------------------------------------

    @property
    def plan(self) -> TrainingPlan:
        """The plan, with the method that is at work."""
        return self._engine.plan

    @property
    def problem(self) -> Problem:
        """Loss, lam and intercept."""
        return self._engine.problem

    @property
    def stats(self) -> ProblemStats:
        """The data in numbers."""
        return self._engine.stats

    @property
    def forecast(self) -> Forecast | None:
        """Expected passes, seconds and memory, where they can be estimated."""
        return self._engine.forecast

    @property
    def warnings(self) -> list[str]:
        """Reasons for which the training may not come to its end, in sentences."""
        return self._engine.warnings

    @property
    def notes(self) -> tuple[str, ...]:
        """Remarks on the rows of a source, by those read so far; on a data set that has changed."""
        if self._source is not None:
            return self._source.notes()
        became = None if self._dataset.in_memory else self._dataset.became()
        if became is None:
            return ()
        said = (
            f"{self._dataset.folder.url} has changed: the model is of {became}. Train anew to have "
            "one of the data set as it is now."
        )
        return (said,)

    @property
    def cursor(self) -> Cursor:
        """The position of the run in its plan, and its cost so far."""
        return self._progress.cursor

    @property
    def newest(self) -> Saved | None:
        """The newest whole snapshot, once the run was picked up; None where there is none yet."""
        return self._checkpoints.newest

    @property
    def finished(self) -> bool:
        """Return whether all is done, and there is a result."""
        return self._checkpoints.finished

    @property
    def result(self) -> TrainingResult:
        """Return the result; the run must be finished."""
        saved, cursor = self._saved, self.cursor
        choice, seen = saved.choice, saved.validation
        return TrainingResult(
            run=self.run.url,
            snapshot=saved.name,
            solver=self.plan.solver.kind,
            loss=self.problem.loss.name,
            lam=choice.lam if choice else self.problem.penalty.total,
            penalty=self.problem.penalty.name,
            **zeros_of(self.problem, saved),
            classes=self._engine.classes,
            candidates=[each._asdict() for each in choice.candidates] if choice else [],
            lam_tried=len(self.plan.lam.factors),
            lam_origin=self.lam_origin.as_facts() if self.lam_origin else None,
            calibration=saved.calibration._asdict() if saved.calibration else None,
            stopped_early=seen and seen.is_over(self.plan.n_iter_no_change),
            passes_of_model=seen and seen.best.passes,
            passes=cursor.passes,
            rows_seen=cursor.rows_seen,
            seconds=cursor.seconds,
            bytes_read=cursor.bytes_read,
            peak_memory_bytes=self._progress.peak_memory,
            encoded=self._source.encoded() if self._source else {},
            notes=self.notes,
            features=self._engine.features,
            **self._outcome(),
        )

    @property
    def _saved(self) -> Saved:
        assert self.newest is not None, "nothing was saved yet"
        return self.newest

    def _outcome(self) -> dict[str, Any]:
        certified, tol = self._saved.certificate, self.plan.tol
        convergence, left = Convergence.of(tol, certified, finished=self._saved.finished), None
        if tol is not None and convergence.converged is False:
            left = left_passes(self.cursor.marks, tol)
        return {
            "objective": certified.objective if certified else None,
            "certificate": certified.gap if certified else None,
            "hinge_certificate": hinge_gap(self.problem, certified),
            "weights_sha256": self._saved.weights_sha256,
            "left_passes": left,
            **convergence._asdict(),
        }
