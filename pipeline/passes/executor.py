"""Execution of tasks: on threads of this process without Dask, or on a Dask cluster.

The cluster may consist of threads of this process, too.  All executors have the same interface, and
a task is a pure function of its arguments, so all give the same bits.  Results can be passed to
further tasks without being fetched.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from importlib import import_module
from typing import Any, Protocol

from threadpoolctl import threadpool_limits

from fewpass.pipeline.errors import BadInput, NoWorkers
from fewpass.pipeline.passes import cluster_logs
from fewpass.pipeline.passes.on_dask import (
    HAS_PAGE,
    PAGE,
    SAME_VERSIONS,
    OnDask,
    OnDaskThreads,
)
from fewpass.pipeline.passes.semaphores import require_semaphores
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.passes.together import Together
from fewpass.pipeline.passes.worker_deaths import Deaths
from fewpass.pipeline.passes.workers import (
    of_scheduler,
    of_this_machine,
    require_answer,
    seconds_to_start,
    starting,
)
from fewpass.pipeline.settings.execution import Execution

_ADDRESS = re.compile(r"\w+://\S+|[^\s/:]+:\d+")
LOST = "distributed.deploy.lost-worker-timeout"
SILENT, SILENT_S = "distributed.scheduler.worker-ttl", 30  # then Dask starts a worker again


class Executor(Protocol):
    """Runs tasks.

    Attributes
    ----------
    compiled : set of str
        Names of tasks that ran before: the first task of a name runs alone, so that one worker
        compiles its kernels and the others load them.
    engine : str
        "threads", or "dask".
    why : str
        Why tasks run there, for the log; may be empty.
    """

    compiled: set[str]
    engine: str
    why: str

    @property
    def dashboard(self) -> str | None:
        """Address of the cluster's dashboard, if there is one."""

    @property
    def together(self) -> Together | None:
        """Submits graphs of tasks; None in this process, where tasks are submitted one by one."""

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Start function(*args) and return a handle; arguments may be handles of earlier tasks."""

    def submit_small(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """Submit a task that may be shorter than the overhead of a cluster."""

    def item(self, name: str, handle: Any, k: int) -> Any:
        """Return a handle on item `k` of a tuple that a submission returns."""

    def result(self, handle: Any) -> Any:
        """Wait for a submission; return its result or raise its exception."""

    @property
    def near(self) -> bool:
        """Return whether all tasks run in this process."""

    @property
    def threads(self) -> int:
        """Threads that a task may take where no other task runs."""

    @property
    def alone(self) -> bool:
        """Return whether one task runs at a time, with nothing in parallel."""

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call a function in every process that runs tasks, while no task is running."""

    def show_run(self, run: str) -> None:
        """Show a run on the cluster's dashboard."""

    def heed(self, stopping: Callable[[], bool]) -> None:
        """Do not wait for workers once `stopping()` is true."""

    def check_workers(self, memory: int, url: str, sees: Callable[[], bool]) -> None:
        """Warn of worker processes with a memory limit below `memory` bytes.

        Raises OSError where one does not see what is at `url`, as `sees()` says there.
        """


#: Opens a cluster for a `with` block; None: threads of this process do all.
Cluster = Callable[[], AbstractContextManager[Executor | None]]


@contextmanager
def open_cluster(execution: Execution) -> Iterator[Executor | None]:
    """Open the cluster that `execution` names, if it names one."""
    if execution.engine == "threads":
        yield None
        return
    with open_executor(execution) as executor:
        yield executor


@contextmanager
def open_executor(execution: Execution, why: str = "") -> Iterator[Executor]:
    """Connect to the cluster that `execution` names, or start an executor for a `with` block.

    By default it runs on threads of this process; `pipeline/planning/engines.py` decides before
    where a data set is read.  `why` is the reason, for the log.

    BLAS is limited to one thread meanwhile, as in Dask's worker processes: see blas.py.

    Raises
    ------
    BadInput
        The scheduler's address is none.
    ConnectionError
        No scheduler answers there.
    NoWorkers
        It has no workers in time.
    """
    with threadpool_limits(1, user_api="blas"), _opened(execution, why) as executor:
        yield executor


def _opened(execution: Execution, why: str) -> AbstractContextManager[Executor]:
    if execution.engine == "threads":
        return closing(InProcess(threads_of(execution), why))
    if execution.scheduler is not None and execution.is_elsewhere:
        return _on_scheduler(execution.scheduler, execution, why)
    return _on_own_cluster(execution, why)


@contextmanager
def _on_scheduler(address: str, execution: Execution, why: str) -> Iterator[Executor]:
    """Connect to a scheduler that is there already."""
    if not _ADDRESS.fullmatch(address):
        raise BadInput(
            f'`scheduler` is "{address}", which is no address. Give one like '
            'tcp://10.0.0.5:8786, "local" for one in this process, or "none" to do without Dask.'
        )
    cluster_logs.set_level()
    import distributed  # noqa: PLC0415 - half a second that a run without Dask need not wait

    require_transport(address)
    security = getattr(address, "security", None)
    connect: Any = distributed.Client
    with ExitStack() as stack:
        try:
            require_answer(address, security)
            client = stack.enter_context(
                connect(str(address), security=security, set_as_default=False)
            )
            workers = of_scheduler(client, execution)
            workers.wait()
        except NoWorkers:
            raise
        except OSError as error:
            raise _unanswered(address, error) from error
        if others := workers.others():
            raise BadInput(f"{' '.join(others)} {SAME_VERSIONS}")
        yield OnDask(client, page_of(client), why, workers)


