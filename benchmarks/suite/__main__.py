"""The benchmarks against what users would take instead: python -m benchmarks.suite.

Every contest's rows are added to a file of results, one JSON line each; the page is made of that
file and nothing else (python -m benchmarks.suite.page).
"""

from __future__ import annotations

import argparse
import tempfile
import time
import uuid
from pathlib import Path

from benchmarks.results import append
from benchmarks.suite.contest import hold
from benchmarks.suite.machine import machine, versions
from benchmarks.suite.programme import Programme


def main() -> None:
    """Hold the contests that were asked for."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--quick", action="store_true", help="toy sizes: shows that it runs")
    options.add_argument("--only", nargs="+", default=[], help="parts, or contests by their name")
    options.add_argument("--results", type=Path, default=Path("benchmarks/results.jsonl"))
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass")
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    parts = Programme(chosen.folder, quick=chosen.quick).contests()
    asked, began = set(chosen.only), time.perf_counter()
    about = {"run": uuid.uuid4().hex[:8], "quick": chosen.quick}
    for part, contests in parts.items():
        if asked and not any(name.split()[0] == part for name in asked):
            continue
        for contest in contests():
            if asked and not asked & {part, contest.name}:
                continue
            print(f"{time.perf_counter() - began:5.0f} s  {contest.name}", flush=True)
            stamp = {"at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
            for row in hold(contest):
                told = about | stamp | {"title": contest.title} | row
                append(chosen.results, told | {"machine": machine(), "versions": versions()})
                show(row)


def show(row: dict) -> None:
    """Print a row."""
    if row["kind"] == "time":
        wall, cpu = row["wall_s"], row["cpu_s"]
        each = (
            f"{cpu['median'] / row['count'] * 1e9:10.1f} ns/{row['unit']}" if row["count"] else ""
        )
        print(f"    {row['contestant']:34}{wall['median']:9.4f}{cpu['median']:9.4f}"
              f"{each}{row['beyond_imports_mb']:9.0f} MB", flush=True)  # fmt: skip
    else:
        sign = ">=" if row["ratio"] >= row["at_least"] else "<"
        print(f"    target {row['number']}: {row['ours']} / {row['peer']}: "
              f"{row['ratio']:.2f} {sign} {row['at_least']:.2f}, {row['measure']}",
              flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
