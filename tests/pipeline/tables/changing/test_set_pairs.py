"""Test rows belong to a training set where each names the other, and to no copy and no stranger."""

import os
import shutil
from pathlib import Path

import pytest

import fewpass
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan
from fewpass.pipeline.tables.changing.appending import append
from fewpass.pipeline.tables.changing.forgetting import forget
from fewpass.storage.dataset import Dataset
from fewpass.storage.seal import seal, unseal

HOW = {"label": "y", "keep": "id", "encode": "none"}


def write(name, first, n):
    lines = (f"{k},{k % 17},{k * 7 % 23},{k % 2}\n" for k in range(first, first + n))
    Path(name).write_text("id,a,b,y\n" + "".join(lines))


def bytes_of(folder):
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def ids(name):
    return set(map(int, fewpass.Dataset(name).to_arrow().column("id").to_pylist()))


@pytest.fixture(params=["D-test", "elsewhere/T"])
def held_out_at(request, tmp_path, monkeypatch):
    """A pair in here/, whose test rows lie where such rows do, or where somebody said."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write("old.csv", 0, 100)
    write("new.csv", 1000, 40)
    more = {} if request.param == "D-test" else {"test_dataset": request.param}
    fewpass.ingest("old.csv", "D", test_fraction=0.3, **HOW, **more)
    return request.param


def changed(training, test):
    """Append to a pair, and forget of it: both are changed."""
    before = ids(training) | ids(test)
    came = append(AppendPlan(dataset=training, sources=("new.csv",)))
    assert came.test_appended and came.appended
    gone = forget(ForgetPlan(dataset=training, where="id < 50"))
    assert gone.test_forgotten and gone.forgotten
    assert not came.notes and not gone.notes
    assert ids(training) | ids(test) == {k for k in before if k >= 50} | set(range(1000, 1040))
    return gone


def test_a_pair_is_changed_together_wherever_it_was_moved_or_copied_to(held_out_at):
    shutil.copytree(".", "../copy")
    Path("../copy").rename("../moved")
    before = bytes_of(".")
    os.chdir("../moved")
    Path("link").symlink_to("D")
    changed("link", held_out_at)
    assert bytes_of("../here") == {f"../here/{path}": content for path, content in before.items()}
    os.chdir("../here")
    changed("D", held_out_at)


@pytest.mark.parametrize("held_out_at", ["D-test"], indirect=True)
def test_a_pair_may_be_copied_and_renamed_in_the_usual_way(held_out_at):
    for put in (shutil.copytree, os.rename):
        put("D", "E")
        put("D-test", "E-test")
        changed("E", "E-test")
        shutil.rmtree("E")
        shutil.rmtree("E-test")


@pytest.mark.parametrize("where", ["beside", "another folder", "named like a pair"])
def test_a_copy_has_no_test_rows_of_its_own_and_says_so(held_out_at, where):
    if where == "another folder":
        Path("../other").mkdir(parents=True)
    copy = {"beside": "E", "another folder": "../other/D", "named like a pair": "E"}[where]
    shutil.copytree("D", copy)
    if where == "named like a pair":
        fewpass.ingest("old.csv", "E-test", **HOW)
    before = {**bytes_of("D"), **bytes_of(held_out_at), **bytes_of("E-test")}
    came = append(AppendPlan(dataset=copy, sources=("new.csv",)))
    gone = forget(ForgetPlan(dataset=copy, where="id < 50"))
    for result in (came, gone):
        assert result.test_dataset is None
        assert "has no test rows of its own" in result.notes[0]
        assert str(Path(held_out_at).absolute()) in result.notes[0]
    assert came.appended == 40
    assert {**bytes_of("D"), **bytes_of(held_out_at), **bytes_of("E-test")} == before
    changed("D", held_out_at)


def forged(folder, change):
    path = f"{folder}/ingest.json"
    document = unseal(Path(path).read_bytes())
    del document["fingerprint"]
    change(document)
    Path(path).write_bytes(seal(document))


def test_a_strangers_set_that_names_another_changes_nothing_of_it(held_out_at):
    """Whatever it says: of a set alone, of a training set, of test rows of another pair."""
    fewpass.ingest("old.csv", "alone", **HOW)
    fewpass.ingest("old.csv", "pair", test_fraction=0.2, **HOW)
    for victim in ("alone", "pair", "pair-test"):
        shutil.rmtree("../stranger", ignore_errors=True)
        shutil.copytree(".", "../stranger")
        os.chdir("../stranger")
        known = Dataset.open(f"../here/{victim}").manifest.fingerprint

        def name_it(document, victim=victim, known=known):
            document["plan"]["test_dataset"] = str(Path(f"../here/{victim}").absolute())
            document["pair"] |= {
                "way": f"../../here/{victim}", "fingerprint": known, "at": str(Path("D").absolute()),
            }  # fmt: skip

        forged("D", name_it)
        before = bytes_of("../here")
        for change in (
            lambda: append(AppendPlan(dataset="D", sources=("new.csv",))),
            lambda: forget(ForgetPlan(dataset="D", where="id < 50")),
        ):
            with pytest.raises(BadInput, match="is not the data set that was made with it"):
                change()
        assert bytes_of("../here") == before
        os.chdir("../here")


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "no record"])
@pytest.mark.parametrize("half", ["D", "test"])
def test_without_the_record_of_the_ingest_nothing_is_changed(held_out_at, damage, half):
    path = f"{held_out_at if half == 'test' else 'D'}/ingest.json"
    content = Path(path).read_bytes()
    if damage == "gone":
        Path(path).unlink()
    else:
        new = {"cut": content[:-9], "changed": content.replace(b"old.csv", b"odd.csv"),
               "no record": seal({"plan_digest": "x"})}[damage]  # fmt: skip
        Path(path).write_bytes(new)
    before = bytes_of(".")
    with pytest.raises(BadInput, match=r"ingest.json is .*Put it back from a copy"):
        forget(ForgetPlan(dataset="D", where="id < 50"))
    assert bytes_of(".") == before
    Path(path).write_bytes(content)
    changed("D", held_out_at)


def test_test_rows_that_are_gone_are_asked_for(held_out_at):
    Path(held_out_at).rename("away")
    with pytest.raises(BadInput, match="Put it back"):
        forget(ForgetPlan(dataset="D", where="id < 50"))
    Path("away").rename(held_out_at)
    changed("D", held_out_at)


def test_an_ingest_replaces_no_test_rows_but_its_own(held_out_at):
    """By default they lie at DATASET-test, which nobody named."""
    fewpass.ingest("old.csv", "E-test", **HOW)
    shutil.copytree(held_out_at, "F-test")
    before = bytes_of(".")
    for name in ("E", "F"):
        with pytest.raises(BadInput, match="holds a data set that is none of"):
            fewpass.ingest("old.csv", name, test_fraction=0.3, overwrite=True, **HOW)
    assert bytes_of(".") == before


# -- only what is ours goes --------------------------------------------------------------------------


def test_what_others_put_beside_a_data_set_or_into_its_work_stays(held_out_at):
    for name in ("D.appending", "D.appending-test", f"{held_out_at}.appending"):
        Path(name).mkdir(parents=True)
        write(f"{name}/thesis.csv", 0, 3)
    before = {path: content for path, content in bytes_of(".").items() if ".appending" in path}
    changed("D", held_out_at)
    after = {path: content for path, content in bytes_of(".").items() if ".appending" in path}
    assert after == before


@pytest.mark.parametrize("name", ["D", "new"])
def test_other_files_where_unfinished_work_lies_are_refused_by_name(held_out_at, name):
    Path(f"{name}/.ingest").mkdir(parents=True)
    write(f"{name}/.ingest/thesis.csv", 0, 3)
    before = bytes_of(".")
    for change in (
        lambda: append(AppendPlan(dataset="D", sources=("new.csv",))),
        lambda: forget(ForgetPlan(dataset="D", where="id < 50")),
        lambda: fewpass.ingest("old.csv", name, overwrite=True, **HOW),
    )[0 if name == "D" else 2 :]:
        with pytest.raises(BadInput, match=rf"{name}/.ingest .*holds thesis.csv"):
            change()
    assert bytes_of(".") == before


def test_a_folder_with_somebodys_ingest_json_is_nobodys_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("old.csv", 0, 60)
    Path("program/rows").mkdir(parents=True)
    write("program/rows/thesis.csv", 0, 3)
    for content in ("{}", '{"name": "mine"}', "[]"):
        Path("program/ingest.json").write_text(content)
        before = bytes_of(".")
        with pytest.raises(BadInput, match="holds other files"):
            fewpass.ingest("old.csv", "program", overwrite=True, **HOW)
        assert bytes_of(".") == before


# -- in two stores -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "test"), [("memory://pairs/D", "T"), ("D", "memory://pairs/T")]
)
def test_a_pair_is_changed_together_where_one_lies_in_a_store(
    tmp_path, monkeypatch, training, test
):
    monkeypatch.chdir(tmp_path)
    write("old.csv", 0, 100)
    write("new.csv", 1000, 40)
    fewpass.ingest("old.csv", training, test_fraction=0.3, test_dataset=test, **HOW)
    changed(training, test)
