"""Ctrl-C and SIGTERM: the first lets a training take a snapshot, a second ends it at once."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn, Protocol

from fewpass.flows.display.console import Terminal
from fewpass.flows.display.log_lines import json_line
from fewpass.flows.refusals import Interrupted, status_of_signal
from fewpass.flows.signals import deliver, handling, write_now
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.sizes import counted, format_passes
from fewpass.storage.addresses import command

STOPPING = (
    "Stopping: a snapshot is taken as soon as the step under way is over. Once more, and it stops "
    "at once."
)
_WAITS = threading.Event()  # a signal for a snapshot, in `stopping_first`
SHOW_CURSOR = "\x1b[?25h"  # a display that redraws itself had hidden it


class Run(Protocol):
    """A training that can be asked to stop; a `TrainingRun` is one."""

    @property
    def run(self) -> RunFolder:
        """Its folder."""

    @property
    def newest(self) -> Saved | None:
        """The newest snapshot."""

    def stop(self) -> None:
        """Ask it to take a snapshot and end."""


class Asked(KeyboardInterrupt):
    """A signal that came before there was anything to take a snapshot of."""


class Stopping:
    """Handlers of signals during the training of a command.

    Attributes
    ----------
    training : Run or None
        What to bring to rest; None before there is a run, when a signal ends all at once.
    picked_up : bool
        Whether the training has reported where it begins; before that its snapshots are unknown.
    """

    def __init__(self, terminal: Terminal) -> None:
        self.training: Run | None = None
        self.picked_up = False
        self._terminal = terminal
        self._signal: int | None = None

    def handle(self, number: int) -> None:
        """Take a signal."""
        first, self._signal = self._signal is None, number
        if not first:
            self._leave()
        if self.training is None:
            raise Asked
        self.training.stop()
        if not self._terminal.output.quiet:
            self._write("info", STOPPING)

    def interrupted(self) -> Interrupted:
        """Return the error that says what was stored and how to go on."""
        return Interrupted(f"Interrupted. {self._stored_in_words()}", self._signal or signal.SIGINT)

    def _stored_in_words(self) -> str:
        if self.training is None or not self.picked_up:
            return "Nothing was trained; the same command again goes on with what is there."
        url, newest = self.training.run.url, self.training.newest
        if newest is None:
            return (
                "Nothing was kept, as there was no snapshot yet. "
                f"`{command('resume', url)}` begins at the first row."
            )
        cursor = newest.cursor
        return (
            f"`{command('resume', url)}` goes on from its snapshot {newest.name}: "
            f"{format_passes(cursor.passes, '.4g')}"
            + (f", {counted(cursor.rows_seen, 'row')} seen." if cursor.rows_seen else ".")
        )

    def _leave(self) -> NoReturn:
        """End this process: whatever is half done in a run's folder is passed over by a resume."""
        error = self.interrupted()
        show_cursor = SHOW_CURSOR if self._terminal.live else ""
        self._write("error", str(error), f"{show_cursor}fewpass: ")
        os._exit(status_of_signal(error.signal))

    def _write(self, level: str, said: str, before: str = "") -> None:
        """Write a line past all that the signal has struck in the middle of."""
        as_json = self._terminal.log_format == "json"
        write_now(f"{json_line(level, said) if as_json else f'{before}{said}'}\n")


@contextmanager
def stopping(terminal: Terminal) -> Iterator[Stopping]:
    """Let signals stop the training of a command; Interrupted where one came too early for that."""
    asked = Stopping(terminal)
    try:
        with handling(asked.handle):
            yield asked
    except KeyboardInterrupt:
        raise asked.interrupted() from None


def is_stopping() -> bool:
    """Return whether a signal waits for a snapshot: one more would end all at once."""
    return _WAITS.is_set()


@contextmanager
def stopping_first(stop: Callable[[], bool]) -> Iterator[list[int]]:
    """Let the first signal wait for a snapshot, then hand it to whoever would have had it.

    Yields the signals that wait: what is done in parts goes on with no other one then.

    Parameters
    ----------
    stop
        Asks for a snapshot and an end; False where a signal need not wait for them.
    """
    waiting: list[int] = []

    def handle(number: int) -> None:
        if waiting or not stop():
            waiting.clear()
            deliver(number, before[number])
        else:
            waiting.append(number)
            _WAITS.set()

    try:
        with handling(handle) as before:
            yield waiting
    finally:
        _WAITS.clear()
    for number in waiting:
        deliver(number, before[number])
