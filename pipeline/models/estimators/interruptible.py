"""Training that a Ctrl-C ends."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

from fewpass.pipeline.passes.blas import one_blas_thread
from fewpass.pipeline.runs.events import Event
from fewpass.solvers.kernels.compiling import Compiling

Result = TypeVar("Result")


logger = logging.getLogger(__name__)
PATIENCE_S = 2.0  # of compiling, before that is told


Tell = Callable[[Event], None]


Train = Callable[[Callable[[], bool], Tell], Result]


def interruptible(
    whose: str, train: Train[Result], show: Tell | None = None, *, brief: bool = False
) -> Result:
    """Train where no signal reaches a kernel; a Ctrl-C ends the training, and is raised.

    `train` gets what tells it to stop, and what to tell its events to; `show` hears of them in this
    thread.  `whose` names what kernels are compiled for, where that takes long.  What is `brief`
    and shows nothing is trained in this thread, whose caches have the rows.
    """
    if brief and show is None:
        with one_blas_thread(), Compiling(lambda: _say(whose), PATIENCE_S):
            return _deferring(train)
    stopping, future = threading.Event(), Future[Result]()
    events: SimpleQueue[Event | None] = SimpleQueue()
    tell: Tell = events.put if show else lambda _: None

    def work(future: Future[Result]) -> None:
        try:
            with one_blas_thread(), Compiling(lambda: _say(whose), PATIENCE_S):
                future.set_result(train(stopping.is_set, tell))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)
        finally:
            del future
            events.put(None)

    thread = threading.Thread(target=work, args=(future,), name="fewpass-fit")
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
        del future  # an error's traceback has these frames, and they had the error


def _say(whose: str) -> None:
    logger.warning("Compiling kernels for %s: once per machine.", whose)


def _deferring(train: Train[Result]) -> Result:
    """Train in this thread; a Ctrl-C stops it, and is handled when it has stopped."""
    here, handle = threading.current_thread(), signal.getsignal(signal.SIGINT)
    if here is not threading.main_thread() or handle is None:  # no signal comes, or not to Python
        return train(lambda: False, lambda _: None)
    stopping: list[Any] = []
    signal.signal(signal.SIGINT, lambda _, frame: stopping.append(frame))
    try:
        return train(lambda: bool(stopping), lambda _: None)
    finally:
        signal.signal(signal.SIGINT, handle)
        if stopping:
            signal.raise_signal(signal.SIGINT)
