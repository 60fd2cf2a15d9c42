"""The flow `forget`: rows of a data set deleted for good, and models trained anew without them."""

from __future__ import annotations

from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import ProgressArtifact
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.orchestration.watching import StallWatch, tell_prefect
from fewpass.pipeline.models.retraining import forgotten_everywhere
from fewpass.pipeline.settings.change_plans import ForgetPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.tables.changing.forgetting import ForgetResult


@made_flow(requests.ForgetParameters, "plan.dataset")
def forget(
    plan: ForgetPlan, runs: str | None, retrain: bool, warm: bool, execution: Execution
) -> Any:
    """Forget, and return what the data set is now and which models have learnt from it."""
    named = delete_rows.with_options(task_run_name=f"forget in {plan.dataset}")
    result: ForgetResult = named(plan, runs, retrain, warm, execution)
    message = f"{result.forgotten:,} rows of {result.dataset} forgotten, {result.rows:,} are left."
    if result.models:
        message += f" {len(result.models)} models had learnt from them"
        message += f", {len(result.retrained)} were trained anew." if retrain else "."
    return Completed(message=message, data=result.model_dump(mode="json"))


@durable_task("forget")
def delete_rows(
    plan: ForgetPlan, runs: str | None, retrain: bool, warm: bool, execution: Execution
) -> ForgetResult:
    """Forget; what was killed is finished, and trainings go on."""
    bar = ProgressArtifact(plan.dataset, "forgetting in")

    def show(share: float, said: str) -> None:
        watch.progressed()
        bar.show(share, said)

    with StallWatch(tell_prefect) as watch:
        result = forgotten_everywhere(
            plan, runs=runs, retrain=retrain, warm=warm, execution=execution, progress=show
        )
    logger = get_run_logger()
    logger.info("%d rows of %s forgotten", result.forgotten, result.dataset)
    for run in result.models:
        logger.warning("%s has learnt from rows that are gone", run)
    return result
