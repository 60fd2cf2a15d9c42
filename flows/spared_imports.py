"""Imports of libraries that no command needs."""

from __future__ import annotations

import os
import sys
from typing import Any

#: A pool of threads beside our own, and a search of all installed packages for pydantic's plugins.
SPARED = {"OPENBLAS_NUM_THREADS": "1", "PYDANTIC_DISABLE_PLUGINS": "__all__"}


class NoFrames:
    """A finder by which pandas is not installed.

    Arrow asks whether an array is one of its, and imports it for that: a quarter of a second.
    """

    @staticmethod
    def find_spec(name: str, *_: Any) -> None:
        """Refuse pandas; of other modules nothing is known.

        Not to Bokeh, which Dask's dashboard is made with, and which needs it.
        """
        if name == "pandas" and "distributed" not in sys.modules:
            raise ModuleNotFoundError("commands hold no frames", name=name)


def spare() -> None:
    """Begin a process that runs a command."""
    for name, value in SPARED.items():
        os.environ.setdefault(name, value)
    sys.meta_path.insert(0, NoFrames)


def allow_frames() -> None:
    """Let libraries have pandas after all."""
    if NoFrames in sys.meta_path:
        sys.meta_path.remove(NoFrames)
