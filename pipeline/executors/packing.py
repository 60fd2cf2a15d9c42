"""What a task is given, as bytes that are read where it runs.

A data set is opened when it is read from its bytes, and that may fail: no credentials there, or
another set at its address.  Dask reads what it was given in the connection between two processes,
where an error closes the connection, and with it the worker.  In the task it is the task's error.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cloudpickle  # type: ignore[import-untyped]

from fewpass.pipeline.executors.versions import Versions, parted, versions_here


@dataclass(frozen=True, slots=True)
class Packed:
    """A value as bytes."""

    pickled: bytes


class _HasFuture(Exception):  # noqa: N818 - never seen outside
    """A value of which Dask must see a part: what an earlier task returns."""


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Stops at a handle on an earlier task."""

    def __init__(self, file: io.BytesIO, handle: type) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._handle = handle

    def persistent_id(self, value: Any) -> None:
        """Let everything else through."""
        if isinstance(value, self._handle):
            raise _HasFuture


def packed(value: Any, handle: type) -> Any:
    """Return a value as bytes; as it is where it holds handles on earlier tasks."""
    file = io.BytesIO()
    try:
        _Packer(file, handle).dump(value)
    except _HasFuture:
        return value
    return Packed(file.getvalue())


class OtherVersions(ConnectionError):  # noqa: N818 - it is told as it is
    """A worker that computes with other versions than whoever gave it a task."""


def call(versions: Versions, function: Packed | Callable[..., Any], *args: Any) -> Any:
    """Read what was packed, and call the function; OtherVersions where it came from others."""
    found = [words for weighs, words in parted(versions_here(), versions) if weighs]
    if found:
        raise OtherVersions("; ".join(found))
    run, *given = [_read(value) for value in (function, *args)]
    return run(*given)


def _read(value: Any) -> Any:
    return pickle.loads(value.pickled) if isinstance(value, Packed) else value
