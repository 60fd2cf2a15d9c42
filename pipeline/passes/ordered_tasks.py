"""Tasks of an executor, some at a time, with results in the order of the items."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.packed import Packed

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

#: Tasks of each thread that are submitted ahead of the result that is waited for, at most; half of
#: them go to the scheduler in one message.
AHEAD = 4


def ordered_results(
    executor: Executor, name: str, function: Callable[..., Any], shared: Any,
    items: Iterable[tuple[Any, ...]],
) -> Iterator[Any]:  # fmt: skip
    """Yield function(shared, *item) of all items in turn.

    `shared` goes to each worker once, and is unpickled there once.  The first task of a name runs
    alone: one worker compiles its kernels, and others load them.
    """
    rest, waiting = iter(items), deque[Any]()
    given = _handed_out(executor, name, shared)
    while True:
        most = AHEAD * threads_of(executor) if name in executor.compiled else 1
        if len(waiting) <= most // 2:
            batch = [*islice(rest, most - len(waiting))]
            waiting += _submitted(executor, name, function, given, batch)
        if not waiting:
            return
        yield executor.result(waiting.popleft())
        executor.compiled.add(name)


def _handed_out(executor: Executor, name: str, shared: Any) -> Any:
    """Return what tasks are given of a value that all of them need."""
    if executor.near:
        return shared
    packed = Packed(cloudpickle.dumps(shared), is_shared=True)
    with warnings.catch_warnings():
        # in a graph it outlives the workers that hold it, which what is scattered does not
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return executor.submit(f"{name}-shared", _same, packed)


def _submitted(
    executor: Executor, name: str, function: Callable[..., Any], shared: Any,
    items: list[tuple[Any, ...]],
) -> list[Any]:  # fmt: skip
    """Submit a task for each item, to a scheduler in one graph; return the handles."""
    together = executor.together
    if together is None:
        return [executor.submit(name, function, shared, *item) for item in items]
    group = together.named(name)
    graph = {(group, number): (function, shared, *item) for number, item in enumerate(items)}
    return together.submit(graph, [*graph]) if graph else []


def result_or_refusal(function: Callable[..., Any], *given: Any) -> Any:
    """Return what a function returns, or the BadInput that it raises."""
    try:
        return function(*given)
    except BadInput as error:
        return error


def threads_of(executor: Executor) -> int:
    """Return how many tasks run at a time."""
    together = executor.together
    return executor.threads if together is None else sum(together.threads())


def tasks_of_a_process(executor: Executor) -> int:
    """Return how many tasks of a process run at a time, and share its memory, at most."""
    together = executor.together
    return executor.threads if together is None else max(together.threads())


def _same(shared: Packed) -> Packed:
    return shared
