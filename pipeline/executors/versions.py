"""What a process computes with: two that differ come to other bits, or to none.

A worker's versions are asked for when it is first seen, and a task that was given by a process of
another kind is not begun.  Dask would run it, and fail in the middle or not at all.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

#: How many parts of a version must agree for the same bits; what comes after them is only told.
PARTS = {"fewpass": 9, "python": 2, "numba": 2, "numpy": 2, "llvmlite": 2}
PACKAGES = [package for package in PARTS if package != "python"]
SOURCES = "sources of fewpass"

Versions = Mapping[str, str | None]


@cache
def versions_here() -> dict[str, str | None]:
    """Return the versions that this process computes with, by package, and a digest of its own."""
    found = {package: _version(package) for package in PACKAGES}
    return found | {"python": platform.python_version(), SOURCES: _sources()}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # its folder is on the path
        return None


def _sources() -> str:
    """Return a digest of fewpass itself: checkouts of one version differ."""
    folder, digest = Path(__file__).parents[2], hashlib.sha256()
    found = os.walk(folder, followlinks=True)  # in a checkout there are links to its folders
    paths = (Path(where, name) for where, _, names in found for name in names)
    for path in sorted(path for path in paths if path.suffix == ".py"):
        digest.update(f"{path.relative_to(folder)}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def parted(found: Versions, here: Versions) -> Iterator[tuple[bool, str]]:
    """Yield how versions found elsewhere differ from those here: whether bits may, and in words."""
    for package, parts in PARTS.items():
        there, ours = found.get(package), here.get(package)
        if package == "fewpass" and None in (there, ours):
            continue  # its sources are looked at
        if there != ours:
            weighs = _first(there, parts) != _first(ours, parts)
            yield weighs, f"{package} {there or 'is missing'} there, {ours or 'none'} here"
    there, ours = found.get(SOURCES), here.get(SOURCES)
    if there is not None and there != ours and found.get("fewpass") == here.get("fewpass"):
        yield True, f"other {SOURCES} there ({there}) than here ({ours})"


def _first(text: str | None, parts: int) -> list[str] | None:
    return None if text is None else text.split(".")[:parts]


def told_by_dask(answer: Mapping[str, Any]) -> dict[str, str | None]:
    """Return a process's versions from what Dask says of it: any Dask, with or without fewpass."""
    packages = answer["packages"]
    found = {package: packages.get(package) for package in PACKAGES}
    python = str(packages.get("python") or "")
    return found | {"python": ".".join(python.split(".")[:3])}
