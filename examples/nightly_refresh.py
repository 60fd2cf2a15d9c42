"""Every night new rows, and the last model trained on: python examples/nightly_refresh.py [ROWS]

`prefect run refresh` does the same on a schedule, and shows it on Prefect's pages.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

from fewpass import evaluate, predict, train
from fewpass.pipeline.models.refresh.publications import NONE_YET, published
from fewpass.pipeline.models.refresh.refreshing import (
    decide,
    held_out,
    next_generation,
    refresh_lock,
    training_plan,
)
from fewpass.pipeline.models.refresh.taking import take
from fewpass.pipeline.settings.refresh_plan import RefreshPlan

n_rows = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
NIGHTS, COLUMNS = 3, 8


def write_night(path, night):
    """The rows of one day."""
    rng = np.random.default_rng(night)
    X = rng.standard_normal((n_rows, COLUMNS)).round(4)
    y = X @ np.linspace(-1.0, 1.0, COLUMNS) + rng.logistic(size=n_rows) > 0.0
    head = ",".join([*(f"x{k}" for k in range(COLUMNS)), "bought"])
    np.savetxt(path, np.column_stack([X, y]), fmt="%.6g", delimiter=",", header=head, comments="")


def refresh(plan):
    """Take new files, train on from the published model, publish the new one unless worse."""
    with refresh_lock(plan.store):
        generation = next_generation(plan)
        if generation is None:
            return "there is no new file"
        return finish(plan, take(plan, generation).generation)


def finish(plan, generation):
    """Train and judge a generation whose data set is there."""
    training = training_plan(plan, generation)
    settings = training.model_dump(exclude={"dataset"})
    trained = train(training.dataset, generation.run, **settings)
    judges, current = held_out(plan), published(plan.store)
    loss_before = evaluate(plan.store, judges).loss if current else None
    loss = evaluate(generation.run, judges).loss
    after = current.number if current else NONE_YET
    made = decide(plan, generation, trained, loss, loss_before, after)
    verdict = "published" if made.published else "kept back"
    return f"{made.rows:,} rows so far, {verdict}: {made.reason}"


with tempfile.TemporaryDirectory() as folder:
    inbox, store = Path(folder) / "inbox", Path(folder) / "store"
    inbox.mkdir()
    plan = RefreshPlan(
        sources=(f"{inbox}/*.csv",), store=str(store), margin=0.01,
        ingest={"options": {"label": "bought"}}, training={"tol": 1e-3},
    )  # fmt: skip
    for night in range(NIGHTS):
        write_night(inbox / f"{night}.csv", night)
        print(f"night {night}: {refresh(plan)}")
    print("once more:", refresh(plan))

    scored = predict(store, inbox / "0.csv", Path(folder) / "scores.parquet", label="bought")
    print(f"{scored.rows:,} rows scored by the published model")
    assert scored.rows == n_rows
