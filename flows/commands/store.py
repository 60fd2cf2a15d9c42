"""`fewpass store`: the models of a store, which one is used, and what persons decide."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.flows.outcomes import (
    history_rows,
    model_rows,
    models_facts,
    publication_facts,
    refused_rows,
)
from fewpass.pipeline.sizes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fewpass.pipeline.models.refresh.store_events import Event

MOST_EVENTS = 12  # that people are shown; --json has all


def models(store: str, /, *, output: Output = OUTPUT) -> int:
    """Show what `fewpass.models` finds."""
    from rich.console import Group

    from fewpass.flows.display.console import Terminal, rows_table
    from fewpass.pipeline.models.refresh import listing

    made = listing.models(store)
    shown: list[RenderableType] = []
    if made.generations:
        shown.append(rows_table("Models", model_rows(made), text=("state", "learnt from")))
    shown.append(history_table(made.events))
    if made.refused:
        shown.append(rows_table("Refused files", refused_rows(made.refused), text=("reason",)))
    Terminal(output).result(models_facts(store, made), Group(*shown))
    return 0


def history_table(events: Sequence[Event]) -> Table:
    """Return a table of what happened last.

    What, by whom and why share a column: reasons are sentences, and a terminal is narrow.
    """
    from fewpass.flows.display.console import rows_table

    every = history_rows(events)
    shown = every[-MOST_EVENTS:]
    title = "History" if len(shown) == len(every) else f"The last {counted(len(shown), 'event')}"
    rows = [
        {"when": row["when"], "generation": row["generation"], "what": _what_and_why(row)}
        for row in shown
    ]
    return rows_table(title, rows, text=("what",))


def _what_and_why(row: dict[str, str]) -> str:
    by = "" if row["by"] == "-" else f" ({row['by']})"
    why = f": {row['why']}" if row["why"] else ""
    return f"{row['what']}{why}{by}"


def publish(
    store: str,
    generation: Annotated[int, whole(1)],
    /,
    *,
    after: Annotated[int | None, whole(0)] = None,
    because: str = "",
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.publish` does."""
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.refresh import publishing

    made = publishing.publish(store, generation, after=after, why=because)
    shown = {
        "store": store,
        "generation": f"{made.generation:06d}",
        "publication": made.number,
        "weights": made.weights_sha256[:12],
        "by": made.by,
    }
    Terminal(output).result(publication_facts(store, made), facts_table("Published", shown))
    return 0


def take(
    store: str, generation: Annotated[int, whole(1)], /, *, because: str = "",
    output: Output = OUTPUT,
) -> int:  # fmt: skip
    """Show what `fewpass.take` does."""
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.refresh import publishing

    publishing.take_night(store, generation, why=because)
    facts = {"store": store, "taken": generation}
    shown = {"store": store, "generation": f"{generation:06d}, which the next refresh learns from"}
    Terminal(output).result(facts, facts_table("Taken", shown))
    return 0


def abandon(store: str, /, *, because: str = "", output: Output = OUTPUT) -> int:
    """Show what `fewpass.abandon` gives up."""
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.refresh import publishing

    given_up = publishing.abandon(store, why=because)
    names = [file.name for file in given_up.files]
    facts = {"store": store, "abandoned": given_up.number, "files": names}
    shown = {
        "store": store,
        "generation": f"{given_up.number:06d}",
        "files": f"{len(names)}, which the next refresh takes anew",
    }
    Terminal(output).result(facts, facts_table("Abandoned", shown))
    return 0
