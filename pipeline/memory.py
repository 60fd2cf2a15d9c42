"""The memory of this process: its peak, its limits, and what it gives back."""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from fewpass.pipeline.budget import Budget

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
LARGE_BYTES = 1 << 20
MOST_LARGE_BYTES = 1 << 25  # the most that glibc takes
STATUS, STATUS_BYTES = Path("/proc/self/status"), 1 << 13
GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def peak_memory_bytes() -> int:
    """Return the largest resident size of this process since it began."""
    try:
        with STATUS.open("rb", buffering=0) as status:  # asked for after every span
            text = status.read(STATUS_BYTES)
    except FileNotFoundError:  # the best there is, though it may count the process that began us
        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    return int(text.partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024


def usable_memory_bytes() -> int:
    """Return the bytes that this process may use: by the machine, its groups and its own limit."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), *_group_limits()]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return min(limits if soft == resource.RLIM_INFINITY else [*limits, soft])


def _group_limits(root: Path = GROUPS, groups: Path = OWN_GROUPS) -> list[int]:
    """Return the limits of the control groups that this process is in, of either version."""
    limits = []
    for group in own_groups("memory", root, groups):
        files = (group / name for name in ("memory.max", "memory.limit_in_bytes"))
        texts = (file.read_text().strip() for file in files if file.exists())
        limits += [int(text) for text in texts if text.isdigit()]  # "max": none
    return limits


def own_groups(kind: str, root: Path = GROUPS, groups: Path = OWN_GROUPS) -> Iterator[Path]:
    """Yield the folders of the control groups that this process is in, outermost first.

    `kind` is what they limit, which in the first version has folders of its own.
    """
    for line in groups.read_text().splitlines() if groups.exists() else []:
        _, kinds, inside = line.split(":", 2)
        group = root / kind if kind in kinds.split(",") else root
        for part in ["", *inside.strip("/").split("/")]:
            group /= part
            yield group


def return_freed_memory(budget: int = 0) -> None:
    """Have large freed arrays go back to the system at once, in this process from now on.

    glibc raises the size from which it asks the system for memory with every large array that is
    freed, up to 32 MB, and does not give back what is smaller: a quarter of a 256 MB budget in a
    training.  Under a large budget larger ones stay with the process, as new memory costs as much
    as filling it five times.  Where the C library has no such setting nothing is done.
    """
    large = min(max(LARGE_BYTES, Budget.of(budget).freed), MOST_LARGE_BYTES)
    set_option = _c_function("mallopt")
    if set_option is not None:
        set_option(M_MMAP_THRESHOLD, large)
        set_option(M_TRIM_THRESHOLD, 2 * large)


def release_freed_memory() -> None:
    """Give what is freed back to the system now: Arrow's memory, and the C library's.

    Cells of text leave holes between what is still in use, and glibc keeps these: 300 MB after a
    sample of 2,000 columns that takes 35 MB itself.
    """
    arrow = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    trim = _c_function("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _c_function(name: str) -> Callable[..., int] | None:
    return getattr(ctypes.CDLL(None), name, None)
