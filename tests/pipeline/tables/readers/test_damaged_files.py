"""Files that are damaged, or made to do harm: refused by name and place, by every reader."""

import bz2
import gzip
import io
import json
import lzma
import struct
import zipfile
import zlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import open_source
from fewpass.pipeline.tables.readers.finding import find
from fewpass.pipeline.tables.readers.json_rows import MOST_DEEP, _are_objects, _object_in, _refused
from fewpass.pipeline.tables.readers.library_errors import parsing
from fewpass.pipeline.tables.readers.streams import _decompressed

ROWS = 40


def rows_of(path, **options):
    """Return the rows of a file, and how many were skipped."""
    source = open_source([str(path)], SourceOptions(**options))
    parsed = [source.parse(piece) for piece in source.pieces(1000)]
    return sum(p.table.n_rows for p in parsed), sum(p.n_skipped for p in parsed)


# -- Arrow -----------------------------------------------------------------------------------------


def ipc(table, kind="file", compression=None):
    out = io.BytesIO()
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with new(out, table.schema, options=options) as writer:
        writer.write_table(table)
    return out.getvalue()


def words(n=ROWS):
    return pa.table({"w": [f"word {k % 3}" for k in range(n)], "label": [k % 2 for k in range(n)]})


@pytest.mark.parametrize(("name", "kind"), [
    ("far.arrow", "file"), ("far.arrows", "stream"), ("far.arrow.gz", "file"),
])  # fmt: skip
def test_offsets_beyond_a_buffer_are_refused_by_column(tmp_path, name, kind):
    raw = bytearray(ipc(words(), kind))
    offsets = struct.pack(f"<{ROWS + 1}i", *range(0, 6 * ROWS + 1, 6))
    raw[raw.index(offsets) + 4 * 7 :][:4] = b"12"  # a slice of a bytearray is a copy
    at = raw.index(offsets) + 4 * 7
    raw[at : at + 4] = struct.pack("<i", 1 << 24)
    content = gzip.compress(bytes(raw)) if name.endswith("gz") else bytes(raw)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=rf"{name}, rows 1 to {ROWS}: .*'w' are damaged"):
        rows_of(tmp_path / name)


def test_codes_beyond_a_dictionary_are_refused(tmp_path):
    table = words().set_column(0, "w", words().column("w").combine_chunks().dictionary_encode())
    raw = bytearray(ipc(table))
    codes = struct.pack(f"<{ROWS}i", *(k % 3 for k in range(ROWS)))
    at = raw.index(codes)
    raw[at : at + 4] = struct.pack("<i", 5000)
    (tmp_path / "codes.arrow").write_bytes(bytes(raw))
    with pytest.raises(BadInput, match=r"codes\.arrow, rows 1 to 40: .*'w' are damaged"):
        rows_of(tmp_path / "codes.arrow")


@pytest.mark.parametrize("kind", ["file", "stream"])
@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_sizes_that_a_file_claims_and_has_not_are_refused(tmp_path, kind, compression):
    """Of the batch, of a buffer, and of one that is to be unpacked: nothing so large is filled."""
    table = pa.table({"x": np.arange(3000) * 1.0, "label": np.arange(3000) % 2})
    raw = ipc(table, kind, compression=compression)
    messages = pa.ipc.MessageReader.open_stream(raw[8:] if kind == "file" else raw)
    body = next(message.body.size for message in messages if message.type == "record batch")
    for claimed in (body, 8 * 3000):
        at = raw.index(struct.pack("<q", claimed))
        for lie in (1 << 62, 1 << 40, -5):
            (tmp_path / "t.arrow").write_bytes(raw[:at] + struct.pack("<q", lie) + raw[at + 8 :])
            with pytest.raises(BadInput, match=r"t\.arrow, from row 1 on: the file is damaged"):
                rows_of(tmp_path / "t.arrow")


