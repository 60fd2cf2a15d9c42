"""`fewpass models`, `publish` and `refresh`: the models of a store, and which one is used."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.flows.outcomes import (
    ASIDE,
    COLUMNS,
    history_rows,
    model_rows,
    models_facts,
    publication_facts,
    refused_rows,
)
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.sizes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fewpass.pipeline.models.refresh.generations import GenerationState
    from fewpass.pipeline.models.refresh.refused_files import Refused
    from fewpass.pipeline.models.refresh.store_history import StoreEvent

MOST_EVENTS = 12  # that people are shown; --json has all


def models(store: str, /, *, output: Output = OUTPUT) -> int:
    """List the models of a store that refresh writes: how good each is, which one is published.

    Files that a refresh could not read, and has refused, come with the reason.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    """
    from rich.console import Group

    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.models.refresh import generations
    from fewpass.pipeline.models.refresh.publications import history
    from fewpass.pipeline.models.refresh.store_history import store_history

    listed, moves = generations.models(store), history(store)
    shown: list[RenderableType] = [models_table(listed)] if listed else []
    events = store_history(listed, moves)
    if events:
        shown.append(history_table(events))
    if listed.refused:
        shown.append(refused_table(listed.refused))
    Terminal(output).result(models_facts(listed, moves), Group(*shown))
    return 0


def refused_table(listed: Sequence[Refused]) -> Table:
    """Return a table of the refused files."""
    from fewpass.flows.display.console import titled_table

    table = titled_table("Set aside")
    for name in ASIDE:
        table.add_column(name, no_wrap=name in ASIDE[2:], overflow="fold")
    for row in refused_rows(listed):
        table.add_row(*map(printable, row.values()))
    return table


def models_table(listed: Sequence[GenerationState]) -> Table:
    """Return a table of generations, the newest last."""
    from fewpass.flows.display.console import titled_table

    table = titled_table("Models")
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in COLUMNS[2:4] else "left", no_wrap=True)
    for row in model_rows(listed):
        table.add_row(*row.values())
    return table


def history_table(events: Sequence[StoreEvent]) -> Table:
    """Return a table of what happened last: decisions, gates, publications, refused files.

    What, by whom and why share a column: reasons are sentences, and a terminal is narrow.
    """
    from fewpass.flows.display.console import titled_table

    shown = history_rows(events[-MOST_EVENTS:])
    title = "History" if len(shown) == len(events) else f"The last {counted(len(shown), 'event')}"
    table = titled_table(title)
    for name in ("when", "generation", "what"):
        table.add_column(name, no_wrap=name != "what", overflow="fold")
    for row in shown:
        by = "" if row["by"] == "-" else f" ({row['by']})"
        why = f": {row['why']}" if row["why"] else ""
        what = f"{row['what']}{why}{by}"
        table.add_row(*map(printable, (row["when"], row["generation"], what)))
    return table


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

    Whoever evaluates, predicts or exports with the store uses it from then on, and the next refresh
    trains on from it.  Of two who publish at once one wins; the other fails, and exits with 2.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    generation
        Number of the generation, such as 000007.
    after
        Number of the publication that is followed now, as shown by fewpass models; where it is
        another one by now, nothing is changed [default: whichever it is].
    because
        Why; kept with the publication.
    """
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.refresh.publishing import publish_generation

    made = publish_generation(store, generation, after=after, why=because)
    shown = {
        "store": store,
        "generation": f"{made.generation:06d}",
        "publication": made.number,
        "weights": made.weights_sha256[:12],
        "by": made.by,
    }
    Terminal(output).result(publication_facts(store, made), facts_table("Published", shown))
    return 0


def refresh(
    store: str, /, *, abandon: bool = False, because: str = "", output: Output = OUTPUT
) -> int:
    """Give up the generation of a store that is not finished; `prefect run refresh` makes them.

    What was made of it is not used, and the next refresh takes its files anew.

    Parameters
    ----------
    store
        Folder or address that refreshes write to.
    abandon
        Say that this is meant.
    because
        Why; kept with the generation.
    """
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline.models.refresh import abandoning

    if not abandon:
        raise UsageError(
            "New files are taken by the flow: prefect run refresh -p sources=INBOX -p store="
            f"{store}. To give up a generation that does not get done, say fewpass refresh {store} "
            "--abandon."
        )
    given_up = abandoning.abandon(store, why=because)
    facts = {"store": store, "abandoned": given_up.number, "files": list(given_up.files)}
    shown = {
        "store": store,
        "generation": f"{given_up.number:06d}",
        "files": f"{len(given_up.files)}, which the next refresh takes anew",
    }
    Terminal(output).result(facts, facts_table("Abandoned", shown))
    return 0
