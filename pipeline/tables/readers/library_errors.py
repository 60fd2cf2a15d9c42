"""Errors of other libraries' parsers, turned into refusals that name file and place.

Arrow, NumPy, zipfile and Python's own readers have errors of many kinds for content that is not
what it says.  A border around each call turns all of them into one sentence, and keeps the cause
for `--debug`.  Our own code is not wrapped: its bugs keep their tracebacks.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from fewpass.pipeline.errors import BadInput
from fewpass.storage.redaction import without_secrets

#: Most characters shown of another library's message.
_SHOWN = 200


@contextmanager
def parsing(
    where: str, what: str = "the file is damaged", advice: str = "Fetch or write it anew."
) -> Iterator[None]:
    """Tell what a parser raises as BadInput: where, what, its own words, and what to do.

    Errors of a disk or of a store go through: these are not the content's.
    """
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        if is_elsewhere(error):
            raise
        raise BadInput(f"{where}: {what} ({quoted(error)}). {advice}") from error


@contextmanager
def naming(where: str, file: str) -> Iterator[None]:
    """Put a place before a refusal that names no file, such as what a function of Arrow raises."""
    try:
        yield
    except BadInput as error:
        if file in str(error):
            raise
        raise BadInput(f"{where}: {error}") from error
    except Exception as error:
        if type(error).__module__ != "pyarrow.lib":
            raise
        raise BadInput(
            f"{where}: the cells cannot be read as what their column holds "
            f"({quoted(error)}). Check the file."
        ) from error


def is_elsewhere(error: BaseException) -> bool:
    """Say whether an error came from a disk, a store or a network rather than from a parser."""
    if isinstance(error, OSError) and error.errno == errno.EINVAL:
        return False  # a place before the file's begin
    is_damage = type(error) is OSError or type(error).__module__ in ("gzip", "pyarrow.lib")
    if isinstance(error, OSError) and (error.errno is not None or not is_damage):
        return True
    return type(error).__module__.partition(".")[0] in ("aiohttp", "botocore", "fsspec")


def quoted(error: BaseException) -> str:
    """Return an error's own words: on one line, printable, not too long."""
    words = " ".join(without_secrets(str(error)).split()).rstrip(".")
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
    shown = f"{shown[:_SHOWN]}..." if len(shown) > _SHOWN else shown
    return shown or type(error).__name__
