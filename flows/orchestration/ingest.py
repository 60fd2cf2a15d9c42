"""The flow `ingest`: sources to a data set."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.display.ingest_display import IngestLines, ingest_step
from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import log_line, shown_progress
from fewpass.flows.orchestration.data_pages import show_rows
from fewpass.flows.orchestration.ingest_session import IngestSession, IngestStage
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.orchestration.scheduled_dates import of_the_day
from fewpass.flows.outcomes import ingest_facts
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.ingest.phases import ingest as ingested
from fewpass.pipeline.tables.ingest.progress import IngestProgress, IngestResult, Progress


@made_flow(requests.IngestParameters, "plan.dataset")
def ingest(plan: IngestPlan, execution: Execution) -> Any:
    """Ingest, and return what was made in the state that tells of it."""
    plan = execution.threads_for(of_the_day(plan, "sources", "dataset", "test_dataset"))
    result = ingest_in_stages(plan, execution)
    message = (
        f"{counted(result.rows, 'row')} of {counted(result.features, 'feature')}: {result.dataset}."
    )
    return Completed(message=message, data=ingest_facts(result))


def ingest_in_stages(plan: IngestPlan, execution: Execution) -> IngestResult:
    """Ingest, a Prefect task per stage; one that was killed is finished, one done is left alone."""
    with closing(IngestSession(plan, execution)) as session, shown(plan) as show:
        for stage in session.stages():
            make_stage.with_options(task_run_name=stage.name)(session, stage, show)
        assert session.result is not None, "the last stage has ended"
        return logged(session.result)


@durable_task("ingest")
def make_stage(session: IngestSession, stage: IngestStage, show: Progress) -> None:
    """Do the work of one stage, from where the unfinished work stands."""
    for now in session.advance(stage):
        show(now)


def watched(plan: IngestPlan) -> IngestResult:
    """Ingest as a part of another task, and show how far it is."""
    with shown(plan) as show:
        return logged(ingested(plan, progress=show))


@contextmanager
def shown(plan: IngestPlan) -> Iterator[Progress]:
    """Show how far an ingest is during a `with` block: yields what is given its progress."""
    lines = IngestLines()
    shares = {"partition": (0.0, 0.6), "write": (0.6, 0.4), "done": (1.0, 0.0)}

    def show(now: IngestProgress) -> None:
        begin, length = shares[now.phase]
        tell(begin + length * now.fraction, ingest_step(now))
        for line in lines.take(now):
            log_line("info", line, {"dataset": plan.dataset})

    with shown_progress(plan.dataset, "ingesting into") as tell:
        yield show


def logged(result: IngestResult) -> IngestResult:
    """Show on Prefect's pages what was made, and what was noticed of its rows."""
    rows, features = counted(result.rows, "row"), counted(result.features, "feature")
    get_run_logger().info("%s, %s in %s", rows, features, result.dataset)
    show_rows(result)
    return result
