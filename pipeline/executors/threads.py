"""Tasks on threads of this process, so that nothing is pickled and results stay where they are.

Python handles signals in the main thread, where numba's results are lost on a Ctrl-C: a kernel that
is about to hand over a NamedTuple dies of it.  Here the main thread only waits.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple
from weakref import WeakSet


class Work:
    """A function and its arguments, and in the end what it returned: a handle on that."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.result: Future[Any] = Future()
        self._todo = [(function, args)]  # until somebody takes it

    @property
    def awaited(self) -> list[Work]:
        """The works whose results it is given and that are not done."""
        given = (a.work if isinstance(a, Item) else a for _, args in self._todo[:] for a in args)
        return [a for a in given if isinstance(a, Work) and not a.result.done()]

    def do(self) -> None:
        """Call the function, unless that was given up, and keep what it returns or raises."""
        try:
            function, args = self._todo.pop()
        except IndexError:
            return
        try:
            found = function(*map(value_of, args))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            tell: Callable[[], None] = partial(self.result.set_exception, error)
        else:
            tell = partial(self.result.set_result, found)
        del function, args  # who hears of the result may want them gone
        tell()

    def give_up(self, error: BaseException | None = None) -> None:
        """Tell who waits for it that it will not be done, unless it has begun."""
        if self._todo:
            try:
                self._todo.pop()
            except IndexError:  # it began just now
                return
            self.result.set_exception(error or CancelledError())


class Item(NamedTuple):
    """A handle on item `k` of the tuple that a work returns."""

    work: Work
    k: int


def value_of(argument: Any) -> Any:
    """Return what a handle stands for, once it is there, and anything else as it is."""
    if isinstance(argument, Item):
        return argument.work.result.result()[argument.k]
    return argument.result.result() if isinstance(argument, Work) else argument


class InProcess:
    """Runs tasks on a pool of threads.

    Small tasks have threads of their own, so that sums do not queue behind spans.

    Parameters
    ----------
    threads
        How many tasks run at a time.
    why
        Why tasks run here, for people.
    """

    engine = "threads"
    dashboard: str | None = None
    near = True

    def __init__(self, threads: int = 1, why: str = "") -> None:
        self.compiled: set[str] = set()
        self.why, self.alone = why, threads == 1
        self._small, self._spans = started_pool(threads), self._started(threads)
        self._works: WeakSet[Work] = WeakSet()  # all that somebody may still wait for
        self._closed = False

    def _started(self, threads: int) -> ThreadPoolExecutor | None:
        """Return threads for spans."""
        return started_pool(threads)

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Work:
        """Have it done as soon as there is all that it is given."""
        return self._submitted(Work(function, args), partial(self._start, name))

    def submit_small(self, name: str, function: Callable[..., Any], *args: Any) -> Work:  # noqa: ARG002
        """Have it done by a thread for small tasks."""
        return self._submitted(Work(function, args), self._start_small)

    def item(self, name: str, handle: Work, k: int) -> Item:  # noqa: ARG002
        """Take the item, when it is there."""
        return Item(handle, k)

    def result(self, handle: Work | Item) -> Any:
        """Wait and return, or raise."""
        return value_of(handle)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Call it here, when nothing runs any more: what has not begun is given up."""
        self._rest()
        function()

    def show_run(self, run: str) -> None:
        """Do nothing: there is no dashboard."""

    def heed(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: who works is here."""

    def check_memory(self, memory: int) -> None:
        """Do nothing: this process takes what it was given."""

    def close(self) -> None:
        """Begin no further work, and wait for what runs; who waits for it hears CancelledError."""
        self._closed = True
        self._rest()
        for pool in (self._small, self._spans):
            if pool is not None:
                pool.shutdown()

    def _rest(self) -> None:
        works = list(self._works)
        for work in works:
            work.give_up()
        wait([work.result for work in works])

    def _submitted(self, work: Work, start: Callable[[Work], None]) -> Work:
        self._works.add(work)
        self._begin(work, start)
        return work

    def _begin(self, work: Work, start: Callable[[Work], None]) -> None:
        """Start a work if there is all that it is given, else when there is."""
        if missing := next(iter(work.awaited), None):
            missing.result.add_done_callback(lambda _: self._begin(work, start))
            return
        if self._closed:
            work.give_up()
            return
        try:
            start(work)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            work.give_up(error)

    def _start(self, name: str, work: Work) -> None:  # noqa: ARG002
        assert self._spans is not None
        self._spans.submit(work.do)

    def _start_small(self, work: Work) -> None:
        self._small.submit(work.do)


def started_pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool whose threads all run: one whose start is interrupted is waited for by none."""
    pool, together = ThreadPoolExecutor(threads, thread_name_prefix="fewpass"), Barrier(threads)
    wait([pool.submit(together.wait) for _ in range(threads)])
    return pool
