"""How much memory this process takes."""

from __future__ import annotations

import resource
from pathlib import Path


def peak_memory_bytes() -> int:
    """Return the largest resident size of this process since it began."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    # Elsewhere the best there is, though it may count the process that started this one.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
