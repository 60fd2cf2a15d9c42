"""How far a training is, while it runs: a bar in a notebook, a line now and then elsewhere.

Notebooks show it unasked, scripts with verbose=1 only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from fewpass.pipeline.reporting.safe_text import as_html
from fewpass.pipeline.runs.outcome import Event
from fewpass.pipeline.sizes import format_passes

FIRST_S = 1.0  # what is done by then shows nothing
NOTEBOOK_EVERY_S = 0.5
GROWTH = 1.5  # from line to line

Show = Callable[[Event], None]


def progress(verbose: int | None, passes: int) -> Show | None:
    """Return what shows a training's events, of so many passes at most; None where nothing is.

    Parameters
    ----------
    verbose
        None: in notebooks; 0: nowhere; 1: everywhere.
    """
    if verbose == 0:
        return None
    if in_notebook():
        return NotebookBar(passes)
    return Lines(passes) if verbose else None


def in_notebook() -> bool:
    """Say whether a Jupyter kernel runs this process."""
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return getattr(shell, "kernel", None) is not None


class Numbers:
    """What is told of a training, from its events."""

    def __init__(self, passes: int) -> None:
        self.most, self.passes = passes, 0.0
        self._began = time.perf_counter()
        self._method, self._proven, self._held_out = "", "", ""

    @property
    def seconds(self) -> float:
        """Since it began."""
        return time.perf_counter() - self._began

    def take(self, event: Event) -> None:
        """Count an event."""
        told, cursor = event.facts, event.cursor
        n_rows = told.get("n_rows")
        self.passes = max(self.passes, cursor.passes)
        if n_rows or event.kind == "switch":
            self._method = f"{told['method']}: "
        elif event.kind == "certificate":
            self._proven = (
                f", objective {told['objective']:.6g}, at most {told['gap']:.2g} above the optimum"
            )
            if (left := told["left_passes"]) is not None:
                self._proven += f", about {format_passes(left)} to the tolerance"
        elif event.kind == "validation":
            self._held_out = f", held-out loss {told['loss']:.6g}"

    def __str__(self) -> str:
        return (
            f"{self._method}{self.passes:.4g} of at most {self.most} passes{self._proven}"
            f"{self._held_out}, {self.seconds:.0f} s"
        )


class Lines:
    """Writes lines on standard error at growing intervals, and one at the end."""

    def __init__(self, passes: int) -> None:
        self._numbers, self._due = Numbers(passes), FIRST_S

    def __call__(self, event: Event) -> None:
        """Take an event, and tell where it is time to."""
        self._numbers.take(event)
        now = self._numbers.seconds
        if now >= self._due or event.kind == "finish":
            self._due = now * GROWTH
            sys.stderr.write(f"{self._numbers}\n")


class NotebookBar:
    """Redraws one bar below a notebook's cell."""

    def __init__(self, passes: int) -> None:
        self._numbers, self._due = Numbers(passes), FIRST_S
        self._handle: Any = None

    def __call__(self, event: Event) -> None:
        """Take an event, and redraw where it is time to."""
        self._numbers.take(event)
        now, shown = self._numbers.seconds, self._handle is not None
        if now >= self._due or (shown and event.kind == "finish"):
            self._due = now + NOTEBOOK_EVERY_S
            self._draw()

    def _draw(self) -> None:
        from IPython.display import (  # type: ignore[import-not-found]  # noqa: PLC0415
            HTML,
            display,
        )

        numbers = self._numbers
        bar = f'<progress value="{numbers.passes}" max="{numbers.most}"></progress>'
        picture = HTML(f"{bar} {as_html(str(numbers))}")
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)
