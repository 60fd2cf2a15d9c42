"""Processor's seconds and peak memory of `ingest`, `append`, `forget` and `head` on many rows.

    python -m benchmarks.changed_sets [--rows 1000000] [--share 0.1] [--gone 100]

A table of visits with ids: words, dates and numbers.  Appended is a share of as many rows more;
forgotten are all visits of some ids, spread over the whole set.  Each command is a process of its
own, with 1 GiB of budget and two threads, its kernels compiled before.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

FEWPASS = "from fewpass.flows.cli import main; import sys; sys.exit(main())"
VISITORS = 50_000
COUNTRIES = ("IT", "JP", "DE", "US", "BR", "FR", "GB", "ES")


def write_rows(path: Path, n: int, seed: int) -> None:
    """Write visits: an id, a day, words, numbers, and whether something was bought."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, VISITORS, n)
    spent, age = rng.lognormal(2, 1, n), rng.integers(18, 90, n)
    country, page = rng.integers(0, len(COUNTRIES), n), rng.integers(0, 3000, n)
    score = 0.5 * np.log(spent) - 0.02 * age + 0.3 * (country % 3) + rng.logistic(size=n)
    days = np.datetime64("2026-01-01") + rng.integers(0, 300, n)
    columns = {
        "visitor": pa.array(np.char.add("v", ids.astype(str))),
        "day": pa.array(days),
        "country": pa.array(np.array(COUNTRIES)[country]),
        "page": pa.array(np.char.add("/item/", page.astype(str))),
        "spent": pa.array(spent.round(2)),
        "age": pa.array(age),
        "bought": pa.array(np.where(score > 0, "yes", "no")),
    }
    pq.write_table(pa.table(columns), path)


def run(*words: str) -> tuple[dict[str, Any], str]:
    """Run a command in a process of its own; return what it printed and what it took."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", FEWPASS, *words, "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    wall = time.perf_counter() - began
    facts: dict[str, Any] = json.loads(out)
    peak = facts.get("peak_memory_bytes", 0) / 1e6
    return facts, f"{words[0]:8} {cpu:6.1f} s of processors, {wall:6.1f} s, {peak:6.0f} MB"


def main() -> None:
    """Measure, and print a line for each command."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--share", type=float, default=0.1)
    options.add_argument("--gone", type=int, default=100)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_rows(Path("small.parquet"), 2000, 7)
        write_rows(Path("old.parquet"), chosen.rows, 1)
        write_rows(Path("new.parquet"), int(chosen.share * chosen.rows), 2)
        Path("ids").write_text("".join(f"v{k}\n" for k in range(chosen.gone)), encoding="utf-8")
        how = ("--label", "bought", "--keep", "visitor", "--threads", "2")
        run("ingest", "small.parquet", "warm", *how)
        run("append", "warm", "small.parquet")
        for words in (
            ("ingest", "old.parquet", "set", *how),
            ("append", "set", "new.parquet", "--threads", "2"),
            ("forget", "set", "--where", "visitor in ids", "--threads", "2"),
            ("inspect", "set", "--rows", "20"),
        ):
            facts, said = run(*words)
            counts = {k: facts[k] for k in ("rows", "appended", "forgotten") if k in facts}
            print(said, counts)


if __name__ == "__main__":
    main()
