"""Where tasks run: in this process, on threads of it that Dask keeps busy, or on a Dask cluster.

All take the same calls, and a task is a pure function of its arguments, so all give the same
bits.  Results may be passed on to further tasks without being fetched.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, PositiveInt
from threadpoolctl import threadpool_limits

from pipeline.streaming.in_process import InProcess
from pipeline.streaming.on_dask import OnDask
from pipeline.streaming.on_threads import OnThreads


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
    """Runs tasks.

    Attributes
    ----------
    compiled : set of str
        Names of tasks that ran before: the first of a name runs alone, so that one worker compiles
        and the others find what it left.
    """

    compiled: set[str]

    @property
    def dashboard(self) -> str | None:
        """Return the address of the cluster's dashboard, if there is one."""

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Start function(*args), args may be earlier submissions; return a handle on the result."""

    def submit_small(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Do the same for what may take less time than a cluster does to hear of it."""

    def item(self, name: str, handle: Any, k: int) -> Any:
        """Return a handle on item `k` of the tuple that a submission returns."""

    def result(self, handle: Any) -> Any:
        """Wait for a submission and fetch what it returned, or raise what it raised."""

    @property
    def near(self) -> bool:
        """Whether all tasks run in this process."""

    @property
    def alone(self) -> bool:
        """Whether one task runs at a time, with nothing beside it."""

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it in every process that tasks run in."""

    def announce(self, run: str) -> None:
        """Tell the cluster's dashboard which run is trained on it."""


@contextmanager
def open_executor(execution: Execution) -> Iterator[Executor]:
    """Connect to the cluster that `execution` names, or start one on 127.0.0.1 for the while.

    BLAS gets one thread meanwhile, as it has in worker processes of Dask: several add up in another
    order, and spin for milliseconds after each sum over the weights, in the way of those that step.
    """
    with threadpool_limits(1, user_api="blas"), _opened(execution) as executor:
        yield executor


@contextmanager
def _opened(execution: Execution) -> Iterator[Executor]:
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
        dashboard = f"http://127.0.0.1:{port}/fewpass"
        if execution.workers is not None:
            yield OnDask(client, dashboard)
            return
        with closing(OnThreads(client, dashboard)) as threads:
            yield threads


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
