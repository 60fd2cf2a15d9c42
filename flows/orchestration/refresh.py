"""The flow `refresh`: ingest what is new, train on, publish the model unless it is worse."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.cluster import engine_for_pass
from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table, show_text
from fewpass.flows.orchestration.evaluate import evaluate_model
from fewpass.flows.orchestration.ingest import watched
from fewpass.flows.orchestration.models import show_history
from fewpass.flows.orchestration.scheduled import (
    KEPT_BACK,
    MISSED,
    UNCHANGED,
    durable_task,
    made_flow,
)
from fewpass.flows.orchestration.train import train_in_stages
from fewpass.flows.outcomes import (
    drift_rows,
    refused_facts,
    refused_rows,
    require_convergence,
)
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.abandoning import abandon as abandoned
from fewpass.pipeline.models.refresh.drift_refusals import require_at_most
from fewpass.pipeline.models.refresh.gates import Evaluated, GateResult, Slices, results_of
from fewpass.pipeline.models.refresh.generation_drift import drift_of_generation
from fewpass.pipeline.models.refresh.generations import Decision, Generation, refused_now
from fewpass.pipeline.models.refresh.old_generations import remove_old_generations
from fewpass.pipeline.models.refresh.publications import NONE_YET, published
from fewpass.pipeline.models.refresh.refreshing import (
    decide,
    held_out,
    next_generation,
    refresh_lock,
    require_judge,
    training_plan,
)
from fewpass.pipeline.models.refresh.taking import TakenFiles, take
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.category_slices import evaluate_slices
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.sizes import counted
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder


@made_flow(requests.RefreshParameters, "plan.store")
def refresh(plan: RefreshPlan, where: Execution, abandon: bool) -> Any:
    """Finish what waits, or take what is new; return what was decided."""
    if abandon:
        return _abandoned(plan.store)
    try:
        with refresh_lock(plan.store):
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
    drift = compare_rows.with_options(task_run_name="compare with the rows before")(
        plan, generation, taken.left_out
    )
    training = training_plan(plan, generation)
    trained = train_in_stages(training, generation.run, where)
    decided = _publish(plan, generation, trained, where, drift)
    if plan.keep_generations is not None:
        for one in remove_old_generations(plan.store, plan.keep_generations):
            get_run_logger().info("Removed %s", one.what)
    if plan.require_tol:
        require_convergence(trained, training)
    return _decided_state(decided, trained)


def _decided_state(decision: dict[str, Any], trained: TrainingResult) -> Any:
    """Return a decision in the state that says what it was, and why."""
    verdict = "published" if decision["published"] else "kept back"
    said = f"Generation {decision['generation']:06d} {verdict}: {decision['reason']}."
    missed = trained.converged is False
    name = MISSED if missed else None if decision["published"] else KEPT_BACK
    return Completed(name=name, message=said + _with_refused(decision["refused"]), data=decision)


def _with_refused(refused: Sequence[Any]) -> str:
    files = f"{len(refused)} file{'s are' if len(refused) != 1 else ' is'}"
    return f" {files} set aside." if refused else ""


@durable_task("compare")
def compare_rows(
    plan: RefreshPlan, generation: Generation, left_out: tuple[str, ...]
) -> float | None:
    """Compare the rows with those before, show it, and refuse those that are too far away."""
    drift = drift_of_generation(plan.store, generation, left_out)
    if drift is None:
        return None
    before = counted(drift.nights, "generation")
    about = f"generation {generation.number} of {plan.store} next to the {before} before"
    show_table(plan.store, "drift", drift_rows(drift), about)
    if drift.n_reported:
        get_run_logger().warning("Drift: %s.", drift.sentence)
    require_at_most(drift, plan.max_drift, plan.store, generation)
    return drift.largest


@durable_task("ingest")
def take_files(plan: RefreshPlan, generation: Generation) -> TakenFiles:
    """Ingest the files of a generation; those that cannot be read are refused."""
    taken = take(plan, generation, watched)
    for one in taken.refused:
        get_run_logger().warning("%s was refused and set aside: %s", one.file, one.reason)
    return taken


def _nothing_new(plan: RefreshPlan) -> Any:
    refused = refused_now(Folder(plan.store))
    unchanged = f"; {len(refused)} set aside did not change" if refused else ""
    made = {
        "generation": None, "published": False, "reason": f"there is no new file{unchanged}",
        "refused": refused_facts(refused),
    }  # fmt: skip
    message = f"Nothing to do: {made['reason']} ({', '.join(plan.sources)})."
    get_run_logger().info(message)
    return Completed(name=UNCHANGED, message=message, data=made)


def _abandoned(store: str) -> Any:
    given_up = abandoned(store)
    reason = "it was abandoned; the next refresh takes its files anew"
    made = {
        "generation": given_up.number, "published": False, "reason": reason,
        "files": list(given_up.files),
    }  # fmt: skip
    message = f"Generation {given_up.number:06d} given up; the next refresh takes its files anew."
    get_run_logger().info(message)
    return Completed(message=message, data=made)


def _show_refused(store: str) -> None:
    """Show the refused files on the page of the run, however the refresh ends."""
    with contextlib.suppress(OSError, BadInput):  # what ended the refresh is reported
        refused = refused_now(Folder(store))
        if refused:
            show_table(store, "refused", refused_rows(refused), f"files set aside in {store}")


def _publish(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult, where: Execution,
    drift: float | None,
) -> dict[str, Any]:  # fmt: skip
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
    gates = results_of(
        plan.gates, _evaluated(generation.run, rows, where, new),
        _evaluated(current.run_in(plan.store), rows, where, old) if current and old else None,
    )  # fmt: skip
    made: Decision = publish_or_keep.with_options(task_run_name="publish or keep")(
        plan, generation, trained, new.loss, old.loss if old else None,
        current.number if current else NONE_YET, gates, drift,
    )  # fmt: skip
    card = model_card(RunFolder(generation.run), {rows: new})
    show_text(generation.run, "card", card, f"model of {generation.run}")
    verdict = "published" if made.published else "not published"
    text = f"Generation {generation.number} was **{verdict}**: {as_markdown(made.reason)}."
    show_text(plan.store, "decision", text, f"last decision in {plan.store}")
    get_run_logger().info("Generation %d %s: %s", generation.number, verdict, made.reason)
    show_history(plan.store)
    current = published(plan.store)
    model = current.run_in(plan.store) if current else None
    decision = {"generation": generation.number, "model": model} | made._asdict()
    return decision | {"refused": refused_facts(refused_now(Folder(plan.store)))}


def _evaluated(run: str, rows: str, where: Execution, whole: Evaluation) -> Evaluated:
    """Return what evaluates slices for gates; all rows were evaluated already."""

    def evaluated(column: str | None) -> Slices:
        if column is None:
            return {"": whole}
        task = evaluate_by_value.with_options(task_run_name=f"evaluate by {column}")
        slices: Slices = task(run, rows, where, column)
        return slices

    return evaluated


@durable_task("evaluate by value")
def evaluate_by_value(run: str, rows: str, where: Execution, column: str) -> Slices:
    """Evaluate a model on the held-out rows of each value of a column."""
    data = Dataset.open(rows)
    with engine_for_pass(where, data) as executor:
        return evaluate_slices(load_model(RunFolder(run)), data, executor, column)


@durable_task("publish")
def publish_or_keep(
    plan: RefreshPlan, generation: Generation, trained: TrainingResult,
    loss: float, before: float | None, after: int,
    gates: tuple[GateResult, ...], drift: float | None,
) -> Decision:  # fmt: skip
    """Publish the new model, or keep the one that is published."""
    return decide(plan, generation, trained, loss, before, after, gates, drift)
