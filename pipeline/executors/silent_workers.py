"""Workers that stand still: Dask waits five minutes for what they have, and it is sooner here.

A process that is stopped, that swaps, or that no network reaches any more has connections, and says
nothing.  Where the cluster was started here, Dask is asked to start it again, and other workers do
what it had done, under the same keys.

A cluster that was started elsewhere may be at work for others, too: with its process a worker loses
their tasks, results and actors.  So nothing is done to it.  It gets no more tasks from here, and a
training goes on from its newest snapshot; what the worker had is computed anew, under other keys,
as Dask waits for the old ones.
"""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import suppress
from typing import Any
from uuid import uuid4

from fewpass.pipeline.errors import WorkerStandsStill
from fewpass.pipeline.executors.workers import ANSWER_SECONDS, last_seen

SILENT_SECONDS = 30.0  # after others were heard of
LEAST_BEATS = 10  # of those that a worker sends, however many there are
STOP_SECONDS = 30.0  # for a nanny to end a process
MOST_SILENCES = 2  # of a worker that is somebody else's: then it is left out for good

_log = logging.getLogger(__name__)


class SilentWorkers:
    """Notices workers that are not heard of.

    Parameters
    ----------
    client
        A `distributed.Client`.

    Attributes
    ----------
    others : tuple of str
        The workers that tasks should go to; empty: all.
    goes_back : bool
        Whether whoever waits for results can go back to a snapshot.
    """

    others: tuple[str, ...] = ()
    goes_back = False

    def __init__(self, client: Any) -> None:
        self._client = client

    def look(self) -> None:
        """Do what is to be done about those that are silent now.

        Nobody is while the scheduler does not answer.
        """
        raise NotImplementedError

    def _silent(self, heard: dict[str, float]) -> set[str]:
        """Return the workers that were last heard of long before another one."""
        from distributed.scheduler import heartbeat_interval  # noqa: PLC0415

        most = max(SILENT_SECONDS, LEAST_BEATS * heartbeat_interval(len(heard)))
        return {at for at, when in heard.items() if max(heard.values()) - when > most}


class RestartedWorkers(SilentWorkers):
    """Has Dask start them again, each once: of a cluster that was started here."""

    def __init__(self, client: Any) -> None:
        super().__init__(client)
        self._given_up: set[str] = set()

    def look(self) -> None:
        with suppress(OSError, TimeoutError):
            silent = self._silent(last_seen(self._client)) - self._given_up
            for at in sorted(silent):
                _log.warning(
                    "The Dask worker at %s has said nothing for %.0f s. It is given up: others do "
                    "what it had done.", at, SILENT_SECONDS,
                )  # fmt: skip
            if silent:
                self._given_up |= silent
                self._restart(sorted(silent))

    def _restart(self, workers: list[str]) -> None:
        """Do as the scheduler itself does, after longer: workers without a nanny are removed."""
        self._client.sync(
            self._client.scheduler.restart_workers, workers=workers, wait_for_workers=False,
            on_error="return", timeout=STOP_SECONDS, stimulus_id=f"silent-{uuid4().hex}",
            callback_timeout=ANSWER_SECONDS,
        )  # fmt: skip


class AvoidedWorkers(SilentWorkers):
    """Leaves them out until they are heard of again: of a cluster that others may use.

    Parameters
    ----------
    client
        A `distributed.Client`.
    mark
        Part of the keys of all tasks from here.
    """

    def __init__(self, client: Any, mark: str) -> None:
        super().__init__(client)
        self._mark, self._before = mark, set[str]()
        self._silences: Counter[str] = Counter()

    def look(self) -> None:
        """Leave out those that are silent now.

        Raises WorkerStandsStill where one has tasks or results from here, of a training that goes
        back to a snapshot.
        """
        needed: list[str] = []
        with suppress(OSError, TimeoutError):
            needed = [at for at in self._newly_silent() if self._has_any(at)]
        for at in needed:
            if self.goes_back:
                raise WorkerStandsStill(
                    f"The Dask worker at {at} has said nothing for {SILENT_SECONDS:.0f} s. It is "
                    "left out, and what it had done since the newest snapshot is done again by "
                    "others. It is not started again, as others may use it."
                )
            _log.warning(
                "The Dask worker at %s has said nothing for %.0f s, and has what is waited for. It "
                "is not started again from here, as others may use it; Dask does that after its "
                "own setting `distributed.scheduler.worker-ttl`.", at, SILENT_SECONDS,
            )  # fmt: skip

    def _newly_silent(self) -> list[str]:
        """Note who is silent; return those that were not before."""
        heard = last_seen(self._client)
        silent = self._silent(heard)
        new, self._before = silent - self._before, silent
        self._silences.update(new)
        out = silent | {at for at, times in self._silences.items() if times >= MOST_SILENCES}
        self.others = tuple(sorted(heard.keys() - out)) if out & heard.keys() else ()
        return sorted(new)

    def _has_any(self, worker: str) -> bool:
        """Whether a worker has tasks or results from here."""
        has, does = self._client.has_what([worker]), self._client.processing([worker])
        keys = [*has.get(worker, ()), *does.get(worker, ())]
        return any(self._mark in str(key) for key in keys)
