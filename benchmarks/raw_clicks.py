"""A click log in the public Criteo form: rows a CPU second of its ingest, beside other routes.

    python -m benchmarks.raw_clicks --rows 1000000 --folder /dev/shm/raw
    python -m benchmarks.raw_clicks --profile       where the time of parsing one piece goes

Tab-separated, a label, 13 counts with gaps, 26 categories of eight hexadecimal digits: drawn like
the demo's clicks.  The same rows as LIBSVM text have as many values, in 2^20 columns.  The other
route reads the table with pandas, hashes it with scikit-learn's FeatureHasher and takes a step of
SGDClassifier for each row, in chunks.  Each is a process of its own; CPU seconds are user and
system time, kernels compiled before.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from fewpass.pipeline.clicks import PRESENT, VOCABULARY, mix, uniform
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import open_source
from fewpass.solvers.kernels.dispatch import kernel

COUNTS, BATCH = 13, 4096
MEMORY = "256MB"
COLUMNS = 1 << 20
SMALL = 20_000  # rows that are read before


@kernel
def put_number(out: Any, at: Any, number: Any) -> Any:
    """Write a whole number."""
    digits, rest = 1, number // 10
    while rest > 0:
        digits, rest = digits + 1, rest // 10
    for k in range(digits - 1, -1, -1):
        out[at + k] = 48 + number % 10
        number //= 10
    return at + digits


@kernel
def write_rows(table: Any, libsvm: Any, first: Any, rows: Any, seed: Any, vocabulary: Any) -> Any:
    """Write the same rows as both texts; return how much of each."""
    at, to = 0, 0
    columns = np.empty(vocabulary.shape[0], np.int64)
    for i in range(first, first + rows):
        label = 49 if uniform(seed, 4, i, 0) < 0.25 else 48
        table[at], libsvm[to] = label, label
        at, to = at + 1, to + 1
        for j in range(COUNTS):
            table[at] = 9
            at += 1
            if uniform(seed, 1, i, j) < PRESENT:
                count = int((1.0 - uniform(seed, 2, i, j)) ** -1.2) - 1  # a heavy tail
                count = min(count, 999_999_999)
                at = put_number(table, at, count)
                libsvm[to] = 32
                to = put_number(libsvm, to + 1, j + 1)
                libsvm[to] = 58
                to = put_number(libsvm, to + 1, count)
        found = 0
        for f in range(vocabulary.shape[0]):
            table[at] = 9
            at += 1
            if uniform(seed, 5, i, f) >= PRESENT:
                continue
            rank = int(vocabulary[f] ** uniform(seed, 6, i, f))
            code = np.int64(
                mix(np.uint64(f) * np.uint64(1 << 40) + np.uint64(rank)) >> np.uint64(32)
            )
            for k in range(8):
                digit = (code >> (28 - 4 * k)) & 15
                table[at + k] = 48 + digit if digit < 10 else 87 + digit
            at += 8
            column = COUNTS + 1 + code % (COLUMNS - COUNTS - 1)
            k = found
            while k > 0 and columns[k - 1] > column:
                columns[k] = columns[k - 1]
                k -= 1
            columns[k] = column
            found += 1
        for k in range(found):
            libsvm[to] = 32
            to = put_number(libsvm, to + 1, columns[k])
            libsvm[to], libsvm[to + 1] = 58, 49
            to += 2
        table[at], libsvm[to] = 10, 10
        at, to = at + 1, to + 1
    return at, to


def write(folder: Path, n: int, seed: int = 0) -> tuple[Path, Path]:
    """Write both files, if they are not there."""
    table, libsvm = folder / f"clicks{n}.tsv", folder / f"clicks{n}.svm"
    if table.exists() and libsvm.exists():
        return table, libsvm
    buffers = np.empty(BATCH * 700, np.uint8), np.empty(BATCH * 900, np.uint8)
    vocabulary = np.array(VOCABULARY, np.float64)
    with table.open("wb") as raw, libsvm.open("wb") as sparse:
        for first in range(0, n, BATCH):
            ends = write_rows(*buffers, first, min(BATCH, n - first), seed, vocabulary)
            raw.write(buffers[0][: ends[0]].data)
            sparse.write(buffers[1][: ends[1]].data)
    return table, libsvm


def measured(words: list[str]) -> dict[str, float]:
    """Run a command: its CPU seconds, wall seconds, and most memory."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    code = (
        "import resource, runpy, sys, json; sys.argv = sys.argv[1:];"
        "from fewpass.flows.cli import main; main(sys.argv)"
    )
    command = [sys.executable, "-c", code, *words] if words[0] == "ingest" else words
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"cpu_s": cpu, "wall_s": time.perf_counter() - began, "peak_mb": after.ru_maxrss / 1024}


