"""Small files that ask for much memory: one for each way in which a format lets them."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

MB = 1_000_000
Writer = Callable[[Path], None]


class Shape(NamedTuple):
    """A file that is hard on memory.

    Attributes
    ----------
    name
        Of the file; its end tells the format.
    write
        Writes it.
    plain
        Writes a small file of the same kind: what reading it takes is taken for the libraries.
    labelled
        Whether a column `y` has to be named as the label.
    at_once
        Megabytes of the largest part that pyarrow decodes at once, which comes on top of the budget.
    """

    name: str
    write: Writer
    plain: Writer
    labelled: bool = True
    at_once: int = 0


# -- text --------------------------------------------------------------------------------------


def _lines(lines: Iterable[str]) -> Writer:
    def write(path: Path) -> None:
        with path.open("w") as out:
            out.writelines(f"{line}\n" for line in lines)

    return write


def _of(make: Callable[[], Iterable[str]]) -> Writer:
    return lambda path: _lines(make())(path)


def _table(cell: Callable[[int], str], n: int = 200) -> Writer:
    return _of(lambda: ["x,y", *(f"{cell(k)},{'ab'[k % 2]}" for k in range(n))])


def _wide(d: int, n: int = 4, value: str = "1") -> Writer:
    def lines() -> Iterable[str]:
        yield ",".join([*(f"c{k}" for k in range(d)), "y"])
        for k in range(n):
            yield ",".join([value] * d) + f",{k % 2}"

    return _of(lines)


def _one_long(short: Callable[[int], str], long: Callable[[], str], n: int = 200) -> Writer:
    """Short lines, and a long one in the middle."""
    return _of(lambda: (long() if k == n // 2 else short(k) for k in range(n)))


def _svm(k: int) -> str:
    return f"{k % 2} 1:{k} 3:1"


def _vw(k: int) -> str:
    return f"{k % 2 * 2 - 1} |a x:{k} y:1"


def _object(k: int) -> str:
    return json.dumps({"x": k, "y": "ab"[k % 2]})


def _members(total: int, per_line: int) -> Writer:
    def lines() -> Iterable[str]:
        for first in range(0, total, per_line):
            row = {f"m{k}": 1.5 for k in range(first, first + per_line)}
            yield json.dumps({**row, "y": "ab"[first // per_line % 2]})

    return _of(lines)


def _packed(write: Writer, pack: Callable[[Path], io.IOBase]) -> Writer:
    def packed(path: Path) -> None:
        beside = path.with_name(f"{path.name}.plain")
        write(beside)
        with beside.open("rb") as text, pack(path) as out:
            while part := text.read(1 << 20):
                out.write(part)
        beside.unlink()

    return packed


def _gz(path: Path) -> io.IOBase:
    return gzip.open(path, "wb", 1)


def _xz(path: Path) -> io.IOBase:
    """With a dictionary of 512 MB, which whoever reads it has to have as well."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": 512 << 20}]
    return lzma.open(path, "wb", filters=filters)


def _small_xz(path: Path) -> io.IOBase:
    return lzma.open(path, "wb")


# -- Arrow -------------------------------------------------------------------------------------


def _parquet(make: Callable[[], pa.Table], **how: object) -> Writer:
    return lambda path: pq.write_table(make(), path, **how)


def _ipc(make: Callable[[], pa.Table], compression: str | None = "zstd") -> Writer:
    def write(path: Path) -> None:
        table = make()
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with pa.ipc.new_file(str(path), table.schema, options=options) as out:
            out.write_table(table)

    return write


def _labels(n: int) -> pa.Array:
    return pa.array(np.array(["a", "b"])[np.arange(n) % 2])


def _numbers(n: int = 200) -> pa.Table:
    return pa.table({"x": np.arange(n, dtype=np.float64), "y": _labels(n)})


def _words(n: int = 200) -> pa.Table:
    return pa.table({"x": [f"word {k}" for k in range(n)], "y": _labels(n)})


