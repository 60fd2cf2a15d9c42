"""Snapshots: a reader sees whole ones only, whatever happened to the writer or to the files."""

import hashlib
import json
import os
import tracemalloc
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from safetensors import safe_open
from safetensors.numpy import load_file

from fewpass.storage import remote_files, snapshot_file
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal
from fewpass.storage.snapshot import SnapshotStore
from testing.forged import forge_header
from testing.object_store import object_store

STATE = {"step": 3, "loss": 0.1 + 0.2, "plan": {"seed": 7, "note": "é"}, "none": None, "list": [1]}
fresh = count()


def arrays(rng=None):
    rng = rng or np.random.default_rng(0)
    return {"state.w": rng.standard_normal(6), "t": np.arange(3), "empty": np.zeros(0)}


def memory_folder(name="snapshots"):
    return Folder(f"memory://{name}-{next(fresh)}")


def same(snapshot, attributes, expected):
    assert snapshot.attributes == attributes
    assert snapshot.arrays.keys() == expected.keys()
    for name, array in expected.items():
        found = snapshot.arrays[name]
        assert (found.dtype, found.shape) == (array.dtype.newbyteorder("="), array.shape)
        np.testing.assert_array_equal(found, array)
        found[...] = 0  # its owner may work on in it


kinds = [f"{order}{kind}" for order in "<>" for kind in ("f4", "f8", "i2", "i4", "i8", "u4", "u8")]
any_array = st.sampled_from([*kinds, "b1", "i1", "u1"]).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5)
    )
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), 1 << 63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "W", "x_1"]), json_values),
    st.dictionaries(st.sampled_from(["w", "state.w", "A-1", "0"]), any_array),
)
def test_what_is_saved_is_loaded_here_and_by_the_library_of_the_format(
    tmp_path_factory, attributes, saved
):
    path = tmp_path_factory.mktemp("run")
    store = SnapshotStore(Folder(str(path)))
    name = store.save(attributes, saved)
    assert (name, store.names()) == ("000001", ["000001"])
    assert [file.name for file in path.iterdir()] == ["000001.safetensors"]
    read = load_file(path / "000001.safetensors")
    assert read.keys() == saved.keys()
    for key, array in saved.items():
        assert (read[key].dtype, read[key].shape) == (array.dtype.newbyteorder("="), array.shape)
        np.testing.assert_array_equal(read[key], array)
    with safe_open(path / "000001.safetensors", "numpy") as file:
        assert json.loads(file.metadata()["attributes"]) == attributes
    same(store.load(name), attributes, saved)


@pytest.fixture(scope="module")
def s3():
    with object_store("snapshots") as store:
        yield Folder("s3://snapshots/run", store.options)


@pytest.mark.parametrize("place", ["local", "memory", "s3"])
def test_arrays_that_are_read_and_written_in_pieces(tmp_path, request, monkeypatch, place):
    monkeypatch.setattr(snapshot_file, "READ_BYTES", 1000)
    monkeypatch.setattr(snapshot_file, "HEAD_BYTES", 64)
    monkeypatch.setattr(remote_files, "PIECE_BYTES", 700)
    places = {"local": lambda: Folder(str(tmp_path)), "memory": memory_folder}
    folder = request.getfixturevalue("s3") if place == "s3" else places[place]()
    store, saved = SnapshotStore(folder), arrays()
    saved |= {"a": np.arange(999.0), "b": np.arange(130.0).reshape(2, 65), "c": np.ones(7, "u1")}
    saved |= {f"many.{k}": np.full(k % 3, float(k)) for k in range(1100)}
    store.save(STATE, saved)
    same(store.load("000001"), STATE, saved)
    wanted = store.load("000001", {"a", "t", "many.7"}.__contains__)
    same(wanted, STATE, {name: saved[name] for name in ("a", "t", "many.7")})


def test_vectors_are_stored_end_to_end(tmp_path):
    store = SnapshotStore(Folder(str(tmp_path)))
    store.save({}, {"w": [np.arange(2.0), np.zeros(0), np.arange(3.0)], "one": [np.ones(1)]})
    expected = {"w": np.array([0.0, 1.0, 0.0, 1.0, 2.0]), "one": np.ones(1)}
    same(store.load("000001"), {}, expected)


