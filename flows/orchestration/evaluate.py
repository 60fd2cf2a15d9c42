"""The flow `evaluate`: how good a run's model is on a data set."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.cluster import engine_for_pass
from flows.orchestration.artifacts import show_text
from flows.orchestration.scheduled import (
    HERE,
    begin_flow,
    dated,
    durable_task,
    named,
    told_by_state,
)
from flows.scoring import evaluation_facts
from pipeline.refresh.publishing import run_at
from pipeline.reporting.model_card import model_card
from pipeline.scoring.evaluate import Evaluation
from pipeline.scoring.evaluate import evaluate as run_evaluate
from pipeline.settings.execution import Execution
from pipeline.settings.matching import BY_NAME, Matching
from pipeline.training.model import load_model
from storage.dataset import Dataset


@flow(name="evaluate", flow_run_name=named("evaluate", "run"))
@told_by_state
def evaluate(
    run: str, dataset: str, matching: Matching = BY_NAME, where: Execution = HERE
) -> dict[str, Any]:
    """Say how good a run's model is on a data set.

    Parameters
    ----------
    run
        Folder or address of the run, or of a refresh's store; {date} and {time} stand for the
        scheduled start.
    dataset
        Data set made by ingest.
    matching
        How its columns are matched with the model's.
    where
        Where tasks run: a Dask scheduler's address, or in this process.
    """
    begin_flow()
    run = dated(run)
    found = judge.with_options(task_run_name=f"evaluate on {dataset}")(
        run, dataset, where, matching
    )
    card = model_card(run_at(run), {dataset: found})
    show_text(run, "card", card, f"model of {run}")
    return evaluation_facts(found)


@durable_task("evaluate")
def judge(run: str, dataset: str, where: Execution, matching: Matching = BY_NAME) -> Evaluation:
    """Read the data set once and say how the run's newest model does on it."""
    model, data = load_model(run_at(run)), Dataset.open(dataset)
    with engine_for_pass(where, data) as executor:
        return run_evaluate(model, data, executor, rules=matching)
