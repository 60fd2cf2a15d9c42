"""The flow `refresh`: ingest what is new, train on, publish the model unless it is worse."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.logging import get_run_logger

from flows.orchestration.artifacts import show_text
from flows.orchestration.evaluate import judge
from flows.orchestration.ingest import make_dataset
from flows.orchestration.scheduled import HERE, begin_flow, durable_task, named, told_by_state
from flows.orchestration.train import completed, train_in_stages
from flows.training import require_convergence
from pipeline.refresh.generations import Decision, Generation
from pipeline.refresh.publishing import NONE_YET, published
from pipeline.refresh.refreshing import (
    RefreshPlan,
    decide,
    held_out,
    ingest_plan,
    next_generation,
    require_judge,
    training_plan,
)
from pipeline.reporting.model_card import model_card
from pipeline.settings.execution import Execution
from pipeline.training.outcome import TrainingResult
from pipeline.training.run_folder import RunFolder


@flow(name="refresh", flow_run_name=named("refresh", "plan.store"))
@told_by_state
def refresh(plan: RefreshPlan, where: Execution = HERE) -> Any:
    """Ingest new files, train on them from the published model on, publish unless that is worse.

    Parameters
    ----------
    plan
        Where files appear, where everything goes, when a model is good enough.
    where
        Where tasks run: a Dask scheduler's address, or in this process.
    """
    begin_flow()
    generation = next_generation(plan)
    if generation is None:
        get_run_logger().info("No new file in %s", ", ".join(plan.sources))
        return {"generation": None, "published": False, "reason": "there is no new file"}
    make_dataset.with_options(task_run_name=f"ingest {len(generation.files)} new files")(
        ingest_plan(plan, generation)
    )
    require_judge(plan)
    training = training_plan(plan, generation)
    trained = train_in_stages(training, generation.run, where)
    decided = _publish(plan, generation, trained, where)
    if plan.require_tol:
        require_convergence(trained, training)
    return completed(decided, trained)


def _publish(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult, where: Execution
) -> dict[str, Any]:
    rows, current = held_out(plan), published(plan.store)
    new = judge.with_options(task_run_name="evaluate the new model")(generation.run, rows, where)
    old = None
    if current:
        before = current.run_in(plan.store)
        old = judge.with_options(task_run_name="evaluate the published model")(before, rows, where)
    made: Decision = settle.with_options(task_run_name="publish or keep")(
        plan, generation, trained, new.loss, old.loss if old else None,
        current.number if current else NONE_YET,
    )  # fmt: skip
    card = model_card(RunFolder(generation.run), {rows: new})
    show_text(generation.run, "card", card, f"model of {generation.run}")
    verdict = "published" if made.published else "not published"
    text = f"Generation {generation.number} was **{verdict}**: {made.reason}."
    show_text(plan.store, "decision", text, f"last decision in {plan.store}")
    get_run_logger().info("Generation %d %s: %s", generation.number, verdict, made.reason)
    current = published(plan.store)
    model = current.run_in(plan.store) if current else None
    return {"generation": generation.number, "model": model} | made._asdict()


@durable_task("publish")
def settle(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult,
    loss: float, before: float | None, after: int,
) -> Decision:  # fmt: skip
    """Publish the new model, or keep the one that is published."""
    return decide(plan, generation, trained, loss, before, after)
