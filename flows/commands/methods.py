"""`fewpass methods`: what each method is, what it needs and its settings, read from its class."""

# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, Method, Output
from fewpass.pipeline.settings.method_kinds import settings_class
from fewpass.solvers.described import described_fields
from fewpass.solvers.registry import LOSSES, METHODS, WANTED, loss_class

if TYPE_CHECKING:
    from rich.table import Table

    from fewpass.solvers.needs import Needs

AUTO = "auto: chosen from what is asked for and what ingest measured; the default"
TAKEN = {"any": "any", "smooth": "smooth ones"}


def methods(name: Method | None = None, /, *, output: Output = OUTPUT) -> int:
    """List the training methods, or show what one needs.

    Parameters
    ----------
    name
        Word of a method, as --solver takes it.
    """
    from rich.console import Group

    from fewpass.flows.display.console import Terminal

    terminal = Terminal(output)
    if name is None or name == "auto":
        from fewpass.solvers.needs import table_of_methods

        facts, able = {kind: first_line(kind) for kind in METHODS}, table_of_methods()
        combined = [dict(zip(("penalty", "losses", "methods"), row, strict=True)) for row in able]
        shown = Group(*_overview(facts), _combinations(able))
        terminal.result({"methods": facts, "combinations": combined}, shown)
    else:
        one = described(name)
        terminal.result(one, Group(*_page(one)))
    return 0


def first_line(kind: str) -> str:
    """Return what a method is, in a line."""
    return " ".join((settings_class(kind).__doc__ or "").partition("\n\n")[0].split())


def described(kind: str) -> dict[str, Any]:
    """Return what a method is, what it needs and its settings."""
    method = settings_class(kind)
    needs = method.needs  # type: ignore[attr-defined]
    return {
        "method": kind,
        "what": method.__doc__,
        "losses": _losses(needs),
        "numbers_per_row": needs.numbers_per_row,
        "streams": f"one: it{needs.one_stream}" if needs.one_stream else "any number",
        "most_columns": needs.most_columns,
        "settings": [
            {
                "name": f"solver.{name}",
                "default": getattr(field.default, "kind", field.default),
                "what": " ".join((field.description or "").split()),
            }
            for name, field in described_fields(method).items()
            if name != "kind"
        ],
    }


def _losses(needs: Needs) -> str:
    if needs.only_loss:
        return f"the {needs.only_loss.name} alone"
    steep = [] if needs.steep else [word for word in LOSSES if loss_class(word).is_steep]
    return TAKEN[needs.loss] + (f" but {' and '.join(steep)}" if steep else "")


def _overview(facts: dict[str, str]) -> Iterator[Any]:
    yield _paragraph(AUTO)
    left = [kind for kind in facts if not any(kind in kinds for kinds in WANTED.values())]
    from fewpass.flows.display.console import facts_table

    groups = WANTED | ({"Others": tuple(left)} if left else {})
    for title, kinds in groups.items():
        yield facts_table(title, {kind: facts[kind] for kind in kinds})
    yield _paragraph("fewpass methods NAME shows what one needs and its settings (--solver NAME).")


def _combinations(rows: list[tuple[str, tuple[str, ...], tuple[str, ...]]]) -> Table:
    """Lay out which methods take which loss with which penalty."""
    from fewpass.flows.display.console import rows_table

    every = [
        {"penalty": penalty, "losses": ", ".join(losses), "methods": ", ".join(able) or "none"}
        for penalty, losses, able in rows
    ]
    return rows_table("By penalty and loss", every, text=("losses", "methods"))


def _page(facts: dict[str, Any]) -> Iterator[Any]:
    from fewpass.flows.display.console import facts_table, rows_table

    first, _, rest = (facts["what"] or "").partition("\n\n")
    yield _paragraph(f"{facts['method']}: {' '.join(first.split())}")
    for paragraph in rest.split("\n\n"):
        if paragraph.strip():
            yield _paragraph(" ".join(paragraph.split()))
    numbers, most = facts["numbers_per_row"], facts["most_columns"]
    needs = {
        "losses": facts["losses"],
        "streams": str(facts["streams"]),
        "stored per row": f"{8 * numbers} bytes" if numbers else None,
        "columns": None if most is None else f"at most {most:,}",
    }
    yield facts_table("Needs", needs)
    if facts["settings"]:
        settings = [
            {
                "name": one["name"],
                "default": "" if one["default"] is None else f"{one['default']}",
                "about": one["what"],
            }
            for one in facts["settings"]
        ]
        yield rows_table("Settings: --set NAME=VALUE", settings, text=("default", "about"))


def _paragraph(text: str) -> Table:
    """Break a text where the terminal ends: results are not, for those who read them by line."""
    from rich.table import Table

    shown = Table.grid()
    shown.add_column(overflow="fold")
    shown.add_row(printable(text))
    return shown
