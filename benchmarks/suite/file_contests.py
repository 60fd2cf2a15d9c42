"""The contests from a file to a model: who takes part, with files of what size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.suite import file_to_model
from benchmarks.suite.contest import Contest, Contestant, Target

STORED, STRAIGHT = "fewpass ingest, train", "fewpass train, straight from the file"
WABBIT, POLARS, SKLEARN = "Vowpal Wabbit", "polars, SGDClassifier", "scikit-learn, SGDClassifier"
TOY_MB, FILE_MB = 1, (60, 600, 6000)
LARGE_MB, LARGE_MEMORY = 1000, "256MB"  # files from this size on, and what ours may then use
TITLES = {
    "clicks": "LIBSVM text, a click log",
    "CSV": "CSV, 54 columns of numbers",
    "Parquet": "Parquet, 54 columns of numbers",
}
PEERS = {
    "clicks": {
        "LIBLINEAR -s 7": "liblinear",
        SKLEARN: "scikit_learn_sgd",
        "scikit-learn, LogisticRegression": "scikit_learn_logistic",
        "Snap ML's reader, LogisticRegression": "snapml",
    },
    "table": {
        POLARS: "polars_sgd",
        "pandas, SGDClassifier": "pandas_sgd",
        "dask-ml Incremental": "dask_ml_sgd",
    },
}
ALSO_COLD = (STORED, STRAIGHT, WABBIT, POLARS)
ALSO_LARGE = (STORED, STRAIGHT, WABBIT, POLARS, "dask-ml Incremental")
TARGETS = {
    "clicks": (
        Target(14, STORED, WABBIT, 0.7, "wall_s"),
        Target(14, STORED, SKLEARN, 4.0, "wall_s"),
        Target(14, STRAIGHT, WABBIT, 1 / 0.7, "wall_s"),
    ),
    "table": (
        Target(15, STORED, POLARS, 1.0, "wall_s"),
        Target(15, STRAIGHT, POLARS, 1.0, "wall_s"),
    ),
}


class FileContest(NamedTuple):
    """Rows of one kind in a file of about so many MB as text."""

    folder: Path
    kind: str
    size: int

    def contest(self, turns: int) -> Contest:
        """Return it; of what takes minutes one turn."""
        train, _ = self._files(self.size)
        everybody = self._large() if self.size >= LARGE_MB else self._all()
        names = {each.name for each in everybody}
        targets = tuple(t for t in self._targets() if {t.ours, t.peer} <= names)
        return Contest(
            f"file-to-model {self.kind} {self.size} MB",
            f"From a file to a model: {TITLES[self.kind]}", "made",
            tuple(everybody), targets, "MB", train.stat().st_size / 1e6,
            min(turns, 3 if self.size < 100 else 1),
        )  # fmt: skip

    def _targets(self) -> Iterator[Target]:
        """What is wanted; of a small file no more than Vowpal Wabbit's time."""
        for target in TARGETS[self._rows]:
            small = self.size < LARGE_MB // 10 and target.ours == STRAIGHT
            yield target._replace(at_least=1.0) if small else target

    @property
    def _rows(self) -> str:
        return "clicks" if self.kind == "clicks" else "table"

    def _files(self, size: int) -> tuple[Path, Path]:
        """Rows to learn and rows to test on."""
        if self.kind == "clicks":
            memory = LARGE_MEMORY if size >= LARGE_MB else None
            return file_to_model.click_files(self.folder, size * 1_000_000, memory)
        return file_to_model.table_files(self.folder, size * 1_000_000)[self.kind.lower()]

    def _paths(self, size: int) -> dict[str, str]:
        return dict(zip(("train", "test"), map(str, self._files(size)), strict=True))

    def _entrants(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Everybody by name: a function of file_to_model, and its options but the files."""
        found: dict[str, tuple[str, dict[str, Any]]] = {}
        found |= {STORED: ("ours", {}), STRAIGHT: ("straight", {})}
        if self.kind == "clicks":
            found[WABBIT] = ("vowpal_wabbit", {})
        return found | {n: ("peer", {"name": of}) for n, of in PEERS[self._rows].items()}

    def _all(self) -> list[Contestant]:
        """Everybody, and some once more by files that the page cache has forgotten.

        Of toy files those of one kind show that this runs.
        """
        at, everybody = self._paths(self.size), self._entrants()
        cold = () if self.size == TOY_MB and self._rows == "table" else ALSO_COLD
        warm = [
            Contestant(name, f"file_to_model:{of}", at | options, 2)
            for name, (of, options) in everybody.items()
        ]
        return warm + [
            Contestant(f"{name}, cold", "file_to_model:Cold", at | options | {"of": of}, 2)
            for name, (of, options) in everybody.items()
            if name in cold
        ]

    def _large(self) -> list[Contestant]:
        """Those who read piece by piece, and who is fast; made ready by a small file."""
        at = self._paths(self.size) | {"small": list(self._paths(FILE_MB[0]).values())}
        memory = {name: {"memory": LARGE_MEMORY} for name in (STORED, STRAIGHT)}
        return [
            Contestant(
                name, "file_to_model:Large", at | options | memory.get(name, {}) | {"of": of}, 2
            )
            for name, (of, options) in self._entrants().items()
            if name in ALSO_LARGE
        ]
