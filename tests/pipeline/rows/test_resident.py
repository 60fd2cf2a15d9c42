"""Rows that stay in memory: read once, the same bits, within the budget, and let go at the end."""

import numpy as np
import pytest

from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.forecast import stored_bytes
from fewpass.pipeline.planning.job import bytes_of_states
from fewpass.pipeline.rows import resident
from fewpass.pipeline.rows.reader import WindowReader
from fewpass.pipeline.rows.resident import ResidentRows, free_rows, resident_rows
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.rows.windows import (
    Window,
    WindowPlan,
    chunk_bytes,
    plan_windows,
    resident_bytes,
)
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.storage.folder import Damaged
from testing.datasets import make
from testing.jobs import job_of

WINDOWS = [
    Window(chunks, order, 3, 0)
    for order in ("stored", "random")
    for chunks in [(0, 1, 2), (5, 0, 3), (6,), tuple(range(7)), (4, 2, 6, 1, 0, 5, 3)]
]


@pytest.fixture(params=["dense", "sparse"])
def dataset(tmp_path, request):
    return make(tmp_path / "set", n=330, chunk_rows=50, layout=request.param, weighted=True)


def visited(block):
    """The rows in the order of their visits: values, targets, weights."""
    y, weight = block.y[block.order], block.weight[block.order]
    if isinstance(block.rows, DenseRows):
        return [block.rows.X[block.order].tobytes(), y.tolist(), weight.tolist()]
    data, indices, indptr = block.rows
    parts = [slice(indptr[i], indptr[i + 1]) for i in block.order]
    rows = [(indices[part].tolist(), data[part].tolist()) for part in parts]
    return [rows, y.tolist(), weight.tolist()]


def test_every_window_visits_the_same_rows_as_when_it_is_decoded_anew(dataset):
    plan, rule = WindowPlan(dataset.n_chunks, 3, 1, seed=0), TargetRule(1)
    held = ResidentRows(dataset, rule)
    anew = WindowReader(dataset, plan, rule, (330, 330 * 8))
    kept = WindowReader(dataset, plan, rule, (0, 0), resident=held)
    blocks = zip(WINDOWS, anew.blocks(WINDOWS), kept.blocks(WINDOWS), strict=True)
    for window, (one, _, _), (other, places, _) in blocks:
        assert visited(one) == visited(other), window
        counts = [dataset.manifest.chunks.rows[k] for k in window.chunks]
        assert [place.stop - place.start for place in places] == counts
    assert kept.statistics.bytes_read == stored_bytes(dataset.manifest)
    assert anew.statistics.bytes_read > 2 * kept.statistics.bytes_read


#: One for each way to go over rows: a walk, inner epochs, rounds, batches, a sum, several lam.
METHODS = [
    {"solver": {"kind": "asgd"}},
    {"solver": {"kind": "s2gd+"}},
    {"solver": {"kind": "sdca", "shrink_rounds": 3}, "loss": "hinge", "streams": 2},
    {"solver": {"kind": "psdca"}, "lam": "0.01/n"},
    {"solver": {"kind": "lbfgs"}},
    {"solver": {"kind": "sdca"}, "lam": "1/n,10/n"},
]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    kinds = [("dense", 2), ("sparse", 3)]
    return [
        make(
            tmp_path_factory.mktemp("sets") / layout,
            n=2500, chunk_rows=70, layout=layout, weighted=True, classes=classes,
        )
        for layout, classes in kinds
    ]  # fmt: skip


