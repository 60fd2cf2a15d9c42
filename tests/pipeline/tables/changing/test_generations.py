"""Generations share chunks where these were written: what is there is what some that stays names.

The same on a disk, in memory and in an object store, however a change is cut short.
"""

import itertools
import re

import numpy as np
import pytest
import zarr

import fewpass
from fewpass.pipeline.tables.changing import one_change
from fewpass.storage import set_generations
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.manifest import KEY, Manifest, place_of_generation, read_manifest
from fewpass.storage.set_generations import earlier_key, generation_of
from testing.interruptions import Killed
from testing.object_store import object_store
from tests.pipeline.tables.changing.kinds_of_rows import KINDS, rows_of, write_table

KEPT = {"table": "id", "sparse": None}
DOCUMENT = re.compile(r"(zarr\.json|(X|codes|target|weight|offset|retained)/zarr\.json)")


@pytest.fixture(scope="module")
def bucket():
    with object_store("generations") as store:
        yield store


@pytest.fixture
def place(request, tmp_path):
    """An empty place for a data set, and what opens it."""
    if request.param == "disk":
        return str(tmp_path / "D"), {}
    if request.param == "memory":
        return f"memory://{tmp_path.name}/D", {}
    options = request.getfixturevalue("bucket").options
    return f"s3://generations/{tmp_path.name}/D", {"storage_options": options}


class Watched:
    """A data set, whose laws are checked after each step."""

    def __init__(self, place):
        self.url, self.how = place
        self.folder = Folder(self.url, self.how.get("storage_options"))
        self.rows = {}  # of each generation that was the present one, by fingerprint

    def generations(self):
        """The manifests of all generations that can be read, the present one first."""
        now = read_manifest(self.folder.read(KEY))
        earlier = (generation_of(self.folder, now, change.parent) for change in now.changes)
        return [now, *(one for one in earlier if one is not None)]

    def ids(self):
        return [row["id"] for row in fewpass.Dataset(self.url, **self.how).to_arrow().to_pylist()]

    def now(self):
        return Dataset.open(self.folder)

    def check(self, n_kept=None):
        """Every generation that is kept has its rows, and nothing is there that none of them has.

        After a change that was not cut short there are `n_kept` of them.
        """
        kept = self.generations()
        named, groups = set(), set()
        for manifest in kept:
            dataset = Dataset(self.folder, manifest)
            assert not list(dataset.verify())
            rows = rows_of(dataset)
            assert self.rows.setdefault(manifest.fingerprint, rows) == rows
            for k in range(manifest.n_chunks):
                named |= manifest.objects_of(k).keys()
            groups |= {manifest.generation, *manifest.chunk_places["generation"].tolist()}
            own = f"{manifest.place}/".lstrip("/")
            named |= {own + key for key in manifest.objects} | {earlier_key(manifest.generation)}
        if n_kept is None:
            return
        assert len(kept) == n_kept
        there = set(self.folder.list()) - {KEY, "ingest.json"}
        documents = {key for key in there - named if DOCUMENT.fullmatch(in_group(key))}
        assert {group_of(key) for key in documents} <= groups
        assert there - documents - named == set()


def group_of(key):
    found = re.match(r"generations/(\d{6})/", key)
    return int(found[1]) if found else 1


def in_group(key):
    return key.removeprefix(f"{place_of_generation(group_of(key))}/")


def sources(tmp_path, kind, sizes=(60, 33, 20, 47)):
    """Files of a kind of rows: what is ingested, then what is appended."""
    write, firsts = KINDS[kind][0], itertools.accumulate(sizes, initial=0)
    return [
        write(tmp_path / f"{first}.csv", n, first) for n, first in zip(sizes, firsts, strict=False)
    ]


ONES = [("disk", kind) for kind in KINDS] + [("memory", "sparse"), ("s3", "table")]


@pytest.mark.parametrize(("place", "kind"), ONES, indirect=["place"])
def test_each_generation_is_whole_and_nothing_else_is_there(tmp_path, place, kind):
    files, settings = sources(tmp_path, kind), KINDS[kind][1]
    one = Watched(place)
    chunk_bytes = 8192 if "s3" in one.url else 1024  # each object of a chunk is a request
    fewpass.ingest(files[0], one.url, chunk_bytes=chunk_bytes, threads=1, **settings, **one.how)
    one.check(1)
    for file in files[1:3]:
        before = one.now()
        fewpass.append(one.url, file, threads=2, **one.how)
        one.check(2)
        assert rows_of(before)  # a reader under way
        shared = one.now().manifest.chunk_places
        full = before.n_rows // before.manifest.chunk_rows
        assert (shared["generation"] <= before.manifest.generation).sum() == full
    if "keep" in settings:
        names = sorted({*one.ids()})
        gone = fewpass.forget(one.url, f"id == '{names[5]}'", **one.how)
        one.check(1)
        assert gone.forgotten
        assert {*one.ids()} == {*names} - {names[5]}
    fewpass.append(one.url, files[3], threads=1, **one.how)
    one.check(2)
    set_generations.roll_back(one.folder, one.now().manifest)
    one.check()
    set_generations.prune_generations(one.folder, one.now().manifest)
    one.check(1)
    assert fewpass.append(one.url, files[3], threads=2, **one.how).appended == 47
    one.check(2)


