"""An append by tasks of a cluster: the same generation, refusals and notes as by threads."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.change_plans import AppendPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.tables.changing.appending import append
from fewpass.pipeline.tables.ingest import job_steps, mapping
from fewpass.pipeline.tables.ingest.piece_map import TRAINING
from fewpass.pipeline.tables.readers import lines
from fewpass.storage.dataset import Dataset
from fewpass.storage.part_files import DamagedPart
from testing.interruptions import Killed
from testing.object_store import object_store
from tests.pipeline.tables.changing.kinds_of_rows import KINDS, write_table


@pytest.fixture
def small(monkeypatch):
    """Pieces of 2 kB, in spans of five."""
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2_000)
    monkeypatch.setattr(lines, "SPAN_BYTES", 10_000)


@pytest.fixture(scope="module")
def here():
    """Dask's threads of this process."""
    with open_executor(Execution(scheduler="local", threads=3)) as executor:
        yield executor


def made(tmp_path, write, place, *, chunk_bytes=2048, **settings):
    """Ingest rows, and return a file to append."""
    old, new = tmp_path / "old.csv", tmp_path / "new.csv"
    if not new.exists():  # its time of change is on record
        write(old, 400)
        write(new, 700, 400)
    fewpass.ingest(old, place, chunk_bytes=chunk_bytes, threads=1, **settings)
    return str(new)


def plan_of(file, place, **more):
    return AppendPlan(dataset=str(place), sources=(str(file),), **more)


def results_of(result):
    varying = {"seconds", "peak_memory_bytes", "dataset", "test_dataset"}
    return result.model_dump(exclude=varying)


@pytest.mark.parametrize("kind", KINDS)
def test_workers_make_the_generation_that_threads_make(kind, tmp_path, small, here, monkeypatch):
    write, settings = KINDS[kind]
    if settings.get("shuffle", True):
        settings = settings | {"test_fraction": 0.2}
    made_by, spans, mapped = [], [], mapping.map_span

    def noted(*given):
        spans.append(given)
        return mapped(*given)

    monkeypatch.setattr(mapping, "map_span", noted)
    for k, executor in enumerate((None, None, here)):
        place = tmp_path / f"{k}"
        place.mkdir()
        new = made(tmp_path, write, place / "D", **settings)
        made_by.append(append(plan_of(new, place / "D", threads=k + 1), executor=executor))
        sets = [Dataset.open(str(one)) for one in place.glob("D*")]
        assert len(sets) == 1 + ("test_fraction" in settings)
        assert not [fault for one in sets for fault in one.verify()]
        assert not (place / "D/.ingest").exists()
    assert len(spans) > 1
    one, two, three = map(results_of, made_by)
    assert one == two == three
    assert made_by[0].appended + made_by[0].test_appended == 700


def test_what_is_refused_by_threads_is_refused_by_workers(tmp_path, small, here):
    made(tmp_path, write_table, tmp_path / "D", label="label", keep="id", test_fraction=0.2)
    before = sorted(map(str, (tmp_path / "D").rglob("*")))
    rows = [f"c{k:04d},north,{'old' if k % 3 else 40},2.5,yes" for k in range(900)]
    (tmp_path / "words.csv").write_text("id,city,age,paid,label\n" + "\n".join(rows) + "\n")
    labels = [f"c{k:04d},north,40,2.5,{'maybe' if k > 800 else 'no'}" for k in range(900)]
    (tmp_path / "labels.csv").write_text("id,city,age,paid,label\n" + "\n".join(labels) + "\n")
    for name, said in (
        ("words", "holds words in 600 of the 900"),
        ("labels", "Labels maybe are unknown"),
    ):
        refused = []
        for executor in (None, here):
            with pytest.raises(BadInput, match=said) as caught:
                append(plan_of(tmp_path / f"{name}.csv", tmp_path / "D"), executor=executor)
            refused.append(str(caught.value))
            assert sorted(map(str, (tmp_path / "D").rglob("*"))) == before
        assert refused[0] == refused[1]


