"""The flow `refresh`: learn from files that are new, and publish a model of them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from prefect.logging import get_run_logger
from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table, show_text, shown_progress
from fewpass.flows.orchestration.ingest import watched
from fewpass.flows.orchestration.model_pages import show_compared
from fewpass.flows.orchestration.models import show_history
from fewpass.flows.orchestration.scheduled import (
    KEPT_BACK,
    MISSED,
    UNCHANGED,
    WAITS,
    durable_task,
    is_tried_again,
    made_flow,
)
from fewpass.flows.orchestration.scheduled_dates import at_first
from fewpass.flows.orchestration.train import show_run, train_in_stages
from fewpass.flows.outcomes import (
    drift_rows,
    refused_facts,
    refused_rows,
)
from fewpass.flows.refusals import ToleranceMissed
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.drift import Drift
from fewpass.pipeline.models.refresh.gates import Slices
from fewpass.pipeline.models.refresh.night_scores import Scores
from fewpass.pipeline.models.refresh.publishing import abandon as abandoned
from fewpass.pipeline.models.refresh.refresh_result import RefreshResult, result_of
from fewpass.pipeline.models.refresh.refreshing import refresh as refreshed
from fewpass.pipeline.models.refresh.store_state import Generation, Store, store_at
from fewpass.pipeline.models.refresh.taking import TakenFiles, take
from fewpass.pipeline.models.refresh.work import RefreshWork
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import counted

#: Label of a flow run: the number of the newest event before its first try.
NEWEST = "fewpass.newest_event"
STATES = {"kept back": KEPT_BACK, "waits": WAITS, "settled": UNCHANGED, "unchanged": UNCHANGED}


@made_flow(requests.RefreshParameters, "plan.store")
def refresh(plan: RefreshPlan, execution: Execution, abandon: bool) -> Any:
    """Finish what waits, or take what is new; return what came of it.

    Tried again where all was done it says what came of that, which nobody has heard of.
    """
    if abandon:
        return _abandoned(plan.store)
    since = int(at_first(NEWEST, lambda: str(_newest_event(store_at(plan.store)))))
    work = TasksOfFlow(execution)
    try:
        result = refreshed(plan, work)
    finally:
        _show_refused(plan.store)
    if result.generation is None and is_tried_again():
        result = _done_since(plan.store, since) or result
    _show(result)
    return ended(result, require_tol=plan.require_tol)


def _newest_event(store: Store) -> int:
    return store.events[-1].number if store.events else 0


def _done_since(url: str, event: int) -> RefreshResult | None:
    """Return what became of the newest generation, if it was finished after an event."""
    store = store_at(url)
    newest = store.generations[-1] if store.generations else None
    if newest is None or newest.evaluated is None or newest.ended is None:
        return None
    return result_of(store, newest, ()) if newest.ended.number > event else None


def ended(result: RefreshResult, *, require_tol: bool) -> Any:
    """Return the state of a refresh: of several generations the one that somebody should look at.

    Raises
    ------
    ToleranceMissed
        A model missed a tolerance that is required.
    """
    every = (*result.earlier, result)
    message = " ".join(one.message for one in every)
    if require_tol and any(one.converged is False for one in every):
        raise ToleranceMissed(message)
    names = [_name(one) for one in every]
    name = next((name for name in (MISSED, KEPT_BACK, WAITS) if name in names), names[-1])
    return Completed(name=name, message=message, data=_facts(result))


def _name(result: RefreshResult) -> str | None:
    missed = result.converged is False and result.state == "published"
    return MISSED if missed else STATES.get(result.state)


class TasksOfFlow(RefreshWork):
    """The parts of a refresh as tasks of Prefect."""

    def take(self, plan: RefreshPlan, store: Store, generation: Generation) -> TakenFiles:
        """Ingest the files of a generation; those that cannot be read are refused."""
        files = counted(len(generation.files), "file")
        return take_files.with_options(task_run_name=f"ingest {files}")(plan, store, generation)

    def train(self, plan: TrainingPlan, run: str) -> TrainingResult:
        """Train a model, a task for each stage."""
        return train_in_stages(plan, run, self.execution)

    def score(self, runs: Mapping[str, str], rows: str) -> Scores:
        """Score rows with models."""
        models = counted(len(set(runs.values())), "model")
        named = score_rows.with_options(task_run_name=f"score {models} on rows not learnt from")
        made: Scores = named(self, runs, rows)
        return made

    def evaluate(self, run: str, rows: str, column: str | None) -> Slices:
        """Evaluate a model for a gate."""
        by = f" by {column}" if column else ""
        named = evaluate_for_gate.with_options(task_run_name=f"evaluate{by}")
        made: Slices = named(self, run, rows, column)
        return made

    def loss_of_halves(self, plan: TrainingPlan) -> float:
        """Look whether a model of an odd night's own rows explains it."""
        made: float = explain_night(self, plan)
        return made

    def show_drift(self, store: str, generation: int, drift: Drift | None) -> None:
        """Show how far rows are from those before."""
        if drift is None:
            return
        about = f"generation {generation} beside {counted(drift.nights, 'night')} of {store}"
        show_table(store, "drift", drift_rows(drift), about)
        if drift.sentence:
            get_run_logger().warning("Drift: %s", drift.sentence)

    def show_models(self, new: str, before: str | None, rows: str) -> None:
        """Show a model next to the one published before: columns, slices, and the worst rows."""
        show_compared(new, before, rows, self.execution)


