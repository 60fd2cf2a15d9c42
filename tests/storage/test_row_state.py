"""Numbers per row: bound to their place, to their snapshot, and to the weights that go with them."""

import shutil

import numpy as np
import pytest

from fewpass.pipeline.executors.executor import open_executor
from fewpass.pipeline.executors.threads import InProcess
from fewpass.pipeline.runs.run_faults import run_faults
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.protocol import Mispaired
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import StoredObject
from fewpass.storage.row_state_store import RowRecords, RowStateStore, StoredRowState
from testing.datasets import make

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


def finish(run):
    for _ in run:
        pass
    return run.result


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


# -- objects ------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path):
    return RowStateStore(Folder(str(tmp_path / "rows")))


def test_what_was_written_is_read_and_nothing_else(store):
    values = np.linspace(-1.0, 1.0, 500)
    stored = store.write(3, 17, values)
    out = np.empty(500)
    assert store.read_into(3, 17, out, stored) == stored.length
    assert np.array_equal(out, values)
    assert store.fault(3, 17, stored) is None
    assert store.read_into(-1, 17, out, None) == 0
    assert not out.any()
    path = store.folder.local_path("000003/000017")
    whole = path.read_bytes()
    for place in (0, 30, len(whole) - 1):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        with pytest.raises(Damaged, match=r"000003/000017 is damaged.*Delete the newest snapshot"):
            store.read_into(3, 17, out, stored)
        assert "000003/000017 is damaged" in store.fault(3, 17, stored)
    path.write_bytes(whole[:-1])
    with pytest.raises(Damaged, match=f"it has {len(whole) - 1} bytes"):
        store.read_into(3, 17, out, stored)
    path.unlink()
    with pytest.raises(Damaged, match="000003/000017 is missing"):
        store.read_into(3, 17, out, stored)
    with pytest.raises(Damaged, match="on no record"):
        store.read_into(3, 17, out, None)


@pytest.mark.parametrize(("version", "chunk"), [(3, 18), (4, 17)])
def test_an_object_at_another_place_is_refused_whatever_is_on_record(store, version, chunk):
    stored = store.write(3, 17, np.arange(100.0))
    source = store.folder.local_path("000003/000017")
    target = store.folder.local_path(f"{version:06d}/{chunk:06d}")
    target.parent.mkdir(exist_ok=True)
    shutil.copy(source, target)
    with pytest.raises(Damaged, match="numbers of other rows or of another time"):
        store.read_into(version, chunk, np.empty(100), stored)
    assert "is damaged" in store.fault(version, chunk, stored)


def test_records_are_kept_as_arrays_and_handed_out_by_chunk():
    records = RowRecords(5)
    assert records.is_empty
    records.note(
        7, [StoredRowState(4, StoredObject(10, 2**32 - 1)), StoredRowState(0, StoredObject(11, 0))]
    )
    assert records.missing(7) == 3
    assert records.missing(8) == 5
    arrays = records.arrays({6, 7})
    assert {name: a.tolist() for name, a in arrays.items()} == {
        "rows.000007": [[11, 0], [0, 0], [0, 0], [0, 0], [10, 2**32 - 1]]
    }
    again = RowRecords.read(5, arrays | {"coef": np.zeros(3)})
    assert again.of((7, 8), [3, 4]) == {(7, 4): (10, 2**32 - 1)}
    assert list(again.every()) == [(7, 0, (11, 0)), (7, 4, (10, 2**32 - 1))]
    with pytest.raises(ValueError, match=r"uint32 \(6, 2\), were expected"):
        RowRecords.read(6, arrays)


# -- runs ---------------------------------------------------------------------------------------


def exchange(rows, old, new):
    one, other = rows / f"{new:06d}/000000", rows / f"{new:06d}/000001"
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def put_older(rows, old, new):
    shutil.rmtree(rows / f"{new:06d}")
    shutil.copytree(rows / f"{old:06d}", rows / f"{new:06d}")


def cut_short(rows, old, new):
    one = rows / f"{new:06d}/000003"
    one.write_bytes(one.read_bytes()[:-9])


def delete(rows, old, new):
    (rows / f"{new:06d}/000003").unlink()


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
    whole = next(v for v in versions if tables[v][:, 0].all())
    rows = tmp_path / "run/rows"
    older = [int(p.name) for p in rows.iterdir() if int(p.name) < whole]
    assert list(run_faults(run)) == []
    harm(rows, max(older, default=0), whole)
    assert any(f"rows/{whole:06d}/00000" in found for found in run_faults(run))
    if method == "s2gd+":
        return  # an inner loop need not come by these chunks
    with pytest.raises(Damaged, match=f"rows/{whole:06d}/0000"):
        finish(TrainingRun.resume(run.url, InProcess()))


def exchanged_in_earnest(run):
    """Save a snapshot, sealed and on record, whose dual variables are those of other rows."""
    snapshot, _ = run.snapshots.latest()
    versions, tables = newest_versions(run)
    for version in versions:
        table, kept = tables[version], []
        chunks = [k for k in (0, 1) if table[k, 0]]
        for chunk in chunks:
            values = np.empty(CHUNK_ROWS)
            run.row_state.read_into(version, chunk, values, StoredObject(*table[chunk].tolist()))
            kept.append(values)
        for chunk, values in zip(chunks, reversed(kept), strict=True):
            snapshot.arrays[f"rows.{version:06d}"][chunk] = run.row_state.write(
                version, chunk, values
            )
    for name in run.snapshots.names():
        run.snapshots.folder.delete_tree(name)
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
        finish(TrainingRun.resume(run.url, InProcess()))


@pytest.mark.parametrize("method", METHODS)
def test_a_damaged_newest_snapshot_is_passed_over_to_the_same_bits(
    tmp_path, dataset, cut_once, method
):
    plan = plan_for(dataset, **METHODS[method], snapshot_every=1e3)
    quiet = finish(TrainingRun.start(plan, str(tmp_path / "quiet"), InProcess()))
    run = cut_once(method, tmp_path / "run")
    newest = run.snapshots.names()[-1]
    manifest = tmp_path / "run/snapshots" / newest / "manifest.json"
    manifest.write_bytes(manifest.read_bytes()[:-40])
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
    quiet = finish(TrainingRun.start(plan, str(tmp_path / "quiet"), InProcess()))
    run = cut(plan, tmp_path / "run", passes=3.0)
    with open_executor(execution) as executor:
        resumed = finish(TrainingRun.resume(run.url, executor))
    assert resumed.weights_sha256 == quiet.weights_sha256
    assert resumed.certificate == quiet.certificate
