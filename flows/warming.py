"""`fewpass warm-up`."""

from __future__ import annotations

from fewpass.flows.display.console import Terminal, facts_table, format_seconds
from fewpass.flows.options import Output
from fewpass.pipeline.compiling_ahead import LAYOUTS, USUAL_LOSSES, Compiled, warm_up


def run_warm_up(
    losses: str | None, layouts: str | None, processes: int | None, output: Output
) -> int:
    """Compile ahead, a line for each combination, and report."""
    terminal = Terminal(output)

    def tell(done: Compiled) -> None:
        found = f"{done.kernels} kernels, {format_seconds(done.seconds)}"
        terminal.say(f"{done.combination}: {found if done.kernels else 'compiled before'}")

    result = warm_up(
        _words(losses, USUAL_LOSSES), _words(layouts, LAYOUTS), processes=processes,
        on_compiled=tell,
    )  # fmt: skip
    shown = {
        "in": result.folder,
        "kernels": result.kernels,
        "for": f"{result.combinations} combinations of loss and rows",
        "took": f"{format_seconds(result.seconds)}, {result.processes} processes",
    }
    terminal.result(result._asdict(), facts_table("Compiled", shown))
    return 0


def _words(given: str | None, usual: tuple[str, ...]) -> tuple[str, ...]:
    if given is None:
        return usual
    return tuple(word.strip() for word in given.split(",") if word.strip())
