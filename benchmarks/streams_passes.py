"""Passes to a certified 1e-3 / 1e-4, in one stream and in several: of `psdca`, or another method.

    python -m benchmarks.streams_passes [--sets SET ...] [--streams 1 4 16] [--solver s2gd+]

Free intercept, logistic loss and squared hinge, lam = 1/n and 100/n, in this process.  Sets are
ingested to about so many chunks: streams meet at most once in three of a stream's.  A dash: not
within the passes allowed.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from benchmarks.data_sets import Study, ingest_train, training_rows
from benchmarks.default_tolerance import TWEETS
from benchmarks.dual_passes import study_of
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset

NAMES = ("reuters", "imdb", "imdb, unit rows", "a9a", "ijcnn1", "w8a", TWEETS.name)
TOLERANCES = (1e-3, 1e-4)
VALUE_BYTES = 8


def in_chunks(name: str, chunks: int, folder: Path) -> Dataset:
    """Ingest a set to about so many chunks."""
    word, _, unit = name.partition(", ")
    study: Study = TWEETS
    if name != TWEETS.name:
        study = study_of(word, "unit-rows" if unit else "none")
    values = training_rows(study, folder).manifest.nnz
    place = folder / "in-chunks" / f"{name.replace(', ', '-').replace(' ', '-')}-{chunks}"
    ingest_train(study, 0, folder, place, chunk_bytes=max(4096, VALUE_BYTES * values // chunks))
    return Dataset.open(str(place / "train"))


def passes_of(plan: TrainingPlan) -> str:
    """Train; return the passes to each tolerance."""
    reached = dict.fromkeys(TOLERANCES, "-")
    with tempfile.TemporaryDirectory() as place:
        for event in TrainingRun.start(plan, f"{place}/run", InProcess()):
            if event.kind == "certificate":
                for tol, at in reached.items():
                    if at == "-" and event.facts.gap <= tol * event.facts.objective:
                        reached[tol] = f"{event.cursor.passes:.0f}"
    return "/".join(reached.values())


def main() -> None:
    """Print a line per set, loss and lam."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sets", nargs="*", choices=NAMES, default=NAMES)
    options.add_argument("--losses", nargs="*", default=["logistic", "squared_hinge"])
    options.add_argument("--lams", nargs="*", default=["1/n", "100/n"])
    options.add_argument("--solver", default="psdca")
    options.add_argument("--streams", nargs="*", type=int, default=[1, 4, 16])
    options.add_argument("--chunks", type=int, default=800)
    options.add_argument("--most", type=int, default=40)
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen = options.parse_args()
    print("| set | loss | lam |", *(f"{K} |" for K in chosen.streams))
    print("|---|---|---|" + "---|" * len(chosen.streams))
    for name in chosen.sets:
        dataset = in_chunks(name, chosen.chunks, chosen.folder)
        for loss in chosen.losses:
            for lam in chosen.lams:
                solver = {"kind": chosen.solver}
                plans = (
                    TrainingPlan(
                        dataset=dataset.folder.url, solver=solver, loss=loss, lam=lam, streams=K,
                        passes=chosen.most, tol=TOLERANCES[-1],
                    )
                    for K in chosen.streams
                )  # fmt: skip
                found = [passes_of(plan) for plan in plans]
                cells = (name, loss.replace("_", " "), lam, *found)
                print("|", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
