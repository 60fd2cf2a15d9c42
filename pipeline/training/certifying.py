"""When the newest weights are certified, whether they are good enough, how fast they improve."""

from __future__ import annotations

from collections.abc import Callable

from fewpass.pipeline.planning.rate import Mark, left_passes, noted
from fewpass.pipeline.runs.events import Certification, Event
from fewpass.pipeline.runs.run_progress import Progress
from fewpass.pipeline.training.method_at_work import MethodAtWork
from fewpass.solvers.protocol import Certificate, Reduce


class Certifier:
    """Certifies the weights of a method at work."""

    def __init__(self, work: MethodAtWork, progress: Progress) -> None:
        self._plan, self._solver, self._sweeps = work.plan, work.solver, work.sweeps
        self._is_of_source = work.once is not None
        self._progress = progress

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
        if self._is_of_source:
            return None  # its rows do not come again
        if self._solver.certify_pass is not None:
            certified = self._sweeps.proven()
            if spent and not self.is_reached(certified):
                certified = absorb(self._solver.certify_pass)
            return certified
        if self._plan.tol is not None or (self._plan.certify and spent):
            return self._sweeps.certify()
        return None

    def is_enough(self, certified: Certificate | None, *, spent: bool) -> bool:
        """Whether to stop at a state with this certificate."""
        return certified is not None and (spent or self.is_reached(certified))

    def is_reached(self, certified: Certificate | None) -> bool:
        """Whether the tolerance is certified."""
        wanted = self._plan.tol
        return wanted is not None and certified is not None and certified.relative <= wanted

    def note(self, certified: Certificate | None, passes: float) -> None:
        """Remember a certificate with its passes, for the rate at which it falls."""
        if certified:
            now = Mark.of(passes, certified)
            self._progress.advance(marks=noted(self._progress.cursor.marks, now))

    def event(self, certified: Certificate) -> Event:
        """Return a certificate as an event, with the passes that are left at this rate."""
        tol = self._plan.tol
        left = None if tol is None else left_passes(self._progress.cursor.marks, tol)
        facts = Certification(
            certified.objective, certified.gap, left, relative_gap=certified.relative
        )
        return self._progress.event(facts)
