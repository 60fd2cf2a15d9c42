"""Functions and arguments of tasks, pickled apart.

A data set is opened when it is unpickled, and that may fail: no credentials there, or another set
at its address.  Dask unpickles arguments in the connection between two processes, where an error
closes the connection, and with it the worker.  So tasks get bytes, and unpickle them themselves.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import cloudpickle  # type: ignore[import-untyped]

from fewpass.pipeline.passes.blas import limit_blas_here
from fewpass.pipeline.passes.versions import Versions, version_differences, versions_here

Kind = TypeVar("Kind", bound=type)


@dataclass(frozen=True, slots=True)
class Packed:
    """A pickled value.

    Attributes
    ----------
    is_shared : bool
        Whether it is unpickled once in each process: a job, whose data set need not be opened for
        every span.
    """

    pickled: bytes
    is_shared: bool = False

    @property
    def value(self) -> Any:
        """The value, unpickled."""
        return _once(self.pickled) if self.is_shared else pickle.loads(self.pickled)


@lru_cache(maxsize=4)
def _once(pickled: bytes) -> Any:
    return pickle.loads(pickled)


def unpickled_once(kind: Kind) -> Kind:
    """Mark a class: its values are unpickled once in each process, and never changed."""
    kind.is_shared = True  # type: ignore[attr-defined]
    return kind


class OtherVersions(ConnectionError):  # noqa: N818 - users read the message, not the name
    """A worker whose versions differ from those of the process that submitted a task."""


class _HasFuture(Exception):  # noqa: N818 - never seen outside
    """A value that holds the result of an earlier task, which Dask must see."""


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    """Stops at a handle on an earlier task."""

    def __init__(self, file: io.BytesIO, handle: type) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._handle = handle

    def persistent_id(self, value: Any) -> None:
        if isinstance(value, self._handle):
            raise _HasFuture


def type_of_handles() -> type:
    """Return the class of the futures of `distributed.Client.submit`."""
    from distributed import Future  # noqa: PLC0415

    return Future


def packed(value: Any, handle: type) -> Any:
    """Pickle a value; return it unchanged if it holds handles on earlier tasks."""
    file = io.BytesIO()
    try:
        _Packer(file, handle).dump(value)
    except _HasFuture:
        return value
    return Packed(file.getvalue(), getattr(type(value), "is_shared", False))


def call(versions: Versions, function: Packed | Callable[..., Any], *args: Any) -> Any:
    """Unpickle a function and its arguments, and call it.

    Raises OtherVersions if the submitting process has other versions than this one.
    """
    differences = [
        words for weighs, words in version_differences(versions_here(), versions) if weighs
    ]
    if differences:
        raise OtherVersions("; ".join(differences))
    run, *given = [_unpacked(value) for value in (function, *args)]
    limit_blas_here()
    return run(*given)


def _unpacked(value: Any) -> Any:
    return value.value if isinstance(value, Packed) else value
