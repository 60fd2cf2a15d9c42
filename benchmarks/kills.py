"""Many kills of `fewpass train`, resumed each time, and where they struck.

    python -m benchmarks.kills [--kills 20] [--method s2gd+] [--seed 0]

What tests/test_training_kill.py does, longer.  Every second process runs without Dask, the others
on threads or on two worker processes; two of three kills wait until the run is in the middle of an
inner walk or of a gather.  Exits with 1 when a run came to other bits than a quiet one.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests.killing import METHODS, Victim


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--method", choices=METHODS, default="s2gd+")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        victim = Victim(Path(folder), chosen.method)
        quiet = victim.quiet()
        outcomes = victim.finish_after(chosen.kills, chosen.seed)
    for kill in victim.kills:
        print(f"{kill.scheduler:16} {kill.place:11} after {kill.passes:6.2f} passes")
    struck = ", ".join(f"{n} in {place}" for place, n in Counter(victim.places()).items())
    print(f"{len(victim.kills)} kills ({struck}); {len(outcomes)} runs came to their end")
    print(f"a quiet run: {quiet.weights_sha256}, certificate {quiet.certificate:g}")
    if set(outcomes) != {quiet}:
        sys.exit(f"Not the same: {set(outcomes) - {quiet}}")
    print("all the same bits")


if __name__ == "__main__":
    main()
