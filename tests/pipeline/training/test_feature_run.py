"""Training by single features through the run folder: laws of resuming, of memory, of counting."""

import json

import numpy as np
import pytest

from fewpass.flows.cli import main
from fewpass.pipeline.dashboard.shown_run import shown_run
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.saved import Saved
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.feature_data import feature_data, find_nu, memory_for
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.column_copy import copy_bytes, map_columns
from fewpass.storage.column_copy_writer import write_columns
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import NotADataset
from testing import datasets
from testing.interruptions import trained

LAYOUTS = ["dense", "sparse"]


def plan(url, *, memory=1 << 30, every=1e9, loss=None, **solver):
    settings = {"kind": "simba", "iterations": 3500} | solver
    return TrainingPlan(
        dataset=str(url), solver=settings, loss=loss, lam=0.01, memory=memory, snapshot_every=every
    )


def make(url, layout, **kind):
    return datasets.make(url, 600, 30, 100, layout=layout, **kind)


def result_of(plan, run):
    return trained(plan, run).result


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_run_that_was_stopped_goes_on_to_the_same_bits(tmp_path, layout):
    make(tmp_path / "set", layout)
    whole = result_of(plan(tmp_path / "set"), tmp_path / "whole")
    cut = TrainingRun.start(plan(tmp_path / "set", every=1e-9), str(tmp_path / "cut"), InProcess())
    for event in cut:
        if event.kind == "snapshot":
            break
    del cut
    resumed = TrainingRun.resume(str(tmp_path / "cut"), InProcess())
    kinds = [event.kind for event in resumed]
    assert kinds[0] == "resume"
    assert kinds.count("span") == 3  # of four
    for name in ("weights_sha256", "objective", "certificate", "features"):
        assert getattr(resumed.result, name) == getattr(whole, name)
    assert Timeline.of(RunFolder(str(tmp_path / "cut"))).resumed == 1


@pytest.mark.parametrize("layout", LAYOUTS)
def test_mapped_files_and_memory_give_the_same_bits(tmp_path, layout):
    dataset = make(tmp_path / "set", layout)
    first = result_of(plan(tmp_path / "set"), tmp_path / "one")
    told = []
    write_columns(dataset, 1 << 30, told.append)
    assert told == sorted(told)
    assert told[-1] == 1.0
    second = result_of(plan(tmp_path / "set"), tmp_path / "two")
    assert (first.features["mapped"], second.features["mapped"]) == (False, True)
    assert first.weights_sha256 == second.weights_sha256


def test_what_fits_no_memory_is_refused_with_the_bytes_unless_mapped_or_forced(tmp_path):
    dataset = make(tmp_path / "set", "sparse")
    values = copy_bytes(dataset)
    assert values == 2 * 600 * 8 * (4 + 4) + 8 * (601 + 31) + 8 * 600
    tight = memory_for(dataset) - 1
    result_of(plan(tmp_path / "set", memory=tight + 1), tmp_path / "fits")
    with pytest.raises(BadInput, match=f"{values / 1000:.3g} kB"):
        TrainingRun.start(plan(tmp_path / "set", memory=tight), str(tmp_path / "run"), InProcess())
    forced = plan(tmp_path / "set", memory=tight, beyond_memory=True)
    result_of(forced, tmp_path / "forced")
    write_columns(dataset, 1 << 30)
    result_of(plan(tmp_path / "set", memory=tight), tmp_path / "mapped")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_run_says_of_its_model_is_what_evaluating_finds(tmp_path, layout):
    dataset = make(tmp_path / "set", layout)
    result = result_of(plan(tmp_path / "set"), tmp_path / "run")
    run = RunFolder(str(tmp_path / "run"))
    with open_executor(Execution(scheduler="none")) as executor:
        found = evaluate(load_model(run), dataset, executor)
    assert found.objective == pytest.approx(result.objective, rel=1e-12)
    assert found.error < 0.5  # that of chance
    assert 0.0 < result.features["margin"] < result.features["margin_bound"]
    assert 0.0 < result.certificate < result.objective
    newest, _ = run.snapshots.latest()
    assert Saved.of(newest).finished


def test_nu_comes_from_a_pilot_whose_values_are_counted(tmp_path):
    dataset = make(tmp_path / "set", "sparse")
    training = plan(tmp_path / "set", pilot_passes=4)
    found = find_nu(feature_data(training, dataset), 4)
    assert found.accesses == 5 * 600 * 8
    result = result_of(training, tmp_path / "run")
    assert (result.features["nu"], result.features["pilot_accesses"]) == found
    given = result_of(plan(tmp_path / "set", nu=0.1), tmp_path / "given")
    assert (given.features["nu"], given.features["pilot_accesses"]) == (0.1, 0)


