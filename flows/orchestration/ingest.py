"""The flow `ingest`: sources to a data set."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.logging import get_run_logger
from pydantic import Field

from flows.ingesting import ingest_facts
from flows.orchestration.artifacts import ProgressArtifact, log_line
from flows.orchestration.scheduled import begin_flow, durable_task, named, told_by_state
from flows.orchestration.stalling import StallWatch, tell_prefect
from flows.progress import IngestLines, ingest_line
from pipeline.ingestion.phases import ingest as run_ingest
from pipeline.ingestion.progress import IngestProgress
from pipeline.ingestion.result import IngestResult
from pipeline.settings.ingest_plan import IngestPlan


class IngestRequest(IngestPlan):
    """An ingest plan as Prefect may keep it: without credentials."""

    storage_options: dict[str, Any] = Field(
        default_factory=dict,
        max_length=0,
        description="Not taken here: credentials come from the environment.",
    )


@flow(name="ingest", flow_run_name=named("ingest", "plan.dataset"))
@told_by_state
def ingest(plan: IngestRequest) -> dict[str, Any]:
    """Make a shuffled, checksummed data set of text, columns or arrays.

    Parameters
    ----------
    plan
        Sources, and the data set to make of them: as in `fewpass ingest`.
    """
    begin_flow()
    result: IngestResult = make_dataset.with_options(task_run_name=f"ingest {plan.dataset}")(plan)
    return ingest_facts(result)


@durable_task("ingest")
def make_dataset(plan: IngestPlan) -> IngestResult:
    """Ingest; one that was killed is finished, one that is done is left alone."""
    bar = ProgressArtifact(plan.dataset, "ingesting into")
    lines = IngestLines()
    shares = {"partition": (0.0, 0.6), "write": (0.6, 0.4), "done": (1.0, 0.0)}

    def show(now: IngestProgress) -> None:
        watch.progressed()
        begin, length = shares[now.phase]
        bar.show(begin + length * now.fraction, ingest_line(now), now=now.phase == "done")
        for line in lines.take(now):
            log_line("info", line, {"dataset": plan.dataset})

    with StallWatch(tell_prefect) as watch:
        result = run_ingest(plan, progress=show)
    get_run_logger().info("%d rows, %d features in %s", result.rows, result.features, plan.dataset)
    return result