def _long_cell(size: int, n: int = 200) -> pa.Table:
    cells = pa.array(["x" * size if k == n // 2 else f"word {k}" for k in range(n)])
    return pa.table({"x": cells, "y": _labels(n)})


def _zeros(n: int) -> pa.Table:
    return pa.table({"x": np.zeros(n), "y": (np.arange(n) % 2).astype(np.int8)})


def _drawn(n: int) -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table({"x": rng.normal(size=n), "y": (np.arange(n) % 2).astype(np.int8)})


def _dictionary(word: int, n: int) -> pa.Table:
    words = pa.array([chr(97 + k) * word for k in range(2)])
    codes = pa.array(np.arange(n) % 2, pa.int32())
    return pa.table({"x": pa.DictionaryArray.from_arrays(codes, words), "y": _labels(n)})


def _lists(length: int, n: int, kind: str = "list") -> pa.Table:
    flat = pa.array(np.zeros(length * n, np.float32))
    if kind == "fixed":
        cells = pa.FixedSizeListArray.from_arrays(flat, length)
    else:
        cells = pa.ListArray.from_arrays(np.arange(n + 1, dtype=np.int32) * length, flat)
    return pa.table({"x": cells, "y": _labels(n)})


def _columns(d: int, n: int = 4) -> pa.Table:
    return pa.table({**{f"c{k}": np.ones(n) for k in range(d)}, "y": _labels(n)})


def _texts(n: int) -> pa.Table:
    words = [f"text {k % 97} and so on " * 100 for k in range(97)]
    return pa.table({"x": [words[k % 97] for k in range(n)], "y": _labels(n)})


# -- arrays ------------------------------------------------------------------------------------


def _npy(n: int, d: int) -> Writer:
    def write(path: Path) -> None:
        X = np.lib.format.open_memmap(path, "w+", np.float32, (n, d))
        X[:, -1] = np.arange(n) % 2

    return write


def _npz(n: int, d: int) -> Writer:
    def write(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
            for name, shape, rows in (("X", (n, d), None), ("y", (n,), np.arange(n) % 2.0)):
                with out.open(f"{name}.npy", "w", force_zip64=True) as member:
                    head = {"descr": "<f8", "fortran_order": False, "shape": shape}
                    np.lib.format.write_array_header_1_0(member, head)
                    if rows is not None:
                        member.write(rows.tobytes())
                    for _ in range(n if rows is None else 0):
                        member.write(bytes(8 * d))

    return write


# -- all of them ----------------------------------------------------------------------------------

_TEXT_ROWS = _table(lambda k: f"word {k}")
_PROSE_ROWS = _table(lambda k: f"word {k % 7} and so on " * 10)  # whose kernels are those of text
_NUMBER_ROWS = _wide(3, 200)
_SVM_ROWS, _VW_ROWS, _JSON_ROWS = (
    _of(lambda line=line: (line(k) for k in range(200))) for line in (_svm, _vw, _object)
)

SHAPES = {
    "a cell of text of 200 MB": Shape(
        "a.csv", _table(lambda k: "x" * (200 * MB) if k == 100 else f"word {k}"), _TEXT_ROWS
    ),
    "a label of 30 MB": Shape(
        "a.csv",
        _of(lambda: ["x,y", *(f"{k},{'z' * (30 * MB) if k == 150 else 'ab'[k % 2]}" for k in range(200))]),
        _of(lambda: ["x,y", *(f"{k},{'ab'[k % 2]}" for k in range(200))]),
    ),
    "300,000 columns, CSV": Shape("a.csv", _wide(300_000), _NUMBER_ROWS),
    "20,000 columns, CSV": Shape("a.csv", _wide(20_000, 40), _NUMBER_ROWS),
    "100,000 columns of words, CSV": Shape("a.csv", _wide(100_000, 4, "red"), _wide(3, 200, "red")),
    "600,000 categories of 100 characters": Shape(
        "a.csv", _table(lambda k: f"{k:0100d}x", 600_000), _TEXT_ROWS
    ),
    "text that is 150 MB unpacked, .gz": Shape(
        "a.csv.gz", _packed(_table(lambda k: f"word {k % 7} and so on " * 10, 700_000), _gz),
        _packed(_PROSE_ROWS, _gz),
    ),
    "a dictionary of 512 MB, .xz": Shape(
        "a.csv.xz", _packed(_table(lambda k: f"word {k % 7} and so on " * 10, 20_000), _xz),
        _packed(_PROSE_ROWS, _small_xz),
    ),
    "5,000,000 features in a line, LIBSVM": Shape(
        "a.svm", _one_long(_svm, lambda: "1 " + " ".join(f"{j}:1" for j in range(1, 5_000_001))),
        _SVM_ROWS, labelled=False,
    ),
    "an index of 2^31, LIBSVM": Shape(
        "a.svm", _one_long(_svm, lambda: "1 2147483647:1"), _SVM_ROWS, labelled=False
    ),
    "2,000,000 features in a line, VW": Shape(
        "a.vw", _one_long(_vw, lambda: "1 |a " + " ".join(f"w{j}" for j in range(2_000_000))),
        _VW_ROWS, labelled=False,
    ),
    "400,000 members in 4,000 lines, JSON": Shape(
        "a.jsonl", _members(400_000, 100), _JSON_ROWS
    ),
    "400,000 members in 2 lines, JSON": Shape(
        "a.jsonl", _members(400_000, 200_000), _JSON_ROWS
    ),
    "an object of 200 MB, JSON": Shape(
        "a.jsonl", _one_long(_object, lambda: json.dumps({"x": "z" * (200 * MB), "y": "a"})), _JSON_ROWS
    ),
    "a cell of 200 MB, Parquet": Shape(
        "a.parquet", _parquet(lambda: _long_cell(200 * MB)), _parquet(_words), at_once=200
    ),
    "a page of 80 MB, Parquet": Shape(
        "a.parquet",
        _parquet(lambda: _drawn(10_000_000), use_dictionary=False, data_page_size=1 << 30, max_rows_per_page=1 << 30,
                 row_group_size=25_000_000, compression="zstd", write_batch_size=1 << 26),
        _parquet(_numbers), at_once=80,
    ),
    "texts of 2 kB, Parquet": Shape(
        "a.parquet", _parquet(lambda: _texts(100_000), use_dictionary=False), _parquet(_words)
    ),
    "embeddings of 768 numbers, Parquet": Shape(
        "a.parquet", _parquet(lambda: _lists(768, 40_000)), _parquet(lambda: _lists(3, 200))
    ),
    "a row group of 200 MB, Parquet": Shape(
        "a.parquet",
        _parquet(lambda: _zeros(25_000_000), use_dictionary=False, row_group_size=25_000_000),
        _parquet(_numbers),
    ),
    "a dictionary that expands to 2 GB, Parquet": Shape(
        "a.parquet", _parquet(lambda: _dictionary(MB, 2000)), _parquet(_words)
    ),
    "lists of 2,000,000, Parquet": Shape(
        "a.parquet", _parquet(lambda: _lists(2_000_000, 60)), _parquet(lambda: _lists(3, 200))
    ),
    "30,000 columns, Parquet": Shape("a.parquet", _parquet(lambda: _columns(30_000)), _parquet(_numbers)),
    "a batch of 900 MB, compressed Arrow": Shape(
        "a.arrow", _ipc(lambda: _zeros(100_000_000)), _ipc(_numbers), at_once=900
    ),
    "a batch of 200 MB, Arrow": Shape(
        "a.arrow", _ipc(lambda: _zeros(25_000_000), None), _ipc(_numbers, None), at_once=225
    ),
    "a cell of 200 MB, Arrow": Shape(
        "a.arrow", _ipc(lambda: _long_cell(200 * MB), None), _ipc(_words, None), at_once=200
    ),
    "a dictionary that expands to 2 GB, Arrow": Shape(
        "a.arrow", _ipc(lambda: _dictionary(MB, 2000)), _ipc(lambda: _dictionary(3, 200))
    ),
    "lists of 2,000,000 of fixed size, Arrow": Shape(
        "a.arrow", _ipc(lambda: _lists(2_000_000, 60, "fixed")), _ipc(lambda: _lists(3, 200, "fixed")), at_once=480
    ),
    "300,000 columns, Arrow": Shape(
        "a.arrow", _ipc(lambda: _columns(300_000)), _ipc(_numbers), at_once=29
    ),
    "rows of 20,000,000, NPY": Shape("a.npy", _npy(4, 20_000_000), _npy(200, 4), labelled=False),
    "rows of 300,000, NPY": Shape("a.npy", _npy(100, 300_000), _npy(200, 4), labelled=False),
    "an archive of 200 MB unpacked, NPZ": Shape(
        "a.npz", _npz(25, 1_000_000), _npz(200, 4), labelled=False
    ),
    "1,000 rows of 30,000, NPZ": Shape(
        "a.npz", _npz(1_000, 30_000), _npz(200, 4), labelled=False
    ),
}  # fmt: skip
