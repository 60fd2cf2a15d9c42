"""The flow `refresh`: ingest what is new, train on, publish the model unless it is worse."""

from __future__ import annotations

from typing import Any

from prefect.logging import get_run_logger

from fewpass.flows.orchestration import signatures
from fewpass.flows.orchestration.artifacts import show_text
from fewpass.flows.orchestration.evaluate import judge
from fewpass.flows.orchestration.ingest import make_dataset
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.orchestration.train import completed, train_in_stages
from fewpass.flows.training import require_convergence
from fewpass.pipeline.refresh.generations import Decision, Generation
from fewpass.pipeline.refresh.publishing import NONE_YET, published
from fewpass.pipeline.refresh.refreshing import (
    decide,
    held_out,
    ingest_plan,
    next_generation,
    require_judge,
    training_plan,
)
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.reporting.safe_text import as_markdown
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.refresh_plan import RefreshPlan


@made_flow(signatures.refresh, "plan.store")
def refresh(plan: RefreshPlan, where: Execution) -> Any:
    """Finish what waits, or take what is new; return what was decided."""
    generation = next_generation(plan)
    if generation is None:
        get_run_logger().info("No new file in %s", ", ".join(plan.sources))
        return {"generation": None, "published": False, "reason": "there is no new file"}
    files = f"{len(generation.files)} new file{'s' * (len(generation.files) != 1)}"
    make_dataset.with_options(task_run_name=f"ingest {files}")(ingest_plan(plan, generation))
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
    made: Decision = publish_or_keep.with_options(task_run_name="publish or keep")(
        plan, generation, trained, new.loss, old.loss if old else None,
        current.number if current else NONE_YET,
    )  # fmt: skip
    card = model_card(RunFolder(generation.run), {rows: new})
    show_text(generation.run, "card", card, f"model of {generation.run}")
    verdict = "published" if made.published else "not published"
    text = f"Generation {generation.number} was **{verdict}**: {as_markdown(made.reason)}."
    show_text(plan.store, "decision", text, f"last decision in {plan.store}")
    get_run_logger().info("Generation %d %s: %s", generation.number, verdict, made.reason)
    current = published(plan.store)
    model = current.run_in(plan.store) if current else None
    return {"generation": generation.number, "model": model} | made._asdict()


@durable_task("publish")
def publish_or_keep(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult,
    loss: float, before: float | None, after: int,
) -> Decision:  # fmt: skip
    """Publish the new model, or keep the one that is published."""
    return decide(plan, generation, trained, loss, before, after)