def _unanswered(scheduler: str, error: OSError) -> ConnectionError:
    advice = "Start one there, or leave `scheduler` out to work in this process."
    if scheduler.startswith("tcp://") and "reset by peer" in str(error):
        advice = "If it talks over TLS, its address begins with tls://."
    return ConnectionError(f"No Dask scheduler answers at {scheduler} ({error}). {advice}")


@contextmanager
def _on_own_cluster(execution: Execution, why: str) -> Iterator[Executor]:
    """Start a scheduler, and workers of this machine: processes, or threads of this one."""
    cluster_logs.set_level()
    import dask.config  # noqa: PLC0415 - likewise
    import distributed  # noqa: PLC0415 - likewise

    connect: Any = distributed.Client
    security = distributed.Security.temporary() if execution.encrypt else None
    # A process that dies is started again, and given up for ever if that takes Dask's 15 seconds.
    # Threads say nothing while all of this process stands still, and nobody starts them again.
    silent = f"{SILENT_S}s" if execution.workers else None
    patience = {LOST: f"{seconds_to_start(execution)}s", SILENT: silent}
    with (
        dask.config.set(patience),
        Deaths() as deaths,
        _local_cluster(execution, security, deaths) as cluster,
        connect(cluster, set_as_default=False, security=security) as client,
    ):
        port = cluster.scheduler.http_server.port
        dashboard = f"http://127.0.0.1:{port}{PAGE}"
        if execution.workers is not None:
            workers = of_this_machine(client, execution, deaths)
            yield OnDask(client, dashboard, why, workers)
            return
        with closing(OnDaskThreads(client, dashboard, why)) as threads:
            yield threads


def page_of(client: Any) -> str | None:
    """Return the address of a scheduler's page about trainings, or of its dashboard without one."""
    link: str | None = client.dashboard_link
    try:
        has_page = link and client.run_on_scheduler(shows_trainings)
    except Exception:  # noqa: BLE001 - a scheduler without fewpass, or one that runs nothing
        return link
    return f"{link.rpartition('/')[0]}{PAGE}" if link and has_page else link


def shows_trainings(dask_scheduler: Any) -> bool:
    """Return whether a scheduler has the page about trainings (dashboard/routes.py)."""
    return hasattr(dask_scheduler, HAS_PAGE)


def threads_of(execution: Execution) -> int:
    """Return the number of threads for tasks; for a remote cluster that of this machine."""
    workers = execution.workers or 1
    return workers * _threads_per_worker(execution)


def _threads_per_worker(execution: Execution) -> int:
    return execution.threads or max(1, (os.cpu_count() or 1) // (execution.workers or 1))


def _local_cluster(execution: Execution, security: Any, deaths: Deaths) -> Any:
    """Start a cluster that is reachable from this machine only, workers' pages included."""
    import distributed  # noqa: PLC0415

    in_threads = execution.workers is None
    if not in_threads:
        require_semaphores("leave `workers` out, and threads do the work")
    start: Any = distributed.LocalCluster
    asked: dict[str, Any] = {
        "n_workers": execution.workers or 1,
        "threads_per_worker": _threads_per_worker(execution),
        "processes": not in_threads,
        "protocol": None if in_threads else "tls" if execution.encrypt else "tcp",
        "security": security,
        "host": None if in_threads else "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
        # Threads have no address of their own: their worker's pages would be open on all
        # interfaces.
        "worker_dashboard_address": "127.0.0.1:0" if in_threads else None,
        "memory_limit": 0,  # the plan has its own budget; Dask would spill objects of unknown size
        "silence_logs": "ERROR",
        "scheduler_kwargs": {"preload": ["fewpass.pipeline.dashboard.routes"]},
    }
    if in_threads:
        return start(**asked)
    asked["preload"] = ["fewpass.pipeline.passes.worker_signals"]
    with starting(execution, deaths):
        return start(**asked, death_timeout=seconds_to_start(execution))


#: Packages that know how to reach a scheduler, by the scheme of its address.
PACKAGES = {"gateway": "dask-gateway"}


def require_transport(scheduler: str) -> None:
    """Let Dask learn the scheme of an address; BadInput where its package is not installed."""
    package = PACKAGES.get(scheduler.partition("://")[0])
    if package is None:
        return
    try:
        import_module(package.replace("-", "_"))
    except ImportError as error:
        raise BadInput(
            f"The Dask scheduler at {scheduler} is reached through {package}, which is not "
            f"installed. Install it with pip install {package}."
        ) from error
