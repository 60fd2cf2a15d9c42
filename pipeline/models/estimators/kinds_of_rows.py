"""Kinds of rows that an estimator is given: in memory, or somewhere else."""

from __future__ import annotations

import os
from typing import Any


def is_stored(X: Any, memory: Any) -> bool:
    """Say whether rows are somewhere else than in memory, or in too large a zarr array."""
    return is_paths(X) or is_collection(X) or _is_large_zarr(X, memory)


def is_paths(X: Any) -> bool:
    """Say whether X names files or a data set."""
    if isinstance(X, list | tuple):
        return bool(X) and all(isinstance(one, str | os.PathLike) for one in X)
    return isinstance(X, str | os.PathLike)


def is_collection(X: Any) -> bool:
    """Say whether X is Dask's, or a list of delayed blocks."""
    if isinstance(X, list | tuple):
        return bool(X) and all(is_collection(one) for one in X)
    return hasattr(type(X), "__dask_graph__")


def _is_large_zarr(X: Any, memory: Any) -> bool:
    if not type(X).__module__.startswith("zarr."):
        return False
    from fewpass.pipeline.models.estimators.meanings import budget_of  # noqa: PLC0415 - imports pydantic

    return bool(X.nbytes > budget_of(memory))
