"""Settings of where tasks run."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, ValidatorFunctionWrapHandler, WrapValidator, model_validator

from fewpass.pipeline.durations import Seconds
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.model_config import Workers
from fewpass.solvers.described import Described

Plan = TypeVar("Plan", bound=BaseModel)

NONE: Final = "none"  # words in place of a scheduler's address: no Dask, ...
LOCAL: Final = "local"  # ... or one in this process


class SchedulerAddress(str):
    """The address of a Dask scheduler, with the TLS settings (`security`) it is reached by."""

    __slots__ = ("security",)
    security: Any  # a distributed.Security


def _address(given: Any, check: ValidatorFunctionWrapHandler) -> Any:
    """Return the scheduler's address of a Client or a cluster; any other value as it is checked."""
    if isinstance(given, SchedulerAddress):
        return given
    of_client = getattr(getattr(given, "scheduler", None), "address", None)
    address = getattr(given, "scheduler_address", of_client)
    if not isinstance(address, str):
        return check(given)
    one = SchedulerAddress(address)
    one.security = given.security
    return one


class Execution(Described):
    """Settings of where to run.  The result is the same everywhere, bit for bit."""

    scheduler: Annotated[str | None, WrapValidator(_address)] = None
    """Address of a Dask scheduler, or "local", or "none". TLS is as in Dask's own settings, and in
    Python it may be a Client or a cluster; "local" is one in this process, its dashboard on
    127.0.0.1; "none" is threads without Dask [default: none for short work, else local]."""
    workers: Workers | None = None
    """Worker processes to start [default: threads of this process]."""
    threads: Workers | None = None
    """Threads that run tasks, in each worker process that is started here if there are any; those
    of a scheduler have their own [default: the machine's cores, divided among the processes]."""
    wait_workers: Seconds = 300.0
    """How long to wait where there is no worker, on a scheduler or of those started here, such as
    30s or 5m; 0: not at all."""
    encrypt: bool = False
    """Encrypt the traffic to this run's worker processes (TLS, with keys made for this run)."""

    @model_validator(mode="after")
    def _of_own_processes(self) -> Execution:
        """Refuse what is of workers that are started here, where none are."""
        threads = self.is_elsewhere and self.threads
        own = {"workers": self.workers, "threads": threads, "encrypt": self.encrypt and "true"}
        given = [f"{name}={value}" for name, value in own.items() if value]
        tls = " A scheduler with TLS has an address that begins with tls://." * self.encrypt
        if given and self.scheduler not in (None, LOCAL):
            raise BadInput(
                f"`{given[0]}` is of workers that are started here, and none are with "
                f"`scheduler={self.scheduler}`. Leave one of them out.{tls}"
            )
        return self

    @property
    def engine(self) -> Literal["threads", "dask"]:
        """The engine that runs tasks: plain threads where no cluster is asked for."""
        plain = self.scheduler in (None, NONE) and self.workers is None
        return "threads" if plain else "dask"

    @property
    def is_elsewhere(self) -> bool:
        """True if tasks run on the workers of a scheduler that is there already."""
        return self.scheduler not in (None, NONE, LOCAL)

    def threads_for(self, plan: Plan) -> Plan:
        """Return a plan that takes these threads, unless it has a number of its own."""
        own = dict(plan)["threads"]
        return plan if own is not None else plan.model_copy(update={"threads": self.threads})
