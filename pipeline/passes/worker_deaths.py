"""Ends of worker processes of this machine, and first causes of what Dask raises."""

from __future__ import annotations

import logging
from typing import Self

NANNIES = "distributed.nanny"  # which logs the end of worker processes


def first_cause(error: BaseException) -> str:
    """Return the first cause of an error of Dask."""
    causes = [error]
    while (before := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(before)
    of_system = [e for e in causes if isinstance(e, OSError) and e.strerror]
    if not of_system and any(isinstance(e, TimeoutError) for e in causes):
        return "they did not begin in time"
    message = of_system[-1].strerror if of_system else str(error).strip().rstrip(".")
    return message or type(error).__name__


class Deaths(logging.Handler):
    """A log handler that records the ends of worker processes of this machine.

    Dask reports them in its log only, which is unchanged.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self._last = ""
        self._logger = logging.getLogger(NANNIES)

    def emit(self, record: logging.LogRecord) -> None:
        """Store messages on the end of a process."""
        said = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and str(error):
            self._last = first_cause(error)
        elif said.startswith("Worker process"):  # with its exit status
            self._last = said
        if record.levelno >= self._shown and self._logger.parent is not None:
            self._logger.parent.handle(record)

    def last(self) -> str:
        """Return the last message; "" without any."""
        return self._last

    def __enter__(self) -> Self:
        logger, self._shown = self._logger, self._logger.getEffectiveLevel()
        self._before = logger.level, logger.propagate
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        logger.propagate = False
        return self

    def __exit__(self, *_: object) -> None:
        level, self._logger.propagate = self._before
        self._logger.setLevel(level)
        self._logger.removeHandler(self)
