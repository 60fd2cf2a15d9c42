"""A small whole file of every format that is read, of the same rows: words, gaps, numbers, lists."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

ROWS = 60
WORDS = ("red", "gr\u00fcn", "light blue", "")


def _rows() -> list[dict]:
    return [
        {
            "a": k * 0.37 - 5, "b": WORDS[k % 4] or None, "c": None if k % 7 == 3 else k % 5,
            "d": f"2026-0{1 + k % 9}-1{k % 9}", "label": ("no", "yes")[k % 2],
        }
        for k in range(ROWS)
    ]  # fmt: skip


def _csv(delimiter: str = ",", quote: str = '"') -> bytes:
    names = list(_rows()[0])
    lines = [delimiter.join(names)]
    for row in _rows():
        cells = ["" if row[name] is None else str(row[name]) for name in names]
        cells[1] = f"{quote}{cells[1]}{quote}" if cells[1] else ""
        lines.append(delimiter.join(cells))
    return ("\n".join(lines) + "\n").encode()


def _numbers() -> bytes:
    return b"x,z,label\n" + b"".join(b"%d,%.3f,%d\n" % (k, k * 0.7, k % 2) for k in range(ROWS))


def _libsvm() -> bytes:
    return b"".join(b"%d 1:%.2f %d:1 9:3e-2\n" % (k % 2, k * 0.3, 2 + k % 6) for k in range(ROWS))


def _vw() -> bytes:
    lines = (f"{2 * (k % 2) - 1} 0.5 'tag{k}|a x:{k * 0.1:.1f} y |b w{k % 5}" for k in range(ROWS))
    return ("\n".join(lines) + "\n").encode()


def _jsonl() -> bytes:
    more = ({"l": [k, 1.5], "s": {"p": k, "q": ["u", "v"][: k % 3]}} for k in range(ROWS))
    both = zip(_rows(), more, strict=True)
    return b"".join(json.dumps(row | inner).encode() + b"\n" for row, inner in both)


def _table() -> pa.Table:
    table = pa.Table.from_pylist(_rows())
    numbers = [[1.0, 2.0]] * ROWS
    words = pa.array([row["b"] and row["b"] * 4 for row in _rows()], pa.string_view())
    more = {
        "v": words, "e": table.column("b").combine_chunks().dictionary_encode(),
        "n": pa.array(numbers), "f": pa.array(numbers, pa.list_(pa.float32(), 2)),
        "t": pa.array([["u", "v"][: k % 3] for k in range(ROWS)]),
        "s": pa.array([{"p": k, "q": k % 2 == 0} for k in range(ROWS)]),
        "m": pa.array([[("k", 1.0)]] * ROWS, pa.map_(pa.string(), pa.float64())),
    }  # fmt: skip
    for name, column in more.items():
        table = table.append_column(name, column)
    return table


def _ipc(kind: str, **options: str) -> bytes:
    out, table = io.BytesIO(), _table()
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([20, ROWS], pa.int32()), pa.array(["u", "w"]))
    views = pa.array([[1, 2]] * ROWS, pa.list_view(pa.int32()))
    table = table.append_column("r", runs).append_column("w", views)
    new = pa.ipc.new_file if kind == "file" else pa.ipc.new_stream
    with new(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=25)
    return out.getvalue()


def _parquet(**options: object) -> bytes:
    out = io.BytesIO()
    pq.write_table(_table(), out, row_group_size=25, **options)
    return out.getvalue()


def _npy() -> bytes:
    out = io.BytesIO()
    np.save(out, np.column_stack([np.arange(ROWS) * 0.1, np.arange(ROWS) % 2]))
    return out.getvalue()


def _npz() -> bytes:
    out, codes = io.BytesIO(), np.arange(ROWS)
    np.savez(out, X=np.column_stack([codes * 0.1, codes % 7]), y=np.array(["no", "yes"])[codes % 2])
    return out.getvalue()


def _csr() -> bytes:
    out = io.BytesIO()
    matrix = sparse.random(ROWS, 9, 0.4, "csr", random_state=0)
    np.savez_compressed(
        out, data=matrix.data, indices=matrix.indices, indptr=matrix.indptr, shape=matrix.shape,
        format=b"csr", y=np.arange(ROWS) % 2, weight=np.ones(ROWS),
    )  # fmt: skip
    return out.getvalue()


def _zst(raw: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(raw)
    return out.getvalue().to_pybytes()


#: What a file is called, and its bytes.
FILES: dict[str, Callable[[], bytes]] = {
    "words.csv": _csv,
    "words.tsv": lambda: _csv("\t", ""),
    "numbers.csv": _numbers,
    "rows.svm": _libsvm,
    "rows.vw": _vw,
    "rows.jsonl": _jsonl,
    "rows.parquet": _parquet,
    "plain.parquet": lambda: _parquet(compression="none", use_dictionary=False),
    "rows.arrow": lambda: _ipc("file"),
    "stream.arrows": lambda: _ipc("stream"),
    "packed.feather": lambda: _ipc("file", compression="zstd"),
    "rows.npy": _npy,
    "dense.npz": _npz,
    "sparse.npz": _csr,
    "words.csv.gz": lambda: gzip.compress(_csv(), mtime=0),
    "rows.jsonl.bz2": lambda: bz2.compress(_jsonl()),
    "rows.svm.xz": lambda: lzma.compress(_libsvm()),
    "numbers.csv.zst": lambda: _zst(_numbers()),
    "rows.arrow.gz": lambda: gzip.compress(_ipc("file"), mtime=0),
}
#: Text in which a row is a line, whatever else is in it.
BY_LINES = ("rows.svm", "rows.vw", "rows.jsonl")
