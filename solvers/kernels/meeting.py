"""The place where the threads of one step wait for each other, inside a kernel.

compiler/lane_operations.py says how.
"""

from __future__ import annotations

from fewpass.solvers.kernels.shapes import WholeNumbers

GIVEN_UP = 1 << 62  # arrivals; where a thread never came, so that nobody waits for it


def meet(arrived: WholeNumbers, due: int) -> None:
    """Wait until `due` threads have arrived, this one and those of earlier meetings included.

    What any of them wrote before is seen afterwards.  In plain Python there is one thread, and
    nobody to wait for.
    """
