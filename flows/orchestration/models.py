"""The flow `models`: the generations of a refresh's store, and which one is used."""

from __future__ import annotations

from typing import Any

from prefect import flow
from prefect.artifacts import create_table_artifact

from flows.orchestration.artifacts import artifact_key
from flows.orchestration.scheduled import begin_flow, named, told_by_state
from flows.publishing import model_rows, models_facts
from pipeline.refresh.generations import models as models_of
from pipeline.refresh.publishing import history


@flow(name="models", flow_run_name=named("models", "store"))
@told_by_state
def models(store: str) -> dict[str, Any]:
    """List the models of a refresh's store: how good each is, and which one is used.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    """
    begin_flow()
    standings = models_of(store)
    create_table_artifact(
        model_rows(standings), key=artifact_key(store, "models"), description=f"models of {store}"
    )
    return models_facts(standings, history(store))
