"""Where tasks run: in this process, or on a Dask cluster.

Both take the same calls, and a task is a pure function of its arguments, so both give the same
bits.  Results may be passed on to further tasks without being fetched.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple, Protocol
from uuid import uuid4
from weakref import WeakValueDictionary

from pydantic import BaseModel, ConfigDict, PositiveInt
from threadpoolctl import threadpool_limits

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

    def share(self, value: Any) -> Any:
        """Return what to pass to many tasks in a value's place; keep it as long as they run."""

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it in every process that tasks run in."""

    def announce(self, run: str) -> None:
        """Tell the cluster's dashboard which run is trained on it."""


@dataclass(eq=False)
class Done:
    """A result that is already here."""

    value: Any


class Item(NamedTuple):
    """Item `k` of a tuple that a task on a thread of this process returns."""

    handle: Any
    k: int


def uninterrupted(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function where no signal reaches it: numba's results are lost on a Ctrl-C.

    Python handles signals in the main thread, and a kernel that is about to hand over a NamedTuple
    there dies of it.  So the main thread waits for another one, and for its end when interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        return function(*args)
    future: Future[Any] = Future()

    def work() -> None:
        try:
            future.set_result(function(*args))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            future.set_exception(error)

    try:
        threading.Thread(target=work, name="fewpass-span").start()
        return future.result()
    finally:
        wait([future])


class InProcess:
    """Runs every task at once, while the caller waits."""

    dashboard: str | None = None
    near = True

    def __init__(self) -> None:
        self.compiled: set[str] = set()

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Done:  # noqa: ARG002
        """Run the task and keep its result."""
        return Done(uninterrupted(function, *(a.value if isinstance(a, Done) else a for a in args)))

    submit_small = submit

    def item(self, name: str, handle: Done, k: int) -> Done:  # noqa: ARG002
        """Take the item."""
        return Done(handle.value[k])

    def result(self, handle: Done) -> Any:
        """Return the result."""
        return handle.value

    def share(self, value: Any) -> Any:
        """Return the value."""
        return value

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it here."""
        function()

    def announce(self, run: str) -> None:
        """Do nothing: there is no dashboard."""


class OnDask:
    """Runs tasks on the cluster of a `distributed.Client`.

    A task that loses its worker runs again elsewhere: nothing is pinned to a worker.  One that
    raises is not tried again: it is a pure function, and would raise again.

    Where the workers are threads of this process, small tasks are done by the caller: a task costs
    Dask milliseconds, and a pass over small data takes no more.
    """

    def __init__(self, client: Any, dashboard: str | None, *, near: bool = False) -> None:
        self._client = client
        self.near = near  # the workers are threads of this process
        self.compiled: set[str] = set()
        self._numbers = itertools.count()
        self._token = uuid4().hex
        self.dashboard = dashboard

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Submit under a key that the dashboard shows as `name`."""
        key = f"{name}-{next(self._numbers):06d}-{self._token}"
        items = tuple(a.k if isinstance(a, Item) else None for a in args)
        sent = [_as_argument(a) for a in args]
        return self._client.submit(_call, function, items, *sent, key=key, pure=False)

    def submit_small(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Do it here where the workers are near, else on one of them."""
        if not self.near:
            return self.submit(name, function, *args)
        values = [self.result(a) if _is_handle(a) else a for a in args]
        return Done(uninterrupted(function, *values))

    def item(self, name: str, handle: Any, k: int) -> Any:
        """Take the item where the tuple is."""
        if isinstance(handle, Done):
            return Done(handle.value[k])
        return Item(handle, k) if self.near else self.submit(name, itemgetter(k), handle)

    def result(self, handle: Any) -> Any:
        """Wait and fetch; ConnectionError when the cluster is gone."""
        from distributed.comm.core import CommClosedError  # noqa: PLC0415

        if isinstance(handle, Done):
            return handle.value
        if isinstance(handle, Item):
            return self.result(handle.handle)[handle.k]
        try:
            return handle.result()
        except (CancelledError, CommClosedError) as error:
            raise ConnectionError(
                "The Dask scheduler is gone, and with it all that was computed since the last "
                f"snapshot ({type(error).__name__}). Start it again, then the same command "
                "or fewpass resume: it goes on from that snapshot."
            ) from error

    def share(self, value: Any) -> Any:
        """Spare near tasks the pickling."""
        return Done(value) if self.near else value

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it on the workers that are there; a cluster that goes meanwhile is no error."""
        if self.near:
            function()
        elif self._client.status == "running":
            with suppress(OSError, TimeoutError):
                self._client.run(function, on_error="ignore")

    def announce(self, run: str) -> None:
        """Leave the run's address among the scheduler's events, for the page /fewpass."""
        self._client.log_event(TOPIC, {"run": run})


class Here:
    """A value of this process, sent to its threads as it is, however often Dask pickles it."""

    def __init__(self, done: Done) -> None:
        self.value, self._number = done.value, next(_numbers)
        _values[self._number] = done

    def __reduce__(self) -> tuple[Any, ...]:
        return _value_here, (self._number,)


_numbers = itertools.count()
_values: WeakValueDictionary[int, Done] = WeakValueDictionary()  # as long as anyone has a handle


def _value_here(number: int) -> Any:
    return _values[number].value


def _is_handle(argument: Any) -> bool:
    return isinstance(argument, Done | Item) or hasattr(argument, "add_done_callback")


def _as_argument(argument: Any) -> Any:
    """Return what Dask is given for an argument."""
    if isinstance(argument, Item):
        return argument.handle
    return Here(argument) if isinstance(argument, Done) else argument


def _call(function: Callable[..., Any], items: tuple[int | None, ...], *args: Any) -> Any:
    """Call a function of arguments, or of items of them."""
    plain = (a.value if isinstance(a, Here) else a for a in args)
    return function(*(a if k is None else a[k] for a, k in zip(plain, items, strict=True)))


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
        near = execution.workers is None
        yield OnDask(client, f"http://127.0.0.1:{port}/fewpass", near=near)


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
