"""BLAS on one thread, while kernels step."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Give BLAS one thread for the while.

    Several add up in another order, and spin for milliseconds after each sum, in the way of those
    that step.
    """
    limited: AbstractContextManager[Any] = _controller().limit(limits=1, user_api="blas")
    return limited


@cache
def _controller() -> ThreadpoolController:
    """Search the loaded libraries once: that takes milliseconds."""
    return ThreadpoolController()
