"""Presence of a cluster's workers: waiting for them, and errors if they are gone."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

from fewpass.pipeline.errors import BadInput, NoWorkers
from fewpass.pipeline.passes.versions import (
    version_differences,
    versions_here,
)
from fewpass.pipeline.passes.worker_deaths import Deaths, first_cause
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.sizes import counted, format_bytes

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0  # between two checks
ANSWER_SECONDS = 10.0  # for a scheduler to report its workers
HEARD_SECONDS = 5.0  # before the newest sign of life of another: longer ago, and no answer comes
START_SECONDS = 60.0  # minimum for worker processes to start, including imports
LIBRARIES_BYTES = 150_000_000  # of a training worker, beyond the plan's memory: 137 to 147 MB
PAUSED_AT = 0.8  # of a worker's limit: Dask pauses it from there on
PAUSED = (
    "Dask pauses those that take more than four fifths of their `--memory-limit`. Start them with "
    "more (0: no limit), or give the plan less `memory`."
)
SILENT = "Look at its process, its machine and the network; start it again if it stands still."
TLS_SETTINGS = (
    "Name the authority, this client's certificate and its key as Dask's settings: the environment "
    "variables DASK_DISTRIBUTED__COMM__TLS__CA_FILE, DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT and "
    "DASK_DISTRIBUTED__COMM__TLS__CLIENT__KEY, or its file of settings."
)


def require_answer(scheduler: str, security: Any = None) -> None:
    """Raise OSError if the scheduler does not answer: Dask would wait forever."""
    import asyncio  # noqa: PLC0415

    import dask.config  # noqa: PLC0415
    from dask.utils import parse_timedelta  # noqa: PLC0415
    from distributed.comm.core import connect  # noqa: PLC0415

    given = _connection_args(scheduler, security)
    most_s = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))

    async def ask() -> None:
        async with asyncio.timeout(most_s + 1.0):
            comm = await connect(scheduler, timeout=most_s, **given)
        await comm.close()

    loop = asyncio.new_event_loop()  # a notebook has its own in this thread
    Thread(target=loop.run_forever, daemon=True).start()
    asking = asyncio.run_coroutine_threadsafe(ask(), loop)
    try:
        asking.result()
    except TimeoutError as error:
        raise ConnectionError("it takes connections and says nothing") from error
    finally:
        asking.cancel()
        loop.call_soon_threadsafe(loop.stop)


def _connection_args(scheduler: str, security: Any) -> dict[str, Any]:
    """Return the settings of connections, Dask's own by default; BadInput where TLS lacks files."""
    import distributed  # noqa: PLC0415

    try:
        own = security or distributed.Security()
        given: dict[str, Any] = own.get_connection_args("client")
    except OSError as error:  # an SSLError is one
        raise BadInput(
            f"The files of TLS in Dask's configuration cannot be used ({error}). {TLS_SETTINGS}"
        ) from error
    if scheduler.startswith("tls://") and given["ssl_context"] is None:
        raise BadInput(f"The scheduler at {scheduler} talks over TLS. {TLS_SETTINGS}")
    return given


