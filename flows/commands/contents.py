"""Contents of a path, and checks of every byte of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from fewpass.flows.display.bars import ShowWork
from fewpass.flows.display.console import format_value
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.planning.problem import problem_of
from fewpass.pipeline.rows.targets import label_text
from fewpass.pipeline.runs.model import trained_lam
from fewpass.pipeline.runs.run_faults import run_faults
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.sizes import counted, format_bytes
from fewpass.pipeline.tables.encoding.schema import columns_in_words
from fewpass.storage import column_copy, kinds
from fewpass.storage.column_file import COLUMN_ORDER
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.manifest import Labels, Manifest
from fewpass.storage.snapshot import SnapshotStore
from fewpass.storage.snapshot_file import SUFFIX


class Look(NamedTuple):
    """Contents of a path."""

    kind: str
    facts: dict[str, Any]


MOST_LISTED = 10  # numbers that people are shown one by one


def kind_of(path: str) -> str:
    """Return dataset, run or snapshot; BadInput when a path holds none of them."""
    folder = Folder(path)
    if folder.exists("run.json") or folder.exists("log.jsonl"):
        return "run"
    kind = kinds.kind_of(folder)
    if kind in ("run", "snapshot", "data set"):
        return kind.replace(" ", "")
    raise BadInput(kinds.instead(folder, "any"))


def look(path: str) -> Look:
    """Find out what a path holds and describe it."""
    kind = kind_of(path)
    describe = {"run": _of_run, "dataset": _of_dataset, "snapshot": _of_snapshot}[kind]
    return Look(kind, describe(path))


def faults(path: str, show: ShowWork = lambda _share, _amount: None) -> Iterator[str]:
    """Read every byte of what a path holds and yield a sentence per damaged object."""
    kind = kind_of(path)
    if kind == "dataset":
        try:
            dataset = Dataset.open(path)
            yield from dataset.verify(_counted(dataset, show))
            yield from column_copy.faults(dataset)
        except Damaged as error:
            yield str(error)
    elif kind == "snapshot":
        store, name = _snapshot_at(path)
        yield from store.verify(name)
    else:
        yield from run_faults(
            RunFolder(path), lambda done, of: show(done / of, f"{done} of {of} snapshots")
        )


def _counted(dataset: Dataset, show: ShowWork) -> Callable[[int], None]:
    """Return what takes the bytes of objects as they are read."""
    manifest, read = dataset.manifest, 0
    whole = chunk_bytes(manifest) + sum(stored.length for stored in manifest.objects.values())

    def count(n_bytes: int) -> None:
        nonlocal read
        read += n_bytes
        show(read / max(1, whole), f"{format_bytes(read)} of {format_bytes(whole)}")

    return count


def chunk_bytes(manifest: Manifest) -> int:
    """Bytes of everything that lies in chunks."""
    return manifest.chunks.bytes_of(manifest.chunks.objects)


def _snapshot_at(path: str) -> tuple[SnapshotStore, str]:
    parent, _, name = Folder(path).url.rpartition("/")
    return SnapshotStore(Folder(parent)), name.removesuffix(SUFFIX)


# -- descriptions -----------------------------------------------------------------------


def _of_dataset(path: str) -> dict[str, Any]:
    dataset = Dataset.open(path)
    manifest = dataset.manifest
    return {
        "at": dataset.folder.url,
        "layout": f"{manifest.layout}, {manifest.dtype}",
        "rows": manifest.n_rows,
        "features": manifest.n_features,
        "values": manifest.nnz,
        "targets": _targets(manifest.targets),
        "row_weights": manifest.has_weight,
        "largest_row_norm": float(np.sqrt(manifest.norms.max_square)),
        "scaling": manifest.scaling.kind,
        "shuffle_seed": manifest.shuffle.seed,
        "columns_stored_by": "frequency" if COLUMN_ORDER in manifest.columns else "source",
        "chunks": manifest.n_chunks,
        "chunk_rows": manifest.chunk_rows,
        "stored_bytes": chunk_bytes(manifest),
        "sources": [source.name for source in manifest.sources],
        "columns": columns_in_words(dataset.schema),
        "hashed_columns_named": len(dataset.hashed_names) or None,
        "skipped_rows": sum(manifest.bad_rows.values()),
        "generation": manifest.generation if manifest.changes else None,
        "changes": [f"{one.change} of {counted(one.rows, 'row')}" for one in manifest.changes]
        or None,
        "columns_kept": list(manifest.retained) or None,
        "view_of": [part.way for part in manifest.parts] or None,
        "fingerprint": manifest.fingerprint,
    }


def _targets(targets: Any) -> dict[str, Any]:
    if isinstance(targets, Labels):
        names = [label_text(label) for label in targets.labels]
        return {"labels": dict(zip(names, targets.counts, strict=True))}
    return {"mean": targets.mean, "variance": targets.variance}


def _of_run(path: str) -> dict[str, Any]:
    run = RunFolder(path)
    record = run.record()
    problem = problem_of(record.plan, record)
    newest, damaged = run.snapshots.latest()
    saved = Saved.of(newest) if newest else None
    facts = {
        "at": run.url,
        "dataset": record.plan.dataset,
        "rows": record.n_rows,
        "features": record.n_features,
        "solver": record.method(),
        "loss": problem.loss.name,
        "lam": trained_lam(record, saved) if saved else problem.penalty.total,
        "chosen": record.methods.reason if record.methods else None,
        "plan": record.plan.model_dump(mode="json"),
        "snapshots": run.snapshots.names(),
        "damaged": damaged or None,
    }
    return facts | (_state(saved) if saved else {"finished": False})


def _of_snapshot(path: str) -> dict[str, Any]:
    store, name = _snapshot_at(path)
    return {"at": Folder(path).url} | _state(Saved.of(store.load(name)))


def _state(saved: Saved) -> dict[str, Any]:
    cursor, certified, weights = saved.cursor, saved.certificate, saved.weights
    return {
        "snapshot": saved.name,
        "finished": saved.finished,
        "passes": cursor.passes,
        "rows_seen": cursor.rows_seen,
        "seconds": cursor.seconds,
        "objective": certified.objective if certified else None,
        "certificate": certified.gap if certified else None,
        "intercept": np.asarray(weights.intercept).tolist(),
        "weights_norm": float(np.linalg.norm(weights.coef)),
        "weights_not_zero": int(np.count_nonzero(weights.coef)),
    }


def flat_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """Write facts for people: nested ones on one line, bytes with a unit."""
    return {
        name.replace("_", " ").removesuffix(" bytes"): _written(name, value)
        for name, value in facts.items()
    }


def _written(name: str, value: Any) -> Any:
    if name.endswith("_bytes"):
        return format_bytes(value)
    if isinstance(value, dict):
        inner = next(iter(value.values())) if len(value) == 1 else value
        return _pairs(inner)
    if isinstance(value, list):
        return _listed(value)
    return value


def _listed(values: list[Any]) -> str:
    if len(values) > MOST_LISTED and all(isinstance(value, float) for value in values):
        return f"{counted(len(values), 'number')} from {min(values):.6g} to {max(values):.6g}"
    return ", ".join(map(str, values))


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{k} {_number(v)}" for k, v in values.items() if v is not None)


def _number(value: Any) -> str:
    if isinstance(value, dict):
        return f"({_pairs(value)})"
    return format_value(value) if isinstance(value, int) else str(value)
