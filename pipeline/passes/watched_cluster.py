"""Waiting for a Dask cluster: its workers are looked after meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from fewpass.pipeline.passes.workers import Workers

PATIENCE_S = 4.0  # between two looks at the workers, while something is waited for


class WatchedCluster:
    """Waits for what a client answers.

    Parameters
    ----------
    client
        A `distributed.Client`.
    workers
        The workers, if they are to be waited for where there are none.

    Attributes
    ----------
    stopping : callable
        Returns whether not to wait for workers any more.
    """

    def __init__(self, client: Any, workers: Workers | None) -> None:
        self._client, self._workers = client, workers
        self.stopping: Callable[[], bool] = lambda: False

    def look(self) -> None:
        """Wait for workers, where there are none.

        Raises NoWorkers.
        """
        from distributed.comm.core import CommClosedError  # noqa: PLC0415

        if self._workers is not None:
            with suppress(CommClosedError):  # a task raises the error of a scheduler that ended
                self._workers.wait(self.stopping)

    def waited(self, answer: Coroutine[Any, Any, Any]) -> Any:
        """Return what a coroutine of the client returns.

        Raises ConnectionError if the cluster or all its workers are gone.
        """
        import asyncio  # noqa: PLC0415 - with sockets and encryption, for a cluster alone

        getting = asyncio.run_coroutine_threadsafe(answer, self._client.loop.asyncio_loop)
        try:
            while True:
                try:
                    return result_of(getting, PATIENCE_S)
                except TimeoutError:
                    if getting.done():
                        raise
                self.look()
        finally:
            getting.cancel()
            del getting  # an error's traceback has this frame

    def threads_by_worker(self) -> dict[str, int]:
        """Return the threads of every worker."""
        return dict(self.waited(self._client.scheduler.ncores()))


def result_of(future: Any, timeout_s: float | None = None) -> Any:
    """Return the result of a future; ConnectionError if the cluster is gone."""
    from distributed import KilledWorker  # noqa: PLC0415
    from distributed.comm.core import CommClosedError  # noqa: PLC0415

    try:
        return future.result(timeout_s)
    except KilledWorker as error:
        raise ConnectionError(
            f"{error.allowed_failures + 1} Dask workers died over the same task, the last at "
            f"{error.last_worker.address}. Look into their logs, give them more memory or the plan "
            "less (`memory`), and give the same command again: it goes on with what is stored."
        ) from error
    except (CancelledError, CommClosedError) as error:
        raise ConnectionError(
            "The Dask scheduler is gone, and with it what was not stored yet "
            f"({type(error).__name__}). Start it again, and give the same command again: it goes "
            "on with what is stored."
        ) from error
    finally:
        del future  # an error's traceback has this frame
