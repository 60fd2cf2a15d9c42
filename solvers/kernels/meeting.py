"""The place where the threads of one step wait for each other, inside a kernel."""

from __future__ import annotations

from typing import Any

from numba.extending import overload

from fewpass.solvers.kernels.dispatch import PART
from fewpass.solvers.kernels.llvm_memory import (
    add_atomically,
    let_others_run,
    read_atomically,
    sleep,
)
from fewpass.solvers.kernels.shapes import WholeNumbers

SPINS = 1000  # some microseconds, ...
YIELDS = 1020  # ... after which another program may have the core: machines are shared, ...
NAP = 50  # ... and then microseconds of sleep: the others are without a core
GIVEN_UP = 1 << 62  # arrivals; where a thread never came, so that nobody waits for it


def meet(arrived: WholeNumbers, due: int) -> None:
    """Wait until `due` threads have arrived, this one and those of earlier meetings included.

    What any of them wrote before is seen afterwards.  In plain Python there is one thread, and
    nobody to wait for.
    """


@overload(meet, jit_options=PART | {"_nrt": False})  # type: ignore[untyped-decorator]
def _(arrived: Any, due: Any) -> Any:
    def wait(arrived: Any, due: Any) -> None:
        add_atomically(arrived, 0, 1)
        spins = 0
        while read_atomically(arrived, 0) < due:
            spins += 1
            if spins > YIELDS:
                sleep(NAP)
            elif spins > SPINS:
                let_others_run()

    return wait
