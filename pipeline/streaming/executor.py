"""Where tasks run: in this process, or on a Dask cluster.

Both take the same calls, and a task is a pure function of its arguments, so both give the same
bits.  Results may be passed on to further tasks without being fetched.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, PositiveInt

TOPIC = "fewpass-runs"  # of a scheduler's events: which runs were trained on it


class Execution(BaseModel):
    """Where to run; changes no bit of any result."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    scheduler: str | None = None
    """Address of a Dask scheduler; None: a cluster in this process; "none": no Dask at all."""
    workers: PositiveInt | None = None
    """Worker processes; None: threads of this process."""
    threads: PositiveInt | None = None
    """Threads per worker; default: the machine's cores, shared out."""
    tls_ca: str | None = None
    """File of the authority that a cluster's certificates are checked by; turns TLS on."""
    tls_cert: str | None = None
    """File of this client's certificate."""
    tls_key: str | None = None
    """File of this client's key."""
    encrypt: bool = False
    """Talk to the worker processes started here over TLS, with keys made for the while."""


class Executor(Protocol):
    """Runs tasks."""

    @property
    def dashboard(self) -> str | None:
        """Return the address of the cluster's dashboard, if there is one."""

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Start function(*args), args may be earlier submissions; return a handle on the result."""

    def result(self, handle: Any) -> Any:
        """Wait for a submission and fetch what it returned, or raise what it raised."""

    def announce(self, run: str) -> None:
        """Tell the cluster's dashboard which run is trained on it."""


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

    def announce(self, run: str) -> None:
        """Do nothing: there is no dashboard."""


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

    def announce(self, run: str) -> None:
        """Leave the run's address among the scheduler's events, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})


@contextmanager
def open_executor(execution: Execution) -> Iterator[Executor]:
    """Connect to the cluster that `execution` names, or start one on 127.0.0.1 for the while."""
    if execution.scheduler == "none":
        yield InProcess()
        return
    import distributed  # noqa: PLC0415 - half a second that a run without Dask need not wait

    from pipeline.dashboard.routes import add_page  # noqa: PLC0415

    connect: Any = distributed.Client
    if execution.scheduler is not None:
        security = _security(execution)
        with connect(execution.scheduler, set_as_default=False, security=security) as client:
            yield OnDask(client, client.dashboard_link)
        return
    security = distributed.Security.temporary() if execution.encrypt else None  # type: ignore[no-untyped-call]
    with (
        _local_cluster(execution, security) as cluster,
        connect(cluster, set_as_default=False, security=security) as client,
    ):
        add_page(cluster.scheduler)
        port = cluster.scheduler.http_server.port
        yield OnDask(client, f"http://127.0.0.1:{port}/fewpass")


def _security(execution: Execution) -> Any:
    """Return how to talk to a given cluster: in the clear, or over TLS with the files named."""
    import distributed  # noqa: PLC0415

    if execution.tls_ca is None:
        return None
    make: Any = distributed.Security
    return make(
        tls_ca_file=execution.tls_ca,
        tls_client_cert=execution.tls_cert,
        tls_client_key=execution.tls_key,
        require_encryption=True,
    )


def _local_cluster(execution: Execution, security: Any) -> Any:
    import distributed  # noqa: PLC0415

    cores = os.cpu_count() or 1
    workers = execution.workers or 1
    in_threads = execution.workers is None
    start: Any = distributed.LocalCluster
    return start(
        n_workers=workers,
        threads_per_worker=execution.threads or max(1, cores // workers),
        processes=not in_threads,
        protocol=None if in_threads else "tls" if execution.encrypt else "tcp",
        security=security,
        host=None if in_threads else "127.0.0.1",
        dashboard_address="127.0.0.1:0",
        memory_limit=0,  # the plan's own budget holds; Dask would spill what it cannot weigh
        silence_logs="ERROR",
    )
