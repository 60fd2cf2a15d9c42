"""Bars of work under way, redrawn on a terminal: how far it is, and how long it still takes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fewpass.flows.display.console import Terminal
from fewpass.pipeline.sizes import format_seconds

if TYPE_CHECKING:
    from fewpass.pipeline.passes.span import SpanReport

WIDTH = 40  # letters of a bar, where a line has space for the text next to it
A_SECOND, A_BIT = 1.0, 0.01  # time and share before which speed is unknown

ShowWork = Callable[[float | None, str], None]


class Countdown:
    """Says how long a piece of work still takes, if it goes on as it did."""

    def __init__(self) -> None:
        self._began = time.perf_counter()

    def left(self, fraction: float) -> float | None:
        """Return the seconds left at this share; None in the beginning."""
        took = time.perf_counter() - self._began
        if took < A_SECOND or fraction < A_BIT:
            return None
        return took * (1.0 - fraction) / fraction


def bar(fraction: float, left_s: float | None = None) -> Table:
    """Draw a bar on a line of its own: the share done, and the time left if it is known."""
    line = Table.grid(padding=(0, 2, 0, 0))
    line.add_column()
    line.add_column(no_wrap=True)
    left = "" if left_s is None else f"  {format_seconds(left_s)} left"
    line.add_row(ProgressBar(total=1.0, completed=fraction, width=WIDTH), f"{fraction:4.0%}{left}")
    return line


def line(text: str, style: str = "") -> Text:
    """Return a text that stays in its line: what does not fit is cut off."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


@contextmanager
def work_display(terminal: Terminal, doing: str) -> Iterator[ShowWork]:
    """Show how far a piece of work is where a terminal can be redrawn, and nothing elsewhere.

    Yields what takes the share done, None where the end is not known, and a text beside it.
    """
    if not terminal.live:
        yield lambda _fraction, _amount: None
        return
    countdown = Countdown()
    with Live(console=terminal.err, refresh_per_second=4, transient=True) as live:

        def show(fraction: float | None, amount: str) -> None:
            drawn: list[Text | Table] = [line(f"{doing}: {amount}")]
            if fraction is not None:
                share = min(1.0, max(0.0, fraction))
                drawn.append(bar(share, countdown.left(share)))
            live.update(Group(*drawn))

        yield show


@contextmanager
def rows_display(
    terminal: Terminal, doing: str, n_rows: int
) -> Iterator[Callable[[SpanReport], None]]:
    """Show how many rows were read; yields what takes the reports of spans."""
    from fewpass.pipeline.passes.span import counting  # noqa: PLC0415 - for counted rows alone

    with work_display(terminal, doing) as show:
        yield counting(n_rows, show)
