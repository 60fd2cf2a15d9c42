"""Tests in processes of their own: what leans on other tests, or on this processor's rounding, shows.

    python -m testing.alone tests/pipeline tests/docs             each file alone
    python -m testing.alone --folders tests                       each folder, in one process
    python -m testing.alone --processor x86-64-v2 tests/solvers   with an older one's instructions

A line tells how each ended, with the names of the tests that failed, and what it took by the clock and
of processors, those of what it started included; the exit status is 1 where any failed.  Kernels for another processor are compiled once, and kept beside those of this one.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

NO_TESTS = 5  # pytest's exit status where all are left out
PYTEST = [
    sys.executable, "-m", "pytest", "-q", "--tb=short", "-p", "no:xdist", "-p", "no:cacheprovider",
]  # fmt: skip


def parts(paths: list[Path], *, folders: bool) -> Iterator[list[Path]]:
    """Yield the test files that one process runs."""
    files = sorted({f for p in paths for f in ([p] if p.is_file() else p.rglob("test_*.py"))})
    if not folders:
        yield from ([file] for file in files)
        return
    for folder in sorted({file.parent for file in files}):
        yield [file for file in files if file.parent == folder]


def processor_seconds() -> float:
    """Return what processes that ended have taken of processors."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(files: list[Path], environment: dict[str, str]) -> bool:
    """Say how the tests of some files ended; whether they passed."""
    began, worked = time.monotonic(), processor_seconds()
    done = subprocess.run(
        [*PYTEST, *map(str, files)], env=environment, check=False, capture_output=True, text=True
    )
    passed, name = (
        done.returncode in {0, NO_TESTS},
        files[0] if len(files) == 1 else files[0].parent,
    )
    last = (done.stdout.splitlines() or [""])[-1]
    took = f"{time.monotonic() - began:.0f} s, {processor_seconds() - worked:.1f} CPU s"
    print(f"{'passed' if passed else 'FAILED'} {name} ({took}): {last}", flush=True)
    if not passed:
        print(done.stdout, done.stderr, sep="\n", flush=True)
    return passed


def main() -> int:
    """Run what is named, all of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--folders", action="store_true", help="a process for each folder")
    parser.add_argument("--processor", help="whose instructions kernels use, as LLVM names it")
    given = parser.parse_args()
    of_processor = {"NUMBA_CPU_NAME": given.processor, "NUMBA_CPU_FEATURES": ""}
    environment = os.environ | (of_processor if given.processor else {})
    ends = [run(part, environment) for part in parts(given.paths, folders=given.folders)]
    return 0 if all(ends) else 1


if __name__ == "__main__":
    sys.exit(main())