def test_a_snapshot_takes_two_fsyncs_and_pruning_reads_nothing(tmp_path, monkeypatch):
    store, synced, fsync = SnapshotStore(Folder(str(tmp_path / "run"))), [], os.fsync
    store.save(STATE, arrays())
    monkeypatch.setattr(os, "fsync", lambda file: (synced.append(file), fsync(file)))
    for _ in range(4):
        store.save(STATE, arrays())
    assert len(synced) == 4 * 2  # the file and its folder
    for reading in ("read", "read_range", "read_range_into", "size"):
        monkeypatch.delattr(Folder, reading)
    store.prune(keep=2)
    assert store.names() == ["000004", "000005"]


def test_parts_that_others_write_belong_to_the_snapshot_that_names_them():
    store = SnapshotStore(memory_folder())
    store.write(store.next_name(), 0, {"0.w": np.zeros(3)})  # and then its writer was killed
    name = store.next_name()
    assert store.names() == []
    parts = [store.write(name, k, {f"{k}.w": np.full(2, float(k))}) for k in range(2)]
    assert store.save(STATE, {"coef": np.ones(2)}, name, parts) == name
    expected = {"coef": np.ones(2), "0.w": np.zeros(2), "1.w": np.ones(2)}
    same(store.load(name), STATE, expected)
    same(store.load(name, lambda array: array.startswith("1.")), STATE, {"1.w": np.ones(2)})
    store.prune(keep=1)
    assert store.folder.list() == sorted(store.files(name))
    store.write(name, 1, {"1.w": np.zeros(2)})  # whole, and of another time
    with pytest.raises(Damaged, match="is not the part"):
        store.load(name)
    same(store.load(name, lambda array: array == "0.w"), STATE, {"0.w": np.zeros(2)})
    store.save(STATE, {})
    store.prune(keep=1)
    assert store.folder.list() == ["000003.safetensors"]


def test_only_what_is_wanted_is_read():
    store = SnapshotStore(memory_folder())
    name, key = store.save(STATE, arrays()), "000001.safetensors"
    wanted = {"state.w": arrays()["state.w"]}
    same(store.load(name, lambda array: array.startswith("state.")), STATE, wanted)
    content = store.folder.read(key)
    store.folder.write(key, content[:-1] + bytes([content[-1] ^ 1]))  # the last one of t
    same(store.load(name, lambda array: array == "state.w"), STATE, wanted)
    with pytest.raises(Damaged, match="the checksum of t is"):
        store.load(name)


def changes(data):
    for i in range(len(data)):
        yield data[:i] + bytes([data[i] ^ (1 << i % 8)]) + data[i + 1 :]
        yield data[:i]
    yield data + b"\0"


def test_every_change_of_any_object_is_found_named_and_passed_over():
    folder = memory_folder()
    store = SnapshotStore(folder)
    older = arrays(np.random.default_rng(1))
    store.save({"step": 2}, older)
    name = store.next_name()
    parts = [store.write(name, 0, {"0.w": np.arange(3.0)})]
    whole = arrays() | {"0.w": np.arange(3.0)}
    store.save(STATE, arrays(), name, parts)
    keys = ["000002.0.safetensors", "000002.safetensors"]
    assert folder.list() == ["000001.safetensors", *keys]
    for key in keys:
        data, address = folder.read(key), folder.address(key)
        for changed in changes(data):
            folder.write(key, changed)
            with pytest.raises(Damaged) as caught:
                store.load("000002")
            assert address in str(caught.value)
        snapshot, passed_over = store.latest()
        same(snapshot, {"step": 2}, older)
        assert [address in sentence for sentence in passed_over] == [True]
        assert [address in sentence for sentence in store.verify("000002")] == [True]
        folder.delete(key)
        assert [address in sentence for sentence in store.verify("000002")] == [True]
        assert store.latest()[0].name == "000001"
        folder.write(key, data)
    same(store.load("000002"), STATE, whole)
    for a, b in (keys, ("000001.safetensors", keys[1])):  # each whole, in the other's place
        one, other = folder.read(a), folder.read(b)
        folder.write(a, other)
        folder.write(b, one)
        assert [b in sentence for sentence in store.verify("000002")] == [True]
        folder.write(a, one)
        folder.write(b, other)