def test_weights_that_are_all_zero_leave_the_set_as_it_was(tmp_path, here):
    """What is known when all rows were read is refused then, and nothing of them is left."""
    (tmp_path / "old.csv").write_text("a,w,y\n" + "1,2,0\n3,1,1\n" * 40)
    (tmp_path / "new.csv").write_text("a,w,y\n" + "1,0,0\n3,0,1\n" * 40)
    how = {"label": "y", "weight": "w", "encode": "none", "test_fraction": 0.3}
    fewpass.ingest(tmp_path / "old.csv", tmp_path / "D", **how)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for executor in (None, here):
        with pytest.raises(BadInput, match="weights of all"):
            append(plan_of(tmp_path / "new.csv", tmp_path / "D"), executor=executor)
        assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_append_by_workers_of_which_one_is_killed(tmp_path, small):
    how = {"label": "label", "keep": "id", "test_fraction": 0.2}
    for name in ("threads", "workers"):
        (tmp_path / name).mkdir()
        new = made(tmp_path, write_table, tmp_path / name / "D", **how)
    expected = fewpass.append(tmp_path / "threads/D", new)
    with (
        open_executor(Execution(workers=2, threads=1)) as executor,
        ThreadPoolExecutor(1) as pool,
        pytest.MonkeyPatch.context() as patch,
    ):
        first = executor.result(executor.submit("pid", os.getpid))
        killed = []

        def kill(_share, said):
            if said.startswith("writing") and not killed:
                killed.append(pool.submit(os.kill, first, signal.SIGKILL))

        patch.setattr("fewpass.pipeline.tables.ingest.progress.REPORT_EVERY", 0.0)
        got = append(plan_of(new, tmp_path / "workers/D"), executor=executor, progress=kill)
    assert killed
    assert results_of(got) == results_of(expected)
    for name in ("D", "D-test"):
        one, two = (Dataset.open(str(tmp_path / by / name)) for by in ("threads", "workers"))
        assert one.manifest.fingerprint == two.manifest.fingerprint
        assert not list(two.verify())


def test_rows_that_an_earlier_call_left_damaged_are_read_anew(tmp_path, small, here, monkeypatch):
    """Test rows that are in their set by then stay there, whole all the while."""
    how = {"label": "label", "test_fraction": 0.2}
    for name in ("threads", "workers"):
        (tmp_path / name).mkdir()
        new = made(tmp_path, write_table, tmp_path / name / "D", **how)
    expected = fewpass.append(tmp_path / "threads/D", new)
    written, fails = job_steps.written, [DamagedPart("a part is not as it was written"), Killed()]

    def failing(job, mapped, number, *others):
        assert not list(Dataset.open(str(tmp_path / "workers/D-test")).verify())
        if number == TRAINING and fails:
            raise fails.pop()
        return written(job, mapped, number, *others)

    monkeypatch.setattr(job_steps, "written", failing)
    with pytest.raises(Killed):
        append(plan_of(new, tmp_path / "workers/D"), executor=here)
    got = append(plan_of(new, tmp_path / "workers/D"), executor=here)
    assert not fails
    assert results_of(got) == results_of(expected)
    assert not list(Dataset.open(str(tmp_path / "workers/D-test")).verify())


def test_rows_that_workers_append_go_through_the_store_that_the_set_is_in(tmp_path, small, here):
    how = {"label": "label", "chunk_bytes": 16 << 10}  # each object is a request
    new = made(tmp_path, write_table, tmp_path / "D", **how)
    expected = fewpass.append(tmp_path / "D", new)
    with object_store("appended") as store:
        there = {"storage_options": store.options}
        made(tmp_path, write_table, "s3://appended/D", **how, **there)
        got = append(plan_of(new, "s3://appended/D", **there), executor=here)
        assert got.fingerprint == expected.fingerprint
        assert not list(Dataset.open("s3://appended/D", store.options).verify())
        inside = {path.split("/")[2] for path in store.fs.find("appended/D")}
        assert ".ingest" not in inside
