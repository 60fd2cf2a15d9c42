"""Watches over a flow run, each in a thread of its own: for a cancellation, for a silence."""

from __future__ import annotations

import contextvars
import os
import signal
import threading
import time
from collections.abc import Callable
from math import inf
from typing import Any, Self

import prefect.runtime
from prefect import get_client
from prefect.client.schemas.objects import State, StateType
from prefect.events import emit_event
from prefect.logging import get_run_logger

from fewpass.flows.interrupts import is_stopping
from fewpass.pipeline.runs.timeline_points import FLOOR_S, NEWEST, Silence, silence

LOOKS_EVERY_S = 2.0
PATIENCE_S = 10.0  # with a server that does not answer, while a snapshot is taken already
STALLED = "fewpass.flow-run.stalled"


class Watch:
    """Looks again and again during a `with` block, in Prefect's context of whoever began it.

    Parameters
    ----------
    look
        Called at every look; True where no more are needed.
    every_s
        Seconds from one look to the next.
    """

    def __init__(self, look: Callable[[], bool], every_s: float) -> None:
        self._look, self._every_s = look, every_s
        self._over = threading.Event()
        context = contextvars.copy_context()  # Prefect's run and client lie there
        self._thread = threading.Thread(target=context.run, args=(self._watch,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(self._every_s) and not self._look():
            pass


# -- cancelled ------------------------------------------------------------------------------------


def cancelling() -> State[Any] | None:
    """Ask the server for the state of this flow run, if that is being cancelled."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(prefect.runtime.flow_run.id).state
    return state if state is not None and state.type == StateType.CANCELLING else None


def was_cancelled(
    ask: Callable[[], State[Any] | None] = cancelling, patience_s: float = PATIENCE_S
) -> State[Any] | None:
    """Return the state in which a signal came because somebody cancels the run.

    A server that does not answer is asked again, for that many seconds; None if it never does.
    Prefect's own way to know needs its own handler in place, and ours takes a snapshot first.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except Exception:  # noqa: BLE001 - a server that is restarted is back in seconds
            if time.monotonic() > deadline:
                return None
            time.sleep(min(1.0, patience_s))


def end_this_process() -> None:
    """Do what a worker does to a run that is cancelled, unless one did."""
    if not is_stopping():
        os.kill(os.getpid(), signal.SIGTERM)


class CancelWatch(Watch):
    """Ends this process when the flow run is being cancelled.

    A worker passes that on as a signal.  Nobody would where no worker is (`prefect run`): such a
    run gets the signal from here at once.  Nor would a worker that stopped watching when the server
    was dead for a while: a run that is still being cancelled at a second look gets it, too.

    Parameters
    ----------
    ask, act
        Whether it is being cancelled; what to do then.
    has_worker
        Whether a worker started it.
    """

    def __init__(
        self,
        ask: Callable[[], object] = cancelling,
        act: Callable[[], None] = end_this_process,
        every_s: float = LOOKS_EVERY_S,
        *,
        has_worker: bool = True,
    ) -> None:
        super().__init__(self._at_a_look, every_s)
        self._ask, self._act, self._seen = ask, act, not has_worker

    def _at_a_look(self) -> bool:
        try:
            now = self._ask()
        except Exception:  # noqa: BLE001 - a server that is dead is asked again
            return False
        if now and self._seen:
            self._act()
            return True
        self._seen = bool(now)
        return False


# -- stalled --------------------------------------------------------------------------------------


class StallWatch(Watch):
    """Tells of a training that is alive and makes no progress.

    Parameters
    ----------
    tell
        Called once for every silence that is too long.
    floor_s
        Seconds that any training may be silent.
    clock
        Returns seconds.
    """

    def __init__(
        self,
        tell: Callable[[Silence], None],
        floor_s: float = FLOOR_S,
        every_s: float = LOOKS_EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(self._at_a_look, every_s)
        self._tell, self._floor_s, self._clock = tell, floor_s, clock
        self._spans: list[float] = []
        self._last = clock()
        self._told = -inf  # the sign of progress whose silence was told of

    def __enter__(self) -> Self:
        self._last = self._clock()
        return super().__enter__()

    def progressed(self) -> None:
        """Take a sign of progress."""
        now = self._clock()
        self._spans = [*self._spans[1 - NEWEST :], now - self._last]
        self._last = now

    def _at_a_look(self) -> bool:
        last = self._last  # which may change meanwhile
        quiet = silence(self._spans, self._clock() - last, self._floor_s)
        if quiet is not None and quiet.is_stalled and last > self._told:
            self._told = last
            self._tell(quiet)
        return False


def tell_prefect(quiet: Silence) -> None:
    """Log a silence, and send the event that the automation listens for."""
    sentence = quiet.sentence()
    get_run_logger().warning("Stalled: %s", sentence)
    run = prefect.runtime.flow_run
    resource = {
        "prefect.resource.id": f"prefect.flow-run.{run.id}",
        "prefect.resource.name": run.name,
    }
    emit_event(STALLED, resource, payload={"message": sentence})
