"""A training in a notebook: a bar while it runs, and its result as tables and the loss curve.

Notebooks show a bar unasked; scripts write lines with verbose=1 only.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Self

from fewpass.pipeline.drawing.charts import image_address
from fewpass.pipeline.drawing.pieces import facts, rows_of
from fewpass.pipeline.drawing.safe_text import as_html
from fewpass.pipeline.reporting.figure_rows import lam_rows
from fewpass.pipeline.reporting.run_facts import training_facts
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import above_optimum
from fewpass.pipeline.sizes import format_passes, passes_of

FIRST_S = 1.0  # what is done by then shows nothing
NOTEBOOK_EVERY_S = 0.5
GROWTH = 1.5  # from line to line

Show = Callable[[Event], None]


def progress(verbose: int | None, passes: int) -> Show | None:
    """Return the display of a training's events; None where nothing is shown.

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


class Progressing:
    """A training under way, in a sentence."""

    def __init__(self, passes: int) -> None:
        self.most, self.due, self._began = passes, FIRST_S, time.perf_counter()
        self.timeline = Timeline(clock=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.perf_counter() - self._began

    def __str__(self) -> str:
        timeline, proven = self.timeline, self.timeline.proven
        passes = passes_of(timeline.passes, self.most, ".4g", "of at most")
        parts = [f"{timeline.method}: {passes}"]
        if proven:
            parts.append(f"objective {proven.objective:.6g}")
            parts.append(above_optimum(proven.gap, proven.relative_gap, ".2g") or "")
            if proven.left_passes is not None:
                parts.append(f"about {format_passes(proven.left_passes)} to the tolerance")
        if timeline.held_out:
            parts.append(f"held-out loss {timeline.held_out.loss:.6g}")
        return ", ".join([*parts, f"{self.seconds:.0f} s"])


class Lines(Progressing):
    """Writes lines on standard error at growing intervals, and one at the end."""

    def __call__(self, event: Event) -> None:
        """Take an event, and write a line if one is due."""
        self.timeline.hear(event)
        if self.seconds >= self.due or event.kind == "finish":
            self.due = self.seconds * GROWTH
            sys.stderr.write(f"{self}\n")


class NotebookBar(Progressing):
    """Redraws one bar below a notebook's cell."""

    _handle: Any = None

    def __call__(self, event: Event) -> None:
        """Take an event, and redraw where it is time to."""
        self.timeline.hear(event)
        if self.seconds >= self.due or (self._handle is not None and event.kind == "finish"):
            self.due = self.seconds + NOTEBOOK_EVERY_S
            self._draw()

    def _draw(self) -> None:
        from IPython.display import (  # type: ignore[import-not-found]  # noqa: PLC0415
            HTML,
            display,
        )

        bar = f'<progress value="{self.timeline.passes}" max="{self.most}"></progress>'
        picture = HTML(f"{bar} {as_html(str(self))}")
        if self._handle is None:
            self._handle = display(picture, display_id=True)
        else:
            self._handle.update(picture)


class ShownResult(TrainingResult):
    """A training's result, which a notebook shows as tables and its loss curve."""

    @classmethod
    def of(cls, result: TrainingResult) -> Self:
        """Take the result's fields."""
        return cls(**vars(result))

    def _repr_html_(self) -> str:
        return training_html(self)


def training_html(result: TrainingResult) -> str:
    """Return a table of what counts, what became of every lam, and the loss curve.

    The curve is drawn of the run's log; none of a run that is gone.
    """
    parts: list[str] = [facts(training_facts(result))]
    if result.candidates:
        parts.append(rows_of(lam_rows(result.candidates, "loss", result.lam)))
    if curve := image_address(_loss_curve(result.run)):
        parts.append(f'<img alt="loss curve" src="{curve}">')
    return "\n".join(parts)


def _loss_curve(url: str) -> str:
    """Draw the loss of rows before they were learnt from, or else the certificates."""
    from fewpass.pipeline.reporting import learning  # noqa: PLC0415 - imports the methods

    run = RunFolder(url)
    if not run.exists():
        return ""
    timeline = Timeline.of(run)
    if len(timeline.losses) > 1:
        return learning.loss_chart(timeline.losses)
    proven = timeline.certificates
    return learning.certificate_chart(proven, None) if len(proven) > 1 else ""
