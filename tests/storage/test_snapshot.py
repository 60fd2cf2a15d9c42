"""Snapshots: a reader sees whole ones only, whatever happened to the writer or to the files."""

import tracemalloc
from itertools import count

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.seal import seal
from fewpass.storage.snapshot import SnapshotStore
from testing.forged import forge

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
def test_what_is_saved_is_loaded_and_is_plain_zarr(tmp_path_factory, attributes, saved):
    path = tmp_path_factory.mktemp("run")
    store = SnapshotStore(Folder(str(path)))
    name = store.save(attributes, saved)
    assert (name, store.names()) == ("000001", ["000001"])
    group = zarr.open_group(path / name, mode="r")
    assert dict(group.attrs) == attributes
    for key, array in saved.items():
        np.testing.assert_array_equal(group["arrays"][key][...], array)
    same(store.load(name), attributes, saved)


@pytest.mark.parametrize("shape", [(5_000_001,), (3, 2_500_000), (2_500_000, 3), (2, 2, 2_500_000)])
def test_large_arrays_lie_in_chunks_of_bounded_size(tmp_path, shape):
    store = SnapshotStore(Folder(str(tmp_path)))
    array = np.arange(np.prod(shape), dtype=float).reshape(shape)
    store.save({}, {"w": array})
    np.testing.assert_array_equal(store.load("000001").arrays["w"], array)
    w = zarr.open_array(tmp_path / "000001" / "arrays" / "w", mode="r")
    assert 8 << 20 < np.prod(w.chunks) * 8 <= 16 << 20
    np.testing.assert_array_equal(w[...], array)


def test_only_what_is_wanted_is_read():
    store = SnapshotStore(memory_folder())
    name = store.save(STATE, arrays())
    found = store.load(name, lambda array: array.startswith("state."))
    same(found, STATE, {"state.w": arrays()["state.w"]})
    store.folder.child(name).delete("arrays/t/c/0")
    same(
        store.load(name, lambda array: array == "state.w"), STATE, {"state.w": arrays()["state.w"]}
    )
    with pytest.raises(Damaged, match="arrays/t/c/0"):
        store.load(name)


def test_zeros_compress_well_and_load(tmp_path):
    store = SnapshotStore(Folder(str(tmp_path)))
    store.save({}, {"w": np.zeros(1 << 22), "flags": np.zeros(1 << 24, bool)})
    assert not store.load("000001").arrays["w"].any()
    assert not store.load("000001").arrays["flags"].any()


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
    store.save(STATE, arrays())
    keys = folder.list("000002")
    assert len(keys) == 8
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
        store.prune(keep=1)
        assert store.names() == ["000001", "000002"]  # the older one is the newest whole one
        folder.delete(key)
        assert [address in sentence for sentence in store.verify("000002")] == [True]
        assert store.latest()[0].name == "000001"
        folder.write(key, data)
    same(store.load("000002"), STATE, arrays())
    for a in keys:
        for b in keys:
            one, other = folder.read(a), folder.read(b)
            if one != other:
                folder.write(a, other)
                folder.write(b, one)
                assert store.latest()[0].name == "000001"
                folder.write(a, one)
                folder.write(b, other)


