"""No file of the user's is replaced unless that is asked for, and some never are."""

import errno
import os
import re
from pathlib import Path

import numpy as np
import pytest

import fewpass as api
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.outputs import OutputFile
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.storage.folder import Folder
from fewpass.storage.whole_file import whole_file

TRAIN = {"lam": 1e-2, "memory": "128MB", "verbose": 0}


def write_rows(path, seed=0, n=60):
    rows = np.random.default_rng(seed).standard_normal((n, 2)).round(3).tolist()
    path.write_text("y,a,b\n" + "".join(f"{int(a > b)},{a},{b}\n" for a, b in rows))
    return path


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Tables, a data set of one of them, a run on that, one that began there, one straight."""
    home = tmp_path_factory.mktemp("home")
    for seed, name in enumerate(("train", "new", "direct", "more")):
        write_rows(home / f"{name}.csv", seed)
    api.ingest(home / "train.csv", home / "set", label="y", encode="none")
    api.ingest(home / "more.csv", home / "more", like=str(home / "set"), label="y")
    api.train(home / "set", home / "run", **TRAIN)
    api.train(home / "more", home / "later", start_from=str(home / "run"), **TRAIN)
    api.train(home / "direct.csv", home / "direct", label="y", **TRAIN)
    (home / "empty").mkdir()
    return home


def every_file(folder):
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.is_symlink()}


@pytest.fixture(autouse=True)
def everything_stays(home, monkeypatch):
    """Whatever a test tries, each file that was there has its bytes; what is new goes."""
    monkeypatch.chdir(home)
    before = every_file(home)
    yield
    assert {p: p.read_bytes() for p in before} == before
    for path in home.rglob("*"):
        if path not in before and (path.is_symlink() or not path.is_dir()):
            path.unlink()


REFUSED = {
    "the input": ("run", "new.csv", "new.csv", "one of the inputs"),
    "by another path": ("run", "new.csv", "empty/../new.csv", "one of the inputs"),
    "as an address": ("run", "new.csv", "file://{home}/new.csv", "one of the inputs"),
    "the input as an address": ("run", "file://{home}/new.csv", "new.csv", "one of the inputs"),
    "by a link": ("run", "new.csv", "link.csv", "one of the inputs"),
    "by a hard link": ("run", "new.csv", "hard.csv", "one of the inputs"),
    "an input by a link": ("run", "link.csv", "new.csv", "one of the inputs"),
    "one of a glob": ("run", "[mn]*.csv", "more.csv", "one of the inputs"),
    "one of a folder": ("run", "tables", "tables/one.csv", "one of the inputs"),
    "what was learnt from": ("run", "new.csv", "train.csv", "a source of the data set"),
    "what was learnt from before": ("later", "new.csv", "train.csv", "a source of the data set"),
    "what was read straight": ("direct", "new.csv", "direct.csv", "was trained on"),
    "what a data set was made of": ("direct", "set", "train.csv", "a source of the input"),
    "in the run": ("run", "new.csv", "run/out.csv", "lies in the run"),
    "below the run": ("run", "new.csv", "run/snapshots/out.csv", "lies in the run"),
    "in another run": ("run", "new.csv", "later/out.csv", "lies in the run"),
    "in the data set": ("run", "new.csv", "set/X/out.csv", "lies in the data set"),
    "through a link": ("run", "new.csv", "aside/out.csv", "lies in the data set"),
    "a folder": ("run", "new.csv", "folder.csv", "is a folder"),
    "a pipe": ("run", "new.csv", "pipe.csv", "is no file"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("overwrite", [False, True])
def test_what_predictions_never_replace(home, fewpass, case, overwrite, monkeypatch):
    """Refused before a row is scored, whatever is said."""
    run, given, out, why = (word.format(home=home) for word in REFUSED[case])
    (home / "tables").mkdir(exist_ok=True)
    write_rows(home / "tables/one.csv", 7)
    (home / "link.csv").symlink_to(home / "new.csv")
    os.link(home / "new.csv", home / "hard.csv")
    (home / "aside").symlink_to(home / "set")
    (home / "folder.csv").mkdir(exist_ok=True)
    os.mkfifo(home / "pipe.csv")
    monkeypatch.setattr("fewpass.pipeline.scoring.predictor.make_predictor", None)
    told = ["--overwrite"] if overwrite else []
    status, _, said = fewpass("predict", run, given, out, *told)
    assert (status, why in said) == (2, True), said
    assert "--overwrite" not in said
    with pytest.raises(BadInput, match=re.escape(why)):
        api.predict(run, given, out, overwrite=overwrite)


def test_any_other_file_is_replaced_when_that_is_said(home, fewpass):
    for command, out in (("predict", "kept.csv"), ("export", "kept.safetensors")):
        words = [command, "run", *(["new.csv"] if command == "predict" else []), out]
        (home / out).write_text("mine")
        status, _, said = fewpass(*words)
        assert (status, "--overwrite" in said) == (2, True)
        assert (home / out).read_text() == "mine"
        assert fewpass(*words, "--overwrite")[0] == 0
        assert (home / out).stat().st_size > 100
    (home / "kept.csv").write_text("mine")
    with pytest.raises(BadInput, match="overwrite"):
        api.predict("run", "new.csv", "kept.csv")
    assert api.predict("run", "new.csv", "kept.csv", overwrite=True).rows == 60


def test_what_fewpass_wrote_itself_is_written_anew_as_long_as_nobody_changes_it(home):
    first = Path(api.predict("run", "new.csv", "again.csv").output)
    api.predict("run", "more.csv", "again.csv")
    other = first.read_bytes()
    assert other != Path(api.predict("run", "new.csv", "other.csv").output).read_bytes()
    Path("copy.csv").write_bytes(other)
    Path("other.csv").rename("renamed.csv")
    Path("link.csv").unlink(missing_ok=True)
    for name in ("copy.csv", "renamed.csv"):
        with pytest.raises(BadInput, match="is there already"):
            api.predict("run", "new.csv", name)
    with first.open("ab") as file:
        file.write(b"1\n")
    with pytest.raises(BadInput, match="is there already"):
        api.predict("run", "new.csv", "again.csv")
    assert first.read_bytes() == other + b"1\n"


def test_a_disk_without_attributes_has_only_files_of_the_user(home, monkeypatch):
    def no_attributes(*_):
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(os, "setxattr", no_attributes)
    api.predict("run", "new.csv", "plain.csv")
    with pytest.raises(BadInput, match="is there already"):
        api.predict("run", "new.csv", "plain.csv")


def test_models_are_written_by_the_same_rule(home, fewpass):
    """Also by an estimator that comes of a run, onto a table with the ending of a model."""
    svm = home / "rows.liblinear"
    svm.write_text("".join(f"{k % 2} 1:{k}\n" for k in range(60)))
    api.train(svm, home / "svm-run", format="libsvm", **TRAIN)
    for out, why in (("rows.liblinear", "was trained on"), ("svm-run/m.liblinear", "in the run")):
        status, _, said = fewpass("export", "svm-run", out, "--overwrite")
        assert (status, why in said) == (2, True), said
        with pytest.raises(BadInput, match=why):
            api.from_run("svm-run").save_model(out, overwrite=True)
    model = api.from_run("svm-run")
    (home / "m.liblinear").write_text("mine")
    with pytest.raises(BadInput, match="overwrite"):
        model.save_model("m.liblinear")
    model.save_model("m.liblinear", overwrite=True)


def test_what_comes_while_rows_are_scored_stays(home, monkeypatch):
    """The rule holds again at the end, when the file is about to get its name."""
    out = home / "late.csv"
    ends = OutputFile.require_free

    def late(self):
        ends(self)
        if not out.exists():
            out.write_text("somebody's")

    monkeypatch.setattr(OutputFile, "require_free", late)
    with pytest.raises(BadInput, match="is there already"):
        api.predict("run", "new.csv", out)
    assert out.read_text() == "somebody's"
    assert not [p for p in home.iterdir() if p.name.endswith(".partial")]


def test_object_stores_have_the_same_rule(home):
    store = Folder("memory://outputs")
    store.write("in.csv", (home / "new.csv").read_bytes())
    rows = store.read("in.csv")
    for given in ("memory://outputs/in.csv", "memory:///outputs/*.csv"):
        with pytest.raises(BadInput, match="one of the inputs"):
            api.predict("run", given, "memory://outputs/in.csv", overwrite=True)
    api.ingest("memory://outputs/in.csv", "memory://outputs/set", label="y")
    with pytest.raises(BadInput, match="lies in the data set memory://outputs/set"):
        api.predict("run", "new.csv", "memory://outputs/set/X/out.csv")
    api.train("memory://outputs/set", "memory://outputs/run", **TRAIN)
    with pytest.raises(BadInput, match="a source of the data set"):
        api.predict("memory://outputs/run", "new.csv", "memory://outputs/in.csv", overwrite=True)
    api.predict("run", "new.csv", "memory://outputs/out.csv")
    with pytest.raises(BadInput, match="is there already"):
        api.predict("run", "new.csv", "memory://outputs/out.csv")
    assert store.read("in.csv") == rows


INGESTS = {
    "another data set's folder": ("new.csv", "set/inner", {}, "lies in the data set"),
    "a run's folder": ("new.csv", "run/inner", {}, "lies in the run"),
    "where a source is": ("set/extra.csv", "set", {}, "is read from there"),
    "where a linked source is": ("extra.csv", "set", {}, "is read from there"),
    "what it follows, by a link": ("new.csv", "set", {"like": "aside"}, "is read from there"),
    "a web page's manifest": ("new.csv", "page", {}, "holds other files"),
    "a program's ingest.json": ("new.csv", "program", {}, "holds other files"),
}  # fmt: skip


@pytest.mark.parametrize("case", INGESTS)
def test_what_an_ingest_never_replaces(home, case):
    source, dataset, more, why = INGESTS[case]
    write_rows(home / "set/extra.csv", 9)
    (home / "extra.csv").symlink_to(home / "set/extra.csv")
    (home / "aside").symlink_to(home / "set")
    for name, mark in (("page", "manifest.json"), ("program", "ingest.json")):
        (home / name / "rows").mkdir(parents=True, exist_ok=True)
        (home / name / mark).write_text('{"name": "mine"}')
        (home / name / "rows/mine.txt").write_text("mine")
    before = every_file(home)
    with pytest.raises(BadInput, match=why):
        api.ingest(source, dataset, label="y", overwrite=True, **more)
    assert every_file(home) == before


def test_a_run_is_not_begun_among_other_things(home):
    (home / "mine").mkdir(exist_ok=True)
    (home / "mine/log.jsonl").write_text("mine\n")
    for place, why in (
        ("set", "is a data set"), ("set/run", "lies in the data set"),
        ("run/again", "lies in the run"), ("mine", "log.jsonl, which a run would write to"),
    ):  # fmt: skip
        with pytest.raises(BadInput, match=why):
            api.train("set", place, **TRAIN)
        assert not Path(place, "run.json").exists() or place == "run"
    assert (home / "mine/log.jsonl").read_text() == "mine\n"
    assert RunFolder("run").exists()


def test_what_is_written_is_on_the_disk_before_it_has_its_name(home, monkeypatch):
    """A power cut leaves the whole file, or none: content, name and folder, in this order."""
    calls = []
    sync, link, replace = os.fsync, Path.hardlink_to, Path.replace
    monkeypatch.setattr(
        os, "fsync", lambda fd: (calls.append(Path(f"/proc/self/fd/{fd}").resolve()), sync(fd))[1]
    )
    monkeypatch.setattr(
        Path, "hardlink_to", lambda p, to: (calls.append(("named", p)), link(p, to))[1]
    )
    monkeypatch.setattr(
        Path, "replace", lambda p, to: (calls.append(("named", to)), replace(p, to))[1]
    )
    for overwrite in (False, True):
        for write, out in (
            (lambda o: api.predict("run", "new.csv", o, overwrite=overwrite), home / "p.parquet"),
            (lambda o: api.from_run("run").save_model(o, overwrite=overwrite), home / "m.onnx"),
        ):
            calls.clear()
            write(out)
            at = calls.index(("named", out))
            assert calls[at - 1].parent == home
            assert calls[at - 1].name.startswith(f".{out.name}.")
            assert calls[at + 1] == home


def test_what_a_killed_writer_left_goes_when_the_file_is_written_again(tmp_path):
    """A writer at work keeps its file, and a file of the user that is called alike stays."""
    path = tmp_path / "scores.csv"
    killed, fresh = (tmp_path / f".scores.csv.{12 * letter}.partial" for letter in "ab")
    others = [
        tmp_path / name for name in (".scores.csv.mine.partial", f".scores-csv.{12 * 'a'}.partial")
    ]
    for left in (killed, fresh, *others):
        left.write_text("left" if left is not fresh else "")  # it is about to have its lock
    for left in (killed, *others):
        os.utime(left, (0, 0))
    with whole_file(str(path), replace=True) as first:
        first.write(b"first")
        first.flush()
        (working,) = set(tmp_path.glob(".scores.csv.*")) - {killed, fresh, others[0]}
        os.utime(working, (0, 0))
        with whole_file(str(path), replace=True) as second:
            second.write(b"second")
        assert working.exists() and path.read_bytes() == b"second"
    assert path.read_bytes() == b"first"
    assert {*tmp_path.iterdir()} == {path, fresh, *others}