@durable_task("ingest")
def take_files(plan: RefreshPlan, store: Store, generation: Generation) -> TakenFiles:
    """Ingest the files of a generation; those that cannot be read are refused."""
    taken = take(plan, store, generation, watched)
    for one in taken.refused:
        get_run_logger().warning("%s was refused: %s", one.file.name, one.why)
    return taken


@durable_task("score-rows")
def score_rows(work: RefreshWork, runs: Mapping[str, str], rows: str) -> Scores:
    """Score rows with models that they have not learnt from."""
    with shown_progress(rows, "scoring") as show:
        return RefreshWork(work.execution, show).score(runs, rows)


@durable_task("evaluate")
def evaluate_for_gate(work: RefreshWork, run: str, rows: str, column: str | None) -> Slices:
    """Evaluate a model on rows, or on those of each value of a column."""
    with shown_progress(rows, "evaluating on") as show:
        return RefreshWork(work.execution, show).evaluate(run, rows, column)


@durable_task("explain")
def explain_night(work: RefreshWork, plan: TrainingPlan) -> float:
    """Train on each half of an odd night, and evaluate on the other."""
    with shown_progress(plan.dataset, "explaining") as show:
        return RefreshWork(work.execution, show).loss_of_halves(plan)


def _facts(result: RefreshResult) -> dict[str, Any]:
    facts = result.model_dump(mode="json", exclude={"refused", "earlier"})
    return facts | {
        "published": result.state == "published",
        "refused": refused_facts(result.refused),
        "earlier": [_facts(one) for one in result.earlier],
    }


def _show(result: RefreshResult) -> None:
    """Show what was decided, the model, and what happened in the store."""
    for one in (*result.earlier, result):
        get_run_logger().info(one.message)
    if result.generation is None:
        return
    text = "\n\n".join(map(as_markdown, (result.message, *result.notes)))
    show_text(result.store, "decision", text, f"last decision in {result.store}")
    if result.model is not None and result.state == "published":
        show_run(RunFolder(result.model))
    show_history(result.store)


def _abandoned(store: str) -> Any:
    given_up = abandoned(store)
    made = {
        "generation": given_up.number, "published": False,
        "reason": "it was abandoned; the next refresh takes its files anew",
        "files": [file.name for file in given_up.files],
    }  # fmt: skip
    message = f"Generation {given_up.number:06d} given up; the next refresh takes its files anew."
    get_run_logger().info(message)
    return Completed(message=message, data=made)


def _show_refused(store: str) -> None:
    """Show the refused files on the page of the run, however the refresh ends."""
    with contextlib.suppress(OSError, BadInput):  # what ended the refresh is reported
        refused = store_at(store).refused
        if refused:
            show_table(store, "refused", refused_rows(refused), f"files refused in {store}")
