"""Signals: who handles them, for how long, and what a second one does."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
AGAIN_S = 0.25  # the finalizer is over by then, and the hook, on a busy machine too


@contextmanager
def handling(
    handle: Callable[[int], None], signals: Sequence[int] = SIGNALS
) -> Iterator[dict[int, Any]]:
    """Call `handle` when a signal comes; yields the handlers from before, which are put back.

    One that is ignored, as under nohup, stays so.  Outside of the main thread nothing is changed.
    """

    def called(number: int, _frame: FrameType | None) -> None:
        handle(number)

    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {n: signal.getsignal(n) for n in signals}
        before = {n: h for n, h in before.items() if h not in (signal.SIG_IGN, None)}
    try:
        for number in before:
            signal.signal(number, called)
        yield before
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Interrupts:
    """Ctrl-C outside of a training: the first ends the command, another one the process.

    Attributes
    ----------
    came : bool
        Whether one came.  An error that follows is its doing, whatever it is called: what was
        struck in the middle may have made another one of it.
    """

    def __init__(self) -> None:
        self.came = False

    def handle(self, number: int) -> None:
        """Take a signal."""
        if self.came:
            write_now("fewpass: Interrupted.\n")
            os._exit(128 + number)
        self.came = True
        raise KeyboardInterrupt


@contextmanager
def sending_lost_ones_again(interrupts: Interrupts) -> Iterator[None]:
    """Send a Ctrl-C again whose exception was lost.

    Where one comes while a finalizer or a callback of C code is running, Python prints the
    exception and goes on as if there had been none.
    """
    before = sys.unraisablehook

    def hook(lost: Any) -> None:
        if not issubclass(lost.exc_type, KeyboardInterrupt):
            before(lost)
            return
        interrupts.came = False
        again = threading.Timer(AGAIN_S, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def end_at_once() -> None:
    """Have a Ctrl-C that nobody handles end this process, with no traceback.

    One may come when a command is over and has put back the handler from before.
    """

    def leave(number: int, _frame: FrameType | None) -> None:
        os._exit(128 + number)

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not so under nohup
        signal.signal(signal.SIGINT, leave)


def write_now(text: str) -> None:
    """Write to standard error past all that a signal may have struck in the middle of."""
    with suppress(OSError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, text.encode())


def deliver(number: int, handler: Any) -> None:
    """Do what a signal does where this handler is set."""
    if callable(handler):
        handler(number, None)
    else:
        signal.signal(number, handler)
        signal.raise_signal(number)
