"""BLAS on one thread, while kernels run."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Limit BLAS to one thread during a `with` block.

    With several threads BLAS sums in another order, and they spin for milliseconds after each sum,
    slowing the kernels.
    """
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> ThreadpoolController:
    """Return the controller of the loaded libraries, which takes milliseconds to create."""
    return ThreadpoolController()
