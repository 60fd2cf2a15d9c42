"""Text to print or log: without control characters, and without secrets."""

from __future__ import annotations

import itertools
import json
import logging
import os
import shutil
import signal
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from fewpass.pipeline.drawing.safe_text import finite, without_control
from fewpass.storage.redaction import without_secrets

P = ParamSpec("P")
R = TypeVar("R")

_LOGGERS = ("prefect", "fewpass", "distributed", "fsspec", "asyncio")


def printable(text: str) -> str:
    """Return a text as it may be printed: escapes written out, secrets of addresses taken out.

    Labels, names of columns and files, and errors of libraries are other people's words.
    """
    return without_control(without_secrets(text))


def plain_json(value: Any) -> str:
    """Return a value as a line of JSON: no secrets in its texts, null for numbers not finite."""
    return json.dumps(finite(value, without_secrets), allow_nan=False)


def between_words(text: str) -> str:
    """Break what goes to standard error between words, if that is a terminal."""
    if not sys.stderr.isatty():
        return text
    width = shutil.get_terminal_size().columns
    lines = (textwrap.wrap(line, width, break_on_hyphens=False) for line in text.splitlines())
    return "\n".join(itertools.chain.from_iterable(lines))


def formatted_traceback(error: BaseException) -> str:
    """Return an error's traceback, printable."""
    return printable("".join(traceback.format_exception(error)))


@contextmanager
def ending_quietly() -> Iterator[None]:
    """End a process whose reader has read enough, such as `head`, as the shell's own tools do.

    One whose output goes where nothing can be written ends with a sentence.
    """
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except (BrokenPipeError, SystemExit) as end:
        # Where rich meets a broken pipe, it exits with 1.
        if isinstance(end, SystemExit) and not isinstance(end.__context__, BrokenPipeError):
            raise
        _write_to_nothing()
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        _write_to_nothing()
        if not (isinstance(error.__context__, SystemExit) and error.__context__.code):
            sys.stderr.write(f"fewpass: {NO_OUTPUT.format(error.strerror)}\n")
        sys.exit(1)


NO_OUTPUT = "Standard output cannot be written to ({}). Send it elsewhere, for example into a file."


def _write_to_nothing() -> None:
    """Have what is left go nowhere: output is flushed once more at the exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fill_closed_streams() -> None:
    """Open standard streams that are closed on nothing, so that no file takes their numbers.

    Whatever a library or a child writes to a number would else go into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free, which is this one
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123 - until the process ends


def escape_missing_letters() -> None:
    """Have letters that the encoding of a stream lacks written as escapes: names are in any script.

    Python would raise an error, and the result of a training be lost with it.
    """
    for stream in filter(None, (sys.stdout, sys.stderr)):
        stream.reconfigure(errors="backslashreplace")


def require_output() -> None:
    """Raise ValueError where the result of a command cannot be printed."""
    if sys.stdout is None:
        raise ValueError(
            "Standard output is closed, and the command prints its result there. Leave it "
            "open, or send it to /dev/null."
        )


def printable_errors(function: Callable[P, R]) -> Callable[P, R]:
    """Have a function raise errors with printable words only: who catches them will show them."""

    @wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            error.args = tuple(printable(a) if isinstance(a, str) else a for a in error.args)
            if isinstance(error, OSError) and isinstance(error.filename, str):
                error.filename = printable(error.filename)
            raise

    return run


def log_printable() -> None:
    """Have every line that this process logs through Prefect, Dask and fsspec printable."""
    make = logging.getLogRecordFactory()
    if not getattr(make, "is_printable", False):
        logging.setLogRecordFactory(_printable_records(make))


def _printable_records(
    make: Callable[..., logging.LogRecord],
) -> Callable[..., logging.LogRecord]:
    def made(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make(*args, **kwargs)
        if record.name.partition(".")[0] in _LOGGERS:
            record.msg, record.args = printable(record.getMessage()), None
            error = record.exc_info[1] if record.exc_info else None
            if error is not None:
                record.exc_text = formatted_traceback(error)
        return record

    made.is_printable = True  # type: ignore[attr-defined]
    return made
