"""The flow `models`: the generations of a refresh's store, and which one is used."""

from __future__ import annotations

from typing import Any

from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_table
from fewpass.flows.orchestration.scheduled import made_flow
from fewpass.flows.outcomes import history_rows, model_rows, models_facts, refused_rows
from fewpass.pipeline.models.refresh.listing import models as models_of
from fewpass.pipeline.models.refresh.store_state import existing_store, published

MOST_EVENTS = 100  # of the table


@made_flow(requests.ModelsParameters, "store")
def models(store: str) -> Any:
    """List the models, also as a table on the page of the run."""
    listed = models_of(store)
    show_table(store, "models", model_rows(listed), f"models of {store}")
    show_history(store)
    if listed.refused:
        show_table(store, "refused", refused_rows(listed.refused), f"files refused in {store}")
    current = published(store)
    used = f"{current.sentence()}." if current else "Nothing is published yet."
    return Completed(message=used, data=models_facts(store, listed))


def show_history(store: str) -> None:
    """Show what happened in a store: what was decided, published or refused, and why."""
    rows = history_rows(existing_store(store).events)
    show_table(store, "history", rows[-MOST_EVENTS:], f"what happened in {store}")
