"""The flow `models`: the generations of a refresh's store, and which one is used."""

from __future__ import annotations

from typing import Any

from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table
from fewpass.flows.orchestration.scheduled import made_flow
from fewpass.flows.outcomes import history_rows, model_rows, models_facts, refused_rows
from fewpass.pipeline.models.refresh.generations import models as models_of
from fewpass.pipeline.models.refresh.publications import history
from fewpass.pipeline.models.refresh.store_history import store_history

MOST_EVENTS = 100  # of the table


@made_flow(requests.ModelsParameters, "store")
def models(store: str) -> Any:
    """List the models, also as a table on the page of the run."""
    listed, moves = models_of(store), history(store)
    show_table(store, "models", model_rows(listed), f"models of {store}")
    show_history(store)
    if listed.refused:
        show_table(store, "refused", refused_rows(listed.refused), f"files set aside in {store}")
    used = f"{moves[-1].sentence()}." if moves else "Nothing is published yet."
    return Completed(message=used, data=models_facts(listed, moves))


def show_history(store: str) -> None:
    """Show what happened in a store: who decided or published what, and why."""
    rows = history_rows(store_history(models_of(store), history(store)))
    show_table(store, "history", rows[-MOST_EVENTS:], f"what happened in {store}")
