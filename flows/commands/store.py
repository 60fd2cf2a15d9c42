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


def listed(store: str, /, *, output: Output = OUTPUT) -> int:
    """List the models of a store: what each has learnt from, how good it is, which is published.

    Files that a refresh could not read, and has refused, come with the reason.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    """
    from rich.console import Group

    from fewpass.flows.display.console import Terminal, rows_table
    from fewpass.pipeline.models.refresh.listing import models

    made = models(store)
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
    """Publish the model of a generation, newer or older, as the one to use.

    Whoever evaluates, predicts or exports with the store uses it from then on.  Nights after it are
    set apart: their rows stay, and compete.  Of two who publish at once one wins; the other fails,
    and exits with 2.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, such as 000007.
    after
        Number of the event that published the present one, as --json shows it; where it is another
        one by now, nothing is changed [default: whichever it is].
    because
        Why; kept with the publication.
    """
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
    """Have a generation learnt from that waits or is set apart: its rows are right.

    The next refresh learns from them, also without new files.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, such as 000007.
    because
        Why; kept in the store's log.
    """
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.refresh import publishing

    publishing.take_night(store, generation, why=because)
    facts = {"store": store, "taken": generation}
    shown = {"store": store, "generation": f"{generation:06d}, which the next refresh learns from"}
    Terminal(output).result(facts, facts_table("Taken", shown))
    return 0


def abandon(store: str, /, *, because: str = "", output: Output = OUTPUT) -> int:
    """Give up the generation of a store that is not finished.

    What was made of it is not used, and the next refresh takes its files anew.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    because
        Why; kept in the store's log.
    """
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