def test_words_of_parquet_that_are_no_utf8_are_refused(tmp_path):
    binary = pa.array([b"fine"] * (ROWS - 1) + [b"\xff\xfe"])
    text = pa.Array.from_buffers(pa.string(), ROWS, binary.buffers())
    pq.write_table(words().set_column(0, "w", text), tmp_path / "w.parquet")
    with pytest.raises(BadInput, match=r"w\.parquet, rows .*'w' are damaged \(.*UTF"):
        rows_of(tmp_path / "w.parquet")


def with_false_statistics(raw):
    """Parquet whose footer tells other sizes of a column than can be, by one byte each."""
    size = struct.unpack("<i", raw[-8:-4])[0]
    for at in range(len(raw) - 8 - size, len(raw) - 8):
        changed = raw[:at] + bytes([raw[at] ^ 3]) + raw[at + 1 :]
        try:
            list(pq.ParquetFile(pa.BufferReader(changed)).iter_batches())
        except (OSError, pa.ArrowException) as error:
            if "histogram size mismatch" in str(error):
                yield changed


def test_false_statistics_in_a_footer_are_refused_and_do_not_end_the_process(tmp_path):
    raw = io.BytesIO()
    table = words().append_column("v", pa.array([[1.0] * (k % 3) for k in range(ROWS)]))
    pq.write_table(table, raw, row_group_size=ROWS // 2)
    files = [*with_false_statistics(raw.getvalue())]
    assert len(files) > 3
    for changed in files:
        (tmp_path / "s.parquet").write_bytes(changed)
        with pytest.raises(BadInput, match=r"s\.parquet.*histogram size mismatch"):
            rows_of(tmp_path / "s.parquet", label="label")


def test_what_a_missing_view_hides_is_never_read(tmp_path):
    """Arrow validates no view of a missing cell, and casts it all the same: that ends a process."""
    cells = pa.array(["a word of more than twelve"] * (ROWS - 1) + [None], pa.string_view())
    raw = ipc(words().set_column(0, "w", cells))
    empty = raw.rindex(bytes(16), 0, raw.index(b"a word of more than twelve", 400))
    wild = struct.pack("<i4sii", 99, b"a wo", 77_777, 1 << 28)
    changed = raw[:empty] + wild + raw[empty + 16 :]
    (tmp_path / "views.arrow").write_bytes(changed)
    found = pa.ipc.open_file(io.BytesIO(changed)).read_all()
    assert wild in found.column("w").chunk(0).buffers()[1].to_pybytes()
    assert rows_of(tmp_path / "views.arrow") == (ROWS, 0)


def test_a_stream_is_read_and_one_that_is_cut_between_batches_refused(tmp_path):
    raw = ipc(words(), "stream")
    (tmp_path / "t.arrow").write_bytes(raw)
    assert rows_of(tmp_path / "t.arrow") == (ROWS, 0)
    (tmp_path / "unnamed").write_bytes(raw)
    assert rows_of(tmp_path / "unnamed") == (ROWS, 0)
    (tmp_path / "cut.arrows").write_bytes(raw[:-8])
    with pytest.raises(BadInput, match=r"cut\.arrows: the stream has no end mark"):
        rows_of(tmp_path / "cut.arrows")


def test_the_first_feather_is_named(tmp_path):
    (tmp_path / "old.feather").write_bytes(b"FEA1" + bytes(100) + b"FEA1")
    with pytest.raises(BadInput, match=r"old\.feather: the file is Feather of version 1"):
        rows_of(tmp_path / "old.feather")


# -- JSON lines ------------------------------------------------------------------------------------


def line(k, **more):
    return json.dumps({"a": k, "b": f"w{k % 3}", "label": k % 2} | more).encode()


BAD_LINES = {
    "deep": (b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}", "brackets stand in each other"),
    "objects": (b'{"a":' * 5000 + b"1" + b"}" * 5000, "brackets stand in each other"),
    "open": (b'{"a":1,"b":', "is not JSON"),
    "two": (line(1) + line(2), "is not JSON"),
    "cell": (b'{"a":1,"b":"\xff","label":1}', "are no UTF-8"),
    "name": (b'{"a":1,"b\xff":"w","label":1}', "are no UTF-8"),
    "more behind": (line(1) + b"*", "is not JSON"),
    "number": (b"7", "an object was expected"),
    "list": (b"[1]", "an object was expected"),
}


@pytest.mark.parametrize("where", ["first", "later"])
@pytest.mark.parametrize("bad", BAD_LINES)
def test_a_bad_line_is_named_or_skipped(tmp_path, bad, where, monkeypatch):
    if where == "later":
        monkeypatch.setattr("fewpass.pipeline.tables.readers.json_rows.HEAD_BYTES", 400)
    text, fact = BAD_LINES[bad]
    lines = [line(k) for k in range(ROWS)]
    at = 0 if where == "first" else ROWS - 1
    lines.insert(at, text)
    (tmp_path / "t.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(BadInput, match=rf"t\.jsonl, line {at + 1}: .*{fact}"):
        rows_of(tmp_path / "t.jsonl")
    assert rows_of(tmp_path / "t.jsonl", on_bad_row="skip") == (ROWS, 1)


def test_a_piece_of_bad_lines_alone_is_skipped(tmp_path):
    good = b"\n".join(line(k) for k in range(ROWS)) + b"\n"
    (tmp_path / "t.jsonl").write_bytes(good + b'{"a":1,"b":\n' * 2000)
    assert rows_of(tmp_path / "t.jsonl", on_bad_row="skip") == (ROWS, 2000)


def deep(depth):
    return b'{"a":' * depth + b"1" + b"}" * depth


def test_lines_are_sound_as_python_reads_them():
    soundness = {
        b"{}": True, b'{"a":"]}{["}': True, b'{"a":"\\"{"}': True, b'  {"a":[{}]} \r': True, b'{"a":"': False,
        b"{}{}": False, b"{}*": False, b'"a"{}': False, b"{": False, b"}{": False, b"1": False,
        b"[1]": False, deep(MOST_DEEP): True, deep(MOST_DEEP + 1): False, b'{"a":"\\\\"}': True, b'{"a":\n1}': False,
    }  # fmt: skip
    for text, sound in soundness.items():
        lines = text + b"\n{}\n"
        is_taken = (
            _are_objects(np.frombuffer(lines, np.uint8)) and _refused(lines, pa.schema([])) is None
        )
        assert is_taken == sound, text
        assert isinstance(_object_in(text), dict) == sound, text


@pytest.mark.parametrize("later", [False, True])
def test_a_name_twice_by_dots_is_refused_or_left_out(tmp_path, later, monkeypatch):
    monkeypatch.setattr("fewpass.pipeline.tables.readers.json_rows.HEAD_BYTES", 400)
    both, one = {"a": {"x": 1}, "a.x": 1, "label": 1}, {"a": {"x": 1}, "label": 0}
    lines = [json.dumps(one if later else both)] * ROWS + [json.dumps(both)]
    (tmp_path / "t.jsonl").write_text("\n".join(lines) + "\n")
    if later:
        assert rows_of(tmp_path / "t.jsonl") == (ROWS + 1, 0)
    else:
        with pytest.raises(BadInput, match=r"2 columns are named 'a\.x'"):
            rows_of(tmp_path / "t.jsonl")


# -- arrays ----------------------------------------------------------------------------------------


def array(shape="(9, 3)", descr="'<f8'", order="False", content=9 * 3 * 8):
    header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + bytes(content)


@pytest.mark.parametrize("raw", [
    array().replace(b"}", b" ", 1), array("(-1, 3)"), array("(True, 3)"), array("(1 << 3,)"),
    array(f"({1 << 61}, 3)"), array("(" * 5000), array("[9, 3]"), array(descr="'|O'"),
    array(descr="'<U0'"), array(descr="[('a', '<f8')]"), array(order="True"), array()[:40],
    array("(8, 3)"), array("(10, 3)"), array()[:6] + b"\x07\x00" + array()[8:],
])  # fmt: skip
def test_headers_of_arrays_that_lie_are_refused_by_name(tmp_path, raw):
    (tmp_path / "t.npy").write_bytes(raw)
    with pytest.raises(BadInput, match=r"t\.npy"):
        rows_of(tmp_path / "t.npy")


def archive(path, change=lambda raw: raw, **arrays):
    out = io.BytesIO()
    np.savez(out, **({"X": np.ones((9, 3)), "y": np.arange(9) % 2} | arrays))
    path.write_bytes(change(out.getvalue()))
    return path


def entry(at, value):
    """Change bytes of the last entry of an archive's directory."""

    def change(raw):
        start = raw.rfind(b"PK\x01\x02") + at
        return raw[:start] + value + raw[start + len(value) :]

    return change


@pytest.mark.parametrize("change", [
    entry(42, b"\xff" * 4), entry(8, b"\x01"), entry(10, b"\x63"), entry(20, b"\x01\x00\x00\x00"),
    lambda raw: raw[:-30], lambda raw: raw[: len(raw) // 2], lambda raw: raw[:4] + bytes(200),
    lambda raw: raw.replace(b"(9, 3)", b"(8, 3)"),
], ids=["offset", "encrypted", "packing", "size", "directory", "half", "zeros", "shape"])  # fmt: skip
def test_damaged_archives_are_refused_by_name(tmp_path, change):
    with pytest.raises(BadInput, match=r"t\.npz"):
        rows_of(archive(tmp_path / "t.npz", change))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_a_name_twice_is_refused(tmp_path):
    path = archive(tmp_path / "t.npz")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("y.npy", array("(9,)", content=72))
    with pytest.raises(BadInput, match=r"t\.npz: 2 columns are named 'y\.npy'"):
        rows_of(path)


# -- compressed ------------------------------------------------------------------------------------

TEXT = b"a,label\n" + b"".join(b"%d.5,%d\n" % (k, k % 2) for k in range(ROWS))


def zstd(raw):
    return pa.Codec("zstd").compress(raw, asbytes=True)


@pytest.mark.parametrize(("end", "pack"), [
    ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd),
])  # fmt: skip
def test_compressed_files_are_whole_or_refused(tmp_path, end, pack):
    half, rest = TEXT[:100], TEXT[100:]
    path = tmp_path / f"t.csv.{end}"
    path.write_bytes(pack(half) + pack(rest))
    assert rows_of(path) == (ROWS, 0)
    second = bytearray(pack(rest))
    second[1] ^= 0xFF
    for raw in (pack(TEXT)[:-5], pack(TEXT) + b"garbage", pack(half) + bytes(second)):
        path.write_bytes(raw)
        with pytest.raises(BadInput, match=rf"t\.csv\.{end}: the file (ends|holds damaged)"):
            rows_of(path)


@pytest.mark.parametrize(("end", "pack"), [
    ("gz", gzip.compress), ("bz2", bz2.compress), ("xz", lzma.compress), ("zst", zstd),
])  # fmt: skip
def test_two_members_cut_anywhere_are_a_member_or_refused(tmp_path, end, pack):
    half, rest = TEXT[:100], TEXT[100:]
    path = tmp_path / f"t.csv.{end}"
    path.write_bytes(pack(half) + pack(rest))
    (address,) = find([str(path)])
    whole, whole_first = path.read_bytes(), len(pack(half))
    for size in range(1, len(whole)):
        cut = io.BytesIO(whole[:size])
        with _decompressed(address, cut) as stream:
            if size == whole_first:
                assert stream.read() == half
            else:
                with pytest.raises((EOFError, OSError, zlib.error)):
                    stream.read()


# -- the border ------------------------------------------------------------------------------------


def test_only_what_is_of_the_content_is_turned_into_a_refusal():
    for error in (KeyError("x"), RecursionError("deep"), pa.ArrowInvalid("no"), OSError("no"),
                  UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no")):  # fmt: skip
        with (
            pytest.raises(BadInput, match=r"^a\.file: the file is damaged \(.*\)\. Fetch"),
            parsing("a.file"),
        ):
            raise error
    for error in (
        OSError(5, "Input/output error"),
        ConnectionResetError("gone"),
        KeyboardInterrupt(),
    ):
        with pytest.raises(type(error)), parsing("a.file"):
            raise error
