"""Lines of a log, for people and for machines: one per pass, and one per 30 s of an ingest.

`--log-format json`, or FEWPASS_LOG_FORMAT=json in the environment, makes every line a JSON object
with `time`, `level` and `message`, and the numbers of the line.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from fewpass.flows.display.printing import plain_json, printable
from fewpass.flows.flags import in_flags

VARIABLE = "FEWPASS_LOG_FORMAT"
OPTION = "--log-format"
FIELDS = "fewpass"  # the attribute of a log record that its numbers are in
INGEST_EVERY_S = 30.0
FIRST_LINE_S, GROWTH = 1.0, 1.5  # seconds to the first plain line, and from then on


def json_line(level: str, message: str, fields: Mapping[str, Any] | None = None) -> str:
    """Write a line as a JSON object."""
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    line = {"time": now, "level": level, "message": printable(message)}
    return plain_json(line | dict(fields or {}))


def wants_json(tokens: Sequence[str]) -> bool:
    """Return whether a command line or the environment asks for lines in JSON."""
    for before, word in zip(("", *tokens), tokens, strict=False):
        if before == OPTION:
            return word == "json"
        if word.startswith(f"{OPTION}="):
            return word == f"{OPTION}=json"
    return os.environ.get(VARIABLE) == "json"


def form_of_lines(asked: str | None) -> str:
    """Return text or json, as an option asks or the environment; ValueError for another word."""
    form = asked or os.environ.get(VARIABLE) or "text"
    if form not in ("text", "json"):
        raise ValueError(f'{VARIABLE} is "{form}". Set it to text or json.')
    return form


class JsonLines(logging.Formatter):
    """Formats log records as JSON lines."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a record's line."""
        fields = {"logger": record.name}
        for name in ("flow_run_name", "task_run_name"):
            value = getattr(record, name, None)
            if isinstance(value, str) and value != "<unknown>":
                fields[name] = value
        if record.exc_info:
            fields["traceback"] = printable(
                record.exc_text or self.formatException(record.exc_info)
            )
        numbers = getattr(record, FIELDS, {})
        return json_line(record.levelname.lower(), record.getMessage(), fields | numbers)


class Warnings(logging.Handler):
    """Writes what the pipeline warns of on standard error, as a command was asked to.

    Parameters
    ----------
    tokens
        The words of the command line.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        super().__init__(logging.WARNING)
        self._as_json, self._quiet = wants_json(tokens), bool({"-q", "--quiet"} & {*tokens})

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line."""
        if not self._quiet:
            text = in_flags(printable(record.getMessage()))
            line = json_line(record.levelname.lower(), text) if self._as_json else text
            sys.stderr.write(f"{line}\n")


@contextmanager
def warnings_logged(tokens: Sequence[str]) -> Iterator[None]:
    """Write what the pipeline warns of while a command runs."""
    logger, handler = logging.getLogger("fewpass"), Warnings(tokens)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


class Every:
    """Says when the next line is due."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._last = seconds, time.monotonic()

    def due(self) -> bool:
        """Say whether a line is due: the interval has passed since the last one."""
        now = time.monotonic()
        if now - self._last < self._seconds:
            return False
        self._last = now
        return True


class GrowingIntervals:
    """Says when the next line is due: ever less often."""

    def __init__(self) -> None:
        self._began = time.perf_counter()
        self._due = 0.0

    def due(self) -> bool:
        """Return whether to print a line now."""
        now = time.perf_counter() - self._began
        if now < self._due:
            return False
        self._due = max(now, FIRST_LINE_S) * GROWTH
        return True


class Line(NamedTuple):
    """A line, and the numbers in it."""

    text: str
    fields: dict[str, Any]
