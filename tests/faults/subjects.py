"""The commands that are tried, on data of some hundred rows, and what must not depend on faults."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from fewpass.pipeline.models.refresh.store_events import Published
from fewpass.pipeline.models.refresh.store_state import publications, store_at
from testing.datasets import make, random_table

ROWS, SEED = 120, 3
OFTEN = ["--scheduler", "none", "--memory", "96.1MB", "--snapshot-every", "1e-9", "--json"]
RESULTS = ("weights_sha256", "objective", "certificate", "rows_seen")

Bits = dict[str, Any]


class Subject(NamedTuple):
    """A command, the data it needs, and how it is gone on with.

    Attributes
    ----------
    name, kind
        What it is called; ingest, append, forget, columns, training, predict, predict wide, export, refresh,
        refresh that
        refuses or publish.
    data
        Name of the data in `DATA` that lie there before.
    begin
        Arguments of `fewpass`; `{at}` stands for the folder, `{seed}` for the seed.
    resume
        Other arguments that finish what was begun; empty: only the same command does.
    """

    name: str
    kind: str
    data: str
    begin: tuple[str, ...]
    resume: tuple[str, ...] = ()

    def command(self, at: Path, *, resume: bool = False, seed: int = 0) -> list[str]:
        """Return the arguments for one folder."""
        words = self.resume if resume and self.resume else self.begin
        return [word.format(at=at, seed=seed) for word in words]

    def bits(self, at: Path, out: str) -> Bits:
        """What a finished command leaves or prints that no fault may change."""
        return READ[self.kind](at, out)


def _trained(at: Path, out: str) -> Bits:
    said = json.loads(out)
    return {name: said[name] for name in RESULTS}


def _ingested(at: Path, out: str) -> Bits:
    return bytes_below(at / "set", skip="by-column") | bytes_below(at / "set-test")


def _copied(at: Path, out: str) -> Bits:
    return bytes_below(at / "set" / "by-column")


def _predicted(at: Path, out: str) -> Bits:
    return {"predictions": digest(at / "out.csv")}


def _predicted_wide(at: Path, out: str) -> Bits:
    """All but the record, and what was begun a moment ago and is empty still."""
    made = bytes_below(at / "out").items()
    return {name: bits for name, bits in made if not name.endswith((".json", ".partial"))}


def _exported(at: Path, out: str) -> Bits:
    return {"model": digest(at / "model.safetensors")}


def _published(at: Path, out: str) -> Bits:
    return {f"{k}": one.weights_sha256 for k, one in enumerate(_publications(at))}


def _publications(at: Path) -> list[Published]:
    return [*publications(store_at(f"{at}/store").events)]


def _refreshed(at: Path, out: str) -> Bits:
    made = _publications(at)[-1]
    return {"model": made.weights_sha256, "objective": made.objective} | bytes_below(
        at / "store/generations/000001/data"
    )


def _refreshed_with_refused(at: Path, out: str) -> Bits:
    """The same, the files that were taken, and those that were not, with the reason."""
    store = store_at(f"{at}/store")
    reasons = {Path(one.file.name).name: one.why for one in store.refused}
    taken = [one.name for one in store.generations[0].files]
    return _refreshed(at, out) | {"taken": taken, "refused": reasons}


READ: dict[str, Callable[[Path, str], Bits]] = {
    "training": _trained,
    "training on": _trained,  # what an ingest made
    "ingest": _ingested,
    "append": _ingested,
    "forget": _ingested,
    "columns": _copied,
    "predict": _predicted,
    "predict wide": _predicted_wide,
    "export": _exported,
    "refresh": _refreshed,
    "refresh that refuses": _refreshed_with_refused,
    "publish": _published,
}
#: Commands that are done before those of a kind.
FIRST = {
    "predict": ("ingest of a table", "asgd"),
    "predict wide": ("ingest of a table", "asgd"),
    "export": ("ingest of a table", "asgd"),
    "append": ("ingest of words",),
    "forget": ("ingest of words",),
    "publish": ("refresh",),
}


def bytes_below(folder: Path, skip: str = " ") -> Bits:
    """Every object below a folder with a checksum of its bytes."""
    found = sorted(p for p in folder.rglob("*") if p.is_file())
    keys = {str(p.relative_to(folder.parent)): p for p in found}
    return {key: digest(path) for key, path in keys.items() if f"/{skip}/" not in key}


def digest(path: Path) -> str:
    """Checksum of a file's bytes."""
    return hashlib.sha256(path.read_bytes()).hexdigest()[:16]


