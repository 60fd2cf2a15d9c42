"""The flow `publish`: which model of a refresh's store is used from now on."""

from __future__ import annotations

from typing import Any

from prefect import flow
from pydantic import NonNegativeInt, PositiveInt

from flows.orchestration.artifacts import show_text
from flows.orchestration.scheduled import begin_flow, durable_task, named, told_by_state
from flows.publishing import publication_facts
from pipeline.refresh.generations import publish_generation
from pipeline.refresh.publishing import Publication


@flow(name="publish", flow_run_name=named("publish", "store"))
@told_by_state
def publish(
    store: str, generation: PositiveInt, because: str = "", after: NonNegativeInt | None = None
) -> dict[str, Any]:
    """Make the model of a generation the one to use: a newer one, or an older one again.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation.
    because
        Why; kept with the publication.
    after
        Number of the publication that is followed now; where it is another one, nothing is changed.
    """
    begin_flow()
    made = move.with_options(task_run_name=f"publish generation {generation}")(
        store, generation, because, after
    )
    show_text(store, "published", f"{made.sentence()}.", f"model that {store} publishes")
    return publication_facts(store, made)


@durable_task("publish")
def move(store: str, generation: int, because: str, after: int | None) -> Publication:
    """Publish it, unless somebody else did at the same time."""
    return publish_generation(store, generation, after=after, why=because)
