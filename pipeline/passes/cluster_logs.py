"""Logs of Dask's cluster: kept until one is opened, so that no other run needs Dask."""

from __future__ import annotations

#: A level of Python's logging; None: as Dask's own configuration says.
level: str | None = None


def set_level() -> None:
    """Tell Dask, before `distributed` is imported: it reads its configuration once."""
    if level is None:
        return
    import dask.config  # noqa: PLC0415 - a tenth of a second

    dask.config.set({"logging": dict.fromkeys(("distributed", "distributed.client"), level)})
