"""Numbers per row: bound to their place, to their snapshot, and to the weights that go with them."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.run_faults import run_faults
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.protocol import Mispaired
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.row_state_store import (
    PAGE_BYTES,
    RowRecords,
    RowStatePart,
    RowStateStore,
    StoredRowState,
)
from testing.datasets import make
from testing.interruptions import resumed, trained

N, CHUNK_ROWS = 1200, 80
METHODS = {
    "sdca": {"solver": {"kind": "sdca"}, "loss": "smoothed_hinge"},
    "psdca": {"solver": {"kind": "psdca"}, "loss": "smoothed_hinge", "lam": "0.01/n"},
    "asdca": {"solver": {"kind": "asdca"}, "loss": "smoothed_hinge"},
    "pegasos": {"solver": {"kind": "pegasos"}, "loss": "hinge"},
    "sag": {"solver": {"kind": "sag"}},
    "s2gd+": {"solver": {"kind": "s2gd+"}},
}


@pytest.fixture(autouse=True)
def short_spans(monkeypatch):
    """A window each, so that there is a snapshot in the middle of a pass."""
    monkeypatch.setattr("fewpass.pipeline.training.walk.SPAN_SECONDS", 1e-9)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make(tmp_path_factory.mktemp("rows") / "set", n=N, chunk_rows=CHUNK_ROWS)


def plan_for(dataset, **changes):
    common = {"dataset": dataset.folder.url, "memory": "96.1MB", "passes": 8, "lam": "10/n"}
    return TrainingPlan(**common | {"snapshot_every": 1e-9} | changes)


def cut(plan, place, passes, midway=True):
    """Begin a run and leave it after a snapshot, in the middle of a pass or between two."""
    events = iter(TrainingRun.start(plan, str(place), InProcess()))
    for event in events:
        there = event.cursor.rows_in_sweep > N // 3 if midway else not event.cursor.windows
        if event.kind == "snapshot" and event.cursor.passes >= passes and there:
            break
    else:
        raise AssertionError("the run came to its end before")
    events.close()
    return RunFolder(str(place))


@pytest.fixture(scope="module")
def cut_once(dataset, tmp_path_factory):
    """Cut the run of a method as `cut` does, once for all tests; return a copy of what it left."""
    begun = {}

    def copy(method, place, *, midway=True):
        asked = method, midway
        if asked not in begun:
            begun[asked] = tmp_path_factory.mktemp("cut") / "run"
            cut(plan_for(dataset, **METHODS[method]), begun[asked], 3.0, midway)
        shutil.copytree(begun[asked], place)
        return RunFolder(str(place))

    return copy


def newest_versions(run):
    """The two newest versions that the newest snapshot goes with, the complete one first."""
    snapshot, _ = run.snapshots.latest()
    tables = {int(k[5:]): v for k, v in snapshot.arrays.items() if k.startswith("rows.")}
    return sorted(tables), tables


# -- files --------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    return RowStateStore(Folder(str(tmp_path / "rows")), chunk_bytes=4000)


@pytest.mark.parametrize("shape", [(500,), (250, 2), (1,)])
@pytest.mark.parametrize("url", ["local", "memory://numbers"])
def test_what_was_written_is_read_and_nothing_else(tmp_path, url, shape):
    folder = Folder(str(tmp_path / "rows") if url == "local" else url)
    store = RowStateStore(folder, chunk_bytes=4000)
    values = np.linspace(-1.0, 1.0, np.prod(shape)).reshape(shape)
    store.write(3, 16, np.ones(500))
    stored = store.write(3, 17, values)
    store.write(3, 18, np.ones(500))
    store.write(4, 17, np.ones(500))
    store.sync({3, 9})
    out = np.empty(shape)
    assert store.read_into(3, 17, out, stored) == stored.length
    assert np.array_equal(out, values)
    assert store.fault(3, 17, stored) is None
    assert store.read_into(-1, 17, out, None) == 0
    assert not out.any()
    store.keep_only([3])
    assert store.versions() == [3]
    assert store.read_into(3, 17, out, stored) == stored.length
    store.keep_only([])
    assert folder.list() == []
    with pytest.raises(Damaged, match=r"000003.* is missing"):
        store.read_into(3, 17, out, stored)


def test_damage_is_found_and_named(store):
    stored = store.write(3, 17, np.linspace(-1.0, 1.0, 500))
    path, out = store.folder.local_path("000003"), np.empty(500)
    whole = path.read_bytes()
    assert len(whole) == stored.start + stored.length
    for place in (0, 30, stored.length - 1):
        changed = bytearray(whole)
        changed[stored.start + place] ^= 4
        path.write_bytes(changed)
        with pytest.raises(Damaged, match=r"17 in .*/000003 are damaged.*Delete the newest"):
            store.read_into(3, 17, out, stored)
        assert "/000003 are damaged" in store.fault(3, 17, stored)
    path.write_bytes(whole[:-1])
    with pytest.raises(Damaged, match="there are 3999 bytes of them, where 4000 were expected"):
        store.read_into(3, 17, out, stored)
    path.unlink()
    with pytest.raises(Damaged, match="000003 is missing"):
        store.read_into(3, 17, out, stored)
    assert "000003 is missing" in store.fault(3, 17, stored)


def test_records_that_cannot_be_are_refused(store):
    stored, out = store.write(3, 17, np.ones(500)), np.empty(500)
    with pytest.raises(Damaged, match="no record of them"):
        store.read_into(3, 17, out, None)
    for length in (0, 3992, 4008, 4001, 1 << 47):
        lie = stored._replace(length=length)
        with pytest.raises(Damaged, match=f"{length} bytes are on record"):
            store.read_into(3, 17, out, lie)
        assert "000003 are damaged" in store.fault(3, 17, lie)
    for start in (0, 8, 1 << 47):
        lie = stored._replace(start=start)
        with pytest.raises(Damaged, match="other rows or of another time"):
            store.read_into(3, 17, out, lie)


@pytest.mark.parametrize(("version", "chunk"), [(3, 18), (4, 17)])
def test_numbers_of_another_place_are_refused_whatever_is_on_record(store, version, chunk):
    stored = store.write(3, 17, np.arange(100.0))
    source = store.folder.local_path("000003")
    target = store.folder.local_path(f"{version:06d}")
    target.write_bytes(source.read_bytes())
    with pytest.raises(Damaged, match="those of other rows or of another time"):
        store.read_into(version, chunk, np.empty(100), stored)
    assert "are damaged" in store.fault(version, chunk, stored)


def test_a_version_is_one_file_and_brought_to_the_disk_once(tmp_path, monkeypatch):
    store = RowStateStore(Folder(str(tmp_path / "run/rows")), chunk_bytes=80)
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(lambda k: store.write(5, k, np.full(10, k)), range(200)))
    assert [file.name for file in (tmp_path / "run/rows").iterdir()] == ["000005"]
    for chunk, stored in enumerate(made):
        out = np.empty(10)
        store.read_into(5, chunk, out, stored)
        assert out.tolist() == [chunk] * 10
    synced, fsync = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file)))
    store.sync({5})
    assert len(synced) == 3  # the file, its folder and the folder around that


def test_records_are_arrays_and_handed_out_by_chunk():
    records, one, two = RowRecords(5), RowStatePart(40, 10, 2**32 - 1), RowStatePart(0, 11, 0)
    assert records.is_empty
    records.note(7, [StoredRowState(4, one), StoredRowState(0, two)])
    assert records.missing(7) == 3
    assert records.missing(8) == 5
    arrays = records.arrays({6, 7})
    assert {name: a.tolist() for name, a in arrays.items()} == {
        "rows.000007": [[0, 11, 0], [0] * 3, [0] * 3, [0] * 3, [40, 10, 2**32 - 1]]
    }
    again = RowRecords.read(5, arrays | {"coef": np.zeros(3)})
    assert again.of((7, 8), [3, 4]) == {(7, 4): one}
    assert list(again.every()) == [(7, 0, two), (7, 4, one)]
    with pytest.raises(ValueError, match=r"int64 \(6, 3\), were expected"):
        RowRecords.read(6, arrays)
    for lie in (-1, 1 << 60):
        arrays["rows.000007"][2, 0] = lie
        with pytest.raises(ValueError, match="no places in a file"):
            RowRecords.read(5, arrays)


# -- runs ---------------------------------------------------------------------------------------


def exchange(rows, old, new):
    path, size = rows / f"{new:06d}", PAGE_BYTES
    content = path.read_bytes()
    path.write_bytes(content[size : 2 * size] + content[:size] + content[2 * size :])


def put_older(rows, old, new):
    shutil.copy(rows / f"{old:06d}", rows / f"{new:06d}")


def cut_short(rows, old, new):
    path = rows / f"{new:06d}"
    path.write_bytes(path.read_bytes()[:-9])


def delete(rows, old, new):
    (rows / f"{new:06d}").unlink()


HARMS = [
    (method, harm)
    for method in METHODS
    for harm in (exchange, put_older, cut_short, delete)
    if (method, harm) != ("s2gd+", put_older)  # which keeps one version only
]


@pytest.mark.parametrize(("method", "harm"), HARMS)
def test_numbers_that_are_not_the_snapshots_are_named_and_not_trained_on(
    tmp_path, cut_once, method, harm
):
    run = cut_once(method, tmp_path / "run", midway=False)
    versions, tables = newest_versions(run)
    whole = next(v for v in versions if tables[v][:, 1].all())
    rows = tmp_path / "run/rows"
    older = [int(p.name) for p in rows.iterdir() if int(p.name) < whole]
    assert list(run_faults(run)) == []
    harm(rows, max(older, default=0), whole)
    assert any(f"rows/{whole:06d}" in found for found in run_faults(run))
    if method == "s2gd+":
        return  # an inner loop need not come by these chunks
    with pytest.raises(Damaged, match=f"rows/{whole:06d}"):
        resumed(run.url)


def exchanged_in_earnest(run):
    """Save a snapshot, sealed and on record, whose dual variables are those of other rows."""
    snapshot, _ = run.snapshots.latest()
    versions, tables = newest_versions(run)
    for version in versions:
        table, kept = tables[version], []
        chunks = [k for k in (0, 1) if table[k, 1]]
        for chunk in chunks:
            values = np.empty(CHUNK_ROWS)
            run.row_state.read_into(version, chunk, values, RowStatePart(*table[chunk].tolist()))
            kept.append(values)
        for chunk, values in zip(chunks, reversed(kept), strict=True):
            numbers = RowStateStore(run.row_state.folder, CHUNK_ROWS * 8)
            stored = numbers.write(version, chunk, values)
            snapshot.arrays[f"rows.{version:06d}"][chunk] = stored
    run.snapshots.folder.delete_tree()
    run.snapshots.save(snapshot.attributes, snapshot.arrays)


@pytest.mark.parametrize("midway", [False, True])
@pytest.mark.parametrize("method", ["sdca", "psdca", "asdca"])
def test_no_pairing_of_numbers_and_weights_makes_a_false_certificate(
    tmp_path, cut_once, method, midway
):
    run = cut_once(method, tmp_path / "run", midway=midway)
    exchanged_in_earnest(run)
    assert list(run_faults(run)) == []  # every byte is as it was written
    with pytest.raises(Mispaired, match="certificate would be wrong by"):
        resumed(run.url)


@pytest.mark.parametrize("method", METHODS)
def test_a_damaged_newest_snapshot_is_passed_over_to_the_same_bits(
    tmp_path, dataset, cut_once, method
):
    plan = plan_for(dataset, **METHODS[method], snapshot_every=1e3)
    quiet = trained(plan, tmp_path / "quiet").result
    run = cut_once(method, tmp_path / "run")
    newest = run.snapshots.names()[-1]
    file = tmp_path / f"run/snapshots/{newest}.safetensors"
    file.write_bytes(file.read_bytes()[:-40])
    resumed = TrainingRun.resume(run.url, InProcess())
    first = next(iter_ := iter(resumed))
    assert first.facts.snapshot < newest
    assert any(newest in sentence for sentence in first.facts.damaged)
    for _ in iter_:
        pass
    assert resumed.result.weights_sha256 == quiet.weights_sha256
    assert resumed.result.certificate == quiet.certificate


@pytest.mark.parametrize(
    "execution",
    [Execution(threads=2), Execution(scheduler="local", threads=2), Execution(workers=2)],
)
def test_records_reach_the_spans_wherever_they_run(tmp_path, dataset, execution):
    plan = plan_for(dataset, **METHODS["sdca"], streams=2)
    quiet = trained(plan, tmp_path / "quiet").result
    run = cut(plan, tmp_path / "run", passes=3.0)
    with open_executor(execution) as executor:
        again = resumed(run.url, executor).result
    assert again.weights_sha256 == quiet.weights_sha256
    assert again.certificate == quiet.certificate
