"""A real data set for benchmarks/cluster.py, and a walk and reductions over it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from fewpass.pipeline.passes import reduce as reductions
from fewpass.pipeline.passes.on_dask import OnDask
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.gradient import GRADIENT
from fewpass.solvers.protocol import Weights
from fewpass.storage.column_file import makers_of
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder
from fewpass.storage.manifest import Labels, Shuffle
from fewpass.storage.writer import DatasetWriter
from testing.datasets import random_table

ROWS, VALUES = 25_000, 40  # of a chunk, of a row: a million values, 8 MB
PASSES = 2


def write_rows(folder: Path, chunks: int, columns: int) -> Dataset:
    """Write the same sparse rows again and again, each time as another chunk."""
    rng = np.random.default_rng(0)
    table = random_table(ROWS, VALUES, layout="sparse", nnz=VALUES)
    step = columns // VALUES
    places = rng.integers(0, step, (ROWS, VALUES)) + step * np.arange(VALUES)
    table = table._replace(indices=places.ravel().astype(np.int32))
    writer = DatasetWriter(
        Folder(str(folder)), "sparse", columns, ROWS * chunks, ROWS, "float32", has_weight=False
    )
    records = [writer.write_chunk(k, table) for k in range(chunks)]
    statistics = ColumnStatistics("sparse", columns)
    statistics.add(table)
    writer.write_columns(makers_of(statistics.columns(columns)))
    counts = tuple((np.bincount(table.target.astype(int), minlength=2) * chunks).tolist())
    labels = Labels(labels=(-1.0, 1.0), counts=counts)
    writer.commit(records, targets=labels, weights=None, shuffle=Shuffle(seed=0))
    return Dataset.open(str(folder))


def reduced(executor: OnDask, dataset: Dataset, leaves: int) -> tuple[float, float]:
    """Add up a gradient, in the leaves of a far larger set; return busy and wall seconds."""
    reductions.LEAST_SPANS, reductions.SMALL_SPAN_VALUES = leaves, 1
    plan = TrainingPlan(dataset=dataset.folder.url, lam="10/n", solver={"kind": "gd"})
    job = Planner(plan, dataset).job(plan.memory)
    at, reports = Weights(np.ones(dataset.n_features), 0.0), list[Any]()
    reductions.reduce(executor, job, GRADIENT, at, reports.append)  # kernels, imports
    reports.clear()
    began = time.perf_counter()
    executor.result(reductions.reduce(executor, job, GRADIENT, at, reports.append))
    return sum(report.seconds for report in reports), time.perf_counter() - began


def walked(executor: OnDask, dataset: Dataset, streams: int, run: Path) -> tuple[float, float]:
    """Walk over the rows in as many streams; return busy and wall seconds of the last pass."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, lam="10/n", solver={"kind": "asgd"}, streams=streams,
        passes=PASSES, snapshot_every=1000.0, memory="4GiB",
    )  # fmt: skip
    for _ in TrainingRun.start(plan, str(run), executor):
        pass
    events = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    ends = [k for k, event in enumerate(events) if event["event"] == "sweep"]
    last = events[ends[-2] + 1 : ends[-1]]
    busy = sum(event["seconds"] for event in last if event["event"] == "span")
    return busy, events[ends[-1]]["seconds"]
