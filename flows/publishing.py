"""`fewpass models`, `publish` and `refresh`: the models of a store, and which one is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from fewpass.flows.display.console import Terminal, as_fixed, facts_table, or_dash
from fewpass.flows.display.printing import printable
from fewpass.flows.errors import UsageError
from fewpass.flows.options import Output
from fewpass.pipeline.models.refresh.abandoning import abandon
from fewpass.pipeline.models.refresh.generations import (
    GenerationList,
    GenerationState,
    models,
    publish_generation,
)
from fewpass.pipeline.models.refresh.publications import Publication, history
from fewpass.pipeline.models.refresh.refused_files import Refused
from fewpass.pipeline.sizes import format_bytes

MOST_MOVES = 10  # that people are shown; --json has all
ASIDE = ("file", "reason", "size", "refused")
COLUMNS = ("generation", "state", "loss", "above optimum", "decided")


def run_models(store: str, output: Output) -> int:
    """List the generations of a store, who published what, and which files are set aside."""
    found, moves = models(store), history(store)
    shown: list[RenderableType] = [models_table(found)] if found else []
    if moves:
        shown.append(moves_table(moves))
    if found.refused:
        shown.append(refused_table(found.refused))
    Terminal(output).result(models_facts(found, moves), Group(*shown))
    return 0


def models_facts(found: GenerationList, moves: Sequence[Publication]) -> dict[str, Any]:
    """Return what --json prints: generations, which one is used, publications, refused files."""
    told = [s._asdict() | {"publications": [p.number for p in s.publications]} for s in found]
    return {
        "published": moves[-1].generation if moves else None,
        "generations": told,
        "publications": [move._asdict() for move in moves],
        "refused": refused_facts(found.refused),
    }


def refused_facts(found: Sequence[Refused]) -> list[dict[str, Any]]:
    """Return the files that are set aside as JSON has them."""
    names = ("file", "reason", "size", "changed", "refused_at")
    return [{name: getattr(one, name) for name in names} for one in found]


def refused_rows(found: Sequence[Refused]) -> list[dict[str, str]]:
    """Write the files that are set aside down as rows of text."""
    return [
        dict(
            zip(ASIDE, (one.file, one.reason, _size(one.size), _when(one.refused_at)), strict=True)
        )
        for one in found
    ]


def refused_table(found: Sequence[Refused]) -> Table:
    """Lay the files out that are set aside."""
    table = Table(title="Set aside", title_justify="left", title_style="bold", box=None)
    for name in ASIDE:
        table.add_column(name, no_wrap=name in ASIDE[2:], overflow="fold")
    for row in refused_rows(found):
        table.add_row(*map(printable, row.values()))
    return table


def _size(size: int | None) -> str:
    return "-" if size is None else format_bytes(size)


def models_table(found: Sequence[GenerationState]) -> Table:
    """Lay generations out, the newest last."""
    table = Table(title="Models", title_justify="left", title_style="bold", box=None)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in COLUMNS[2:4] else "left", no_wrap=True)
    for row in model_rows(found):
        table.add_row(*row.values())
    return table


def model_rows(found: Sequence[GenerationState]) -> list[dict[str, str]]:
    """Write generations down as rows of text."""
    rows = []
    for one in found:
        made = one.decision or {}
        cells = (
            f"{one.generation:06d}",
            one.state,
            as_fixed(made.get("loss"), 6),
            or_dash(made.get("certificate"), ".2e"),
            _when(made.get("decided_at")),
        )
        rows.append(dict(zip(COLUMNS, cells, strict=True)))
    return rows


def moves_table(moves: Sequence[Publication]) -> Table:
    """Lay the newest publications out."""
    shown = moves[-MOST_MOVES:]
    title = "Publications" if len(shown) == len(moves) else f"The last {len(shown)} publications"
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in ("number", "generation", "when", "by"):
        table.add_column(name, no_wrap=True)
    table.add_column("why", overflow="fold")
    for move in shown:
        number, generation = str(move.number), f"{move.generation:06d}"
        table.add_row(number, generation, _when(move.published_at), move.by, move.why)
    return table


def _when(told: str | None) -> str:
    """Write a time as people read it, to the minute; UTC, as on record."""
    return "-" if told is None else told[:16].replace("T", " ")


def run_publish(
    store: str, generation: int, after: int | None, because: str, output: Output
) -> int:
    """Publish a generation's model, and report."""
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


def publication_facts(store: str, made: Publication) -> dict[str, Any]:
    """Return what --json prints of a publication."""
    return made._asdict() | {"run": made.run_in(store)}


def run_refresh(store: str, gives_up: bool, because: str, output: Output) -> int:
    """Give up the generation that is not finished, and report."""
    if not gives_up:
        raise UsageError(
            "New files are taken by the flow: prefect run refresh -p sources=INBOX -p store="
            f"{store}. To give up a generation that does not get done, say fewpass refresh {store} "
            "--abandon."
        )
    given_up = abandon(store, why=because)
    facts = {"store": store, "abandoned": given_up.number, "files": list(given_up.files)}
    shown = {
        "store": store,
        "generation": f"{given_up.number:06d}",
        "files": f"{len(given_up.files)}, which the next refresh takes anew",
    }
    Terminal(output).result(facts, facts_table("Abandoned", shown))
    return 0
