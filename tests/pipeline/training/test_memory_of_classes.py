"""The states of many classes: all copies of them stay within the memory that is kept for them."""

import tracemalloc

import numpy as np
import pytest

from fewpass import LinearClassifier
from fewpass.pipeline.budget import PROGRAM_BYTES
from fewpass.pipeline.errors import TooLittleMemory
from fewpass.pipeline.passes import reduce
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.forecast import memory_of
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training import chosen_lam, walk
from fewpass.pipeline.training.lam_sample import sample_of, wanted_rows
from fewpass.pipeline.training.prepared import planned
from fewpass.storage.table import n_bytes
from testing.datasets import wide_table, write
from testing.interruptions import trained
from testing.jobs import job_of

N, D, NNZ, CLASSES = 1_000, 30_000, 10, 16
BESIDE = 2_000_000  # bytes of the log, of records and of what Python itself makes


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    table = wide_table(N, D, NNZ, lambda _: np.arange(N) % float(CLASSES))
    return write(tmp_path_factory.mktemp("classes") / "set", table, D, 50)


@pytest.fixture(autouse=True)
def as_if_large(monkeypatch):
    """Many spans with snapshots between them, and sums of many parts as on many cores."""
    monkeypatch.setattr(walk, "SPAN_SECONDS", 1e-9)
    monkeypatch.setattr(reduce, "SPAN_VALUES", 1.0)
    monkeypatch.setattr(reduce.os, "cpu_count", lambda: 32)


def peak_of(plan, folder):
    tracemalloc.start()
    try:
        trained(plan, folder, InProcess(threads=2))
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("solver", "vectors"), [("sdca", 4), ("psdca", 5)], ids=["sdca", "psdca"])
def test_it_takes_what_is_kept_and_not_half_of_it(dataset, tmp_path, solver, vectors):
    fields = {"dataset": dataset.folder.url, "memory": 10**9, "lam": "1/n", "passes": 2}
    often = {"snapshot_every": 0.01}  # after every span, whose states are freed and read again
    plan = TrainingPlan.model_validate(fields | often | {"solver": {"kind": solver}})
    trained(plan, tmp_path / "first", InProcess(threads=2))  # what compiling takes is no state
    warm = plan.model_copy(update={"start_from": str(tmp_path / "first"), "passes": 1})
    trained(warm, tmp_path / "second", InProcess(threads=2))
    told = memory_of(plan, job_of(plan, dataset))
    assert told["state_bytes"] == pytest.approx(4 * 8 * vectors * CLASSES * D, rel=1e-3)
    peaks = [peak_of(plan, tmp_path / "cold"), peak_of(warm, tmp_path / "warm")]
    assert max(peaks) < told["state_bytes"] + told["window_bytes"] + BESIDE
    assert max(peaks) > told["state_bytes"] / 2


def test_the_memory_is_asked_before_models_are_trained_to_choose_lam(dataset, monkeypatch):
    def compared(*_):
        raise AssertionError("models were trained for a plan that is refused")

    monkeypatch.setattr(chosen_lam.LamComparison, "on", compared)
    fields = {"dataset": dataset.folder.url, "lam": "auto", "loss": "softmax", "passes": 1}
    least = {"solver": {"kind": "psdca"}, "memory": PROGRAM_BYTES + 10_000_000}
    for near in (True, False):
        with pytest.raises(TooLittleMemory, match="memory="):
            planned(TrainingPlan.model_validate(fields | least), dataset, None, near=near)
    enough = TrainingPlan.model_validate(fields | least | {"memory": 10**9})
    with pytest.raises(AssertionError, match="models were trained"):
        planned(enough, dataset, None, near=True)


def test_an_estimator_asks_its_memory_before_it_trains_models_to_choose_lam(monkeypatch):
    """And chooses by as many rows as an eighth of it holds."""
    chosen_by = []

    def compared(plan, dataset, _held_out):
        chosen_by.append(n_bytes(sample_of(plan, dataset)))
        raise InterruptedError

    monkeypatch.setattr(chosen_lam.LamComparison, "on", compared)
    X = np.ones((30_000, 200), np.float32)
    y = np.arange(len(X)) % 400
    model = LinearClassifier(loss="softmax", lam="auto", memory=PROGRAM_BYTES + 1_000_000)
    with pytest.raises(TooLittleMemory, match="memory="):
        model.fit(X, y)
    with pytest.raises(InterruptedError):
        LinearClassifier(lam="auto", memory="128MB").fit(X, y % 2)
    assert 12_000_000 < chosen_by[0] <= 16_000_000 < X.nbytes


@pytest.mark.parametrize("classes", ["multinomial", "ovr"])
def test_of_many_classes_as_many_rows_choose_lam_as_their_scores_leave_memory_for(dataset, classes):
    memory = 8 * 24 * CLASSES * 300  # for three hundred rows with a number for each class
    fields = {"dataset": dataset.folder.url, "lam": "auto", "classes": classes, "memory": memory}
    plan = TrainingPlan.model_validate(fields | {"solver": {"kind": "asgd"}})
    most = 300 if classes == "multinomial" else N
    assert wanted_rows(plan, dataset) == most
    assert sample_of(plan, dataset).n_rows <= most
