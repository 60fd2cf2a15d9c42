"""Tasks that are submitted together: one graph, in one message, its keys in one group.

Dask's scheduler takes a fraction of the time for them that it takes for as many single tasks; it
hands them out as workers become free; and its pages show which share of them is done.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from queue import Empty, Queue
from typing import Any, NamedTuple
from uuid import uuid4

from fewpass.pipeline.passes.packed import Packed, call, packed, type_of_handles
from fewpass.pipeline.passes.versions import versions_here
from fewpass.pipeline.passes.watched_cluster import PATIENCE_S, WatchedCluster

Key = tuple[str, int]  # the group, and the number in it
Task = tuple[Any, ...]  # a function and its arguments

TOPICS = 16  # of a scheduler, which keeps the last thousand messages of each
TREE_BYTES, TREE_WORKERS = 1_000_000, 8  # from there on a value goes out by a tree


class ResultOf(NamedTuple):
    """Stands for the result of another task of a graph, among a task's arguments."""

    key: Key


class Together:
    """Submits graphs of tasks to a cluster, and hears what these tell.

    Parameters
    ----------
    client
        A `distributed.Client`.
    watched
        The cluster; looked at now and then while something is waited for.
    mark
        Part of the keys of all tasks.

    Attributes
    ----------
    topic : str
        The topic that `send_to_client` is given.
    """

    def __init__(self, client: Any, watched: WatchedCluster, mark: str) -> None:
        self._client, self._versions = client, versions_here()
        self._handle, self._watched = type_of_handles(), watched
        self._mark, self._numbers = mark, itertools.count()
        self.topic = f"fewpass-tasks-{uuid4().int % TOPICS}"
        # Before Python 3.13 a SimpleQueue waits for ever if a signal outlasts the timeout.
        self._heard: Queue[Any] = Queue()
        self._last, self._name = time.monotonic(), ""
        client.subscribe_topic(self.topic, self._take)

    def _take(self, event: tuple[float, Any]) -> None:
        """Keep a message, unless nobody waits for it: several trainings may share a topic."""
        if event[1][0] == self._name:
            self._heard.put(event[1])

    def named(self, label: str) -> str:
        """Return a name for a group of tasks that no other one has; pages show the label."""
        return f"{label}-{next(self._numbers):06d}-{self._mark}"

    @contextmanager
    def listening(self, name: str) -> Iterator[None]:
        """Hear what tasks tell under a name, their messages' first item, during a `with` block."""
        self._heard, self._name = Queue(), name
        try:
            yield
        finally:
            if self._name == name:
                self._name = ""

    def threads(self) -> list[int]:
        """Return the threads of every worker; of one, if there are none yet."""
        return list(self._watched.threads_by_worker().values()) or [1]

    def is_handle(self, value: Any) -> bool:
        """Return whether a value is a handle on the result of a task."""
        return isinstance(value, self._handle)

    def packed(self, value: Any) -> Packed:
        """Return a value that holds no handles, pickled."""
        pickled = packed(value, self._handle)
        assert isinstance(pickled, Packed), "it holds no handles"
        return pickled

    def submit(
        self,
        tasks: Mapping[Key, Task],
        wanted: Sequence[Key],
        only: Collection[str] = (),
        first: str = "",
    ) -> list[Any]:
        """Submit tasks; return handles on the results that are wanted.

        Parameters
        ----------
        tasks
            By key.  Arguments may be results of each other, or handles.
        wanted
            Keys.
        only
            The workers that should do them, if there are such.
        first
            The group whose tasks go to any worker, wherever their arguments are.
        """
        graph = {
            key: self._task(key, task, is_producer=key[0] == first) for key, task in tasks.items()
        }
        where = {"workers": list(only), "allow_other_workers": True} if only else {}
        handles: list[Any] = self._client.get(graph, list(wanted), sync=False, **where)
        self._last = time.monotonic()
        return handles

    def submit_at(self, place: int, name: str, *task: Any) -> Any:
        """Submit a task to one of the workers that there are now, by turns; return its handle."""
        threads = self._watched.threads_by_worker()
        turns = [at for at in sorted(threads) for _ in range(threads[at])]
        key = (self.named(name), place)
        only = [turns[place % len(turns)]] if turns else []
        return self.submit({key: task}, [key], only=only)[0]

    def _task(self, key: Key, task: Task, *, is_producer: bool) -> Any:
        from dask._task_spec import Task as Made  # noqa: PLC0415
        from dask._task_spec import TaskRef  # noqa: PLC0415

        given = [
            TaskRef(value.key)
            if isinstance(value, ResultOf) or self.is_handle(value)
            else packed(value, self._handle)
            for value in task
        ]
        return Made(key, call, self._versions, *given, _data_producer=is_producer)

    def broadcast(self, handle: Any, size: int) -> None:
        """Bring a large result to all workers by a tree; a small one goes where it is needed."""
        if size >= TREE_BYTES and len(self.threads()) >= TREE_WORKERS:
            self._watched.waited(self._client.replicate([handle], asynchronous=True))

    def hear(self, seconds: float) -> Any:
        """Return a task's message, or None after some time.

        No callback of a handle ends the wait: Dask would hold the handle until its task is done,
        and a sum that is given up would be done to its end.

        Raises NoWorkers where there are no workers.
        """
        if time.monotonic() - self._last > PATIENCE_S:
            self._watched.look()
            self._last = time.monotonic()
        try:
            return self._heard.get(timeout=seconds)
        except Empty:
            return None


def send_to_client(topic: str, message: Any) -> None:
    """Tell the client of something, from inside a task: plain values only."""
    from distributed import get_worker  # noqa: PLC0415

    get_worker().log_event(topic, message)
