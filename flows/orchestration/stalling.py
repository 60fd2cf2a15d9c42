"""Tells Prefect when a training is alive and gets no further: an automation may pass it on."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import Self

import prefect.runtime
from prefect.events import emit_event
from prefect.logging import get_run_logger

from fewpass.pipeline.runs.pace import FLOOR_S, NEWEST, Silence, silence

STALLED = "fewpass.flow-run.stalled"
LOOKS_EVERY_S = 5.0


class StallWatch:
    """Watches the signs of progress in a `with` block, from a thread of its own.

    Parameters
    ----------
    tell
        Called once for every silence that is too long.
    floor_s, looks_every_s
        Seconds that any training may be silent; seconds between two looks.
    """

    def __init__(
        self,
        tell: Callable[[Silence], None],
        floor_s: float = FLOOR_S,
        looks_every_s: float = LOOKS_EVERY_S,
    ) -> None:
        self._tell, self._floor_s, self._looks_every_s = tell, floor_s, looks_every_s
        self._spans: list[float] = []
        self._last, self._told = time.monotonic(), False
        self._over = threading.Event()
        context = contextvars.copy_context()  # Prefect's run and client lie there
        self._thread = threading.Thread(target=context.run, args=(self._watch,), daemon=True)

    def __enter__(self) -> Self:
        self._last = time.monotonic()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def progressed(self) -> None:
        """Take a sign of progress."""
        now = time.monotonic()
        self._spans = [*self._spans[1 - NEWEST :], now - self._last]
        self._last, self._told = now, False

    def _watch(self) -> None:
        while not self._over.wait(self._looks_every_s):
            found = silence(self._spans, time.monotonic() - self._last, self._floor_s)
            if found is not None and found.is_stalled and not self._told:
                self._told = True
                self._tell(found)


def tell_prefect(found: Silence) -> None:
    """Log a silence, and send the event that the automation listens for."""
    sentence = found.sentence()
    get_run_logger().warning("Stalled: %s", sentence)
    run = prefect.runtime.flow_run
    resource = {
        "prefect.resource.id": f"prefect.flow-run.{run.id}",
        "prefect.resource.name": run.name,
    }
    emit_event(STALLED, resource, payload={"message": sentence})