class Workers:
    """The workers of a scheduler: checks that there are some, with the same versions.

    Parameters
    ----------
    client
        A `distributed.Client`.
    whose
        Name of the scheduler in messages: "The Dask scheduler at tcp://...".
    none
        What is missing, following `whose`.
    advice
        Advice in that case.
    most_s
        Seconds to wait for the first.
    why
        Returns the reason why they are gone; "" if unknown.
    """

    def __init__(
        self, client: Any, whose: str, none: str, advice: str, most_s: float,
        why: Callable[[], str] = lambda: "",
    ) -> None:  # fmt: skip
        self._client, self._whose, self._none, self._advice = client, whose, none, advice
        self._most_s, self._why = most_s, why
        self._known: set[str] = set()

    def wait(self, stopping: Callable[[], bool] = lambda: False) -> None:
        """Wait for the first worker; warn of the wait.

        Parameters
        ----------
        stopping
            Returns whether to stop waiting.

        Raises
        ------
        NoWorkers
            There is none after `most_s` seconds, or the scheduler does not answer.
        """
        end, warned = time.monotonic() + self._most_s, False
        while (lack := self._lack()) is not None:
            what, advice = lack
            if stopping() or time.monotonic() >= end:
                raise NoWorkers(f"{what}. {advice}")
            if not warned:
                _log.warning("%s; waiting for %.0f s. %s", what, self._most_s, advice)
            warned = True
            time.sleep(min(LOOK_SECONDS, max(0.0, end - time.monotonic())))

    def _lack(self) -> tuple[str, str] | None:
        """Return what is missing, and advice; None if there are workers that take tasks."""
        try:
            if threads_by_worker(self._client, running=True):
                return None
            paused = len(threads_by_worker(self._client))
        except TimeoutError:
            return f"{self._whose} does not answer", SILENT
        if paused:
            return f"{self._whose} has paused {counted(paused, 'worker')}, and has no other", PAUSED
        why = self._why()
        return f"{self._whose} {self._none}" + (f" ({why})" if why else ""), self._advice

    def others(self) -> list[str]:
        """Return sentences on workers, new since the last call, whose versions change bits.

        Other differences are logged.
        """
        sentences = []
        for at, answer in sorted(self._answers().items()):
            if isinstance(answer, Exception):  # it cannot import fewpass
                sentences.append(f"The Dask worker at {at} has no fewpass ({first_cause(answer)}).")
                continue
            different = list(version_differences(answer, versions_here()))
            if weighty := [words for weighs, words in different if weighs]:
                sentences.append(f"The Dask worker at {at} differs: {'; '.join(weighty)}.")
            elif different:
                words = "; ".join(words for _, words in different)
                _log.warning("The Dask worker at %s differs, which changes no bit: %s.", at, words)
        return sentences

    def _answers(self) -> dict[str, Any]:
        """Return the versions of new workers; one that says nothing is asked the next time."""
        heard = last_seen(self._client)
        since = max(heard.values(), default=0.0) - HEARD_SECONDS
        new = [at for at, when in heard.items() if when > since and at not in self._known]
        answers: dict[str, Any] = self._client.run(
            versions_here, workers=new, on_error="return", callback_timeout=ANSWER_SECONDS
        ) if new else {}  # fmt: skip
        answered = {at: one for at, one in answers.items() if not isinstance(one, OSError)}
        self._known.update(answered)
        return answered

    def require_sight(self, url: str, sees: Callable[[], bool]) -> None:
        """Raise OSError where a worker does not see what is at `url`; others may come later."""
        try:
            seen: dict[str, bool] = self._client.run(
                sees, on_error="ignore", callback_timeout=ANSWER_SECONDS
            )
        except (OSError, TimeoutError):  # a task will tell
            return
        if blind := sorted(at for at, it_does in seen.items() if not it_does):
            raise OSError(
                f"The Dask worker at {blind[0]} does not see {url}, and workers read and write a "
                "run themselves. Name a folder that all of them share, or one of an object store."
            )

    def warn_of_limits(self, memory: int) -> None:
        """Warn of workers that Dask would pause before they use the plan's memory."""
        info = self._client.sync(
            self._client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_SECONDS
        )
        needed = (memory + LIBRARIES_BYTES) / PAUSED_AT
        for at, worker in sorted(info["workers"].items()):
            limit = worker.get("memory_limit")
            if limit and limit < needed:
                _log.warning(
                    "The Dask worker at %s may take %s, and Dask pauses it before that; the plan's "
                    "memory is %s beyond the libraries. Start it with `--memory-limit %s` or more "
                    "(0: no limit), or set `memory` to %s at most.",
                    at, format_bytes(limit), format_bytes(memory), _as_option(needed),
                    _as_option(max(0.0, limit * PAUSED_AT - LIBRARIES_BYTES)),
                )  # fmt: skip


def _as_option(size: float) -> str:
    return f"{math.ceil(size / 1e6)}MB"


def last_seen(client: Any) -> dict[str, float]:
    """Return when each worker was last heard of, by the scheduler's clock.

    TimeoutError without an answer.
    """
    identity = client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER_SECONDS)
    return {at: worker["last_seen"] for at, worker in identity["workers"].items()}


def threads_by_worker(client: Any, *, running: bool = False) -> dict[str, int]:
    """Return the number of threads of each worker; TimeoutError without an answer.

    `running`: of workers that are not paused.
    """
    ask = client.scheduler.ncores_running if running else client.scheduler.ncores
    return dict(client.sync(ask, callback_timeout=ANSWER_SECONDS))


def of_scheduler(client: Any, execution: Execution) -> Workers:
    """Return the workers of a scheduler that was started elsewhere."""
    at = execution.scheduler
    advice = (
        f"Start one with `dask worker {at}`, in an environment that has fewpass; "
        "docs/operations.md has the whole line."
    )
    whose = f"The Dask scheduler at {at}"
    return Workers(client, whose, "has no workers", advice, execution.wait_workers)


LOCAL_ADVICE = (
    "Start fewer of them, give them more time (`wait_workers`), or leave `workers` out: threads "
    "of this process come to the same bits."
)


def of_this_machine(client: Any, execution: Execution, deaths: Deaths) -> Workers:
    """Return the worker processes that were started for a run."""
    none = f"has none of its {execution.workers} worker processes left"
    whose, most_s = "Dask in this process", execution.wait_workers
    return Workers(client, whose, none, LOCAL_ADVICE, most_s, deaths.last)


def seconds_to_start(execution: Execution) -> float:
    """Return the seconds that worker processes may take to start."""
    return max(execution.wait_workers, START_SECONDS)


@contextmanager
def starting(execution: Execution, deaths: Deaths) -> Iterator[None]:
    """Convert failures to start worker processes to NoWorkers, with the known reasons."""
    try:
        yield
    except Exception as error:  # Dask's cleanup may fail in any way
        why = deaths.last() or first_cause(error)
        raise NoWorkers(
            f"Dask could not start {execution.workers} worker processes here ({why}). "
            f"{LOCAL_ADVICE}"
        ) from error
