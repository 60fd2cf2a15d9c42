"""Tasks of an executor, some at a time, with results in the order of the items."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import cloudpickle  # type: ignore[import-untyped]

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.packed import Packed

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Executor

#: Tasks of each thread that are submitted ahead of the result that is waited for.
AHEAD = 3


def ordered_results(
    executor: Executor, name: str, function: Callable[..., Any], shared: Any,
    items: Iterable[tuple[Any, ...]],
) -> Iterator[Any]:  # fmt: skip
    """Yield function(shared, *item) of all items in turn.

    `shared` goes to each worker once, and is unpickled there once.  The first task of a name runs
    alone: one worker compiles its kernels, and others load them.
    """
    given = shared
    if not executor.near:
        packed = Packed(cloudpickle.dumps(shared), is_shared=True)
        with warnings.catch_warnings():
            # in a graph it outlives the workers that hold it, which what is scattered does not
            warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
            given = executor.submit(f"{name}-shared", _same, packed)
    waiting: deque[Any] = deque()
    for item in items:
        waiting.append(executor.submit(name, function, given, *item))
        if name not in executor.compiled or len(waiting) >= AHEAD * threads_of(executor):
            yield executor.result(waiting.popleft())
            executor.compiled.add(name)
    while waiting:
        yield executor.result(waiting.popleft())


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
