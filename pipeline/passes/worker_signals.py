"""Preload of worker processes started here: they ignore Ctrl-C, as the training process ends them.

A terminal sends it to every process of the command; states would be lost with the workers.
"""

from __future__ import annotations

import signal
import threading
from typing import Any


def dask_setup(_worker: Any) -> None:
    """Ignore Ctrl-C in this process."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
