"""Training by single rows and columns: an engine without windows and passes.

Steps are made in slices, whose random numbers follow from the seed and the slice's number, which
is the cursor's epoch; a snapshot is taken between two slices.  So a run that was stopped goes on to
the same bits.  Everything happens in this process: a step is far too short to be sent anywhere.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.passes.span import this_worker
from fewpass.pipeline.runs.events import Certification, Event, Span
from fewpass.pipeline.runs.packing import misfit, unpack_state
from fewpass.pipeline.runs.saved import Saved, require_array, unfit
from fewpass.pipeline.training.engine import Training
from fewpass.pipeline.training.feature_data import feature_data, find_nu
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Certificate, ProblemStats
from fewpass.solvers.simba.lazy import (
    GROUPS,
    LazyState,
    SparseCopies,
    first_lazy_state,
    lazy_mean_of,
    lazy_slice,
)
from fewpass.solvers.simba.simba import (
    SLICE_STEPS,
    Simba,
    SimbaState,
    dense_slice,
    first_state,
    mean_of,
    uniforms,
)
from fewpass.solvers.simba.soft_margin import CertifiedMargin, SoftMargin, certified_margin
from fewpass.storage.column_copy import copy_bytes
from fewpass.storage.snapshot import Snapshot

POSITION_BYTES = 16  # where a row or a column begins and ends
CERTIFYING = 3  # passes: margins, and two combinations of rows
CERTIFIED_SHARE = 0.1  # of the time at most: large data are certified less often


class FeatureSteps:
    """An engine whose unit of work is a slice of steps.

    Raises BadInput where tasks do not run in this process, and as `feature_data` does.
    """

    keeps_on_disk = False
    classes = forecast = None

    def __init__(self, training: Training) -> None:
        self.plan, self._training = training.plan, training
        assert isinstance(self.plan.solver, Simba), "chosen by the plan's method"
        if not training.executor.near:
            raise BadInput(
                f"{self.plan.solver.kind} reads single rows and columns at random and runs in one "
                "process. Leave `scheduler` and `workers` out, or choose another `solver`."
            )
        self._solver = self.plan.solver
        self._data = feature_data(self.plan, training.dataset)
        self._progress, self._checkpoints = training.progress, training.checkpoints
        self.warnings: list[str] = []
        self.least_wait = 0.0
        self._is_counted = False
        self._state: Any = None
        self._worth: CertifiedMargin | None = None  # of the state; None: not computed yet

    @property
    def problem(self) -> Problem:
        """Loss, lam and intercept."""
        return self._data.problem

    @property
    def stats(self) -> ProblemStats:
        """The data in numbers."""
        return self._data.stats

    # -- where it begins, and what is kept -------------------------------------------------------

    def begin(self) -> None:
        """Find nu where it is not given, and take the first state."""
        before, nu = 0, self._solver.nu
        if nu is None:
            nu, before = find_nu(self._data, self._solver.pilot_passes)
            self._count(before)
        self._of = self._margin_problem(nu)
        self._state = self._first_state(self._of, before)

    def restore(self, snapshot: Snapshot, saved: Saved) -> None:  # noqa: ARG002
        """Take the state of another session; BadInput when it is not one of this data's."""
        require_array(snapshot, "coef", (self.stats.d,))
        state = unpack_state((SimbaState, LazyState), snapshot, 0)
        if difference := misfit(state, [lambda: self._first_state(self._margin_problem(1.0))]):
            raise unfit(snapshot, f"of its state, {difference}")
        if isinstance(state, LazyState) and not set(np.unique(state.group)) <= set(range(GROUPS)):
            raise unfit(snapshot, f"group has other numbers than 0 to {GROUPS - 1}")
        self._state, self._of = state, self._margin_problem(state.nu)

    def go_on_from(self, saved: Saved) -> None:
        """Go on with the current state: nothing but a step changes it."""

    def content(self, certified: Certificate | None, *, finished: bool) -> Saved:  # noqa: ARG002
        """Return the state, with its weights and their certificate."""
        worth = self._certified()
        return Saved(
            cursor=self._progress.cursor, finished=finished, states=[self._state],
            weights=worth.weights, certificate=worth.certificate,
        )  # fmt: skip

    @property
    def features(self) -> dict[str, Any]:
        """The method's own results."""
        worth, state = self._certified(), self._state
        return {
            "nu": state.nu, "margin": worth.gamma, "margin_bound": worth.bound,
            "iterations": state.t, "accesses": state.accesses, "pilot_accesses": state.before,
            "mapped": self._data.mapped,
        }  # fmt: skip

    def _first_state(self, of: SoftMargin, before: int = 0) -> SimbaState | LazyState:
        if isinstance(self._data.copies, SparseCopies):
            return first_lazy_state(of, self._data.y, before)
        return first_state(of, before)

    def _margin_problem(self, nu: float) -> SoftMargin:
        stats = self.stats
        return SoftMargin(
            n=stats.n, d=stats.d, nu=nu, unit=stats.max_square**-0.5,
            biased=self.plan.intercept != "none", iterations=self._solver.steps(stats.n),
        )  # fmt: skip

    # -- steps -----------------------------------------------------------------------------------

    def go_on(self) -> Iterator[Event]:
        """Make steps until the last one, or until the run is to stop."""
        while not (self._checkpoints.finished or self._training.is_stopping()):
            yield self._slice()
            done = self._state.t >= self._of.iterations
            if done or self._checkpoints.is_due(self):
                yield from self._save(finished=done)

    def rest(self) -> Iterator[Event]:
        """Take a snapshot of where the training stands, if a step was made."""
        if self._state.t and not self._checkpoints.is_current:
            yield from self._save(finished=False)

    def _slice(self) -> Event:
        began, before = time.perf_counter(), self._state
        self._count_copies()
        steps = min(SLICE_STEPS, self._of.iterations - before.t)
        self._worth = None
        self._state = self._do(self._stepped, steps)
        state, data = self._state, self._data
        values = state.accesses - before.accesses
        span = Span(
            rows=steps,
            bytes_read=values * data.value_bytes + 2 * steps * POSITION_BYTES,
            seconds=time.perf_counter() - began,
            wait_s=0.0,
            metrics={"steps": state.t, "accesses": state.accesses},
            peak_memory=peak_memory_bytes(),
            worker=this_worker(),
        )
        self._progress.count(
            span,
            epoch=self._progress.cursor.epoch + 1,
            rows_seen=state.t,
            passes=state.accesses / max(1, data.values),
        )
        return self._progress.event(span)

    def _stepped(self, steps: int) -> SimbaState | LazyState:
        """Make N steps in place; return the state."""
        data, state = self._data, self._state
        u = uniforms(self.plan.seed, self._progress.cursor.epoch, steps)
        step: Any = lazy_slice if isinstance(data.copies, SparseCopies) else dense_slice
        stepped: SimbaState | LazyState
        stepped, _ = step(self._solver, self._of, data.copies, data.y, state, u)
        return stepped

    def _save(self, *, finished: bool) -> Iterator[Event]:
        """Certify the margin of the state, and take a snapshot."""
        began = time.perf_counter()
        worth = self._certified()
        self.least_wait = (time.perf_counter() - began) / CERTIFIED_SHARE
        self._count(CERTIFYING * self._data.values)
        objective, gap, relative = *worth.certificate[:2], worth.certificate.relative
        yield self._progress.event(
            Certification(objective, gap, relative, None, worth.gamma, worth.bound)
        )
        yield self._checkpoints.save(self, finished=finished)

    def _certified(self) -> CertifiedMargin:
        """Return the margin of the state; certifying it takes three passes over the rows, once."""
        if self._worth is None:
            lazy = isinstance(self._state, LazyState)
            mean = lazy_mean_of(self._state) if lazy else mean_of(self._state)
            data = self._data
            worth: CertifiedMargin = self._do(
                certified_margin, self._of, data.problem, data.rows, data.y, mean
            )
            certified = worth.certificate.with_constants(data.stats.constants)
            self._worth = worth._replace(certificate=certified)
        return self._worth

    def _do(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function where no signal reaches it."""
        executor = self._training.executor
        return executor.result(executor.submit_small("steps", function, *args))

    def _count(self, values: int) -> None:
        """Count the bytes of values that were read with their positions."""
        read = self._progress.cursor.bytes_read + values * self._data.value_bytes
        self._progress.advance(bytes_read=read)

    def _count_copies(self) -> None:
        """Count what making or checking rows and columns read, once a session that makes steps."""
        if not self._is_counted:
            self._is_counted = True
            opened = copy_bytes(self._data.dataset)
            self._progress.advance(bytes_read=self._progress.cursor.bytes_read + opened)
