"""The flow `ingest`: sources to a data set."""

from __future__ import annotations

from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.cluster import cluster_of
from fewpass.flows.display.ingest_display import IngestLines, ingest_line
from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import ProgressArtifact, log_line
from fewpass.flows.orchestration.data_pages import show_rows
from fewpass.flows.orchestration.scheduled import durable_task, made_flow, of_the_day
from fewpass.flows.orchestration.watching import StallWatch, tell_prefect
from fewpass.flows.outcomes import ingest_facts
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.ingest.phases import ingest as ingested
from fewpass.pipeline.tables.ingest.progress import IngestProgress, IngestResult


@made_flow(requests.IngestParameters, "plan.dataset")
def ingest(plan: IngestPlan, execution: Execution) -> Any:
    """Ingest, and return what was made in the state that tells of it."""
    plan = of_the_day(plan, "sources", "dataset", "test_dataset")
    named = make_dataset.with_options(task_run_name=f"ingest {plan.dataset}")
    result: IngestResult = named(plan, execution)
    message = (
        f"{counted(result.rows, 'row')} of {counted(result.features, 'feature')}: {result.dataset}."
    )
    return Completed(message=message, data=ingest_facts(result))


@durable_task("ingest")
def make_dataset(plan: IngestPlan, execution: Execution) -> IngestResult:
    """Ingest; one that was killed is finished, one that is done is left alone."""
    return watched(plan, execution)


def watched(plan: IngestPlan, execution: Execution = requests.HERE) -> IngestResult:
    """Ingest, and show how far it is."""
    bar = ProgressArtifact(plan.dataset, "ingesting into")
    lines = IngestLines()
    shares = {"partition": (0.0, 0.6), "write": (0.6, 0.4), "done": (1.0, 0.0)}

    def show(now: IngestProgress) -> None:
        watch.progressed()
        begin, length = shares[now.phase]
        bar.show(begin + length * now.fraction, ingest_line(now))
        for line in lines.take(now):
            log_line("info", line, {"dataset": plan.dataset})

    with StallWatch(tell_prefect) as watch, cluster_of(execution) as executor:
        result = ingested(plan, progress=show, executor=executor)
    rows, features = counted(result.rows, "row"), counted(result.features, "feature")
    get_run_logger().info("%s, %s in %s", rows, features, plan.dataset)
    show_rows(result)
    return result
