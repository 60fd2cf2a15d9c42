"""What lies at an address is told by its marks, and what to do where another thing was expected."""

import shlex

import pytest

from fewpass.storage.addresses import command
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Folder, NotADataset
from fewpass.storage.kinds import instead, kind_of
from fewpass.storage.seal import seal
from testing.datasets import make

MARKS = {
    "data set": ["manifest.json", "zarr.json", "ingest.json"],
    "run": ["run.json", "log.jsonl", "snapshots/000001.safetensors"],
    "store": ["events/000001.json"],
    "unfinished": ["zarr.json"],
    "folder": ["a.csv", "files.json", "log.jsonl"],
}


def made(folder, kind):
    for mark in MARKS[kind]:
        (folder / mark).parent.mkdir(parents=True, exist_ok=True)
        (folder / mark).write_text("{}")
    return Folder(str(folder))


@pytest.mark.parametrize("kind", MARKS)
def test_each_kind_has_its_marks(kind, tmp_path):
    assert kind_of(made(tmp_path / "x", kind)) == kind


def test_a_set_without_its_manifest_is_none_whose_ingest_is_not_finished(tmp_path):
    whole = str(tmp_path / "d")
    make(whole, n=20, d=3, chunk_rows=10)
    Folder(whole).delete("manifest.json")
    with pytest.raises(NotADataset, match=r"Put \S+/d/manifest.json back .* the same bytes"):
        Dataset.open(whole)
    Folder(whole).write("generations/000002/zarr.json", b"{}")
    with pytest.raises(NotADataset, match="repeat what was appended and forgotten since"):
        Dataset.open(whole)
    Folder(whole).write(".ingest/lock", b"7\n")  # an ingest that replaces it has begun
    assert kind_of(Folder(whole)) == "unfinished"
    Folder(whole).delete_tree(".ingest")
    Folder(whole).write("ingest.json", seal({"plan_digest": ""}))  # or is about to
    assert kind_of(Folder(whole)) == "unfinished"


def test_files_and_nothing_and_generations(tmp_path):
    (tmp_path / "a.csv").write_text("a\n")
    (tmp_path / "empty").mkdir()
    made(tmp_path, "store")
    Folder(str(tmp_path)).write("generations/000001/data/manifest.json", b"{}")
    told = {name: kind_of(Folder(str(tmp_path / name))) for name in ("a.csv", "empty", "absent")}
    assert told == {"a.csv": "file", "empty": "nothing", "absent": "nothing"}
    assert kind_of(Folder(str(tmp_path / "generations/000001"))) == "generation"


def test_the_same_kinds_are_elsewhere():
    Folder("memory://kinds-of-places/run").write("run.json", b"{}")
    Folder("memory://kinds-of-places/rows").write("a.csv", b"a\n")
    places = {"run": "run", "rows": "folder", "rows/a.csv": "file", "absent": "nothing"}
    for place, kind in places.items():
        assert kind_of(Folder(f"memory://kinds-of-places/{place}")) == kind


@pytest.mark.parametrize("wanted", ["data set", "run", "rows", "store", "any", "new run"])
@pytest.mark.parametrize("kind", MARKS)
def test_a_fact_and_an_advice_for_every_kind(kind, wanted, tmp_path):
    said = instead(made(tmp_path / "my things", kind), wanted)
    fact, _, advice = said.partition("expected. ")
    assert str(tmp_path / "my things") in fact
    assert advice.endswith(".")
    if "fewpass " in advice:  # a path with a blank is one word when it is typed
        typed = shlex.split(advice.partition("fewpass ")[2].rstrip("."))
        assert all("things" not in word or "my things" in word for word in typed)


def test_commands_are_typed_as_they_are_told():
    words = ("train", "my data", "it's", "--lam", "1/n")
    assert shlex.split(command(*words)) == ["fewpass", *words]


def test_a_held_out_file_is_to_be_ingested_like_the_rest(tmp_path):
    (tmp_path / "t.csv").write_text("a,label\n1,2\n")
    with pytest.raises(NotADataset, match=r"is a file, .*t\.csv DATASET `like=rest`\."):
        Dataset.open(str(tmp_path / "t.csv"), like="rest")
