"""`fewpass warm-up`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from fewpass.flows.options import OUTPUT, Output, whole
from fewpass.pipeline.settings.model_config import MOST_WORKERS
from fewpass.pipeline.sizes import format_seconds

if TYPE_CHECKING:
    from fewpass.pipeline.compiling_ahead import WarmedCombination


def warm_up(
    *,
    losses: str | None = None,
    layouts: str | None = None,
    processes: Annotated[int | None, whole(1, MOST_WORKERS)] = None,
    output: Output = OUTPUT,
) -> int:
    """Show what `fewpass.warm_up` compiles; several words are separated by commas."""
    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.pipeline import compiling_ahead as ahead

    terminal = Terminal(output)

    def report(done: WarmedCombination) -> None:
        result = f"{done.kernels} kernels, {format_seconds(done.seconds)}"
        terminal.say(f"{done.combination}: {result if done.kernels else 'compiled before'}")

    result = ahead.warm_up(
        _words(losses, ahead.USUAL_LOSSES), _words(layouts, ahead.LAYOUTS), processes=processes,
        on_compiled=report,
    )  # fmt: skip
    shown = {
        "in": result.folder,
        "kernels": result.kernels,
        "for": f"{result.combinations} combinations of loss and rows",
        "bytecode": f"of {result.modules} modules",
        "took": f"{format_seconds(result.seconds)}, {result.processes} processes",
    }
    terminal.result(result._asdict(), facts_table("Compiled", shown))
    return 0


def _words(given: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return usual
    return tuple(word.strip() for word in given.split(",") if word.strip())