# -- data --------------------------------------------------------------------------------------


def write_libsvm(path: Path, n: int = ROWS, d: int = 5000, nnz: int = 8) -> None:
    """Sparse rows as text, wide enough that their columns are stored in another order."""
    rng = np.random.default_rng(SEED)
    lines = []
    for label in rng.integers(0, 2, n):
        columns = np.unique((d * rng.random(nnz) ** 3).astype(int)) + 1
        values = rng.integers(1, 100, len(columns))
        pairs = " ".join(f"{j}:{x}" for j, x in zip(columns, values, strict=True))
        lines.append(f"{label} {pairs}\n")
    path.write_text("".join(lines))


def write_table(path: Path, n: int = ROWS, d: int = 5, first: int = 0) -> None:
    """Dense rows as CSV with names."""
    table = random_table(n, d, seed=SEED + first)
    names = ",".join(f"x{j}" for j in range(d))
    rows = [
        ",".join(f"{x:.4f}" for x in row) + f",{'yes' if y else 'no'}"
        for row, y in zip(table.X, table.target, strict=True)
    ]
    path.write_text("\n".join([f"{names},label", *rows]) + "\n")


def write_words(path: Path, n: int = ROWS, first: int = 0) -> None:
    """A table of ids, words, dates, gaps and money, as CSV."""
    rng = np.random.default_rng(SEED + first)
    days = np.datetime64("2024-01-01") + rng.integers(0, 300, n)
    sandbox, paid = rng.choice(["north", "south", "'t Gooi", ""], n), rng.lognormal(3, 2, n)
    said = rng.choice(["came back", "came back twice", "did not come", "wrote, and rang"], n)
    label = np.where(rng.random(n) < 0.5, "yes", "no")
    lines = (
        f'c{first + k},{a},{b},{c:.2f},"{d}",{e}\n'
        for k, (a, b, c, d, e) in enumerate(zip(days, sandbox, paid, said, label, strict=True))
    )
    path.write_text("id,day,sandbox,paid,said,label\n" + "".join(lines))


def _sparse(at: Path) -> None:
    make(at / "set", n=ROWS, d=12, chunk_rows=30, layout="sparse", nnz=4, seed=SEED)


def _chunks(at: Path) -> None:
    """So many that two streams meet inside a pass."""
    make(at / "set", n=ROWS, d=12, chunk_rows=10, layout="sparse", nnz=4, seed=SEED)


def _dense(at: Path) -> None:
    make(at / "set", n=ROWS, d=6, chunk_rows=30, seed=SEED)


def _classes(at: Path) -> None:
    make(at / "set", n=ROWS, d=6, chunk_rows=30, classes=3, seed=SEED)


def _evaluated(at: Path) -> None:
    _sparse(at)
    make(at / "test_rows", n=30, d=12, chunk_rows=30, layout="sparse", nnz=4, seed=SEED)


def _text(at: Path) -> None:
    write_libsvm(at / "rows.svm")


def _csv(at: Path) -> None:
    write_table(at / "rows.csv")


