"""What reading asks a store for: an object of known length takes one request."""

import numpy as np
import pytest

from fewpass.storage.codec import encode
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.objects import StoredObject, get, get_chunk, make_durable, put
from testing.object_store import object_store


@pytest.fixture(scope="module")
def store():
    with object_store("requests") as store:
        yield store


def test_a_chunk_takes_a_get_and_nothing_before_it(store, monkeypatch):
    folder = Folder("s3://requests/set", store.options)
    values = np.arange(1000, dtype=np.float64)
    data = encode(values)
    stored = StoredObject(len(data), int.from_bytes(data[-4:], "little"))
    folder.write("c/0", data)
    fs, asked = folder._files._fs, []
    call = fs._call_s3

    async def counted(method, *args, **named):
        asked.append(method)
        return await call(method, *args, **named)

    monkeypatch.setattr(fs, "_call_s3", counted)
    out, scratch = np.empty_like(values), np.empty(len(data), np.uint8)
    get_chunk(folder, "c/0", stored, out, scratch)
    assert np.array_equal(out, values)
    assert get(folder, "c/0", stored) == data
    assert asked == ["get_object", "get_object"]
    for length in (0, 1, len(data) - 1, len(data) + 1, 3 * len(data)):
        folder.write("c/0", (data * 3)[:length])
        with pytest.raises(Damaged, match="bytes, where"):
            get_chunk(folder, "c/0", stored, out, scratch)
    folder.delete("c/0")
    with pytest.raises(Damaged, match="is missing"):
        get_chunk(folder, "c/0", stored, out, scratch)


def test_what_many_objects_take_to_be_durable_is_a_listing_of_each_folder(store):
    folder = Folder("s3://requests/many", store.options)
    objects = {
        key: put(folder, key, key.encode())
        for key in ["a.bin", *[f"X/{n}.bin" for n in range(40)], "X/y/z.bin"]
    }
    fs, asked = folder._files._fs, []
    connection = fs.s3.meta.events
    connection.register("before-call.s3", lambda model, **_: asked.append(model.name))
    make_durable(folder, objects)
    assert asked == ["ListObjectsV2"] * 3
    folder.write("X/7.bin", b"longer than before")
    with pytest.raises(Damaged, match=r"many/X/7.bin is damaged: it has 18 bytes"):
        make_durable(folder, objects)
    folder.delete("X/7.bin")
    with pytest.raises(Damaged, match=r"many/X/7.bin is missing"):
        make_durable(folder, objects)
