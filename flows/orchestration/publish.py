"""The flow `publish`: which model of a refresh's store is used from now on."""

from __future__ import annotations

from typing import Any

from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_text
from fewpass.flows.orchestration.models import show_history
from fewpass.flows.orchestration.scheduled import durable_task, is_tried_again, made_flow
from fewpass.flows.outcomes import publication_facts
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.models.refresh import publishing
from fewpass.pipeline.models.refresh.store_events import Published
from fewpass.pipeline.models.refresh.store_state import published


@made_flow(requests.PublishParameters, "store")
def publish(store: str, generation: int, because: str, after: int | None) -> Any:
    """Publish it, and say so on the page of the run."""
    made = move.with_options(task_run_name=f"publish generation {generation}")(
        store, generation, because, after
    )
    show_text(
        store, "published", f"{as_markdown(made.sentence())}.", f"model that {store} publishes"
    )
    show_history(store)
    return Completed(message=f"{made.sentence()}.", data=publication_facts(store, made))


@durable_task("publish")
def move(store: str, generation: int, because: str, after: int | None) -> Published:
    """Publish it, unless somebody else did at the same time, or a try before this one has."""
    current = published(store) if is_tried_again() else None
    if current is not None and current.generation == generation:
        return current
    return publishing.publish(store, generation, after=after, why=because)
