"""Prefect's pages of a run: its progress, its convergence, its model."""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast
from uuid import UUID

import httpx
import prefect.runtime
from prefect import get_client
from prefect.artifacts import (
    create_image_artifact,
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.schemas.actions import ArtifactUpdate
from prefect.logging import get_run_logger

from fewpass.flows.display.log_lines import FIELDS, Line
from fewpass.flows.display.pass_lines import PassLines
from fewpass.flows.display.training_display import memory_in_use
from fewpass.flows.orchestration.telling import Teller
from fewpass.flows.orchestration.watching import StallWatch, tell_prefect
from fewpass.pipeline.drawing.charts import image_address
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import above_optimum, written_gap
from fewpass.pipeline.sizes import format_bytes, format_passes, format_seconds

TOLD_EVERY_S = 2.0
LAST_WORD_S = 10.0  # that the end of a flow waits for artifacts on their way
TABLE_ROWS = 40
ABOVE = "at most above optimum"
KEY_LENGTH = 50


def artifact_key(url: str, what: str) -> str:
    """Name an artifact after an address, in Prefect's letters: its end, and a hash of all of it."""
    whole = url.rstrip("/")
    slug = re.sub(r"[^a-z0-9]+", "-", "-".join(whole.split("/")[-2:]).lower())
    digest = hashlib.sha256(whole.encode()).hexdigest()[:8]
    return f"{slug[-KEY_LENGTH:].strip('-')}-{digest}-{what}"


def _may_pass(error: Exception) -> bool:
    """Return whether a server may take the next time what it did not take now."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.is_server_error
    return isinstance(error, httpx.TransportError)


def _warn(error: Exception) -> None:
    problem = f"{type(error).__name__}: {error}".rstrip(": ")
    get_run_logger().warning("Prefect's server does not take artifacts (%s)", problem)


#: A server that is slow or dead costs what its pages show, not the work.
TELLER = Teller(TOLD_EVERY_S, _may_pass, _warn)


def last_word() -> None:
    """Wait at the end of a flow until all artifacts are sent, but not for long."""
    if not TELLER.flush(LAST_WORD_S):
        get_run_logger().warning("Prefect's server did not take all that was to be shown")


class ProgressArtifact:
    """A bar on Prefect's page, redrawn every two seconds at most."""

    def __init__(self, url: str, what: str) -> None:
        self._key, self._title = artifact_key(url, "progress"), as_markdown(f"{what} {url}")
        self._id: UUID | None = None  # of the bar that is there
        self.show(0.0, self._title)

    def show(self, fraction: float, text: str) -> None:
        """Move the bar."""
        TELLER.give(self._key, lambda: self._send(100.0 * fraction, text))

    def _send(self, percent: float, text: str) -> None:
        if self._id is None:
            self._id = cast("UUID", create_progress_artifact(percent, self._key, text))
        else:
            update_progress_artifact(self._id, progress=percent, description=text)


@contextmanager
def shown_progress(url: str, what: str) -> Iterator[Callable[[float, str], None]]:
    """Show how far work is during a `with` block, and tell where it makes no progress.

    Yields what takes the share that is done, and words.
    """
    bar = ProgressArtifact(url, what)

    def show(share: float, said: str) -> None:
        watch.progressed()
        bar.show(share, said)

    with StallWatch(tell_prefect) as watch:
        yield show


class TrainingProgress:
    """Tells Prefect of a training's events: the bar, and a line of the log per pass."""

    def __init__(self, url: str, passes: int, tol: float | None = None) -> None:
        self._bar = ProgressArtifact(url, "training into")
        self._lines, self._run = PassLines(passes, tol), {"run": url}

    def show(self, event: Event) -> None:
        """Take an event."""
        for level, line in self._lines.take(event):
            log_line(level, line, self._run)
        if event.kind in ("span", "finish"):
            timeline = self._lines.timeline
            share = 1.0 if timeline.finished else timeline.fraction
            self._bar.show(share, progress_text(timeline))


def progress_text(timeline: Timeline) -> str:
    """Write how far a training is, and how fast; at its end what it came to."""
    if timeline.finished:
        return ", ".join([format_passes(timeline.passes, ".4g"), *_proven(timeline)])
    lately, average, left_s = timeline.lately, timeline.loss_since({}), timeline.left_s
    loss = "" if average is None else f", loss {average:.5f}"
    left = f", {format_seconds(left_s)} left" if left_s else ""
    return (
        f"{timeline.passes:.2f} passes{loss}, {lately.per_second(lately.rows):,.0f} rows/s, "
        f"{lately.per_second(lately.bytes_read) / 1e6:.1f} MB/s, "
        f"{format_bytes(memory_in_use())}{left}"
    )


def _proven(timeline: Timeline) -> Iterator[str]:
    if timeline.certificates:
        last = timeline.certificates[-1]
        yield f"objective {last.objective:.6g}"
        yield above_optimum(last.gap, last.relative) or ""


def log_line(level: str, line: Line, more: dict[str, str]) -> None:
    """Log a line for Prefect's pages; in JSON with its numbers."""
    number = logging.getLevelNamesMapping()[level.upper()]
    get_run_logger().log(number, line.text, extra={FIELDS: line.fields | more})


def show_convergence(url: str, timeline: Timeline) -> None:
    """Attach the convergence table to the run."""
    show_table(url, "convergence", convergence_rows(timeline), f"convergence of {url}")


def show_table(url: str, what: str, rows: list[dict[str, Any]], text: str) -> None:
    """Attach a table to the run; shown again by the same flow run it replaces the one before."""
    key, about = artifact_key(url, what), as_markdown(text)
    TELLER.give(key, lambda: _put_table(key, _cells(rows), about))


#: What the flow run that this process is at has shown, by key.
_SHOWN: dict[tuple[str, str], UUID] = {}


def _put(key: str, data: str, create: Callable[[], UUID]) -> None:
    """Make an artifact of this flow run, or bring the one of its key up to date."""
    of_run = (str(prefect.runtime.flow_run.id), key)
    there = _SHOWN.get(of_run)
    if there is None:
        _SHOWN[of_run] = create()
        return
    with get_client(sync_client=True) as client:
        client.update_artifact(there, ArtifactUpdate(data=data))


def _put_table(key: str, rows: list[dict[str, Any]], about: str) -> None:
    def create() -> UUID:
        return cast("UUID", create_table_artifact(rows, key=key, description=about))

    _put(key, json.dumps(rows), create)


def _cells(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Have cells that are words be shown as they are: Prefect's page reads them as Markdown."""
    return [
        {k: as_markdown(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows
    ]


def convergence_rows(timeline: Timeline) -> list[dict[str, Any]]:
    """Lay progressive losses and certified objectives out by passes, at most some forty lines."""
    points, n_rows = timeline.losses, timeline.n_rows
    keep = max(1, -(-len(points) // TABLE_ROWS))
    shown = [p for k, p in enumerate(points) if k % keep == keep - 1 or k == len(points) - 1]
    rows: list[dict[str, Any]] = [
        {"passes": round(p.passes, 3), "rows": round(p.passes * n_rows),
         "loss since start": _six(p.average), "loss since last": _six(p.since_last),
         "objective": "", ABOVE: ""}
        for p in shown
    ]  # fmt: skip
    rows += [
        {"passes": round(c.passes, 3), "rows": round(c.passes * n_rows), "loss since start": "",
         "loss since last": "", "objective": _six(c.objective),
         ABOVE: written_gap(c.gap, c.relative)}
        for c in timeline.certificates
    ]  # fmt: skip
    return sorted(rows, key=lambda row: (row["passes"], bool(row["objective"])))


def _six(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"


def show_chart(url: str, what: str, drawn: str, text: str) -> None:
    """Attach a chart to the run; it travels inside its own address, nothing is hosted."""
    key, place = artifact_key(url, what), image_address(drawn)
    if place is None:
        return
    about = as_markdown(text)
    TELLER.give(key, lambda: create_image_artifact(place, key=key, description=about))


def show_text(url: str, what: str, markdown: str, text: str) -> None:
    """Attach a text to the run, as `show_table`; names in `markdown` are marked as such already."""
    key, about = artifact_key(url, what), as_markdown(text)

    def create() -> UUID:
        return cast("UUID", create_markdown_artifact(markdown, key=key, description=about))

    TELLER.give(key, lambda: _put(key, markdown, create))