class Failing(Folder):
    """Fails from one of its calls on, before or after doing what was asked: a crash."""

    made = 0
    fail_at = None
    late = False

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in {"read_range", "read_range_into", "write", "size", "list", "delete"}:
            return found

        def call(*arguments, **options):
            Failing.made += 1
            limit = Failing.fail_at
            if limit is not None and Failing.made == limit and Failing.late:
                found(*arguments, **options)
            if limit is not None and Failing.made >= limit:
                raise OSError(5, "Input/output error")
            return found(*arguments, **options)

        return call


@pytest.fixture(autouse=True)
def sound_again():
    yield
    Failing.fail_at = None


def crash_at(k, late, action):
    """Run the action with its k-th call failing; say whether it crashed."""
    Failing.made, Failing.fail_at, Failing.late = 0, k, late
    try:
        action()
    except OSError:
        return True
    finally:
        Failing.fail_at = None
    return False


class StoreMachine(RuleBasedStateMachine):
    """The store against a dictionary, with crashes and damage."""

    def __init__(self):
        super().__init__()
        self.store = SnapshotStore(Failing(memory_folder("machine").url))
        self.whole = {}
        self.damaged = set()
        self.written = 0

    def _next(self, n):
        self.written += 1
        return {"written": self.written}, {"w": np.full(n, float(self.written))}

    @rule(n=st.integers(0, 3))
    def save(self, n):
        saved = self._next(n)
        name = self.store.save(*saved)
        assert name > max([*self.whole, *self.damaged], default="")
        self.whole[name] = saved

    @rule(n=st.integers(0, 3), k=st.integers(1, 3), late=st.booleans())
    def crash_while_saving(self, n, k, late):
        saved = self._next(n)
        before = set(self.store.names())
        crash_at(k, late, lambda: self.store.save(*saved))
        new = set(self.store.names()) - before
        assert len(new) <= 1
        self.whole |= dict.fromkeys(new, saved)

    @precondition(lambda self: self.whole)
    @rule(data=st.data())
    def damage(self, data):
        name = data.draw(st.sampled_from(sorted(self.whole)))
        folder = self.store.folder
        key = f"{name}.safetensors"
        content = bytearray(folder.read(key))
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1
        folder.write(key, bytes(content))
        del self.whole[name]
        self.damaged.add(name)

    @rule(keep=st.integers(1, 3))
    def prune(self, keep):
        newest = sorted([*self.whole, *self.damaged])[-keep:]
        self.store.prune(keep)
        assert self.store.names() == newest
        self._forget(newest)

    @rule(keep=st.integers(1, 3), k=st.integers(1, 5), late=st.booleans())
    def crash_while_pruning(self, keep, k, late):
        newest = sorted([*self.whole, *self.damaged])[-keep:]
        crash_at(k, late, lambda: self.store.prune(keep))
        assert set(self.store.names()) >= set(newest)
        self._forget(self.store.names())

    def _forget(self, names):
        self.whole = {name: saved for name, saved in self.whole.items() if name in names}
        self.damaged &= set(names)

    @invariant()
    def agree(self):
        assert set(self.store.names()) == set(self.whole) | self.damaged
        snapshot, passed_over = self.store.latest()
        assert not any(self.store.verify(name) for name in self.whole)
        newest = max(self.whole, default="")
        assert (snapshot.name if snapshot else "") == newest
        assert len(passed_over) == sum(name > newest for name in self.damaged)
        if snapshot:
            same(snapshot, *self.whole[newest])


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=40, stateful_step_count=15, deadline=None)


def place(shape, size=48, dtype="F64"):
    return lambda m: m["w"].update(shape=shape, data_offsets=[0, size], dtype=dtype)


def told(**members):
    return lambda m: m["__metadata__"].update(members)


