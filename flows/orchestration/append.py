"""The flow `append`: rows of files into a data set that is there."""

from __future__ import annotations

from functools import partial
from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import shown_progress
from fewpass.flows.orchestration.data_pages import show_rows
from fewpass.flows.orchestration.scheduled import UNCHANGED, durable_task, made_flow
from fewpass.flows.orchestration.scheduled_dates import at_first, of_the_day
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.passes.executor import open_cluster
from fewpass.pipeline.settings.change_plans import AppendPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.changing.appending import AppendResult
from fewpass.pipeline.tables.changing.appending import append as appended
from fewpass.storage.dataset import Dataset

#: Label of a flow run: the fingerprint of the generation before its first try.
BEFORE = "fewpass.before"


@made_flow(requests.AppendParameters, "plan.dataset")
def append(plan: AppendPlan, execution: Execution) -> Any:
    """Append, and return what the data set is now in the state that tells of it."""
    plan = execution.threads_for(of_the_day(plan, "sources"))
    named = add_rows.with_options(task_run_name=f"append to {plan.dataset}")
    result: AppendResult = named(plan, execution)
    made = result.model_dump(mode="json")
    if result.already:
        message = f"Nothing to do: {result.dataset} has the rows of these files."
        return Completed(name=UNCHANGED, message=message, data=made)
    return Completed(message=_came_to(result), data=made)


def _came_to(result: AppendResult) -> str:
    rows = counted(result.appended, "row")
    return f"{rows} appended to {result.dataset}, which has {result.rows:,}."


@durable_task("append")
def add_rows(plan: AppendPlan, execution: Execution) -> AppendResult:
    """Append; what was killed is finished, and files that were appended are not appended twice.

    Nor are they by who tries it again, where `again` asks for files that were taken before.
    """
    since = at_first(BEFORE, partial(_fingerprint, plan.dataset)) if plan.again else None
    with shown_progress(plan.dataset, "appending to") as show:
        with open_cluster(execution) as executor:
            result = appended(plan, progress=show, executor=executor, since=since)
        show(1.0, as_markdown(_came_to(result)))
    get_run_logger().info(_came_to(result))
    show_rows(result)
    return result


def _fingerprint(dataset: str) -> str:
    return Dataset.open(dataset).manifest.fingerprint
