"""Versions that results depend on: processes with different ones give other bits, or fail.

A worker's versions are checked when it is first seen, and a task submitted by a process with other
versions is not started.  Dask would run it, and fail in the middle or not at all.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

#: Number of version components that must agree for the same bits; others are only reported.
PARTS = {"fewpass": 9, "python": 2, "numba": 2, "numpy": 2, "llvmlite": 2}
SOURCES = "sources of fewpass"

Versions = Mapping[str, str | None]


@cache
def versions_here() -> dict[str, str | None]:
    """Return the versions of this process by package, and a digest of fewpass."""
    versions = {package: _version(package) for package in PARTS if package != "python"}
    return versions | {"python": platform.python_version(), SOURCES: _sources()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # not installed, but on the path
        return None


def _sources() -> str:
    """Return a digest of fewpass: checkouts of one version differ."""
    folder, digest = Path(__file__).parents[2], hashlib.sha256()
    folders = os.walk(folder, followlinks=True)  # a checkout has links to its folders
    paths = (Path(where, name) for where, _, names in folders for name in names)
    for path in sorted(path for path in paths if path.suffix == ".py"):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def version_differences(elsewhere: Versions, here: Versions) -> Iterator[tuple[bool, str]]:
    """Yield differences of versions from those here: whether bits may differ, and a description."""
    for package, parts in PARTS.items():
        there, ours = elsewhere.get(package), here.get(package)
        if package == "fewpass" and None in (there, ours):
            continue  # its sources are compared instead
        if there != ours:
            weighs = _first(there, parts) != _first(ours, parts)
            yield weighs, f"{package} {there or 'is missing'} there, {ours or 'none'} here"
    there, ours = elsewhere.get(SOURCES), here.get(SOURCES)
    if there != ours and elsewhere.get("fewpass") == here.get("fewpass"):
        yield True, f"other {SOURCES} there ({there}) than here ({ours})"


def _first(text: str | None, parts: int) -> list[str] | None:
    return None if text is None else text.split(".")[:parts]
