"""An ingest cut into stages, each of which can be tried again from the unfinished work."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from math import inf
from typing import NamedTuple, get_args

from fewpass.pipeline.passes.executor import open_cluster
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest_in_steps
from fewpass.pipeline.tables.ingest.progress import IngestProgress, IngestResult, Phase

#: Of each phase: Prefect keeps every task's record.
MOST_STAGES = 20
#: Seconds that a stage takes at least, unless its phase ends.
LEAST_S = 10.0
_PHASES: tuple[Phase, ...] = get_args(Phase)
_MADE = {"partition": "map rows", "write": "write chunks"}


class IngestStage(NamedTuple):
    """The work of one Prefect task."""

    name: str
    phase: int
    until: float  # share of the phase that is done when it is over
    least_s: float = 0.0

    def is_over(self, now: IngestProgress, seconds: float) -> bool:
        """Return whether it ends at this point, that number of seconds after its start."""
        phase = _PHASES.index(now.phase)
        is_far = (phase, now.fraction) >= (self.phase, self.until)
        return is_far and (phase > self.phase or seconds >= self.least_s)


#: What is read, and how: up to the first rows.
LOOK = IngestStage("look at the sources", 0, 0.0)
#: Statistics and manifest.
COMMIT = IngestStage("commit", len(_PHASES), inf)


def stage_from(now: IngestProgress) -> IngestStage:
    """Return the stage that begins where an ingest is."""
    if now.phase not in _MADE or (now.phase == "write" and now.fraction >= 1.0):
        return COMMIT
    shares = MOST_STAGES - 1  # one more begins where there are more rows than estimated
    ends = (int(now.fraction * shares) + 1) / shares
    name = f"{_MADE[now.phase]}, from {now.fraction:.0%}"
    return IngestStage(name, _PHASES.index(now.phase), ends, LEAST_S)


class IngestSession:
    """An ingest with the cluster it runs on; opened when first needed, and to be closed.

    After an error both are let go, and the next stage begins again: with what spans and chunks are
    there already it is soon where it was.
    """

    def __init__(self, plan: IngestPlan, place: Execution) -> None:
        self.plan, self.place = plan, place
        self._steps: Generator[IngestProgress, None, None] | None = None
        self._now: IngestProgress | None = None
        self.result: IngestResult | None = None

    def stages(self) -> Iterator[IngestStage]:
        """Yield the stages, each where the one before has ended."""
        yield LOOK
        while self.result is None:
            assert self._now is not None, "the stage before has ended somewhere"
            yield stage_from(self._now)

    def advance(self, stage: IngestStage) -> Iterator[IngestProgress]:
        """Go on to the end of a stage."""
        began = time.monotonic()
        try:
            for now in self._open():
                self._now = now
                yield now
                if stage.is_over(now, time.monotonic() - began):
                    return
        except BaseException:
            self.close()
            raise

    def _open(self) -> Generator[IngestProgress, None, None]:
        if self._steps is None:
            self._steps = self._run()
        return self._steps

    def _run(self) -> Generator[IngestProgress, None, None]:
        self.result = yield from ingest_in_steps(self.plan, executor=open_cluster(self.place))

    def close(self) -> None:
        """Let go of the work and of the cluster."""
        if self._steps is not None:
            self._steps.close()
        self._steps = None
