"""Where tasks run: in this process, or on a Dask cluster.

Both take the same calls, and a task is a pure function of its arguments, so both give the same
bits.  Results may be passed on to further tasks without being fetched.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, PositiveInt


class Execution(BaseModel):
    """Where to run; changes no bit of any result."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    scheduler: str | None = None
    """Address of a Dask scheduler; None: a cluster in this process; "none": no Dask at all."""
    workers: PositiveInt | None = None
    """Worker processes; None: threads of this process."""
    threads: PositiveInt | None = None
    """Threads per worker; default: the machine's cores, shared out."""


class Executor(Protocol):
    """Runs tasks."""

    @property
    def dashboard(self) -> str | None:
        """Return the address of the cluster's dashboard, if there is one."""

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Start function(*args), args may be earlier submissions; return a handle on the result."""

    def result(self, handle: Any) -> Any:
        """Wait for a submission and fetch what it returned, or raise what it raised."""


@dataclass
class Done:
    """A result that is already here."""

    value: Any


class InProcess:
    """Runs every task at once, in the calling thread."""

    dashboard: str | None = None

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Done:  # noqa: ARG002
        """Run the task and keep its result."""
        return Done(function(*(a.value if isinstance(a, Done) else a for a in args)))

    def result(self, handle: Done) -> Any:
        """Return the result."""
        return handle.value


class OnDask:
    """Runs tasks on the cluster of a `distributed.Client`.

    A task that loses its worker runs again elsewhere: nothing is pinned to a worker.  One that
    raises is not tried again: it is a pure function, and would raise again.
    """

    def __init__(self, client: Any, dashboard: str | None) -> None:
        self._client = client
        self._numbers = itertools.count()
        self._token = uuid4().hex
        self.dashboard = dashboard

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Submit under a key that the dashboard shows as `name`."""
        key = f"{name}-{next(self._numbers):06d}-{self._token}"
        return self._client.submit(function, *args, key=key, pure=False)

    def result(self, handle: Any) -> Any:
        """Wait and fetch."""
        return handle.result()


@contextmanager
def open_executor(execution: Execution) -> Iterator[Executor]:
    """Connect to the cluster that `execution` names, or start one on 127.0.0.1 for the while."""
    if execution.scheduler == "none":
        yield InProcess()
        return
    import distributed  # noqa: PLC0415 - half a second that a run without Dask need not wait

    connect: Any = distributed.Client
    if execution.scheduler is not None:
        with connect(execution.scheduler, set_as_default=False) as client:
            yield OnDask(client, client.dashboard_link)
        return
    with (
        _local_cluster(execution) as cluster,
        connect(cluster, set_as_default=False) as client,
    ):
        port = cluster.scheduler.http_server.port
        yield OnDask(client, f"http://127.0.0.1:{port}/status")


def _local_cluster(execution: Execution) -> Any:
    import distributed  # noqa: PLC0415

    cores = os.cpu_count() or 1
    workers = execution.workers or 1
    in_threads = execution.workers is None
    start: Any = distributed.LocalCluster
    return start(
        n_workers=workers,
        threads_per_worker=execution.threads or max(1, cores // workers),
        processes=not in_threads,
        protocol=None if in_threads else "tcp",
        host=None if in_threads else "127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,  # the plan's own budget holds; Dask would spill what it cannot weigh
        silence_logs="ERROR",
    )
