"""The spans of several streams that are under way: in this process, or on a cluster.

On a cluster a span leaves its state where it is and tells its report, so no result is fetched.
"""

from __future__ import annotations

import itertools
import pickle
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

from fewpass.pipeline.passes.executor import Executor
from fewpass.pipeline.passes.span import SpanReport
from fewpass.pipeline.passes.together import Task, Together, send_to_client
from fewpass.solvers.protocol import State

LOOK_SECONDS = 0.25  # between two looks at what is late

#: Returns the function and arguments of windows first <= k < stop of a stream, from a state.
MakeSpan = Callable[[int, int, int, Any], Task]


class SpanUnderWay(NamedTuple):
    """Windows first <= k < stop of a stream."""

    stream: int
    first: int
    stop: int
    label: str  # what a dashboard shows
    given: Any  # the state that it begins with
    begins: bool  # whether it is the first one of the stream in a walk
    state: Any = None  # handle on what becomes of it
    number: int = 0


class AwaitedSpans(Protocol):
    """Spans that are under way."""

    def listening(self) -> AbstractContextManager[None]:
        """Return a context in which spans are waited for."""

    def submit(self, span: SpanUnderWay) -> Any:
        """Submit the last span of its stream; return a handle on what becomes of the state."""

    def under_way(self, stream: int) -> int:
        """Return how many spans of a stream are under way."""

    def __len__(self) -> int:
        """Return how many spans are under way."""

    def next(self) -> tuple[SpanUnderWay, SpanReport]:
        """Wait for a span, the first one of its stream that is under way."""


class SpansInTurn:
    """Spans whose reports are fetched in the order in which they were submitted.

    Parameters
    ----------
    executor, submit
        Where they run, and what submits a task there.
    make
        Makes a span.
    """

    def __init__(self, executor: Executor, submit: Callable[..., Any], make: MakeSpan) -> None:
        self._executor, self._submit, self._make = executor, submit, make
        self._spans = deque[tuple[SpanUnderWay, Any]]()

    def listening(self) -> AbstractContextManager[None]:
        return nullcontext()

    def submit(self, span: SpanUnderWay) -> Any:
        made = self._make(span.stream, span.first, span.stop, span.given)
        result = self._submit(span.label, *made)
        state, report = (self._executor.item(n, result, k) for k, n in enumerate(ITEMS))
        self._spans.append((span._replace(given=None, state=state), report))
        return state

    def under_way(self, stream: int) -> int:
        return sum(span.stream == stream for span, _ in self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def next(self) -> tuple[SpanUnderWay, SpanReport]:
        span, report = self._spans.popleft()
        return span, self._executor.result(report)


ITEMS = ("state", "report")


class SpansOnCluster:
    """Spans of a cluster: whichever stream's is done first is next.

    Parameters
    ----------
    executor
        The cluster.
    make
        Makes a span.
    """

    def __init__(self, executor: Executor, make: MakeSpan) -> None:
        assert isinstance(executor.together, Together), "a cluster takes graphs"
        self._executor, self._together, self._make = executor, executor.together, make
        self._name, self._numbers = self._together.named("walk"), itertools.count()
        self._streams: dict[int, deque[SpanUnderWay]] = {}
        self._awaited: dict[int, SpanReport | None] = {}  # the reports that are there, by number
        self._looked = time.monotonic()

    def listening(self) -> AbstractContextManager[None]:
        return self._together.listening(self._name)

    def submit(self, span: SpanUnderWay) -> Any:
        number = next(self._numbers)
        self._awaited[number] = None
        made = self._make(span.stream, span.first, span.stop, span.given)
        task = (reporting_span, self._together.topic, self._name, number, *made)
        if span.begins:
            state = self._together.submit_at(span.stream, span.label, *task)
        else:
            state = self._executor.submit(span.label, *task)
        spans = self._streams.setdefault(span.stream, deque())
        # a handle on what it is given would keep that longer than the task itself does
        spans.append(span._replace(given=None, state=state, number=number))
        return state

    def under_way(self, stream: int) -> int:
        return len(self._streams.get(stream, ()))

    def __len__(self) -> int:
        return sum(map(len, self._streams.values()))

    def next(self) -> tuple[SpanUnderWay, SpanReport]:
        while True:
            for spans in self._streams.values():
                if spans and (report := self._awaited[spans[0].number]) is not None:
                    del self._awaited[spans[0].number]
                    return spans.popleft(), report
            if time.monotonic() - self._looked > LOOK_SECONDS:
                self._raise_errors()
            message = self._together.hear(LOOK_SECONDS)
            if message is not None and message[1] in self._awaited:
                self._awaited[message[1]] = pickle.loads(message[2])

    def _raise_errors(self) -> None:
        self._looked = time.monotonic()
        for spans in self._streams.values():
            if spans and spans[0].state.status not in ("pending", "finished", "lost"):
                self._executor.result(spans[0].state)


def reporting_span(
    topic: str, name: str, number: int, span: Callable[..., Any], *given: Any
) -> State:
    """Do a span, tell its report, and return the state."""
    state, report = span(*given)
    send_to_client(topic, [name, number, pickle.dumps(report)])
    return state