@pytest.mark.parametrize("number", range(len(METHODS)))
def test_the_model_has_the_same_bits_with_rows_kept_or_not(tmp_path, monkeypatch, datasets, number):
    """Of dense rows and of sparse ones in three classes in turn."""
    dataset, settings = datasets[number % 2], METHODS[number]
    chunks = (12, 36)[number // 2 % 2]  # a window is a third of the set, or all of it
    held_out = {"held_out": dataset.folder.url} if "lam" in settings else {}
    how = {"lam": "1/n", "passes": 3} | settings | held_out
    plan = TrainingPlan(dataset=dataset.folder.url, **how)

    def windows(manifest, **given):
        return plan_windows(manifest, **given)._replace(chunks_per_window=chunks)

    monkeypatch.setattr("fewpass.pipeline.planning.job.plan_windows", windows)
    found = {}
    for keeps in (True, False):
        monkeypatch.setattr(
            "fewpass.pipeline.planning.job.rereads", lambda _plan, keeps=keeps: keeps
        )
        run = TrainingRun.start(plan, str(tmp_path / f"run-{keeps}"), InProcess())
        assert run.forecast.resident == keeps
        assert [event.kind for event in run][-1] == "finish"
        found[keeps] = run.result
    assert found[True].weights_sha256 == found[False].weights_sha256
    assert found[True].objective == found[False].objective
    assert found[True].bytes_read < found[False].bytes_read


def plan_for(dataset, **settings):
    return TrainingPlan(
        dataset=dataset.folder.url, **{"solver": {"kind": "asgd"}, "lam": "1/n"} | settings
    )


def test_a_set_that_fits_is_read_once_and_let_go_at_the_end(tmp_path, datasets):
    dataset = datasets[0]
    run = TrainingRun.start(plan_for(dataset, passes=5, tol=1e-9), str(tmp_path / "r"), InProcess())
    seen = [len(resident._retained) for _ in run]
    assert max(seen) == 1
    assert not resident._retained
    assert run.result.bytes_read == stored_bytes(dataset.manifest)


def test_worker_processes_each_read_a_set_once(tmp_path, datasets):
    dataset = datasets[1]
    plan = plan_for(dataset, passes=4, tol=1e-9)
    with open_executor(Execution(workers=2, threads=1)) as executor:
        run = TrainingRun.start(plan, str(tmp_path / "two"), executor)
        assert list(run)[-1].kind == "finish"
        held = executor._client.run(lambda: len(resident._retained))
    alone = TrainingRun.start(plan, str(tmp_path / "one"), InProcess())
    assert list(alone)[-1].kind == "finish"
    whole = stored_bytes(dataset.manifest)
    assert whole <= run.result.bytes_read <= 2 * whole
    assert run.result.weights_sha256 == alone.result.weights_sha256
    assert set(held.values()) == {0}


def test_what_is_read_once_only_or_does_not_fit_is_not_kept(datasets):
    dataset = datasets[0]
    one = job_of(plan_for(dataset), dataset)
    assert not one.resident
    many = plan_for(dataset, passes=2)
    states = bytes_of_states(many.solver, one.problem, one.stats, 1) + PROGRAM_BYTES
    least = 3 * chunk_bytes(dataset.manifest) + states
    jobs = []
    for memory in range(least, least + 10**6, 5000):
        jobs.append(job_of(many.model_copy(update={"memory": memory}), dataset))
        needed = states + resident_bytes(dataset.manifest, jobs[-1].windows)
        assert jobs[-1].resident == (needed <= memory)
    assert not jobs[0].resident
    assert jobs[-1].resident
    grown = [job for job in jobs if job.resident and job.windows.chunks_per_window < 36]
    assert grown, "kept in less memory than three windows of the whole set take"


def test_another_data_set_takes_the_place_of_the_first(datasets):
    first = resident_rows(datasets[0], TargetRule(1))
    assert resident_rows(datasets[0], TargetRule(1)) is first
    assert resident_rows(datasets[0], TargetRule(0)) is not first
    resident_rows(datasets[1], TargetRule(n_classes=3))
    assert len(resident._retained) == 1
    free_rows()
    assert resident_rows(datasets[0], TargetRule(1)) is not first
    free_rows()


def test_a_damaged_chunk_is_refused_until_it_is_whole(tmp_path):
    dataset = make(tmp_path / "set", n=300, chunk_rows=50, weighted=True)
    held, key = ResidentRows(dataset, TargetRule(1)), "X/c.3.0"
    whole = dataset.folder.read(key)
    dataset.folder.write(key, whole[:-1] + bytes([whole[-1] ^ 1]))
    for _ in range(2):
        with pytest.raises(Damaged, match=r"X/c\.3\.0"):
            held.load((3,))
    dataset.folder.write(key, whole)
    table = dataset.read_chunk(3)
    assert np.array_equal(held.load((3,)).rows.X, table.X)
    assert np.array_equal(held.load((3,)).y, 2 * table.target - 1)
