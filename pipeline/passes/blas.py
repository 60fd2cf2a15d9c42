"""BLAS on one thread, while kernels run.

With several threads BLAS sums in another order, and they spin for milliseconds after each sum,
slowing the kernels.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_limits


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread during a `with` block."""
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def limit_blas_here() -> None:
    """Limit BLAS to one thread from now on, in the process of a worker.

    Dask starts its workers so, unless their environment says otherwise, as a batch system's does,
    or there is no nanny.  Of tasks side by side none can lift the limit when it ends.
    """
    import numpy as np  # noqa: PLC0415, F401 - whose BLAS it is

    threadpool_limits(1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the loaded libraries, which takes milliseconds to create."""
    return ThreadpoolController()