@pytest.mark.parametrize(
    "change",
    [
        place([1 << 40], 8 << 40),
        place([1 << 61], 1 << 64),
        place([1 << 25], 8 << 25),
        place([1 << 20] * 3, 8 << 60),
        place([1] * 70, 8),
        place([0, 1 << 60], 0),
        place([-6], -48),
        place([6.5], 52),
        place([7]),
        place([6], 48, "BF16"),
        place([6], 48, "object"),
        lambda m: m["w"].update(data_offsets=[8, 56]),
        lambda m: m["w"].update(data_offsets=[0]),
        lambda m: m.update({"../w": m.pop("w")}),
        lambda m: m.update(v=m["w"]),
        lambda m: m.pop("w"),
        lambda m: m.update(w=7),
        told(crc32c="{}"),
        told(crc32c="7"),
        told(parts='[["../../etc/passwd", "", ["v"]]]'),
        told(parts='[["000001.safetensors", "", ["v"]]]'),
        told(parts='[["000001.1.safetensors", "", ["v"]]]'),
        told(attributes="[1]"),
        told(attributes="{"),
        told(attributes=0),
        told(attributes='{"a": NaN}'),
        told(attributes='{"a":' * 100_000),
        told(version="2"),
        told(format="fewpass-dataset"),
        lambda m: m["__metadata__"].pop("attributes"),
    ],
)
def test_forged_headers_are_refused_before_memory_is_taken(tmp_path, change):
    store = SnapshotStore(Folder(str(tmp_path)))
    store.save({}, {"w": np.arange(6.0)})
    forge_header(tmp_path / "000001.safetensors", change)
    tracemalloc.start()
    with pytest.raises(Damaged, match="000001"):
        store.load("000001")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert store.latest()[0] is None


def test_absurd_headers_are_refused(tmp_path):
    folder, key = Folder(str(tmp_path)), "000001.safetensors"
    store = SnapshotStore(folder)
    deep = b'{"a":' + b"[" * 100_000
    # sealed as it should be, but only the reader of JSON can tell
    digest = hashlib.sha256(deep + b"}}").hexdigest().encode()
    sealed = deep + b',"fingerprint":"' + digest + b'"}}\n'
    for raw in (b"", b"\0" * 200, b" " * (17 << 20), deep, seal({"a": {"b": 1}}, depth=2), sealed):
        folder.write(key, len(raw).to_bytes(8, "little") + raw)
        with pytest.raises(Damaged, match=r"000001\.safetensors is damaged"):
            store.load("000001")
    for head in (b"", b"\1", b"\xff" * 8, (1 << 20).to_bytes(8, "little")):
        folder.write(key, head)
        with pytest.raises(Damaged, match=r"000001\.safetensors is damaged"):
            store.attributes("000001")


@pytest.mark.parametrize(
    ("attributes", "saved", "message"),
    [
        ({"loss": float("nan")}, {}, "finite numbers"),
        ({"loss": np.float32(1)}, {}, "finite numbers"),
        ({}, {"../w": np.zeros(1)}, "Use letters"),
        ({}, {"": np.zeros(1)}, "Use letters"),
        ({}, {"w\n": np.zeros(1)}, "Use letters"),
        ({}, {"__metadata__": np.zeros(1)}, "Use letters"),
        ({}, {"w": [np.zeros(1), np.zeros(1, int)]}, "has type int64"),
        ({}, {"w": np.array(["text"])}, "has type <U4"),
        ({}, {"w": np.array([None])}, "has type object"),
        ({}, {"w": np.zeros(1, complex)}, "has type complex128"),
    ],
)
def test_what_cannot_be_stored_is_refused_before_anything_is_written(
    tmp_path, attributes, saved, message
):
    store = SnapshotStore(Folder(str(tmp_path)))
    with pytest.raises(ValueError, match=message):
        store.save(attributes, saved)
    assert store.folder.list() == []


def test_pruning_keeps_at_least_one(tmp_path):
    store = SnapshotStore(Folder(str(tmp_path)))
    store.save({}, {})
    with pytest.raises(ValueError, match="Keep at least one"):
        store.prune(0)
    store.prune(5)
    assert store.names() == ["000001"]
