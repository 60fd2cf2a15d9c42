"""From a file to a model: whole processes, from their start to their end."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
FEWPASS = [sys.executable, "-c", "from fewpass.flows.cli import command_line; command_line()"]
COLUMNS = 54  # of the tables
MEMORY = "1GiB"
BATCH_ROWS = 50_000
TEST_SHARE = 0.1

Work = Callable[[], dict[str, Any]]


def ours(train: str, test: str, memory: str = MEMORY) -> Work:
    """`fewpass ingest`, then `fewpass train`."""

    def commands(folder: Path) -> list[list[str]]:
        ingest = ["ingest", train, f"{folder}/set", *read_as(train)]
        one_pass = ["--lam", "10/n", "--passes", "1"]
        return [ingest, ["train", f"{folder}/set", f"{folder}/run", *one_pass]]

    return by_fewpass(commands, test, memory)


def straight(train: str, test: str, memory: str = MEMORY) -> Work:
    """`fewpass train` from the file, without a data set."""
    words = ["train", train, "{}/run", "--lam", "10/n", *read_as(train)]
    return by_fewpass(lambda folder: [[word.format(folder) for word in words]], test, memory)


def read_as(train: str) -> list[str]:
    """Return how all read the file."""
    return ["--scale", "none", *([] if train.endswith(".svm") else ["--label", "y"])]


def by_fewpass(commands: Callable[[Path], list[list[str]]], test: str, memory: str) -> Work:
    """Commands of ours, the model in the folder's `run`."""

    def scores(folder: Path) -> np.ndarray:
        from fewpass.pipeline.runs.model import load_model
        from fewpass.pipeline.runs.run_folder import RunFolder

        found = load_model(RunFolder(f"{folder}/run")).weights
        return margins(test, np.append(found.coef, found.intercept))

    return work(
        lambda folder: [[*FEWPASS, *words, "--memory", memory, "-q"] for words in commands(folder)],
        scores, test,
    )  # fmt: skip


def peer(train: str, test: str, name: str) -> Work:
    """One of `file_peers`."""

    def commands(folder: Path) -> list[list[str]]:
        return [[sys.executable, "-m", "benchmarks.suite.file_peers", name, train,
                 f"{folder}/model.npy"]]  # fmt: skip

    return work(commands, lambda folder: margins(test, np.load(f"{folder}/model.npy")), test)


def vowpal_wabbit(train: str, test: str) -> Work:
    """Vowpal Wabbit as it is told to learn: text of its own form, one pass, 2^22 weights."""
    program = [sys.executable, "-m", "vowpalwabbit", "--quiet"]
    learn = ["--loss_function", "logistic", "-b", "22", "-d", in_vw_form(train)]

    def scores(folder: Path) -> np.ndarray:
        told = ["-t", "-i", f"{folder}/vw", "-d", in_vw_form(test), "-p", f"{folder}/p"]
        subprocess.run([*program, *told], check=True, cwd=ROOT)
        return np.loadtxt(f"{folder}/p")

    return work(lambda folder: [[*program, *learn, "-f", f"{folder}/vw"]], scores, test)


class Cold:
    """One of the above, by a file that the page cache was told to forget before every turn."""

    def __init__(self, of: str, train: str, test: str, **options: str) -> None:
        self._run: Work = globals()[of](train, test, **options)
        self._files = [path for path in map(Path, (train, in_vw_form(train))) if path.exists()]

    def __call__(self) -> dict[str, Any]:
        return self._run()

    def before(self) -> None:
        """Forget what is read."""
        from benchmarks.suite.streaming import forget_file

        for path in self._files:
            forget_file(path)


class Large:
    """One of the above by a large file; it is made ready by a small one of the same form."""

    def __init__(self, of: str, train: str, test: str, small: list[str], **options: str) -> None:
        self._run: Work = globals()[of](train, test, **options)
        self.rehearse: Work = globals()[of](*small, **options)

    def __call__(self) -> dict[str, Any]:
        return self._run()


def in_vw_form(path: str) -> str:
    """Return where the same rows lie as Vowpal Wabbit wants them."""
    return path.removesuffix(".svm") + ".vw"


def work(
    commands: Callable[[Path], list[list[str]]], scores: Callable[[Path], np.ndarray], test: str
) -> Work:
    """Run the commands in a new folder, then see, out of the count, how good the model is."""

    def run() -> dict[str, Any]:
        folder = Path(tempfile.mkdtemp())
        try:
            launch = [sys.executable, "-I", "-S", str(ROOT / "benchmarks/suite/launch.py")]
            told = subprocess.run(
                [*launch, json.dumps(commands(folder))],
                check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True,
            ).stdout  # fmt: skip
            return json.loads(told) | {"test_loss": loss(scores(folder), rows_of(test)[1])}
        finally:
            shutil.rmtree(folder)

    return run