def _words(at: Path) -> None:
    write_words(at / "rows.csv")
    write_words(at / "more.csv", ROWS // 2, ROWS)
    (at / "ids").write_text("".join(f"c{k}\n" for k in range(7, ROWS, 11)))


def _inbox(at: Path) -> None:
    (at / "inbox").mkdir()
    write_table(at / "inbox" / "first.csv")


def _bad_inbox(at: Path) -> None:
    """A table, one that breaks off in its 60th row, and nothing at all."""
    _inbox(at)
    whole = (at / "inbox" / "first.csv").read_text()
    (at / "inbox" / "cut.csv").write_text("\n".join(whole.split("\n")[:60])[:-9])
    (at / "inbox" / "empty.csv").touch()


DATA: dict[str, Callable[[Path], None]] = {
    "sparse": _sparse, "chunks": _chunks, "dense": _dense, "classes": _classes, "evaluated": _evaluated, "text": _text,
    "csv": _csv, "words": _words, "inbox": _inbox,
    "bad inbox": _bad_inbox,
}  # fmt: skip


# -- commands ----------------------------------------------------------------------------------


def _training(name: str, data: str, *options: str) -> Subject:
    begin = ("train", "{at}/set", "{at}/run", *OFTEN, "--seed", "{seed}", *options)
    simba = "simba" in options
    resume = ("resume", "{at}/run", "--json", *([] if simba else ["--scheduler", "none"]))
    return Subject(name, "training", data, begin, resume)


def _solver(name: str, data: str = "sparse", *options: str, passes: str = "2") -> Subject:
    return _training(name, data, "--solver", name, "--passes", passes, *options)


HINGE = ("--loss", "hinge")
INGEST = ("--test-fraction", "0.2", "--chunk-bytes", "2048B", "--json", "--threads", "2")
INGEST += ("--memory", "128MB", "--seed", "{seed}")

SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            "ingest of text", "ingest", "text",
            ("ingest", "{at}/rows.svm", "{at}/set", *INGEST, "--scale", "maxabs"),
        ),
        Subject(
            "ingest of a table", "ingest", "csv",
            ("ingest", "{at}/rows.csv", "{at}/set", *INGEST, "--scale", "standard"),
        ),
        Subject(
            "ingest of words", "ingest", "words",
            ("ingest", "{at}/rows.csv", "{at}/set", *INGEST, "--label", "label", "--keep", "id"),
        ),
        Subject(
            "ingest wide", "ingest", "text",
            ("tests.faults.subjects:ingest_wide", "{at}", "{seed}"),
        ),
        Subject(
            "append", "append", "words",
            ("append", "{at}/set", "{at}/more.csv", "--threads", "2", "--memory", "128MB", "--json"),
        ),
        Subject(
            "forget", "forget", "words",
            ("forget", "{at}/set", "--where", "id in {at}/ids", "--memory", "128MB", "--threads",
             "2", "--allow-none", "--json"),
        ),
        Subject("columns", "columns", "sparse", ("column-copy", "{at}/set", "--json")),
        _solver("asgd", "sparse", "--certify"),
        _solver("sgd", "dense", "--certify"),
        _solver("s2gd+", passes="3"),
        _solver("sdca", "sparse", "--loss", "smoothed_hinge"),
        _solver("psdca", passes="3"),
        _solver("onepass", passes="1"),
        _training("streaming newton", "dense", "--solver", "onepass", "--passes", "1"),
        _training("two streams", "chunks", "--solver", "sdca", *HINGE, "--passes", "2",
                  "--streams", "2", "--lam", "1e-2"),
        _solver("newton", "dense", passes="3"),
        _training("simba", "dense", "--solver", "simba", "--set", "solver.iterations=3000"),
        _training("simba, sparse", "sparse", "--solver", "simba", "--set",
                  "solver.iterations=3000"),
        _training("three classes", "classes", "--solver", "sdca", "--passes", "2"),
        _training("a grid of lam", "evaluated", "--solver", "sdca", "--passes", "2",
                  "--lam", "1e-1,1e-2,1e-3", "--held-out", "{at}/test_rows"),
        _solver("pegasos", "sparse", *HINGE, "--set", "solver.batch_size=7"),
        _solver("asdca", "sparse", "--loss", "smoothed_hinge", "--set", "solver.batch_size=20"),
        _solver("sag", "sparse", "--certify"),
        _solver("agd", "dense", passes="3"),
        _solver("gd", "dense", passes="3"),
        _solver("lbfgs", "dense", passes="3"),
        Subject(
            "predict", "predict", "csv",
            ("predict", "{at}/run", "{at}/rows.csv", "{at}/out.csv", "--probability", "--json",
             "--overwrite"),
        ),
        Subject(
            "predict wide", "predict wide", "csv", ("tests.faults.subjects:predict_wide", "{at}"),
        ),
        Subject(
            "export", "export", "csv",
            ("export", "{at}/run", "{at}/model.safetensors", "--json", "--overwrite"),
        ),
        Subject(
            "publish", "publish", "inbox", ("tests.faults.subjects:publish_again", "{at}"),
        ),
        Subject("refresh", "refresh", "inbox", ("tests.faults.subjects:refresh", "{at}")),
        Subject("refresh that refuses", "refresh that refuses", "bad inbox",
                ("tests.faults.subjects:refresh", "{at}")),
    )
}  # fmt: skip


