"""The flow `train`: a task for each pass, or for a few."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from prefect.context import FlowRunContext
from prefect.exceptions import Pause
from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.interrupts import stopping_first
from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import (
    TrainingProgress,
    show_chart,
    show_convergence,
    show_text,
)
from fewpass.flows.orchestration.ends import telling_of_snapshots
from fewpass.flows.orchestration.scheduled import MISSED, UNCHANGED, durable_task, made_flow
from fewpass.flows.orchestration.scheduled_dates import as_asked, dated, of_the_day
from fewpass.flows.orchestration.session import Session, Stage, stages
from fewpass.flows.orchestration.watching import StallWatch, tell_prefect
from fewpass.flows.outcomes import require_convergence, require_tolerance
from fewpass.pipeline.reporting.learning import certificate_chart, loss_chart
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.run_series import remove_old_runs
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import above_optimum
from fewpass.pipeline.settings.execution import NONE, Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import format_passes
from fewpass.pipeline.training.defaults import with_defaults
from fewpass.pipeline.training.unchanged import trained_already


@made_flow(requests.TrainParameters, "run")
def train(
    plan: TrainingPlan, run: str, execution: Execution, require_tol: bool,
    skip_unchanged: bool, keep_runs: int | None,
) -> Any:  # fmt: skip
    """Train, and return what came out in the state that tells of it."""
    plan = with_defaults(of_the_day(plan, "dataset", "held_out"))
    require_tolerance(plan, asked=require_tol)
    series = as_asked(run, "run")
    is_begun = run != series  # by this flow run, which is tried again
    before = trained_already(plan, series) if skip_unchanged and not is_begun else None
    if before is not None:
        return unchanged(plan, before, require_tol=require_tol)
    result = train_in_stages(plan, dated(run, "run"), execution)
    show_run(RunFolder(result.run))
    if keep_runs is not None:
        remove_runs(series, keep_runs)
    if require_tol:
        require_convergence(result, plan)
    return completed(asdict(result), result)


def unchanged(plan: TrainingPlan, before: RunFolder, *, require_tol: bool = False) -> Any:
    """Return what an earlier run came to, in a state that says why nothing was done.

    A tolerance that is required and that it missed is missed still: ToleranceMissed.
    """
    message = (
        f"Nothing to do: {plan.dataset} is as it was when {before.url} was trained by this plan."
    )
    get_run_logger().info(message)
    with Session(plan, before.url, Execution(scheduler=NONE)) as session:
        for _ in session.advance(Stage("", plan.passes, last=True)):
            pass
        if require_tol:
            require_convergence(session.result, plan)
        return Completed(name=UNCHANGED, message=message, data=asdict(session.result))


def remove_runs(pattern: str, keep: int) -> None:
    """Remove the runs of a schedule that are too many, and say which."""
    for one in remove_old_runs(pattern, keep):
        get_run_logger().info("Removed %s, as keep_runs is %d", one.address, keep)


def completed(handed_on: dict[str, Any], result: TrainingResult) -> Any:
    """Return what a flow hands on, in a state that says what the training came to."""
    message = result.convergence.sentence(result.passes) or _came_to(result)
    name = MISSED if result.converged is False else None
    return Completed(name=name, message=message, data=handed_on)


def _came_to(result: TrainingResult) -> str:
    """Say what a training without a tolerance came to."""
    parts = [format_passes(result.passes, ".4g")]
    if result.objective is not None:
        parts.append(f"objective {result.objective:.6g}")
    if above := above_optimum(result.certificate, result.relative_gap, ".2e"):
        parts.append(above)
    return f"{', '.join(parts)}: {result.run}."


def train_in_stages(plan: TrainingPlan, run: str, execution: Execution) -> TrainingResult:
    """Train, a Prefect task per stage."""
    progress = TrainingProgress(run, plan.passes, plan.tol)
    with Session(plan, run, execution) as session, StallWatch(tell_prefect) as watch:

        def show(event: Event) -> None:
            watch.progressed()
            progress.show(event)
            if is_suspended():
                session.stop()

        with (
            telling_of_snapshots(session.run),
            stopping_first(session.stop) as signals,
            at_rest_if_suspended(session),
        ):
            for stage in stages(plan, int(session.cursor().passes)):
                make_passes.with_options(task_run_name=stage.name)(session, stage, show)
                if signals:
                    session.drain()  # it came between two stages, or while one was ending
                if session.finished or signals:
                    break
        return session.result


def is_suspended() -> bool:
    """Return whether this flow run is suspended; Prefect hears of it for a deployment's run."""
    context = FlowRunContext.get()
    return context is not None and context.flow_run_suspension_request.is_requested()


@contextmanager
def at_rest_if_suspended(session: Session) -> Iterator[None]:
    """Take a snapshot before a suspended flow run ends, which Prefect has it do before a task.

    Where the block ends before a next task, the flow run ends here.
    """
    context = FlowRunContext.get()
    try:
        yield
        if context is not None and not session.finished:
            context.flow_run_suspension_request.raise_if_requested()
    except Pause:
        session.stop()
        session.drain()
        raise


@durable_task("passes")
def make_passes(session: Session, stage: Stage, show: Callable[[Event], None]) -> None:
    """Make the passes of one stage, from where the run folder stands."""
    for event in session.advance(stage):
        show(event)
    timeline = Timeline.of(session.run)
    if timeline.points or timeline.certificates:
        show_convergence(session.run.url, timeline)


@durable_task("report")
def show_run(run: RunFolder) -> None:
    """Show the curves of a training and the model's card, which is in the run folder, too."""
    timeline, tol = Timeline.of(run), run.record().plan.tol
    if len(timeline.losses) > 1:  # inner loops tell no loss on the way
        show_chart(run.url, "loss", loss_chart(timeline.losses), f"loss of {run.url}")
    if len(timeline.certificates) > 1:
        drawn = certificate_chart(timeline.certificates, tol)
        show_chart(run.url, "above-optimum", drawn, f"how far above the optimum {run.url} is")
    show_text(run.url, "card", model_card(run), f"model of {run.url}")