def rows_of(path: str) -> tuple[Any, np.ndarray]:
    """Return the rows of a test file, and labels of -1 and 1."""
    if path.endswith(".svm"):
        from sklearn.datasets import load_svmlight_file

        X, y = load_svmlight_file(path)
    else:
        from pyarrow import csv, parquet

        table = csv.read_csv(path) if path.endswith(".csv") else parquet.read_table(path)
        numbers = np.column_stack([column.to_numpy() for column in table.columns])
        X, y = numbers[:, :-1], numbers[:, -1]
    return X, np.where(y > 0.0, 1.0, -1.0)


def margins(test: str, weights: np.ndarray) -> np.ndarray:
    """Scores of the test rows; columns that the model has not seen count for nothing."""
    X, _ = rows_of(test)
    d = min(X.shape[1], weights.size - 1)
    return np.asarray(X[:, :d] @ weights[:d] + weights[-1])


def loss(scores: np.ndarray, y: np.ndarray) -> float:
    """Mean logistic loss."""
    return float(np.logaddexp(0.0, -y * scores).mean())


def click_files(folder: Path, size: int, memory: str | None = None) -> tuple[Path, Path]:
    """Write the demo's click log of about that size, and a tenth as many rows to test on.

    As in the demo, categories are hashed to no more columns than `memory` can train.
    """
    from fewpass.pipeline.clicks import BATCH_ROWS as BATCH
    from fewpass.pipeline.clicks import (
        MOST_ROW_BYTES,
        VOCABULARY,
        columns_for,
        write_clicks,
        write_rows,
    )
    from fewpass.pipeline.sizes import parse_bytes

    train, test = (folder / f"clicks-{size}-{name}.svm" for name in ("train", "test"))
    if not test.with_suffix(".vw").exists():
        d = columns_for(size, parse_bytes(memory) if memory else None)
        made = write_clicks(train, size, columns=d)
        buffer, first = np.empty(BATCH * MOST_ROW_BYTES, np.uint8), made.rows
        with test.open("wb") as out:
            while first < made.rows * (1.0 + TEST_SHARE):
                words = np.array(VOCABULARY, np.float64)
                length, _ = write_rows(buffer, first, BATCH, 0, d, words)
                out.write(buffer[:length].data)
                first += BATCH
        for path in (train, test):
            vw_text(path)
    return train, test


def vw_text(path: Path) -> None:
    """Write the same rows as Vowpal Wabbit wants them, labels -1 and 1."""
    with path.open("rb") as rows, path.with_suffix(".vw").open("wb") as file:
        for line in rows:
            label, _, rest = line.partition(b" ")
            file.write((b"1 | " if label == b"1" else b"-1 | ") + rest)


def table_files(folder: Path, size: int) -> dict[str, tuple[Path, Path]]:
    """Write 54 normal columns and labels by a linear model: CSV of about that size, Parquet."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    found = {
        kind: (folder / f"table-{size}-train.{kind}", folder / f"table-{size}-test.{kind}")
        for kind in ("csv", "parquet")
    }
    if found["parquet"][1].exists():
        return found
    rng = np.random.default_rng(0)
    weights = rng.normal(size=COLUMNS) / np.sqrt(COLUMNS)
    n = max(1000, int(size / (10.3 * COLUMNS)))  # bytes of a number as CSV, and its comma
    for which, rows in enumerate((n, max(1000, int(TEST_SHARE * n)))):
        places = [found[kind][which] for kind in ("csv", "parquet")]
        schema = pa.schema([(f"x{j}", pa.float32()) for j in range(COLUMNS)] + [("y", pa.int8())])
        with (
            csv.CSVWriter(places[0], schema) as text,
            parquet.ParquetWriter(places[1], schema) as columns,
        ):
            for start in range(0, rows, BATCH_ROWS):
                drawn = rng.normal(size=(min(BATCH_ROWS, rows - start), COLUMNS))
                X = drawn.astype(np.float32).round(6)
                y = rng.random(len(X)) < 1.0 / (1.0 + np.exp(-3.0 * X @ weights))
                batch = pa.table([*X.T.copy(), y.astype(np.int8)], schema=schema)
                text.write(batch)
                columns.write(batch)
    return found
