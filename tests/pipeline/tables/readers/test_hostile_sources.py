"""Files made to fill memory, and labels made to fill a manifest: refused early, in so many words."""

import bz2
import gzip
import io
import lzma
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fewpass.pipeline.budget import Budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring.prediction_files import defused
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.ingest import label_counts, mapping
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.tables.readers import Expected, open_source, streams

MEMORY = 128_000_000
LINE = (MEMORY - 96_000_000) // 16


def plan(source, dataset, **settings):
    return IngestPlan(sources=(str(source),), dataset=str(dataset), memory=MEMORY, **settings)


@pytest.fixture
def counted(monkeypatch):
    """Bytes that were decompressed."""
    taken = [0]

    def counting(kind):
        class Counting(kind):
            def readinto(self, buffer):
                found = super().readinto(buffer)
                taken[0] += found
                return found

        return Counting

    monkeypatch.setattr(gzip, "GzipFile", counting(gzip.GzipFile))
    monkeypatch.setattr(pa, "CompressedInputStream", counting(pa.CompressedInputStream))
    monkeypatch.setattr(streams, "_Xz", counting(streams._Xz))
    return taken


@pytest.mark.parametrize("name", ["zeros.svm.gz", "zeros.csv.gz", "zeros.svm.bz2", "zeros.csv.xz"])
@pytest.mark.parametrize("before", [b"", b"1,2\n" * 10])
def test_a_compressed_file_of_zeros_is_refused_within_the_memory(tmp_path, counted, name, before):
    pack = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}[name[-3:].strip(".")]
    options = {"label": 0} if "csv" in name else {}
    content = before if "csv" in name else before.replace(b",", b" 1:")
    (tmp_path / name).write_bytes(pack(content + bytes(64 << 20)))
    assert (tmp_path / name).stat().st_size < 100_000
    with pytest.raises(BadInput, match=rf"{name}: a line is longer than the 2 MB that.*`memory`"):
        ingest(plan(tmp_path / name, tmp_path / "set", options=options))
    assert 0 < counted[0] < (12 << 20) + 3 * LINE


def test_a_line_may_be_as_long_as_there_is_room_for(tmp_path):
    path = tmp_path / "one.svm"
    path.write_text("1 " + " ".join(f"{j + 1}:1" for j in range(50_000)) + "\n-1 1:1\n")
    size = path.read_text().index("\n") + 1
    for longest in (size - 1, size - 2):  # behind the first byte, which is a piece's own
        source = open_source(
            [str(path)], SourceOptions(), None, Expected(budget=Budget(16 * longest, 16 * longest))
        )
        if longest == size - 1:
            assert [source.parse(p).table.n_rows for p in source.pieces(1)] == [1, 1]
        else:
            with pytest.raises(BadInput, match="a line is longer than"):
                list(source.pieces(1))


def test_blank_lines_take_no_room_for_rows(tmp_path):
    d = 1000
    path = tmp_path / "blank.csv"
    rows = [",".join(["1"] * d), ",".join(["0"] * d)]
    path.write_text("\n".join([*rows, "\n" * 4_000_000]))
    source = open_source([str(path)], SourceOptions(label=0))
    (piece,) = source.pieces(1 << 23)
    table = source.parse(piece).table
    assert table.n_rows == 2
    assert table.X.base is None or table.X.base.nbytes < 1 << 25


def test_an_archive_of_zeros_is_refused_by_its_headers(tmp_path):
    def header(shape, descr="<f8"):
        out = io.BytesIO()
        about = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(out, about)
        return out.getvalue() + bytes(1 << 20)

    def archive(**arrays):
        with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as file:
            for name, content in arrays.items():
                file.writestr(f"{name}.npy", content)
        return tmp_path / "bomb.npz"

    with pytest.raises(BadInput, match=r"array X has rows of 8 GB, where the memory has room for"):
        ingest(plan(archive(X=header((2, 10**9)), y=header((2,))), tmp_path / "set"))
    with pytest.raises(BadInput, match=r"array y holds words of 400 MB"):
        ingest(plan(archive(X=header((2, 3)), y=header((2,), "<U100000000")), tmp_path / "set"))
    (tmp_path / "wide.npy").write_bytes(header((2, 10**9)))
    with pytest.raises(BadInput, match=r"wide\.npy has rows of 8 GB"):
        ingest(plan(tmp_path / "wide.npy", tmp_path / "set"))


# -- labels ---------------------------------------------------------------------------------------


