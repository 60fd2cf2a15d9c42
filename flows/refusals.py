"""Errors as a sentence of fact, a sentence of advice, and an exit status."""

from __future__ import annotations

import os
import signal

from fewpass.flows.display.printing import printable
from fewpass.pipeline.errors import NoRowMeant
from fewpass.storage.source_file import SourceChanged

BAD_REQUEST, FAILED = 2, 1

#: What is installed with which extra; the rest is always there.
EXTRAS = {
    "prefect": "prefect",
    "bokeh": "dashboard",
    "dask_ml": "dask-ml",
    "scipy": "scikit-learn",
    "sklearn": "scikit-learn",
}
INSTALL = "Install it with pip install 'fewpass[{}]'."

#: What the one who asked can put right by asking otherwise.
_BAD_REQUESTS = (
    ValueError,
    FileNotFoundError,
    FileExistsError,
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    SourceChanged,
)


class Interrupted(Exception):  # noqa: N818  users read the message, not the name
    """A signal that ended a training, with advice on how to go on."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.signal = number


class ToleranceMissed(Exception):  # noqa: N818  users read the message, not the name
    """A training whose model lies further from the optimum than --require-tol allows."""


class BadPlace(ValueError):  # noqa: N818  users read the message, not the name
    """A folder that is not ours to replace, or an address that is none."""


class UsageError(ValueError):
    """A command line that asks for nothing definite."""


def exit_status(error: BaseException) -> int:
    """Return 2 for a bad request, 1 for a run that failed, 130 for Ctrl-C, 143 for SIGTERM."""
    if isinstance(error, Interrupted):
        return status_of_signal(error.signal)
    if isinstance(error, KeyboardInterrupt):
        return status_of_signal(signal.SIGINT)
    if isinstance(error, NoRowMeant):  # a good request, which nothing came of
        return FAILED
    return BAD_REQUEST if isinstance(error, _BAD_REQUESTS) else FAILED


def status_of_signal(number: int) -> int:
    """Return the exit status that shells expect of what a signal ended."""
    return 128 + number


def sentence(error: BaseException) -> str:
    """Return the sentence that reports an error, printable."""
    return printable(_sentence(error))


def _sentence(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "Interrupted."
    if isinstance(error, OSError) and error.strerror:
        return _system_error(error)
    if lacking := _lack(error):
        return lacking
    if isinstance(
        error, ValueError | OSError | ArithmeticError | Interrupted | ToleranceMissed
    ) and str(error):
        return str(error)
    said = (str(error).strip() or "no message").splitlines()[0].rstrip(".")
    said = f"{type(error).__name__}: {said}"
    return f"{said}. This should not have happened; add --debug to see where it did."


def _lack(error: BaseException) -> str | None:
    """Say what is missing, memory or a library that is optional; None where it is neither."""
    if isinstance(error, MemoryError):
        return "There is not enough memory. Lower --memory, or close other programs."
    if isinstance(error, ModuleNotFoundError) and error.name in EXTRAS:
        install = INSTALL.format(EXTRAS[error.name])
        return f"This needs {error.name}, which is not installed. {install}"
    return None


def _system_error(error: OSError) -> str:
    """Put an error of the operating system into a sentence, with advice where there is some."""
    where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
    if str(error.strerror).endswith("."):  # the storage's own sentences, advice included
        return f"{where}{error.strerror}"
    advice = "Check the path and try again."
    if isinstance(error, PermissionError):
        advice = "Change its permissions, or choose another place."
    elif not isinstance(error, _BAD_REQUESTS):
        advice = "Put that right and give the same command again."
    return f"{where}{error.strerror}. {advice}"
