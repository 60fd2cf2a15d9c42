"""A training cut into stages, each of which can be tried again from the run's folder."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from types import TracebackType
from typing import NamedTuple, Self

from fewpass.pipeline.planning.engines import engine_for_training
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Cursor, Saved, is_of_model
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.stream.sources import read_first_rows
from fewpass.pipeline.training.training_run import TrainingRun

MOST_STAGES = 20  # Prefect keeps every task's record: tens of them per run, not thousands


class Stage(NamedTuple):
    """The passes of one Prefect task."""

    name: str
    until: int  # passes made when it is over
    last: bool


def stages(plan: TrainingPlan, done: int) -> list[Stage]:
    """Cut what is left of a plan into stages of one pass, or a few where there are many."""
    step = -(-plan.passes // MOST_STAGES)
    parts = ((made, min(made + step, plan.passes)) for made in range(0, plan.passes, step))
    return [
        Stage(_name(plan, made + 1, end), end, end == plan.passes)
        for made, end in parts
        if end > done or end == plan.passes
    ]


def _name(plan: TrainingPlan, first: int, last: int) -> str:
    which = f"pass {last}" if first == last else f"passes {first}-{last}"
    return f"{plan.solver.kind}: {which} of {plan.passes}"


class Session:
    """A training run with the cluster it runs on; opened when first needed.

    After an error the cluster and the run are let go, and the next call begins again from what the
    run folder holds.
    """

    def __init__(self, plan: TrainingPlan, run: str, place: Execution) -> None:
        self.plan, self.run, self.place = plan, RunFolder(run), place
        self._training: TrainingRun | None = None
        self._events: Generator[Event] | None = None
        self.finished = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    def cursor(self) -> Cursor:
        """Return how far the run folder is, whoever trained it."""
        newest, _ = self.run.snapshots.latest(is_of_model) if self.run.exists() else (None, [])
        return Saved.of(newest).cursor if newest else Cursor()

    def advance(self, stage: Stage) -> Iterator[Event]:
        """Go on to the end of a stage; all of the rest if it is the last or the run ends early."""
        try:
            for event in self._open():
                yield event
                self.finished = event.kind == "finish"
                if event.cursor.passes >= stage.until and not stage.last:
                    return
        except BaseException:
            self.close()
            raise

    def stop(self) -> bool:
        """Ask for a snapshot and an end; False where nothing is under way that could give them."""
        if self._training is None or self._events is None:
            return False
        self._training.stop()
        return True

    def drain(self) -> None:
        """Let a training that was asked to stop take its snapshot; at once where it has."""
        for _ in self._events or ():
            pass

    def _open(self) -> Generator[Event]:
        if self._events is None:
            self._events = self._all_events()
        return self._events

    def _all_events(self) -> Generator[Event]:
        with engine_for_training(self.place, self.plan) as executor:
            url = self.run.url
            self._training = TrainingRun.start(
                self.plan, url, executor, open_source=read_first_rows
            )
            yield from self._training

    @property
    def training(self) -> TrainingRun:
        """The run; there is one once a stage has begun."""
        assert self._training is not None
        return self._training

    @property
    def result(self) -> TrainingResult:
        """The result, once the last stage is over."""
        return self.training.result

    def close(self) -> None:
        """Let go of the run and of the cluster."""
        if self._events is not None:
            self._events.close()
        self._events = None
