"""Tasks on a Dask cluster, in other processes or on other machines."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from operator import itemgetter
from typing import Any
from uuid import uuid4

TOPIC = "fewpass-runs"  # of a scheduler's events: which runs were trained on it


class OnDask:
    """Runs tasks on the cluster of a `distributed.Client`.

    A task that loses its worker runs again elsewhere: nothing is pinned to a worker.  One that
    raises is not tried again: it is a pure function, and would raise again.
    """

    near = alone = False

    def __init__(self, client: Any, dashboard: str | None) -> None:
        self._client = client
        self.compiled: set[str] = set()
        self._numbers = itertools.count()
        self._token = uuid4().hex
        self.dashboard = dashboard

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Submit under a key that the dashboard shows as `name`."""
        key = f"{name}-{next(self._numbers):06d}-{self._token}"
        return self._client.submit(function, *args, key=key, pure=False)

    submit_small = submit

    def item(self, name: str, handle: Any, k: int) -> Any:
        """Take the item where the tuple is."""
        return self.submit(name, itemgetter(k), handle)

    def result(self, handle: Any) -> Any:
        """Wait and fetch; ConnectionError when the cluster is gone."""
        from distributed.comm.core import CommClosedError  # noqa: PLC0415

        try:
            return handle.result()
        except (CancelledError, CommClosedError) as error:
            raise ConnectionError(
                "The Dask scheduler is gone, and with it all that was computed since the last "
                f"snapshot ({type(error).__name__}). Start it again, then the same command "
                "or fewpass resume: it goes on from that snapshot."
            ) from error

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it on the workers that are there; a cluster that goes meanwhile is no error."""
        if self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.run(function, on_error="ignore")

    def announce(self, run: str) -> None:
        """Leave the run's address among the scheduler's events, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})