def feature_hasher(path: str) -> None:
    """Read, hash and learn as scikit-learn's users do."""
    import pandas as pd
    from sklearn.feature_extraction import FeatureHasher
    from sklearn.linear_model import SGDClassifier

    hasher = FeatureHasher(COLUMNS, input_type="pair")
    model = SGDClassifier(loss="log_loss")
    kinds = dict.fromkeys(range(COUNTS + 1, 40), str)
    for chunk in pd.read_csv(path, sep="\t", header=None, dtype=kinds, chunksize=50_000):
        names = [f"c{k}" for k in range(1, 40)]
        columns = [chunk[k].tolist() for k in range(1, 40)]
        rows = (
            [
                (f"{name}={value}", 1.0) if isinstance(value, str) else (name, value)
                for name, value in zip(names, row, strict=True)
                if value == value
            ]
            for row in zip(*columns, strict=True)
        )
        model.partial_fit(hasher.transform(rows), chunk[0], classes=[0, 1])


def profile(table: Path) -> None:
    """Say where the time of parsing pieces goes, in one thread."""
    source = open_source([str(table)], SourceOptions(label=0, header=False, delimiter="\t"))
    pieces = [piece for _, piece in zip(range(8), source.pieces(4 << 20), strict=False)]
    source.parse(pieces[0])
    found = cProfile.Profile()
    began = time.process_time()
    found.enable()
    n = sum(source.parse(piece).table.n_rows for piece in pieces[1:])
    found.disable()
    print(f"{1e6 * (time.process_time() - began) / n:.3g} CPU s per million rows")
    pstats.Stats(found).sort_stats("tottime").print_stats(25)


def words_of(route: str, table: Path, libsvm: Path, folder: Path) -> list[str]:
    """Return what is run."""
    ingest = [str(folder / "data"), "--memory", MEMORY, "-q", "--overwrite"]
    return {
        "table": ["ingest", str(table), *ingest, "--label", "0", "--no-header"],
        "libsvm": ["ingest", str(libsvm), *ingest],
        "hasher": [sys.executable, "-m", "benchmarks.raw_clicks", "--hasher", str(table)],
    }[route]


def main() -> None:
    """Measure, and print a line for every route."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--hasher", help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=["table", "libsvm", "hasher"])
    options = parser.parse_args()
    if options.hasher:
        feature_hasher(options.hasher)
        return
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    table, libsvm = write(folder, options.rows)
    if options.profile:
        profile(table)
        return
    small = write(folder, SMALL)
    for name in ("table", "libsvm", "hasher"):
        if options.only in (None, name):
            measured(words_of(name, *small, folder))  # kernels are compiled, or files are read
            found = measured(words_of(name, table, libsvm, folder))
            told = {"route": name, "rows": options.rows, **found}
            told["rows_per_cpu_s"] = options.rows / found["cpu_s"]
            print(json.dumps(told), flush=True)
    print(json.dumps({path.name: path.stat().st_size for path in (table, libsvm)}))


if __name__ == "__main__":
    main()