def ingest_wide(at: str, seed: str) -> None:
    """An ingest by tasks, of small spans; their executor has threads of this process."""
    from fewpass.pipeline.passes.executor import open_executor
    from fewpass.pipeline.settings.execution import Execution
    from fewpass.pipeline.settings.ingest_plan import IngestPlan
    from fewpass.pipeline.tables.ingest import mapping
    from fewpass.pipeline.tables.ingest.phases import ingest
    from fewpass.pipeline.tables.readers import lines

    plan = IngestPlan(
        sources=(f"{at}/rows.svm",), dataset=f"{at}/set", test_fraction=0.2, chunk_bytes="2048B",
        memory="128MB", seed=int(seed),
    )  # fmt: skip
    with (
        patch.object(mapping, "PIECE_BYTES", 1_000),  # put back: others are forked of this process
        patch.object(lines, "SPAN_BYTES", 1_000),
        open_executor(Execution(threads=2)) as executor,
    ):
        ingest(plan, executor=executor)


def predict_wide(at: str) -> None:
    """Predictions into a folder, of small parts; their executor has threads of this process."""
    from contextlib import nullcontext

    from fewpass.pipeline.passes.executor import open_executor
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.runs.run_folder import RunFolder
    from fewpass.pipeline.scoring import predicted_parts, scoring_budget
    from fewpass.pipeline.scoring.prediction import predict
    from fewpass.pipeline.settings.execution import Execution
    from fewpass.pipeline.settings.prediction_plan import PredictionPlan
    from fewpass.pipeline.tables.readers import lines

    with (
        patch.object(scoring_budget, "PIECE_BYTES", 1 << 9),
        patch.object(predicted_parts, "SPAN_BYTES", 1 << 10),
        patch.object(lines, "SPAN_BYTES", 1 << 10),
        open_executor(Execution(threads=2)) as executor,
    ):
        predict(
            load_model(RunFolder(f"{at}/run")), [f"{at}/rows.csv"], f"{at}/out/", PredictionPlan(),
            cluster=lambda: nullcontext(executor),
        )  # fmt: skip


def publish_again(at: str) -> None:
    """Publish the model of the only generation a second time, unless that is done."""
    from fewpass.pipeline.models.refresh.store_log import write_event

    store = store_at(f"{at}/store")
    made = [*publications(store.events)]
    if len(made) == 1:
        again = made[0].model_copy(update={"past": store.past})
        write_event(store.folder, again)


def refresh(at: str) -> None:
    """One refresh as the flow does it, without Prefect: ingest, train, evaluate, publish."""
    from fewpass.pipeline.settings.refresh_plan import RefreshPlan
    from testing import refreshing

    plan = RefreshPlan.model_validate({
        "sources": [f"{at}/inbox/*.csv"], "store": f"{at}/store",
        "ingest": {"chunk_bytes": "2048B", "memory": "128MB", "threads": 2}, "settle": 0,
        "training": {"solver": {"kind": "sdca"}, "passes": 2, "memory": "96.1MB",
                     "snapshot_every": 1e-9},
    })  # fmt: skip
    refreshing.refresh(plan)
