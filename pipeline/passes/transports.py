"""Addresses of clusters that a package of its own teaches Dask."""

from __future__ import annotations

from importlib import import_module

from fewpass.pipeline.errors import BadInput

#: Packages that know how to reach a scheduler, by the scheme of its address.
PACKAGES = {"gateway": "dask-gateway"}


def require_transport(scheduler: str) -> None:
    """Let Dask learn the scheme of an address; BadInput where its package is not installed."""
    package = PACKAGES.get(scheduler.partition("://")[0])
    if package is None:
        return
    try:
        import_module(package.replace("-", "_"))
    except ImportError as error:
        raise BadInput(
            f"The Dask scheduler at {scheduler} is reached through {package}, which is not "
            f"installed. Install it with pip install {package}."
        ) from error
