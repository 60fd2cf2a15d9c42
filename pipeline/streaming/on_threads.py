"""Tasks on threads of this process: Dask lends and shows the threads, what they do stays here.

A task costs Dask 5 ms of the one interpreter that all threads share, fetching its result included:
half of what the interpreter did while rows were streamed (docs/design.md, 10.18).  So a task of
Dask's is a turn, in which a thread does one piece of work after the other, and nothing is pickled
or fetched.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Barrier, RLock
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from pipeline.streaming.on_dask import OnDask

TURN_SECONDS = 1.0  # what is shown as one task at most, unless a piece of work takes longer
LOOK_SECONDS = 1.0  # how often a wait looks whether Dask has lost a turn


class Work:
    """A function and its arguments, and in the end what it returned: a handle on that."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.result: Future[Any] = Future()
        self._todo = function, args

    @property
    def awaited(self) -> list[Work]:
        """The works whose results it is given."""
        found = (a.work if isinstance(a, Item) else a for a in self._todo[1])
        return [a for a in found if isinstance(a, Work)]

    def give_up(self) -> None:
        """Tell who waits for it that it will not be done."""
        self.result.set_exception(CancelledError())

    def do(self) -> Callable[[], None]:
        """Call the function and let go of its arguments; what is returned tells the result."""
        function, args = self._todo
        del self._todo
        try:
            return partial(self.result.set_result, function(*map(value_of, args)))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            return partial(self.result.set_exception, error)

    def do_and_tell(self) -> None:
        """Call the function and keep what it returns or raises."""
        self.do()()


class Item(NamedTuple):
    """A handle on item `k` of the tuple that a work returns."""

    work: Work
    k: int


def value_of(argument: Any) -> Any:
    """Return what a handle stands for, once it is there, and anything else as it is."""
    if isinstance(argument, Item):
        return argument.work.result.result()[argument.k]
    return argument.result.result() if isinstance(argument, Work) else argument


class OnThreads(OnDask):
    """Runs tasks on a cluster whose workers are threads of this process.

    Small tasks have threads of their own: Dask lends a thread 10 ms after it was asked for one.
    """

    near = True

    def __init__(self, client: Any, dashboard: str | None) -> None:
        super().__init__(client, dashboard)
        self._threads = sum(client.nthreads().values())
        self._number = next(_numbers)
        _executors[self._number] = self
        self._small = started_pool(self._threads)
        self._lock = RLock()  # of what follows
        self._closed = False
        self._ready: defaultdict[str, deque[Work]] = defaultdict(deque)  # by name
        self._busy: Counter[str] = Counter()  # threads that do some work
        self._turns: Counter[str] = Counter()  # asked for and not over
        self._tasks: list[Any] = []  # Dask's, one for each turn

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Work:
        """Have it done in turns that the dashboard shows as `name`."""
        return self._submitted(Work(function, args), partial(self._line_up, name))

    def submit_small(self, name: str, function: Callable[..., Any], *args: Any) -> Work:  # noqa: ARG002
        """Have it done at once."""
        return self._submitted(Work(function, args), self._do_at_once)

    def item(self, name: str, handle: Work, k: int) -> Item:  # noqa: ARG002
        """Take the item, when it is there."""
        return Item(handle, k)

    def result(self, handle: Any) -> Any:
        """Wait and return; RuntimeError when Dask has lost a turn."""
        work = handle.work if isinstance(handle, Item) else handle
        if isinstance(work, Work):
            while not wait([work.result], LOOK_SECONDS).done:
                self._require_turns()
        return value_of(handle)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it here."""
        function()

    def close(self) -> None:
        """Begin no further work, and wait for small ones; who waits for it hears CancelledError."""
        with self._lock:
            self._closed = True
            left = [work for works in self._ready.values() for work in works]
            self._ready.clear()
        for work in left:
            work.give_up()
        self._small.shutdown()

    def take_turn(self, name: str) -> None:
        """Do works of a name until there is none, or for a second."""
        over = time.monotonic() + TURN_SECONDS
        while (work := self._next(name, over)) is not None:
            tell = work.do()
            with self._lock:
                self._busy[name] -= 1  # first, as who hears of the result may have the next work
            tell()

    def _next(self, name: str, over: float) -> Work | None:
        """Take a work; None where the turn is over."""
        with self._lock:
            if self._ready[name] and time.monotonic() < over:
                self._busy[name] += 1
                return self._ready[name].popleft()
            self._turns[name] -= 1
            self._ask_for_turn(name)
        return None

    def _submitted(self, work: Work, begin: Callable[[Work], None]) -> Work:
        """Begin a work as soon as there is all that it is given."""
        missing = next((w for w in work.awaited if not w.result.done()), None)
        if missing is not None:
            missing.result.add_done_callback(lambda _: self._submitted(work, begin))
            return work
        with self._lock:
            if not self._closed:
                begin(work)
                return work
        work.give_up()
        return work

    def _do_at_once(self, work: Work) -> None:
        self._small.submit(work.do_and_tell)

    def _line_up(self, name: str, work: Work) -> None:
        self._ready[name].append(work)
        self._ask_for_turn(name)

    def _ask_for_turn(self, name: str) -> None:
        """Ask Dask for a thread where one more finds work."""
        wanted = min(self._threads, self._busy[name] + len(self._ready[name]))
        if self._turns[name] < wanted:
            self._turns[name] += 1
            task = super().submit(name, _take_turn, self._number, name)
            self._tasks = [task, *(t for t in self._tasks if t.status != "finished")]

    def _require_turns(self) -> None:
        """Raise what became of a turn that Dask did not bring to its end."""
        for task in list(self._tasks):
            if task.status not in ("pending", "finished"):
                super().result(task)
                raise RuntimeError(f"Dask gave up a task: it is {task.status}.")


def started_pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool whose threads all run: one whose start is interrupted is waited for by none."""
    pool, together = (
        ThreadPoolExecutor(threads, thread_name_prefix="fewpass-small"),
        Barrier(threads),
    )
    wait([pool.submit(together.wait) for _ in range(threads)])
    return pool


_numbers = itertools.count()
_executors: WeakValueDictionary[int, OnThreads] = WeakValueDictionary()


def _take_turn(number: int, name: str) -> None:
    _executors[number].take_turn(name)
