"""Tasks on threads of this process, so that nothing is pickled and results stay where they are.

Python handles signals in the main thread, where a Ctrl-C interrupts numba while it converts
results: a kernel that returns a NamedTuple would crash.  Here the main thread only waits; fits of
milliseconds run in it (`CallingThread`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from functools import partial
from threading import Barrier
from typing import Any, NamedTuple
from weakref import WeakSet


class PoolTask:
    """A function with its arguments, and later its result; also the handle on that result."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.result: Future[Any] = Future()
        self._todo = [(function, args)]  # until it is started

    @property
    def awaited(self) -> list[PoolTask]:
        """The unfinished works whose results are among its arguments."""
        given = (a.work if isinstance(a, Item) else a for _, args in self._todo[:] for a in args)
        return [a for a in given if isinstance(a, PoolTask) and not a.result.done()]

    def do(self) -> None:
        """Call the function, unless cancelled, and store its result or exception."""
        try:
            function, args = self._todo.pop()
        except IndexError:
            return
        try:
            result = function(*map(value_of, args))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            tell: Callable[[], None] = partial(self.result.set_exception, error)
        else:
            tell = partial(self.result.set_result, result)
            del result
        # so that callbacks on the result may free memory; an error's traceback has this frame
        del self, function, args
        tell()
        del tell

    def give_up(self, error: BaseException | None = None) -> None:
        """Cancel the work, unless it has begun, and raise in those who wait for it."""
        if self._todo:
            try:
                self._todo.pop()
            except IndexError:  # it has just begun
                return
            self.result.set_exception(error or CancelledError())

    def forget_error(self) -> None:
        """Let go of an error that was raised: its traceback has frames that have this handle."""
        if self.result.done() and self.result.exception() is not None:
            self.result = Future()
            self.result.set_exception(CancelledError())


class Item(NamedTuple):
    """A handle on item `k` of a tuple that a work returns."""

    work: PoolTask
    k: int


def value_of(argument: Any) -> Any:
    """Return the result of a handle once available, and any other value unchanged."""
    if isinstance(argument, Item):
        return argument.work.result.result()[argument.k]
    return argument.result.result() if isinstance(argument, PoolTask) else argument


class InProcess:
    """Runs tasks on a pool of threads.

    Small tasks have their own threads, so that sums do not queue behind spans.

    Parameters
    ----------
    threads
        Number of tasks at a time.
    why
        Why tasks run here, for the log.
    """

    engine = "threads"
    dashboard: str | None = None
    near = True
    together = None  # tasks are submitted one by one

    def __init__(self, threads: int = 1, why: str = "") -> None:
        self.compiled: set[str] = set()
        self.why, self.alone, self.threads = why, threads == 1, threads
        self._small, self._spans = started_pool(threads), self._started(threads)
        self._works: WeakSet[PoolTask] = WeakSet()  # all works that may still be waited for
        self._closed = False

    def _started(self, threads: int) -> ThreadPoolExecutor | None:
        """Return a pool of threads for spans."""
        return started_pool(threads)

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> PoolTask:
        """Start a task once its arguments are available."""
        return self._submitted(PoolTask(function, args), partial(self._start, name))

    def submit_small(self, name: str, function: Callable[..., Any], *args: Any) -> PoolTask:  # noqa: ARG002
        return self._submitted(PoolTask(function, args), self._start_small)

    def item(self, name: str, handle: PoolTask, k: int) -> Item:  # noqa: ARG002
        return Item(handle, k)

    def result(self, handle: PoolTask | Item) -> Any:
        return value_of(handle)

    def everywhere(self, function: Callable[[], None]) -> None:
        """Cancel tasks that have not begun, wait for the others, and call the function."""
        self._rest()
        function()

    def show_run(self, run: str) -> None:
        """Do nothing: there is no dashboard."""

    def heed(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: there are no workers to wait for."""

    def check_workers(self, memory: int, url: str, sees: Callable[[], bool]) -> None:
        """Do nothing: tasks run in this process."""

    def close(self) -> None:
        """Wait for running tasks; cancel others, whose results then raise CancelledError."""
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
        for work in works:
            work.forget_error()

    def _submitted(self, work: PoolTask, start: Callable[[PoolTask], None]) -> PoolTask:
        self._works.add(work)
        self._begin(work, start)
        return work

    def _begin(self, work: PoolTask, start: Callable[[PoolTask], None]) -> None:
        """Start a work once its arguments are available."""
        if missing := next(iter(work.awaited), None):
            once = [work]  # a future keeps its callbacks, which must not keep the work
            missing.result.add_done_callback(lambda _: self._begin(once.pop(), start))
            return
        if self._closed:
            work.give_up()
            return
        try:
            start(work)
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            work.give_up(error)

    def _start(self, name: str, work: PoolTask) -> None:  # noqa: ARG002
        assert self._spans is not None
        self._spans.submit(work.do)

    def _start_small(self, work: PoolTask) -> None:
        self._small.submit(work.do)


def started_pool(threads: int) -> ThreadPoolExecutor:
    """Return a pool with all threads started, as an interrupted start is never joined."""
    pool, together = ThreadPoolExecutor(threads, thread_name_prefix="fewpass"), Barrier(threads)
    wait([pool.submit(together.wait) for _ in range(threads)])
    return pool


class Done(NamedTuple):
    """A handle on an available result."""

    value: Any


class CallingThread:
    """An `Executor` that runs every task when it is submitted."""

    engine = "calling thread"
    why = "rows in memory"
    dashboard: str | None = None
    near = alone = True
    threads = 1  # fits run side by side where somebody searches over settings
    together = None  # tasks are submitted one by one

    def __init__(self) -> None:
        self.compiled: set[str] = set()

    def submit(self, name: str, function: Callable[..., Any], *args: Any) -> Done:  # noqa: ARG002
        """Call the function, and store its result; exceptions are raised here."""
        return Done(function(*(a.value if isinstance(a, Done) else a for a in args)))

    submit_small = submit

    def item(self, name: str, handle: Done, k: int) -> Done:  # noqa: ARG002
        return Done(handle.value[k])

    def result(self, handle: Done) -> Any:
        return handle.value

    def everywhere(self, function: Callable[[], None]) -> None:
        function()

    def show_run(self, run: str) -> None:
        """Do nothing: there is no dashboard."""

    def heed(self, stopping: Callable[[], bool]) -> None:
        """Do nothing: there are no workers to wait for."""

    def check_workers(self, memory: int, url: str, sees: Callable[[], bool]) -> None:
        """Do nothing: tasks run in this process."""
