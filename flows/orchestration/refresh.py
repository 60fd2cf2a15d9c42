"""The flow `refresh`: ingest what is new, train on, publish the model unless it is worse."""

from __future__ import annotations

import contextlib
from typing import Any

from prefect.logging import get_run_logger

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table, show_text
from fewpass.flows.orchestration.evaluate import evaluate_model
from fewpass.flows.orchestration.ingest import watched
from fewpass.flows.orchestration.scheduled import durable_task, made_flow
from fewpass.flows.orchestration.train import completed, train_in_stages
from fewpass.flows.outcomes import refused_facts, refused_rows, require_convergence
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.abandoning import abandon as abandoned
from fewpass.pipeline.models.refresh.generations import Decision, Generation, refused_now
from fewpass.pipeline.models.refresh.publications import NONE_YET, published
from fewpass.pipeline.models.refresh.refreshing import (
    alone_in,
    decide,
    held_out,
    next_generation,
    require_judge,
    training_plan,
)
from fewpass.pipeline.models.refresh.taking import TakenFiles, take
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.storage.folder import Folder


@made_flow(requests.RefreshParameters, "plan.store")
def refresh(plan: RefreshPlan, where: Execution, abandon: bool) -> Any:
    """Finish what waits, or take what is new; return what was decided."""
    if abandon:
        return _abandoned(plan.store)
    try:
        with alone_in(plan.store):
            return _refreshed(plan, where)
    finally:
        _show_refused(plan.store)


def _refreshed(plan: RefreshPlan, where: Execution) -> Any:
    generation = next_generation(plan)
    if generation is None:
        return _nothing_new(plan)
    files = f"{len(generation.files)} new file{'s' * (len(generation.files) != 1)}"
    taken = take_files.with_options(task_run_name=f"ingest {files}")(plan, generation)
    generation = taken.generation
    require_judge(plan)
    training = training_plan(plan, generation)
    trained = train_in_stages(training, generation.run, where)
    decided = _publish(plan, generation, trained, where)
    if plan.require_tol:
        require_convergence(trained, training)
    return completed(decided, trained)


@durable_task("ingest")
def take_files(plan: RefreshPlan, generation: Generation) -> TakenFiles:
    """Ingest the files of a generation; those that cannot be read are refused."""
    taken = take(plan, generation, watched)
    for one in taken.refused:
        get_run_logger().warning("%s was refused and set aside: %s", one.file, one.reason)
    return taken


def _nothing_new(plan: RefreshPlan) -> dict[str, Any]:
    get_run_logger().info("No new file in %s", ", ".join(plan.sources))
    refused = refused_now(Folder(plan.store))
    unchanged = f"; {len(refused)} set aside did not change" if refused else ""
    return {
        "generation": None, "published": False, "reason": f"there is no new file{unchanged}",
        "refused": refused_facts(refused),
    }  # fmt: skip


def _abandoned(store: str) -> dict[str, Any]:
    given_up = abandoned(store)
    reason = "it was abandoned; the next refresh takes its files anew"
    get_run_logger().info("Generation %d: %s", given_up.number, reason)
    return {
        "generation": given_up.number, "published": False, "reason": reason,
        "files": list(given_up.files),
    }  # fmt: skip


def _show_refused(store: str) -> None:
    """Show the refused files on the page of the run, however the refresh ends."""
    with contextlib.suppress(OSError, BadInput):  # what ended the refresh is reported
        refused = refused_now(Folder(store))
        if refused:
            show_table(store, "refused", refused_rows(refused), f"files set aside in {store}")


def _publish(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult, where: Execution
) -> dict[str, Any]:
    rows, current = held_out(plan), published(plan.store)
    new = evaluate_model.with_options(task_run_name="evaluate the new model")(
        generation.run, rows, where
    )
    old = None
    if current:
        before = current.run_in(plan.store)
        old = evaluate_model.with_options(task_run_name="evaluate the published model")(
            before, rows, where
        )
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
    decision = {"generation": generation.number, "model": model} | made._asdict()
    return decision | {"refused": refused_facts(refused_now(Folder(plan.store)))}


@durable_task("publish")
def publish_or_keep(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult,
    loss: float, before: float | None, after: int,
) -> Decision:  # fmt: skip
    """Publish the new model, or keep the one that is published."""
    return decide(plan, generation, trained, loss, before, after)
