"""What a run's folder holds is read as it was written, or is refused by name; `check` reads all."""

import json
import os
import re
from copy import deepcopy

import numpy as np
import pytest

from fewpass.flows import cli
from fewpass.pipeline.errors import BadInput, PlanMismatch
from fewpass.pipeline.lease import KEY as LEASE
from fewpass.pipeline.lease import Holder, Lease, holder_of
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_faults import run_faults
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.onepass.onepass_state import NAMES
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal, unseal
from testing.datasets import make
from testing.interruptions import resumed, trained

NO_DASK = ["--scheduler", "none", "-q"]
ELSEWHERE = "was not written by this run"


def train(dataset, place, **changes):
    common = {"dataset": dataset.folder.url, "memory": "96.1MB", "snapshot_every": 1e-9}
    trained(TrainingPlan(**{"lam": "1/n"} | common | changes), place)
    return RunFolder(str(place))


def scaled(tmp_path):
    """A data set whose columns were scaled, and its rows as text."""
    rng, text = np.random.default_rng(0), tmp_path / "rows.csv"
    lines = [f"{int(x.sum() > 0)}," + ",".join(f"{v:.6f}" for v in x)
             for x in rng.standard_normal((400, 6))]  # fmt: skip
    text.write_text("y,a,b,c,d,e,f\n" + "\n".join(lines) + "\n")
    words = ["ingest", text, tmp_path / "set", "--label", "y", "--scale", "standard", "-q"]
    assert cli.main([str(word) for word in words]) == 0
    return Dataset.open(str(tmp_path / "set")), text


def forge(run, change):
    """Save the newest snapshot again, changed, as another program might: whole and sealed."""
    snapshot, _ = run.snapshots.latest()
    attributes, arrays = deepcopy(snapshot.attributes), dict(snapshot.arrays)
    change(attributes, arrays)
    return run.snapshots.save(attributes, arrays)


# -- run.json -----------------------------------------------------------------------------------


def test_no_bit_of_the_plan_changes_unseen(tmp_path, fewpass):
    run = train(make(tmp_path / "set", n=300), tmp_path / "run")
    path = tmp_path / "run/run.json"
    whole, n = path.read_bytes(), 0
    assert json.loads(whole)["plan"]["passes"] == 1
    assert whole.count(b"\n") > 20  # for people to read
    for place in range(0, len(whole), 41):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((Damaged, PlanMismatch), match=r"run\.json"):
            run.record()
        n += 1
    assert n > 30
    assert fewpass("resume", run.url, *NO_DASK)[0] != 0
    status, out, _ = fewpass("check", run.url)
    assert (status, "1 damaged object" in out) == (1, True)
    path.write_bytes(whole)
    assert run.record().plan.passes == 1


@pytest.mark.parametrize(("version", "sealed"), [(99, True), (2, False)])
def test_a_run_of_another_version_is_refused_with_what_to_do(tmp_path, version, sealed):
    run = train(make(tmp_path / "set", n=300), tmp_path / "run")
    path = tmp_path / "run/run.json"
    record = unseal(path.read_bytes()) | {"version": version}
    del record["fingerprint"]
    path.write_bytes(seal(record) if sealed else json.dumps(record, indent=2).encode())
    with pytest.raises(PlanMismatch, match=rf"version {version}.*version 1.*train again"):
        TrainingRun.resume(run.url, InProcess())


# -- snapshots ----------------------------------------------------------------------------------


def without(*path):
    def change(attributes, _arrays):
        *outer, last = path
        for name in outer:
            attributes = attributes[name]
        del attributes[last]

    return change


def put(*path):
    def change(attributes, _arrays):
        *outer, last, value = path
        for name in outer:
            attributes = attributes[name]
        attributes[last] = value

    return change


def nested(depth):
    return [nested(depth - 1)] if depth else []


