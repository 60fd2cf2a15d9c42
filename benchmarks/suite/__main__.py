"""The benchmarks against what users would take instead: python -m benchmarks.suite.

Every contest adds a line to a file of results, with the machine and the versions of all; the page
and its figures are made of that file and nothing else (python -m benchmarks.suite.page).
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from benchmarks.suite.machine import machine, versions
from benchmarks.suite.programme import Programme
from testing.results import PROJECT, append

RESULTS = PROJECT / "docs/performance.jsonl"


def main() -> None:
    """Hold the contests that were asked for."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="toy sizes: shows that it runs")
    options.add_argument("--only", nargs="+", default=[], help="parts, or contests by their name")
    options.add_argument("--results", type=Path, default=RESULTS)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass")
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    parts = Programme(chosen.folder, quick=chosen.quick).contests()
    asked, began = set(chosen.only), time.perf_counter()
    run = uuid.uuid4().hex[:8]
    for part, contests in parts.items():
        if asked and not any(name.split()[0] == part for name in asked):
            continue
        for contest in contests():
            if asked and not asked & {part, contest.name}:
                continue
            print(f"{time.perf_counter() - began:5.0f} s  {contest.name}", flush=True)
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            load = os.getloadavg()[0]
            found = contest.held(rehearsed=not chosen.quick)
            held = {"run": run, "at": at, "quick": chosen.quick, "load": load, **found}
            append(chosen.results, held | {"machine": machine(), "versions": versions()})
            show(held)


def show(held: dict[str, Any]) -> None:
    """Print what came out of a contest."""
    for name, row in held.get("contestants", {}).items():
        wall, cpu = (row[measure]["median"] for measure in ("wall_s", "cpu_s"))
        print(f"    {name:34}{wall:9.4f} s{cpu:9.4f} CPU s{row['peak_rss_mb']:9.0f} MB", flush=True)
    for name, row in held.get("courses", {}).items():
        print(f"    {name:34}{row['seconds_to']}{' chosen' if row['chosen'] else ''}", flush=True)
    for target in held["targets"]:
        ratio = "-" if target["ratio"] is None else f"{target['ratio']:.2f}"
        print(f"    {target['peer']} / {target['ours']}: {ratio}, wanted "
              f"{target['at_least']:.2f}, {target['measure']}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
