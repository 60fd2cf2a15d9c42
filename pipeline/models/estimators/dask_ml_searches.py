"""Patches of dask-ml 2025.1.0, with which its incremental searches run on today's Dask."""

from __future__ import annotations

from typing import Any


class _Dask:
    """`dask` as the searches use it: they persist inside their client's own event loop."""

    def __init__(self, dask: Any) -> None:
        self._dask = dask

    def __getattr__(self, name: str) -> Any:
        return getattr(self._dask, name)

    def persist(self, *given: Any) -> Any:
        """Persist the collections in some dictionaries by the client itself.

        `dask.persist` refuses a client that is asynchronous, as it is inside its own event loop.
        """
        from dask.base import unpack_collections  # noqa: PLC0415 - whoever searches has them
        from distributed import default_client  # noqa: PLC0415

        collections, repacked = unpack_collections(*given)
        return repacked(default_client().persist(collections)) if collections else given


def mend_dask_ml() -> None:
    """Make `IncrementalSearchCV`, `HyperbandSearchCV` and the like of dask-ml work again.

    Under present versions of Dask they raise "Attempting to use an asynchronous Client in a
    synchronous context".  Call it once, before the first search.
    """
    from dask_ml.model_selection import _incremental as searches  # noqa: PLC0415 - two seconds

    if not isinstance(searches.dask, _Dask):
        searches.dask = _Dask(searches.dask)
