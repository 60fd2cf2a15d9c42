"""The public data sets of the benchmarks: where they come from, ingested, and in memory.

They lie in the folder that FEWPASS_DATA names.
"""

from __future__ import annotations

import dataclasses
import lzma
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from fewpass.pipeline.rows.targets import target_rule
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.solvers.losses import Logistic, Squared
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import DenseTable

Vector = NDArray[np.float64]
Matrix = Any  # (n, d) float64, dense or CSR


def public_data(name: str) -> Path:
    """Path of a public set by its name.

    Raises
    ------
    SystemExit
        When there is no such file, or nothing says where.
    """
    folder = os.environ.get("FEWPASS_DATA")
    if not folder:
        raise SystemExit("Say where the public data sets are: FEWPASS_DATA=/path/to/them.")
    found = Path(folder).resolve() / name
    if not found.exists():
        raise SystemExit(f"{found} is not there. Put it there, or set FEWPASS_DATA to its folder.")
    return found


@dataclass(frozen=True)
class Study:
    """One data set: where it lies and how it is read."""

    name: str
    train: str
    test: str | None = None  # None: a fifth of the rows, by seed
    scale: str = "none"
    options: dict[str, Any] = field(default_factory=dict)
    test_options: dict[str, Any] = field(default_factory=dict)
    positive: str | None = None
    task: str = "classification"

    @property
    def losses(self) -> tuple[str, ...]:
        """The losses that suit the targets."""
        return ("squared",) if self.task == "regression" else ("logistic", "squared_hinge")


def regression(name: str, scale: str) -> Study:
    """A table of numbers, target last: columns as they are but for the scaling."""
    return Study(
        f"{name}, {scale}" if scale != "none" else f"{name}, raw",
        f"regression/{name}.data.csv.gz",
        scale=scale,
        options={"label": -1, "header": False, "encode": "none"},
        task="regression",
    )


STUDIES = (
    Study("a9a", "a9a/a9a.xz", "a9a/a9a.t.xz", options={"n_features": 123}),
    Study("w8a", "w8a/w8a.xz", "w8a/w8a.t.xz"),
    Study("ijcnn1", "ijcnn1/ijcnn1.trn.bz2", "ijcnn1/ijcnn1.tst.bz2"),
    Study("phishing", "phishing/phishing.svm.xz"),
    Study("reuters", "reuters/reuters.trn.bz2", "reuters/reuters.tst.bz2"),
    Study("imdb", "imdb/imdb_bigram.train.svm.xz", "imdb/imdb_bigram.test.svm.xz"),
    Study(
        "mnist 9",
        "mnist/train-images-idx3-ubyte.xz",
        "mnist/test.csv.gz",
        scale="maxabs",
        test_options={"label": -1, "header": False},
        positive="9",
    ),
    regression("protein", "standard"),
    regression("keggundirected", "standard"),
    regression("protein", "none"),
    regression("keggundirected", "none"),
)
PIXELS = dataclasses.replace(
    next(study for study in STUDIES if study.name == "mnist 9"), name="mnist 9, raw", scale="none"
)
MORE_STUDIES = (
    Study(
        "sector, class 1", "sector/sector.scale.bz2", "sector/sector.t.scale.bz2",
        options={"n_features": 55_197}, positive="1",
    ),
    Study(
        "kddcup99", "kddcup99_10pct/kddcup.data_10_percent.gz", positive="normal.",
        options={"format": "csv", "label": -1, "header": False, "ranks": False},
    ),
    Study(
        "credit", "give_me_some_credit/creditsample-training.csv.gz",
        options={"label": "SeriousDlqin2yrs", "drop": (0,), "missing": "zero"},
    ),
)  # fmt: skip


class Half(NamedTuple):
    """Rows in memory with y as the loss takes it."""

    X: Matrix
    y: Vector


class Ingested(NamedTuple):
    """A set as it lies on disk for one seed."""

    train: Dataset
    test: Dataset
    seconds: float  # of the ingest that made it


def ingested(study: Study, seed: int, folder: Path) -> Ingested:
    """Make the set's data sets for a seed, or find them."""
    place = folder_of(study, str(seed), folder)
    train, test = place / "train", place / "test"
    split = {} if study.test else {"test_fraction": 0.2, "test_dataset": str(test)}
    seconds = ingest_train(study, seed, folder, place, **split)
    if study.test:
        options = {**study.options, **study.test_options}
        options.pop("n_features", None)
        ingest(
            IngestPlan(
                sources=(str(public_data(study.test)),),
                dataset=str(test),
                like=str(train),
                options=options,
                task=study.task,
                seed=seed,
            )
        )
    return Ingested(Dataset.open(str(train)), Dataset.open(str(test)), seconds)


def training_rows(study: Study, folder: Path) -> Dataset:
    """Make the set's training rows alone, or find them; where no test file is, all rows."""
    place = folder_of(study, "all", folder)
    ingest_train(study, 0, folder, place)
    return Dataset.open(str(place / "train"))


def ingest_train(study: Study, seed: int, folder: Path, place: Path, **split: Any) -> float:
    """Ingest the training rows unless they are there; the seconds it took once."""
    note = place / "seconds"
    plan = IngestPlan(
        sources=(str(converted(study, folder)),),
        dataset=str(place / "train"),
        options=study.options,
        scale=study.scale,
        task=study.task,
        seed=seed,
        **split,
    )
    result = ingest(plan)
    if not note.exists():
        note.write_text(repr(result.seconds))
    return float(note.read_text())


def folder_of(study: Study, part: str, folder: Path) -> Path:
    """Where a set's data sets lie: for a seed, or of all training rows."""
    return folder / "datasets" / study.name.replace(", ", "-").replace(" ", "-") / part


def converted(study: Study, folder: Path) -> Path:
    """Return the path of a source that ingest reads: IDX images become an .npz archive."""
    path = public_data(study.train)
    if "idx3" not in path.name:
        return path
    archive = folder / "mnist.npz"
    if not archive.exists():
        images = idx(path)
        labels = idx(path.parent / path.name.replace("images-idx3", "labels-idx1"))
        np.savez(archive, X=images.reshape(len(images), -1).astype(np.float32), y=labels)
    return archive


def idx(path: Path) -> NDArray[np.uint8]:
    """Read an IDX file of bytes."""
    content = lzma.decompress(path.read_bytes())
    dimensions = content[3]
    shape = np.frombuffer(content, ">i4", dimensions, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def in_memory(dataset: Dataset, loss: str, positive: str | None) -> Half:
    """Read all rows, in stored order."""
    rule = target_rule(dataset.manifest, Squared() if loss == "squared" else Logistic(), positive)
    tables = [dataset.read_chunk(k) for k in range(dataset.n_chunks)]
    y = rule.read(np.concatenate([t.target for t in tables]))
    if isinstance(tables[0], DenseTable):
        return Half(np.concatenate([t.X for t in tables]).astype(np.float64), y)
    shape = (-1, dataset.n_features)
    parts = [
        sparse.csr_matrix((t.data.astype(np.float64), t.indices, t.indptr), (t.n_rows, shape[1]))
        for t in tables
    ]
    return Half(sparse.vstack(parts, format="csr"), y)
