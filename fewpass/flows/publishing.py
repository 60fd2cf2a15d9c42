"""`fewpass models` and `fewpass publish`: the models of a store, and which one is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from fewpass.flows.console import Terminal, as_fixed, facts_table, or_dash
from fewpass.flows.options import Output
from fewpass.pipeline.refresh.generations import GenerationState, models, publish_generation
from fewpass.pipeline.refresh.publishing import Publication, history

MOST_MOVES = 10  # that people are shown; --json has all
COLUMNS = ("generation", "state", "loss", "above optimum", "decided")


def run_models(store: str, output: Output) -> int:
    """List the generations of a store, and who published what."""
    found, moves = models(store), history(store)
    shown: list[RenderableType] = [models_table(found)]
    if moves:
        shown.append(moves_table(moves))
    Terminal(output).result(models_facts(found, moves), Group(*shown))
    return 0


def models_facts(found: Sequence[GenerationState], moves: Sequence[Publication]) -> dict[str, Any]:
    """Return what --json prints: the generation in use, all generations, all publications."""
    told = [s._asdict() | {"publications": [p.number for p in s.publications]} for s in found]
    return {
        "published": moves[-1].generation if moves else None,
        "generations": told,
        "publications": [move._asdict() for move in moves],
    }


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
