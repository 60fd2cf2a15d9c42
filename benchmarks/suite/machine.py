"""What the numbers were measured on, and with."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("fewpass", "numpy", "scipy", "numba", "dask", "zarr", "numcodecs", "scikit-learn",
            "dask-ml", "liblinear-official", "snapml", "vowpalwabbit", "polars", "pyarrow",
            "pandas")  # fmt: skip


def machine() -> dict[str, Any]:
    """Processor, memory and system."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"processor": processor(), "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(pages / 1e9, 1), "caches": caches(),
            "system": platform.system()}  # fmt: skip


def processor() -> str:
    """The processor's name."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def caches() -> dict[str, str]:
    """Sizes of the first core's caches."""
    folder = Path("/sys/devices/system/cpu/cpu0/cache")
    found = {}
    for index in sorted(folder.glob("index*")):
        kind, level = ((index / name).read_text().strip() for name in ("type", "level"))
        if kind != "Instruction":
            found[f"L{level}"] = (index / "size").read_text().strip()
    return found


def versions() -> dict[str, str]:
    """Versions of Python and of everybody who competes."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "-"
    return found
