"""How long a training takes from the start of its command until the first row was stepped.

A process of its own is the command, as a user starts it; every walk's step is told to step one row,
to say how late it is, and to end the process.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

#: Run by a Python that knows nothing yet: what is imported here is imported by the command anyway.
CHILD = (
    "import sys; from benchmarks.first_row import be_command; be_command(float(sys.argv.pop(1)))"
)


class FirstRow(NamedTuple):
    """Seconds from the start of the process until a row was stepped."""

    wall_s: float
    cpu_s: float


def first_row(words: Sequence[str], folder: Path, environment: dict[str, str]) -> FirstRow:
    """Run a training until its first row; CalledProcessError where it comes to none."""
    began = time.clock_gettime(time.CLOCK_MONOTONIC)  # one clock for all processes
    done = subprocess.run(
        [sys.executable, "-c", CHILD, repr(began), *words], cwd=folder, check=True,
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    return FirstRow(*map(float, done.stdout.splitlines()[-1].split()))


def as_line(title: str, found: Sequence[FirstRow]) -> str:
    """Tell the least and the median of several runs."""
    wall, cpu = ([each[k] for each in found] for k in (0, 1))
    return (
        f"{title}: first row after {min(wall):.2f} s (median {median(wall):.2f}), "
        f"{min(cpu):.2f} CPU s (median {median(cpu):.2f}), {len(found)} runs"
    )


def be_command(began: float) -> None:
    """Be the `fewpass` command of this process's words, until a row was stepped."""
    from fewpass.flows import cli

    own = cli.main

    def main(arguments: Sequence[str] | None = None) -> int:
        _end_at_first_row(began)
        return own(arguments)

    cli.main = main
    cli.command_line()


def _end_at_first_row(began: float) -> None:
    from fewpass.solvers.walk_and_reduce import Walk

    make = Walk.__new__

    def making(cls: type[Walk], *values: Any, **named: Any) -> Walk:
        walk: Walk = make(cls, *values, **named)
        several = walk.interleaved
        return walk._replace(
            step=_ending(walk.step, began),
            interleaved=several and several._replace(step=_ending(several.step, began)),
        )

    Walk.__new__ = making  # type: ignore[method-assign,assignment]


def _ending(step: Callable[..., Any], began: float) -> Callable[..., Any]:
    from fewpass.solvers.walk_and_reduce import Block

    def one_row(*values: Any) -> None:
        step(*(v._replace(order=v.order[:1]) if isinstance(v, Block) else v for v in values))
        wall = time.clock_gettime(time.CLOCK_MONOTONIC) - began
        os.write(1, f"\n{wall} {time.process_time()}\n".encode())
        os._exit(0)

    return one_row