def test_what_goes_is_what_no_chunk_has_any_more(tmp_path):
    """Rows that no forgotten one lies among stay where they are; a later forget takes the rest."""
    one = Watched((str(tmp_path / "D"), {}))
    lines = [f"{k},{k % 7},{k % 2}\n" for k in range(400)]
    (tmp_path / "a.csv").write_text("id,a,label\n" + "".join(lines))
    how = {"label": "label", "keep": "id", "chunk_bytes": 1024, "shuffle": False}
    fewpass.ingest(tmp_path / "a.csv", one.url, **how)
    n_chunks = one.now().n_chunks
    last = (n_chunks - 1) * one.now().manifest.chunk_rows
    assert n_chunks > 4
    fewpass.forget(one.url, f"id >= {last}")  # the whole last chunk
    one.check(1)
    assert one.now().n_chunks == n_chunks - 1
    assert one.now().manifest.chunk_places["generation"].tolist() == [1] * (n_chunks - 2) + [2]
    fewpass.forget(one.url, "id == 0")
    one.check(1)
    assert set(one.now().manifest.chunk_places["generation"].tolist()) == {3}
    inside = {key.partition("/")[0] for key in one.folder.list()}
    assert inside == {"generations", KEY, "ingest.json"}


def cut_at(patch, number):
    """Have the process end before the `number`-th call that removes or replaces something."""
    calls = itertools.count(1)
    for name in ("write", "delete", "delete_tree", "sync_deleted"):
        own = getattr(Folder, name)

        def call(self, *arguments, own=own, **words):
            if next(calls) == number:
                raise Killed
            return own(self, *arguments, **words)

        patch.setattr(Folder, name, call)
    return calls


@pytest.mark.parametrize("kind", KEPT)
def test_a_removal_that_is_cut_short_anywhere_is_finished_by_the_next(tmp_path, kind):
    """Each generation that stays can be read whatever was cut, and nothing of others is left."""
    files, settings = sources(tmp_path, kind), KINDS[kind][1]
    made = Folder(f"memory://{tmp_path.name}/made")
    fewpass.ingest(files[0], made.url, chunk_bytes=1024, threads=1, **settings)
    fewpass.append(made.url, files[1], threads=1)
    objects = {key: made.read(key) for key in made.list()}
    for number in itertools.count(1):
        one = Watched((f"memory://{tmp_path.name}/{number}", {}))
        for key, data in objects.items():
            one.folder.write(key, data)
        one.check(2)
        with pytest.MonkeyPatch.context() as patch:
            # of the third generation's append, from the manifest on
            commit = one_change.prune_generations

            def prune(folder, now, number=number, commit=commit, patch=patch):
                if now.generation == 3:
                    calls.append(cut_at(patch, number))
                commit(folder, now)

            calls = []
            patch.setattr(one_change, "prune_generations", prune)
            try:
                fewpass.append(one.url, files[2], threads=1)
            except Killed:
                pass
            else:
                assert number > 4
                break
        one.check()
        assert one.now().manifest.generation == 3
        if KEPT[kind] and number % 2:
            fewpass.forget(one.url, f"id == '{one.ids()[0]}'", threads=1)
            one.check(1)
        else:
            fewpass.append(one.url, files[3], threads=1)
            one.check(2)


def test_a_set_of_the_version_before_stays_readable_and_changes(tmp_path):
    """One that has changed, all chunks of it in its own group, as version 1 has it."""
    files, settings = sources(tmp_path, "table"), KINDS["table"][1]
    one = Watched((str(tmp_path / "D"), {}))
    fewpass.ingest(files[0], one.url, chunk_bytes=1024, threads=1, **settings)
    fewpass.append(one.url, files[1], threads=1)
    manifest = one.now().manifest
    for k in range(manifest.n_chunks):
        for template, stored in manifest.chunks.record(k).objects.items():
            if stored is not None:
                data = one.folder.read(manifest.key_of(k, template))
                one.folder.write(f"{manifest.place}/{template.format(chunk=k)}.new", data)
    for key in one.folder.list(manifest.place):
        if key.endswith(".new"):
            one.folder.write(key.removesuffix(".new"), one.folder.read(key))
            one.folder.delete(key)
    said = manifest.model_dump() | {"places": b"", "version": 1}
    one.folder.write(KEY, Manifest.model_validate(said).sealed())
    old = Manifest.model_validate(said).sealed()
    assert b'"version":1,' in old
    assert b"places" not in old
    one.rows.clear()
    one.check()
    fewpass.append(one.url, files[2], threads=1)
    one.check(2)
    assert set(one.now().manifest.chunk_places["generation"].tolist()) == {2, 3}
    fewpass.append(one.url, files[3], threads=1)
    one.check(2)


