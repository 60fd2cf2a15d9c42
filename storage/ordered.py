"""Parallel work on threads, with results in the order of the items and bounded memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def ordered_map(
    pool: Executor, job: Callable[[Item], Result], items: Iterable[Item], in_flight: int
) -> Iterator[Result]:
    """Yield `job(item)` for every item, in order.

    Items are drawn by the calling thread; at most `in_flight` of them are drawn but not yielded
    yet, which bounds the memory.  The first exception, in the order of the items, is raised; work
    not begun then is cancelled, and running work is waited for.
    """
    waiting: deque[Future[Result]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(job, item))
            del item  # nothing here may keep it alive while the next one is drawn
            if len(waiting) >= in_flight:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
        for future in waiting:
            if not future.cancelled():
                future.exception()