def array(name, make_it):
    def change(_attributes, arrays):
        arrays[name] = make_it(arrays.get(name))

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (without("cursor"), "cursor: Field required"),
        (put("cursor", "sweeps", -1), "cursor.sweeps"),
        (put("cursor", "epoch", 10**40), "cursor.epoch"),
        (put("streams", 0, "monitor.n_monitored", 10**40), "n_monitored is 1000"),
        (put("state", nested(400)), "recursion limit exceeded"),
        (put("cursor", "passes", "many"), "cursor.passes"),
        (put("cursor", "elsewhere", 1), "cursor.elsewhere"),
        (put("cursor", "sweep", 9), "cursor.sweep is 9"),
        (put("cursor", "windows", [1, 1]), "2 of each|at the windows"),
        (put("cursor", "method", 1), "cursor.method is 1"),
        (put("cursor", "marks", [[1.0, 1e5]]), "marks"),
        (put("cursor", "marks", [[1.0, -1.0]]), "marks"),
        (put("more", 1), "more: Unexpected"),
        (put("state", "NoState"), "'NoState', where a SdcaState was expected"),
        (put("streams", []), "streams"),
        (put("intercept", "none"), "intercept"),
        (put("streams", 0, "passes", -2), "passes is -2"),
        (put("streams", 0, "passes", 1.5), "passes is 1.5, where a int was expected"),
        (put("streams", 0, "best.certified", 1), "best.certified is 1, where a bool"),
        (put("streams", 0, "row_version", 10**6), "not on record for"),
        (array("0.fresh", lambda a: a[:-3]), r"fresh is float64 \(28,\), where float64 \(31,\)"),
        (array("0.shares", lambda a: a[:0]), r"shares is float64 \(0,\)"),
        (array("0.best.coef", lambda a: a.astype(np.float32)), "best.coef is float32"),
        (array("coef", lambda a: a[None]), r"coef is float64 \(1, 30\)"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_before_it_reaches_a_kernel(tmp_path, change, said):
    dataset = make(tmp_path / "set", n=300, chunk_rows=50)
    events = TrainingRun.start(
        TrainingPlan(
            dataset=dataset.folder.url, lam="1/n", memory="96.1MB", snapshot_every=1e-9, passes=5,
            solver={"kind": "sdca"},
        ),
        str(tmp_path / "run"), InProcess(),
    )  # fmt: skip
    saved = (e for e in events if e.kind == "snapshot" and not e.cursor.windows)
    next(e for e in saved if e.cursor.passes >= 2)
    run = RunFolder(str(tmp_path / "run"))
    run.folder.delete(LEASE)
    name = forge(run, change)
    with pytest.raises(BadInput, match=said) as refused:
        resumed(run.url)
    assert name in str(refused.value)


@pytest.mark.parametrize("field", ["chosen", "lead.runner_up"])
def test_an_output_that_onepass_does_not_have_is_refused(tmp_path, field):
    dataset = make(tmp_path / "set", n=300, chunk_rows=50)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", snapshot_every=1e-9)
    events = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    next(e for e in events if e.kind == "snapshot")
    run = RunFolder(str(tmp_path / "run"))
    run.folder.delete(LEASE)
    forge(run, put("streams", 0, field, len(NAMES)))
    with pytest.raises(BadInput, match=f"{field} is {len(NAMES)}, where 0 to {len(NAMES) - 1}"):
        resumed(run.url)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (array("coef", lambda a: a[:-1]), r"coef is float64 \(5,\), where float64 \(6,\)"),
        (array("coef", lambda a: np.append(a[:-1], np.nan)), "not finite"),
        (array("scale", lambda a: a[:-1]), r"scale is float64 \(5,\), where float64 \(6,\)"),
        (array("shift", lambda a: a + 1.0), "scale and shift are not those"),
        (lambda _, arrays: arrays.pop("scale"), "no array scale"),
        (lambda _, arrays: arrays.pop("coef"), "no array coef"),
        (without("intercept"), "intercept: Field required"),
    ],
)
def test_a_model_that_does_not_fit_its_run_predicts_nothing(tmp_path, fewpass, change, said):
    dataset, text = scaled(tmp_path)
    run = train(dataset, tmp_path / "run")
    name = forge(run, change)
    with pytest.raises(BadInput, match=said):
        load_model(run)
    predict = ["predict", run.url, text, tmp_path / "out.csv"]
    for command in (predict, ["evaluate", run.url, dataset.folder.url, "--scheduler", "none"]):
        status, _, err = fewpass(*command)
        assert (status, ELSEWHERE in err, f"snapshots/{name}" in err) == (2, True, True)
    assert not (tmp_path / "out.csv").exists()
    status, _, err = fewpass("check", run.url)
    assert (status, ELSEWHERE in err) == (1, True)


@pytest.mark.parametrize("kind", ["sdca", "simba"])
def test_a_finished_run_whose_model_is_cut_short_is_not_told_as_its_result(tmp_path, fewpass, kind):
    dataset, run = make(tmp_path / "set", n=300), RunFolder(str(tmp_path / "run"))
    train = ["train", dataset.folder.url, run.url, "--solver", kind, *NO_DASK]
    train += ["--set", "solver.iterations=500"] if kind == "simba" else ["--passes", "2"]
    assert fewpass(*train)[0] == 0
    name = forge(run, array("coef", lambda a: a[:-1]))
    status, out, err = fewpass("resume", run.url, *NO_DASK)
    assert (status, out, f"snapshots/{name}" in err) == (2, "", True)
    assert "coef is float64" in err


def test_several_models_whose_arrays_are_cut_short_are_refused(tmp_path):
    dataset = make(tmp_path / "set", n=300, classes=3)
    run = train(dataset, tmp_path / "run", solver={"kind": "sdca"}, passes=2, certify=True)
    solver = TrainingRun.resume(run.url, InProcess())
    for change in (
        array("0.fresh", lambda a: a[:-1]),
        put("streams", 0, "models", 1, "shapes", "fresh", [30]),
        put("streams", 0, "models", 1, "shapes", {}),
        put("streams", 0, "models", []),
        put("streams", 0, "models", [1]),
    ):
        name = forge(run, lambda a, b, change=change: (put("finished", False)(a, b), change(a, b)))
        with pytest.raises(BadInput, match=f"{name}|with a different SdcaState"):
            resumed(solver.run.url)
        run.snapshots.folder.delete_tree(name)