@pytest.mark.parametrize("kind", ["amounts", "sparse"])
def test_zarr_alone_reads_the_chunks_where_the_manifest_says_that_they_are(tmp_path, kind):
    """What docs/format.md has people write."""
    files, settings = sources(tmp_path, kind), KINDS[kind][1]
    at = tmp_path / "D"
    fewpass.ingest(files[0], at, chunk_bytes=1024, **settings)
    fewpass.append(at, files[1])
    fewpass.append(at, files[2])
    dataset = Dataset.open(str(at))
    pairs = np.frombuffer(dataset.manifest.places, "<u4").reshape(-1, 2)
    assert len(np.unique(pairs[:, 0])) == 3
    for k, (generation, number) in enumerate(pairs):
        where = at / f"generations/{generation:06d}" if generation > 1 else at
        group = zarr.open_group(where, mode="r")
        rows = dataset.read_stored(k)
        np.testing.assert_array_equal(group["target"].blocks[number], rows.target)
        if kind == "sparse":
            chunk = group[f"rows-{number:06d}"]
            np.testing.assert_array_equal(chunk["indices"][:], rows.indices)
        else:
            np.testing.assert_array_equal(group["X"].blocks[number], rows.X)


@pytest.mark.parametrize(
    "wrong",
    [
        {"places": b""},
        {"version": 1},
        {"places": bytes(8)},
        {"places": np.array([[1, 0]] * 500, "<u4").tobytes()},
        {"changes": ()},
    ],
)
def test_places_that_cannot_be_are_refused(tmp_path, wrong):
    files = sources(tmp_path, "table")
    fewpass.ingest(files[0], tmp_path / "D", chunk_bytes=1024, label="label")
    fewpass.append(tmp_path / "D", files[1])
    manifest = Dataset.open(str(tmp_path / "D")).manifest
    with pytest.raises(ValueError, match="its chunks lie where they cannot be"):
        Manifest.model_validate(manifest.model_dump() | wrong)
    later = manifest.chunk_places.copy()
    later["generation"][0] = manifest.generation + 1
    with pytest.raises(ValueError, match="its chunks lie where they cannot be"):
        Manifest.model_validate(manifest.model_dump() | {"places": later.tobytes()})


def test_a_shared_chunk_that_is_damaged_is_named_where_it_lies(tmp_path):
    files = sources(tmp_path, "table")
    fewpass.ingest(files[0], tmp_path / "D", chunk_bytes=1024, label="label")
    fewpass.append(tmp_path / "D", files[1])
    dataset = Dataset.open(str(tmp_path / "D"))
    k = dataset.manifest.chunk_places["generation"].tolist().index(1)
    key = dataset.manifest.key_of(k, "target/c.{chunk}")
    (tmp_path / "D" / key).unlink()
    assert key.startswith("target/")
    assert any(f"D/{key} is missing" in said for said in dataset.verify())
    with pytest.raises(Damaged, match=f"D/{key} is missing"):
        dataset.read_chunk(k)


# -- what it costs ---------------------------------------------------------------------------------


def requests_of_an_append(bucket, name, n_rows, tmp_path):
    """The requests of an append of 40 rows to some, by what is asked."""
    how = {"storage_options": bucket.options}
    url = f"s3://generations/{name}"
    old, new = (
        write_table(tmp_path / "old.csv", n_rows),
        write_table(tmp_path / "new.csv", 40, 9000),
    )
    fewpass.ingest(
        old, url, chunk_bytes=1024, label="label", keep="id", encode="linear", threads=1, **how
    )
    made = Dataset.open(url, bucket.options).manifest
    asked = []
    events = Folder(url, bucket.options)._files._fs.s3.meta.events
    events.register("before-call.s3", note := lambda model, **_: asked.append(model.name))
    try:
        fewpass.append(url, new, threads=1, **how)
    finally:
        events.unregister("before-call.s3", note)
    return made, {what: asked.count(what) for what in sorted({*asked})}


def test_requests_are_those_of_the_rows_that_come(bucket, tmp_path):
    one, some = requests_of_an_append(bucket, "few", 100, tmp_path)
    more = 30 * one.chunk_rows  # the last chunk is as full
    other, many = requests_of_an_append(bucket, "many", 100 + more, tmp_path)
    assert other.n_chunks == one.n_chunks + 30
    assert other.chunk_rows == one.chunk_rows
    assert some["PutObject"] > 10
    assert many == some