class Failing(Folder):
    """Fails from one of its calls on, before or after doing what was asked: a crash."""

    made = 0
    fail_at = None
    late = False

    def __getattribute__(self, name):
        found = super().__getattribute__(name)
        if name not in {"read", "write", "sync", "size", "list", "delete", "delete_tree"}:
            return found

        def call(*arguments, **options):
            Failing.made += 1
            limit = Failing.fail_at
            if limit is not None and Failing.made == limit and Failing.late:
                found(*arguments, **options)
            elif limit is not None and Failing.made == limit and name == "delete_tree":
                Folder(self.url).delete(Folder(self.url).list(*arguments)[0])  # not all of them
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


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("place", ["local", "memory"])
def test_a_save_that_crashes_anywhere_leaves_the_older_snapshot(tmp_path, place, late):
    for k in range(1, 100):
        url = str(tmp_path / str(k)) if place == "local" else memory_folder(tmp_path.name).url
        store = SnapshotStore(Failing(url))
        store.save({"step": 1}, arrays())
        crashed = crash_at(k, late, lambda: store.save(STATE, arrays()))
        snapshot, passed_over = store.latest()
        assert not passed_over
        if snapshot.name == "000001":
            same(snapshot, {"step": 1}, arrays())
            name = store.save(STATE, arrays())
            assert crashed
        else:
            assert late or not crashed
            name = snapshot.name
        same(store.load(name), STATE, arrays())
        store.prune(keep=1)
        assert store.names() == [name]
        assert {key.split("/")[0] for key in store.folder.list()} == {name}
        if not crashed:
            break
    assert k > 10


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

    @rule(n=st.integers(0, 3), k=st.integers(1, 14), late=st.booleans())
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
        key = data.draw(st.sampled_from(folder.list(name)))
        content = bytearray(folder.read(key))
        content[data.draw(st.integers(0, len(content) - 1))] ^= 1
        folder.write(key, bytes(content))
        del self.whole[name]
        self.damaged.add(name)

    @rule(keep=st.integers(1, 3))
    def prune(self, keep):
        self.store.prune(keep)
        self._forget(keep)

    @rule(keep=st.integers(1, 3), k=st.integers(1, 20), late=st.booleans())
    def crash_while_pruning(self, keep, k, late):
        kept = sorted(self.whole)[-keep:]
        crash_at(k, late, lambda: self.store.prune(keep))
        names = set(self.store.names())
        assert names >= set(kept)
        self.whole = {name: saved for name, saved in self.whole.items() if name in names}
        self.damaged &= names

    def _forget(self, keep):
        if len(self.whole) >= keep:
            oldest = sorted(self.whole)[-keep]
            self.whole = {name: saved for name, saved in self.whole.items() if name >= oldest}
            self.damaged = {name for name in self.damaged if name > oldest}

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


def reshape(shape, chunks):
    return lambda m: m["arrays"]["w"].update(shape=shape, chunk_shape=chunks)


@pytest.mark.parametrize(
    "change",
    [
        reshape([1 << 40], [1 << 40]),
        reshape([1 << 40], [1]),
        reshape([1 << 25], [1 << 25]),
        reshape([1], [1 << 60]),
        reshape([1 << 20] * 3, [1 << 20] * 3),
        reshape([1] * 70, [1] * 70),
        reshape([0, 1 << 60], [1, 1]),
        reshape([6], [0]),
        reshape([-6], [6]),
        reshape([6, 1], [6]),
        reshape([6.5], [6]),
        lambda m: m["arrays"]["w"].update(dtype="object"),
        lambda m: m["arrays"]["w"].update(dtype="|O"),
        lambda m: m["arrays"].update({"../w": m["arrays"].pop("w")}),
        lambda m: m["arrays"].update(v=m["arrays"]["w"]),
        lambda m: m["objects"].update({"../../etc/passwd": [1, 1]}),
        lambda m: m["objects"].pop("zarr.json"),
        lambda m: m["objects"].pop("arrays/w/zarr.json"),
        lambda m: m["objects"].update({"arrays/w/c/0": [1 << 50, 1]}),
        lambda m: m.update(objects=[]),
        lambda m: m.update(version=2),
        lambda m: m.update(format="fewpass-dataset"),
    ],
)
def test_forged_manifests_are_refused_before_memory_is_taken(tmp_path, change):
    store = SnapshotStore(Folder(str(tmp_path)))
    store.save({}, {"w": np.arange(6.0)})
    forge(store.folder.child("000001"), change)
    tracemalloc.start()
    with pytest.raises(Damaged, match="000001"):
        store.load("000001")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert store.latest()[0] is None


def test_absurd_json_is_refused(tmp_path):
    folder = Folder(str(tmp_path))
    store = SnapshotStore(folder)
    deep = b'{"a":' + b"[" * 100_000
    for raw in (b"", b"\0" * 200, b"x" * (17 << 20), seal({"a": 1})[:-90] + deep, deep * 2):
        folder.write("000001/manifest.json", raw)
        with pytest.raises(Damaged, match=r"manifest\.json"):
            store.load("000001")
    # sealed as it should be, but only the reader of JSON can tell
    import hashlib

    text = deep[:-1]
    tail = b',"fingerprint":"' + hashlib.sha256(text + b"}").hexdigest().encode() + b'"}\n'
    folder.write("000001/manifest.json", text + tail)
    with pytest.raises(Damaged, match="is not JSON"):
        store.load("000001")


@pytest.mark.parametrize(
    ("attributes", "saved", "message"),
    [
        ({"loss": float("nan")}, {}, "finite numbers"),
        ({"loss": np.float32(1)}, {}, "finite numbers"),
        ({}, {"../w": np.zeros(1)}, "Use letters"),
        ({}, {"": np.zeros(1)}, "Use letters"),
        ({}, {"w\n": np.zeros(1)}, "Use letters"),
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
