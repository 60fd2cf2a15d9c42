"""Trainings that stop after any of their events, and go on in another object."""

from pathlib import Path

from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.executors.threads import InProcess
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun


def events_of(plan: TrainingPlan, url: str) -> int:
    """Return how many events a whole training has."""
    return sum(1 for _ in TrainingRun.start(plan, url, InProcess()))


def trained(
    plan: TrainingPlan, url: Path, executor: Executor | None = None, stop_after: int | None = None
) -> TrainingRun:
    """Train to the end, or ask the run to stop after the event of that number, from 0."""
    run = TrainingRun.start(plan, str(url), executor or InProcess())
    for number, _ in enumerate(run):
        if number == stop_after:
            run.stop()
    return run


def cut_and_resumed(plan: TrainingPlan, url: str, stop: int) -> TrainingResult:
    """Train, stop after the given event, and go on to the end from what is stored."""
    for seen, _ in enumerate(TrainingRun.start(plan, url, InProcess()), start=1):
        if seen == stop:
            break
    resumed = TrainingRun.resume(url, InProcess())
    for _ in resumed:
        pass
    return resumed.result
