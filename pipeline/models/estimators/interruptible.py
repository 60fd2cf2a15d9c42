"""Training that a Ctrl-C ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

from fewpass.pipeline.executors.blas import one_blas_thread
from fewpass.pipeline.runs.events import Event
from fewpass.solvers.kernels.compiling import Compiling

Result = TypeVar("Result")


logger = logging.getLogger(__name__)
PATIENCE_S = 2.0  # of compiling, before that is told


Tell = Callable[[Event], None]


def interruptible(
    whose: str,
    train: Callable[[Callable[[], bool], Tell], Result],
    show: Tell | None = None,
) -> Result:
    """Train in another thread, where no signal reaches a kernel; a Ctrl-C ends it and is raised.

    `train` gets what tells it to stop, and what to tell its events to; `show` hears of them in this
    thread.  `whose` names what kernels are compiled for, where that takes long.
    """
    stopping, future = threading.Event(), Future[Result]()
    events: SimpleQueue[Event | None] = SimpleQueue()
    tell: Tell = events.put if show else lambda _: None

    def say() -> None:
        logger.warning("Compiling kernels for %s: once per machine.", whose)

    def work() -> None:
        try:
            with one_blas_thread(), Compiling(say, PATIENCE_S):
                future.set_result(train(stopping.is_set, tell))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)
        finally:
            events.put(None)

    thread = threading.Thread(target=work, name="fewpass-fit")
    thread.start()
    try:
        while (event := events.get()) is not None:
            if show:
                show(event)
        return future.result()
    except KeyboardInterrupt:
        stopping.set()
        raise
    finally:
        thread.join()
