"""Trainings to the end, and some that stop after any of their events and go on in another object."""

from pathlib import Path

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import Model, load_model
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun


class Killed(BaseException):
    """The process is gone: nothing catches it."""


def trained(
    plan: TrainingPlan, url: Path, executor: Executor | None = None, stop_after: int | None = None
) -> TrainingRun:
    """Train to the end, or ask the run to stop after the event of that number, from 0."""
    run = TrainingRun.start(plan, str(url), executor or InProcess())
    for number, _ in enumerate(run):
        if number == stop_after:
            run.stop()
    return run


def resumed(url: Path | str, executor: Executor | None = None) -> TrainingRun:
    """Go on to the end from what is stored."""
    run = TrainingRun.resume(str(url), executor or InProcess())
    for _ in run:
        pass
    return run


def stopped_often(plan: TrainingPlan, url: Path, stop_after: int) -> TrainingRun:
    """Train to the end in sessions, more than two, each asked to stop after so many events."""
    run, sessions = trained(plan, url, stop_after=stop_after), 1
    while not run.finished:
        run, sessions = trained(plan, url, stop_after=stop_after), sessions + 1
    assert sessions > 2
    return run


def trained_model(
    plan: TrainingPlan, url: Path, executor: Executor | None = None
) -> tuple[Model, TrainingResult]:
    """Train to the end; the stored model, and the result."""
    result = trained(plan, url, executor).result
    return load_model(RunFolder(str(url))), result


def cut_and_resumed(plan: TrainingPlan, url: str, stop: int) -> TrainingResult:
    """Train, stop after the given event, and go on to the end from what is stored.

    What goes on takes no more snapshots than it must: they are most of its time.
    """
    for seen, _ in enumerate(TrainingRun.start(plan, url, InProcess()), start=1):
        if seen == stop:
            break
    return trained(plan.model_copy(update={"snapshot_every": 60.0}), Path(url)).result


def assert_cuts_change_nothing(
    plan: TrainingPlan, folder: Path, quiet: TrainingResult, cuts: int
) -> None:
    """Cut a training short after some of its events, a snapshot after every span, and resume it."""
    impatient = plan.model_copy(update={"snapshot_every": 1e-9})
    through = TrainingRun.start(impatient, str(folder / "count"), InProcess())
    events = sum(1 for _ in through)
    assert events > cuts + 1
    assert through.result.weights_sha256 == quiet.weights_sha256, "it goes on from every snapshot"
    for stop in range(1, events, max(1, events // cuts)):
        found = cut_and_resumed(impatient, str(folder / f"cut{stop}"), stop)
        assert found.weights_sha256 == quiet.weights_sha256, f"cut after event {stop}"
        assert found.certificate == quiet.certificate
        assert found.rows_seen == quiet.rows_seen