def test_a_huge_label_is_refused_by_its_line(tmp_path):
    long = "x" * 1_000_000
    (tmp_path / "long.csv").write_text("y,a\n" + "no,1\n" * 100_000 + f"{long},2\n" + "no,1\n")
    with pytest.raises(BadInput, match=r"long\.csv.*a label of 1,000,000 characters, at most 1024"):
        ingest(plan(tmp_path / "long.csv", tmp_path / "set"))
    (tmp_path / "first.csv").write_text(f"y,a\n{long},2\nno,1\n")
    with pytest.raises(
        BadInput, match=r"first\.csv, row 2: the target in column 'y' is 'x{40}\.\.\."
    ):
        ingest(plan(tmp_path / "first.csv", tmp_path / "set"))
    (tmp_path / "long.svm").write_text(f"1 1:1\n{long} 1:1\n")
    with pytest.raises(BadInput, match=r"line 2: 'x{40}\.\.\.' stands where the label should"):
        ingest(plan(tmp_path / "long.svm", tmp_path / "set"))
    pq.write_table(pa.table({"y": ["no", long], "a": [1.0, 2.0]}), tmp_path / "long.parquet")
    with pytest.raises(BadInput, match="a label of 1,000,000 characters"):
        ingest(plan(tmp_path / "long.parquet", tmp_path / "set"))


@pytest.mark.parametrize("words", [True, False])
def test_too_many_labels_are_refused_before_all_is_read(tmp_path, monkeypatch, words):
    monkeypatch.setattr(mapping, "PIECE_BYTES", 10_000)
    monkeypatch.setattr(label_counts, "MOST_LABELS", 1000)
    rows, read = 20_000, [0]
    labels = (f"user{k}" if words else k for k in range(rows))
    (tmp_path / "ids.csv").write_text("y,a\n" + "".join(f"{label},1\n" for label in labels))

    def count(progress):
        read[0] = progress.bytes_read

    with pytest.raises(BadInput, match="ore than 1000 distinct labels"):
        ingest(plan(tmp_path / "ids.csv", tmp_path / "set", task="classification"), progress=count)
    assert read[0] < 50_000


def test_all_labels_together_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(label_counts, "MOST_CHARACTERS", 5000)
    labels = (f"{k:01000d}x" for k in range(10))
    (tmp_path / "y.csv").write_text("y,a\n" + "".join(f"{label},1\n" for label in labels))
    with pytest.raises(BadInput, match="more than 5,000 characters of them"):
        ingest(plan(tmp_path / "y.csv", tmp_path / "set"))


@pytest.mark.parametrize(
    ("label", "cell"),
    [
        ("=1+2", "'=1+2"),
        ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
        ("-2+3", "'-2+3"),
        ("@SUM(A1)", "'@SUM(A1)"),
        ("\t=1", "'\t=1"),
        ("＝1", "'＝1"),
        ("-inf", "'-inf"),
        ("-1", "-1"),
        ("+1.5e-3", "+1.5e-3"),
        ("spam", "spam"),
        ("a=b", "a=b"),
        ("", ""),
    ],
)
def test_text_that_a_spreadsheet_would_run_is_defused_and_numbers_stay(label, cell):
    assert defused(label) == cell


@pytest.mark.parametrize("name", ["rows.arrow", "rows.arrows", "rows.parquet"])
@pytest.mark.parametrize("is_inner", [False, True])
def test_a_column_whose_name_is_no_text_is_refused_by_the_file(tmp_path, name, is_inner):
    cells = [{"odd name": k} for k in range(5)] if is_inner else range(5)
    table = pa.table({"a" if is_inner else "odd name": cells, "y": range(5)})
    path, new = tmp_path / name, pa.ipc.new_stream if name[-1] == "s" else pa.ipc.new_file
    if name.endswith("parquet"):
        pq.write_table(table, path, store_schema=False)
    else:
        with new(str(path), table.schema) as out:
            out.write_table(table)
    path.write_bytes(path.read_bytes().replace(b"odd name", b"odd \xe1ame"))
    with pytest.raises(BadInput, match=rf"{name}: .*utf-8.*anew\."):
        open_source([str(path)], SourceOptions(label="y"))


@pytest.mark.parametrize("text", ["x,z,y\n1,2,3\n1\r2,3\n\r,4,5,6\n"])
def test_a_line_that_holds_a_carriage_return_alone_is_told_by_its_file(tmp_path, text):
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    with pytest.raises(BadInput, match=r"rows\.csv"):
        source = open_source([str(path)], SourceOptions(label="y"))
        for piece in source.pieces(1 << 20):
            source.parse(piece)
