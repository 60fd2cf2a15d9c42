"""Training that a Ctrl-C ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from pipeline.execution.blas import one_blas_thread
from solvers.kernels.compiling import Compiling

Result = TypeVar("Result")


logger = logging.getLogger(__name__)
PATIENCE_S = 2.0  # of compiling, before that is told


def interruptible(whose: str, train: Callable[[Callable[[], bool]], Result]) -> Result:
    """Train in another thread, where no signal reaches a kernel; a Ctrl-C ends it and is raised.

    `train` gets what tells it to stop.  `whose` names what kernels are compiled for, where that
    takes long.
    """
    stopping, future = threading.Event(), Future[Result]()

    def say() -> None:
        logger.warning("Compiling kernels for %s: this is done once on a machine.", whose)

    def work() -> None:
        try:
            with one_blas_thread(), Compiling(say, PATIENCE_S):
                future.set_result(train(stopping.is_set))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    thread = threading.Thread(target=work, name="fewpass-fit")
    thread.start()
    try:
        return future.result()
    except KeyboardInterrupt:
        stopping.set()
        raise
    finally:
        thread.join()