def test_bytes_are_those_of_the_values_read(tmp_path):
    dataset = make(tmp_path / "set", "dense")
    result = result_of(plan(tmp_path / "set", nu=0.1), tmp_path / "run")
    accesses = result.features["accesses"]
    assert accesses == 3500 * (600 + 30)
    evaluation = 3 * 600 * 30
    expected = copy_bytes(dataset) + 4 * (accesses + evaluation) + 2 * 3500 * 16
    assert result.bytes_read == expected
    spans = [e for e in RunFolder(str(tmp_path / "run")).events() if e["event"] == "span"]
    assert sum(span["bytes_read"] for span in spans) == 4 * accesses + 2 * 3500 * 16


def test_the_page_about_learning_and_the_model_card_know_it(tmp_path):
    make(tmp_path / "set", "sparse")
    result_of(plan(tmp_path / "set"), tmp_path / "run")
    run = RunFolder(str(tmp_path / "run"))
    assert shown_run(run.url).record.method() == "simba"
    assert "simba" in model_card(run)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"loss": "logistic"}, "hinge"),
        ({"tol": 1e-3}, "tol"),
        ({"streams": 2}, "streams"),
        ({"class_weight": "balanced"}, "class_weight"),
    ],
)
def test_what_it_cannot_do_is_refused(tmp_path, changes, said):
    with pytest.raises(ValueError, match=said):
        TrainingPlan(dataset="x", solver={"kind": "simba"}, **changes)


def test_data_that_it_cannot_use_are_refused(tmp_path):
    datasets.make(tmp_path / "classes", 300, 10, 100, classes=3)
    with pytest.raises(BadInput, match="`positive`"):
        TrainingRun.start(plan(tmp_path / "classes"), str(tmp_path / "a"), InProcess())
    datasets.make(tmp_path / "weighted", 300, 10, 100, weighted=True)
    with pytest.raises(BadInput, match="row weights"):
        TrainingRun.start(plan(tmp_path / "weighted"), str(tmp_path / "b"), InProcess())
    datasets.make(tmp_path / "rows", 300, 10, 100)
    sizes = plan(tmp_path / "rows").model_copy(update={"l1_ratio": 0.5})
    with pytest.raises(ValueError, match="simba does not take an elasticnet penalty; psdca does"):
        TrainingRun.start(sizes, str(tmp_path / "c"), InProcess())


def test_the_commands(tmp_path, capsys):
    make(tmp_path / "set", "sparse")
    url, run = str(tmp_path / "set"), str(tmp_path / "run")
    assert main(["column-copy", url, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["bytes_out"] == copy_bytes(Dataset.open(url))
    assert main(["check", url, "-q"]) == 0
    train = ["train", url, run, "--solver", "simba", "--lam", "0.01", "--json", "-q"]
    assert main([*train, "--set", "solver.iterations=1500"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["features"]["mapped"]
    assert told["features"]["iterations"] == 1500
    assert main(["resume", run, "--json", "-q"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["weights_sha256"] == told["weights_sha256"]
    for command in (["report", run], ["inspect", run]):
        assert main([*command, "-q"]) == 0
    assert main(["predict", run, url, str(tmp_path / "out.npy"), "-q"]) == 0
    assert np.load(tmp_path / "out.npy").shape == (600,)
    assert main(["train", "--plan", url, "--solver", "simba"]) == 2
    (tmp_path / "set" / "by-column" / "target").write_bytes(b"")
    assert main(["check", url, "-q"]) == 1


def test_a_cluster_is_refused(tmp_path, capsys):
    url = make(tmp_path / "set", "sparse").folder.url
    assert main(["train", url, str(tmp_path / "run"), "--solver", "simba", "--workers", "2"]) == 2
    assert "runs in one process" in capsys.readouterr().err


def test_ingest_keeps_columns_when_asked(tmp_path, capsys):
    X, y = np.random.default_rng(0).random((300, 12)), np.arange(300) % 2
    np.savez(tmp_path / "data.npz", X=X.astype(np.float32), y=y)
    ingest = ["ingest", str(tmp_path / "data.npz"), str(tmp_path / "set"), "-q", "--column-copy"]
    for again in ([], [], ["--overwrite", "--seed", "1"]):  # made, left alone, made of other rows
        assert main([*ingest, *again]) == 0
        dataset = Dataset.open(str(tmp_path / "set"))
        found = map_columns(dataset)
        assert np.array_equal(found["rows"][:50], dataset.read_chunk(0).X[:50])
        assert np.array_equal(found["columns"], found["rows"].T)
    remote = ["ingest", str(tmp_path / "data.npz"), "memory://columns/set", "--column-copy"]
    assert main(remote) == 2
    assert "not on this machine" in capsys.readouterr().err
    with pytest.raises(NotADataset):
        Dataset.open("memory://columns/set")