# -- the rest of the folder ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [
        lambda me: me | {"pid": "one"},
        lambda me: me | {"pid": -1},
        lambda me: me | {"token": "../run"},
        lambda me: me | {"renewed": None},
        lambda _: [1],
        lambda _: {},
    ],
)
def test_what_is_no_lease_is_named_and_locks_nobody_out(tmp_path, fewpass, told):
    run = train(make(tmp_path / "set", n=300), tmp_path / "run")
    run.folder.write(LEASE, json.dumps(told(Holder.myself()._asdict())).encode())
    status, _, err = fewpass("check", run.url)
    assert (status, "lease.json is no lease" in err) == (1, True)
    with Lease(run.folder):
        assert holder_of(run.folder).pid == os.getpid()
    assert fewpass("check", run.url)[0] == 0


def test_verify_reads_the_log_and_says_what_it_does_not_read(tmp_path, fewpass):
    run = train(make(tmp_path / "set", n=300), tmp_path / "run")
    status, out, _ = fewpass("check", run.url)
    assert status == 0
    assert "every byte as written. Not read: the data set" in out
    assert str(tmp_path / "set") in out
    log = tmp_path / "run/log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b'{"event": \xff\n', *lines[1:], b"[]\n"]))
    status, _, err = fewpass("check", run.url)
    assert (status, err.count("log.jsonl, line")) == (1, 2)
    assert fewpass("report", run.url)[0] == 0


@pytest.mark.timeout(60)
@pytest.mark.parametrize("put_there", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize(
    "victim", ["set/X/c.3.0", "set/manifest.json", "run/run.json", "run/log.jsonl"]
)
def test_a_pipe_or_a_directory_in_place_of_an_object_is_not_waited_for(
    tmp_path, fewpass, put_there, victim
):
    run = train(make(tmp_path / "set"), tmp_path / "run")
    (tmp_path / victim).unlink()
    put_there(tmp_path / victim)
    if victim == "set/X/c.3.0":
        dataset = Dataset.open(str(tmp_path / "set"))
        with pytest.raises(Damaged, match=r"X/c.3.0 is (missing|damaged)"):
            dataset.read_chunk(3)
        assert any("X/c.3.0" in found for found in dataset.verify())
        assert fewpass("train", tmp_path / "set", tmp_path / "other", *NO_DASK)[0] == 1
    elif victim == "run/log.jsonl":
        assert list(run.events()) == []
    elif victim == "run/run.json":
        with pytest.raises(Damaged, match=r"run\.json is missing, where snapshots are"):
            run.record()
        assert fewpass("check", run.url)[0] == 1
    else:
        assert fewpass("train", tmp_path / "set", tmp_path / "other", *NO_DASK)[0] == 2


@pytest.mark.parametrize(
    ("labels", "counts", "said"),
    [
        ([-1.0, -1.0], None, "labels are not distinct"),
        ([-1.0, 1.0], [300], "not distinct, or have not one count each"),
        ([1.0], [300], "a classifier needs two"),
    ],
)
def test_labels_that_are_none_are_not_trained_on(tmp_path, labels, counts, said):
    make(tmp_path / "set", n=300)
    folder = Folder(str(tmp_path / "set"))
    manifest = unseal(folder.read("manifest.json"))
    del manifest["fingerprint"]
    manifest["targets"] |= {"labels": labels} | ({"counts": counts} if counts else {})
    folder.write("manifest.json", seal(manifest))
    with pytest.raises((Damaged, BadInput), match=said):
        TrainingRun.start(
            TrainingPlan(dataset=folder.url, lam="1/n"), str(tmp_path / "run"), InProcess()
        )
    assert not (tmp_path / "run").exists()


def test_another_runs_record_in_its_place_is_found(tmp_path):
    """Sealed as it is, it is a true record: of another training."""
    dataset = make(tmp_path / "set")
    plans = [
        TrainingPlan(dataset=dataset.folder.url, lam="1/n", passes=2, seed=seed) for seed in (0, 1)
    ]
    for plan in plans:
        trained(plan, tmp_path / f"run{plan.seed}")
    (tmp_path / "run0/run.json").write_bytes((tmp_path / "run1/run.json").read_bytes())
    run = RunFolder(str(tmp_path / "run0"))
    said = r"run0/run\.json is not the record that .*run0/snapshots/0000\d\d\.safetensors was taken under"
    assert any(re.search(said, fault) for fault in run_faults(run))
    with pytest.raises(Damaged, match=said):
        load_model(run)
    with pytest.raises(Damaged, match=said):
        resumed(run.url)
