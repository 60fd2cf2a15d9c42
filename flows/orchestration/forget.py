"""The flow `forget`: rows of a data set deleted for good, and models trained anew without them."""

from __future__ import annotations

from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import shown_progress
from fewpass.flows.orchestration.scheduled import durable_task, is_tried_again, made_flow
from fewpass.pipeline.models.forgotten_rows import forgotten_everywhere
from fewpass.pipeline.settings.change_plans import ForgetPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.sizes import counted
from fewpass.pipeline.tables.changing.forgetting import ForgetResult


@made_flow(requests.ForgetParameters, "plan.dataset")
def forget(
    plan: ForgetPlan, runs: str | None, retrain: bool, warm: bool, execution: Execution
) -> Any:
    """Forget, and return what the data set is now and which models have learnt from it."""
    named = delete_rows.with_options(task_run_name=f"forget in {plan.dataset}")
    result: ForgetResult = named(execution.threads_for(plan), runs, retrain, warm, execution)
    went = "would go" if plan.dry_run else "forgotten"
    message = (
        f"{counted(result.forgotten, 'row')} of {result.dataset} {went}, it has {result.rows:,}"
    )
    if result.test_dataset:
        message += (
            f"; {result.test_forgotten:,} of its test rows {went}, {result.test_rows:,} there"
        )
    message += "."
    if result.models:
        message += f" {counted(len(result.models), 'model')} had learnt from them"
        anew = counted(len(result.retrained), "was", "were")
        message += f", {anew} trained anew." if retrain else "."
    facts = result.model_dump(mode="json", exclude={"examples"})
    return Completed(message=message, data=facts)


@durable_task("forget")
def delete_rows(
    plan: ForgetPlan, runs: str | None, retrain: bool, warm: bool, execution: Execution
) -> ForgetResult:
    """Forget; what was killed is finished, and trainings go on.

    Rows may have gone before a run that is tried again.
    """
    if is_tried_again():
        plan = plan.model_copy(update={"allow_none": True})
    with shown_progress(plan.dataset, "forgetting in") as show:
        result = forgotten_everywhere(
            plan, runs=runs, retrain=retrain, warm=warm, execution=execution, progress=show
        )
    logger = get_run_logger()
    rows = counted(result.forgotten, "row")
    test_rows = counted(result.test_forgotten, "test row")
    went, gone = ("would go", "would go") if plan.dry_run else ("forgotten", "are gone")
    logger.info("%s and %s of %s %s", rows, test_rows, result.dataset, went)
    for note in result.notes:
        logger.warning(note)
    for run in result.models:
        logger.warning("%s has learnt from rows that %s", run, gone)
    return result
