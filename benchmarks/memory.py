"""Peak memory beyond what importing takes, against the size of the input: flat.

    python -m benchmarks.memory --sizes 4GB 16GB --memory 256MB

Makes LIBSVM files of the given sizes (click-log-like: 39 of a million columns per row; a block of
64 MB, repeated), ingests each and trains on it (one pass and one that certifies), every step in a
process of its own, and records what it took.  "Importing" is all that stands before the first row:
for training that includes the Dask cluster in the process.  The files are kept in `--folder` for
the next time; count on twice the largest size of disk space.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from fewpass.pipeline.sizes import parse_bytes
from testing.results import EVIDENCE, Row, conclude, recorded

ROWS_PER_BLOCK = 140_000
COLUMNS, PER_ROW = 1_000_000, 39

INGEST = """
import json, sys
import fewpass.pipeline.tables.ingest.phases as room
plan = room.IngestPlan.model_validate_json(sys.argv[1])
room.RowMapper, room.ChunkMaker  # what the job uses is imported here
imported = room.peak_memory_bytes()
result = room.ingest(plan)
print(json.dumps({"imported": imported, **result.model_dump()}))
"""

TRAIN = """
import json, sys
from dataclasses import asdict
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.memory import peak_memory_bytes
from fewpass.pipeline.training import training_run as room
plan = room.TrainingPlan.model_validate_json(sys.argv[1])
with open_executor(Execution(scheduler="local")) as executor:
    imported = peak_memory_bytes()
    run = room.TrainingRun.start(plan, sys.argv[2], executor)
    for event in run:
        pass
    print(json.dumps({"imported": imported, "rows": run.result.rows_seen, **asdict(run.result)}))
"""


def block() -> bytes:
    """About 64 MB of rows: skewed columns, small values, two labels."""
    random = np.random.default_rng(0)
    columns = (COLUMNS * random.random((ROWS_PER_BLOCK, PER_ROW)) ** 4).astype(int) + 1
    columns.sort(axis=1)
    values = random.choice(["1", "0.5", "0.25", "1.75", "0.123"], (ROWS_PER_BLOCK, PER_ROW))
    labels = np.where(random.random(ROWS_PER_BLOCK) < 0.3, "+1", "-1")
    lines = []
    for label, row, numbers in zip(labels, columns.tolist(), values.tolist(), strict=True):
        entries = dict(zip(row, numbers, strict=True))
        lines.append(f"{label} " + " ".join(f"{j}:{x}" for j, x in entries.items()) + "\n")
    return "".join(lines).encode()


def make_input(path: Path, size: int) -> None:
    if path.exists() and path.stat().st_size >= size - 1000:
        return
    text = block()
    with path.open("wb") as file:
        while file.tell() + len(text) <= size:
            file.write(text)
        file.write(text[: text.rfind(b"\n", 0, size - file.tell()) + 1])


def ingest(source: Path, dataset: Path, memory: str) -> dict:
    plan = {"sources": [str(source)], "dataset": str(dataset), "memory": memory, "overwrite": True}
    return measured([INGEST, json.dumps(plan)])


def train(dataset: Path, memory: str) -> dict:
    plan = {"dataset": str(dataset), "memory": memory, "certify": True, "lam": "1/n"}
    with tempfile.TemporaryDirectory() as run:
        return measured([TRAIN, json.dumps(plan), run + "/run"])


def measured(script: list[str]) -> dict:
    done = subprocess.run(
        [sys.executable, "-c", *script], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout)


def rows_of(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure both steps at every size."""
    budget = parse_bytes(chosen.memory)
    for size in ["1MB", *chosen.sizes]:  # the first compiles what is not compiled yet
        source, dataset = chosen.folder / f"{size}.svm", chosen.folder / "dataset"
        make_input(source, parse_bytes(size))
        for step, found in (
            ("ingest", ingest(source, dataset, chosen.memory)),
            ("train and certify", train(dataset, chosen.memory)),
        ):
            if size != "1MB":
                extra = found["peak_memory_bytes"] - found["imported"]
                yield {"size": size, "step": step, "rows": found["rows"],
                       "beyond_imports": extra, "budget": budget}  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sizes", nargs="+", default=["1GB", "4GB"])
    options.add_argument("--memory", default="256MB")
    options.add_argument("--results", type=Path, default=EVIDENCE, help="file of JSON lines")
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass")
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    recorded(chosen.results, "memory", rows_of(chosen), json.dumps)
    conclude(chosen.results, "memory", [], ("numpy", "numba", "zarr", "dask"))


if __name__ == "__main__":
    main()
