"""Whether somebody cancels this flow run, where no worker says so."""

from __future__ import annotations

import contextvars
import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Self

import prefect.runtime
from prefect import get_client
from prefect.client.schemas.objects import StateType

from fewpass.flows.interrupts import is_stopping

LOOKS_EVERY_S = 5.0
PATIENCE_S = 10.0  # with a server that does not answer, while a snapshot is taken already


def is_cancelling() -> bool:
    """Ask the server whether this flow run is being cancelled."""
    with get_client(sync_client=True) as client:
        state = client.read_flow_run(prefect.runtime.flow_run.id).state
    return state is not None and state.type == StateType.CANCELLING


def was_cancelled(ask: Callable[[], bool] = is_cancelling, patience_s: float = PATIENCE_S) -> bool:
    """Say whether a signal came because somebody cancels the run.

    A server that does not answer is asked again, for so many seconds; False if it never does.
    Prefect's own way to know needs its own handler in place, and ours takes a snapshot first.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return ask()
        except Exception:  # noqa: BLE001 - a server that is restarted is back in seconds
            if time.monotonic() > deadline:
                return False
            time.sleep(min(1.0, patience_s))


def end_this_process() -> None:
    """Do what a worker does to a run that is cancelled, unless one did."""
    if is_stopping():
        return
    os.kill(os.getpid(), signal.SIGTERM)


class CancelWatch:
    """Looks, during a `with` block, whether the flow run is being cancelled.

    A worker passes that on as a signal, at once.  Nobody would where no worker is (`prefect run`),
    or where it stopped watching when the server was dead for a while.  So what is still being
    cancelled at a second look gets the signal from here.

    Parameters
    ----------
    ask, act
        Whether it is being cancelled; what to do then.
    every_s
        Seconds from one look to the next.
    """

    def __init__(
        self,
        ask: Callable[[], bool] = is_cancelling,
        act: Callable[[], None] = end_this_process,
        every_s: float = LOOKS_EVERY_S,
    ) -> None:
        self._ask, self._act, self._every_s = ask, act, every_s
        self._over = threading.Event()
        context = contextvars.copy_context()  # Prefect's run lies there
        self._thread = threading.Thread(target=context.run, args=(self._watch,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        seen = False
        while not self._over.wait(self._every_s):
            try:
                now = self._ask()
            except Exception:  # noqa: BLE001, S112 - a server that is dead is asked again
                continue
            if now and seen:
                self._act()
                return
            seen = now
