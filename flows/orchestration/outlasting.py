"""Runs a Prefect worker, and when it is stopped has its flows end before it.

    python -m fewpass.flows.orchestration.outlasting prefect worker start --pool fewpass

A worker that is stopped kills its flows at once, whatever they are at.  Here SIGTERM and Ctrl-C go
to the flows first, once: a training takes a snapshot.  When all of them have ended, the worker gets
the signal.  It stands still until then: it would begin again what is interrupted, and kill it.  It
has a session of its own, so that nobody signals it and its flows together.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress

import psutil  # type: ignore[import-untyped]

STOPS = (signal.SIGTERM, signal.SIGINT)
LOOKS_EVERY_S = 0.1


def outlast(words: Sequence[str]) -> int:
    """Run a program until it has ended; return its exit status.

    Parameters
    ----------
    words
        The program and its arguments.

    Returns
    -------
    int
        128 and its number where a signal ended it, as shells have it.
    """
    early: list[int] = []
    came: list[int] = []
    # What a shell had this process ignore (Ctrl-C, of what ends in &) a program would ignore, too:
    # Prefect's worker stops itself by that signal.
    for number in STOPS:
        signal.signal(number, lambda one, _frame: early.append(one))
    program = subprocess.Popen(words, start_new_session=True)  # noqa: S603 - that is its purpose

    def stop(number: int, _frame: object) -> None:
        came.append(number)
        if len(came) == 1:  # waiting here would keep the next signal away
            threading.Thread(target=_end, args=(program, number), daemon=True).start()
        else:
            _pass_on(program, number)

    for number in STOPS:
        signal.signal(number, stop)
    for first in early:
        stop(first, None)
    status = program.wait()
    return status if status >= 0 else 128 - status


def _end(program: subprocess.Popen[bytes], number: int) -> None:
    """Ask what a program started to end, wait for it, then ask the program."""
    with suppress(psutil.NoSuchProcess):  # it ended by itself
        program.send_signal(signal.SIGSTOP)
        started = psutil.Process(program.pid).children()
        for flow in started:
            with suppress(psutil.NoSuchProcess):
                flow.terminate()
        while any(_lives(flow) for flow in started):
            time.sleep(LOOKS_EVERY_S)
    _pass_on(program, number)


def _lives(process: psutil.Process) -> bool:
    """Return whether a process is at work; ended ones are zombies while parents stand still."""
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _pass_on(program: subprocess.Popen[bytes], number: int) -> None:
    for one in (number, signal.SIGCONT):
        program.send_signal(one)


if __name__ == "__main__":
    sys.exit(outlast(sys.argv[1:]))
