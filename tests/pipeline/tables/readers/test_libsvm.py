"""LIBSVM text: equal to scikit-learn on good files, a sentence with file and line on bad ones."""

import bz2
import gzip
import io
import lzma
from concurrent.futures import ThreadPoolExecutor

import fsspec
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_svmlight_file

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import open_source
from fewpass.pipeline.tables.readers.libsvm_kernel import LibsvmRules, LibsvmSpace, parse_rows
from fewpass.pipeline.tables.readers.source import LISTED
from fewpass.storage.table import concatenate


def read(specs, piece_bytes=1 << 22, **options):
    source = open_source([str(spec) for spec in specs], SourceOptions(**options))
    parsed = [source.parse(piece) for piece in source.pieces(piece_bytes)]
    return concatenate([part.table for part in parsed]), parsed


def matrix(table, width):
    return csr_matrix((table.data, table.indices, table.indptr), (table.n_rows, width))


def write(folder, text, name="some.svm"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refusal(folder, text, piece_bytes=1 << 20, **options):
    path = write(folder, text)
    with pytest.raises(BadInput) as caught:
        read([path], piece_bytes, **options)
    message = str(caught.value)
    assert str(path) in message
    return message


@pytest.mark.parametrize(
    ("name", "piece_bytes"),
    [
        ("a9a.xz", 5000),
        ("phishing.svm.xz", 100_000),
        pytest.param("reuters/reuters.trn.bz2", 100_000, marks=pytest.mark.public_data),
        pytest.param("sector/sector.scale.bz2", 10**6, marks=pytest.mark.public_data),
    ],
)
def test_equal_to_scikit_learn(data_file, name, piece_bytes):
    path = data_file(name)
    opener = lzma if name.endswith("xz") else bz2
    X, y = load_svmlight_file(io.BytesIO(opener.open(path).read()))
    table, parsed = read([path], piece_bytes, dtype="float64")
    assert np.array_equal(table.target, y)
    assert max(part.max_index for part in parsed) + 1 == X.shape[1]
    X.eliminate_zeros()
    ours = matrix(table, X.shape[1])
    assert np.array_equal(ours.indptr, X.indptr)
    assert np.array_equal(ours.indices, X.indices)
    assert np.array_equal(ours.data, X.data)


def test_float32_is_the_double_rounded_once_more(tmp_path):
    path = tmp_path / "tumours.svm"
    dump_svmlight_file(*load_breast_cancer(return_X_y=True), str(path), zero_based=False)
    double, _ = read([path], dtype="float64")
    single, _ = read([path])
    assert single.data.dtype == np.float32
    assert np.array_equal(single.data, double.data.astype(np.float32))


def test_everything_the_format_allows(tmp_path):
    text = (
        b"\xef\xbb\xbf# a comment line\r\n"
        b"+1 1:0.5 3:-2e-1 # rest: 9:9\r\n"
        b"\n"
        b"-1\t qid:3  2:1. \t 7:+.5#x\n"
        b"   \t\r\n"
        b"1e0 5:0 6:-0\n"
        b"1.5\n"
        b"2 3:1 3:2.5 4:12345678901234567890123 5:1e-400"
    )
    table, parsed = read([write(tmp_path, text)], dtype="float64")
    assert table.target.tolist() == [1, -1, 1, 1.5, 2]
    assert np.diff(table.indptr).tolist() == [2, 2, 0, 0, 2]
    assert table.indices.tolist() == [0, 2, 1, 6, 2, 3]
    assert table.data.tolist() == [0.5, -0.2, 1, 0.5, 3.5, 12345678901234567890123.0]
    assert parsed[0].max_index == 6
    assert parsed[0].labels is None
    assert table.weight is None
    assert table.indices.dtype == np.int32


def test_zero_based_and_fixed_width(tmp_path):
    path = write(tmp_path, "1 0:5 3:6\n")
    table, _ = read([path], zero_based=True, n_features=4)
    assert table.indices.tolist() == [0, 3]
    with pytest.raises(BadInput, match=r"line 1: '3:6' lies beyond the 3 features"):
        read([path], zero_based=True, n_features=3)


def test_indices_past_32_bits(tmp_path):
    table, parsed = read([write(tmp_path, "1 7:1 3000000000:2\n-1 4:1\n")])
    assert table.indices.dtype == np.int64
    assert table.indices.tolist() == [6, 2_999_999_999, 3]
    assert parsed[0].max_index == 2_999_999_999


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("1 0:1 2:1", r"found index 0 in '0:1'.*`zero_based=true`"),
        ("1 3:1 2:1", r"'2:1' has a smaller index.* Sort"),
        ("1 1:nan", r"the value in '1:nan' is missing.*`missing=zero`"),
        ("1 1:inf", r"the value in '1:inf' is not finite in float32"),
        ("1 1:1e39", r"the value in '1:1e39' is not finite in float32"),
        ("1 1:1e400", r"the value in '1:1e400' is not finite"),
        ("nan 1:1", r"the label is 'nan', a finite number was expected"),
        ("-inf 1:1", r"the label is '-inf'"),
        ("1e999 1:1", r"the label is '1e999'"),
        ("1 5", r"found '5', expected index:value"),
        ("1 5 :2", r"found '5', expected index:value"),
        ("1 5: 2", r"the value in '5:' is not a number"),
        ("1 :2", r"found ':2', expected index:value"),
        ("1 a:2", r"found 'a:2', expected index:value"),
        ("1 -1:2", r"found '-1:2', expected index:value"),
        ("1 1.5:2", r"found '1.5:2', expected"),
        ("1 1:2x", r"the value in '1:2x' is not a number"),
        ("1 1:0x10", r"the value in '1:0x10' is not a number"),
        ("1 1:2:3", r"the value in '1:2:3' is not a number"),
        ("1 1:1_0", r"'1:1_0' is not a number"),
        ("1 qid:x 1:2", r"found 'qid:x', expected"),
        ("1,2 3:4", r"several labels, '1,2'"),
        ("3:4 5:6", r"begins with '3:4', a label was expected"),
        ("spam 1:2", r"'spam' stands where the label should"),
        ("1x 1:2", r"'1x' stands where the label should"),
        ("1 99999999999999999999:1", r"beyond the 10\^18 features"),
        ("1 1:\x00\x01", r"'1:\\x00\\x01' is not a number\. This does not look like text"),
        ("\u00e9 1:1", r"stands where the label should.*does not look like text"),
    ],
)
def test_bad_rows_are_refused_or_skipped(tmp_path, line, fact):
    text = "# one\n+1 1:1 2:2\n\n" + line + "\n-1 1:3\n"
    for piece_bytes in (1, 1 << 20):
        with pytest.raises(BadInput, match=r"some\.svm, line 4: .*" + fact):
            read([write(tmp_path, text)], piece_bytes)
    table, parsed = read([tmp_path / "some.svm"], on_bad_row="skip")
    assert table.target.tolist() == [1, -1]
    assert table.data.tolist() == [1, 2, 3]
    assert table.indices.tolist() == [0, 1, 0]
    assert parsed[0].n_skipped == 1
    assert parsed[0].skipped[0].line == 4
    assert parsed[0].skipped[0].file == str(tmp_path / "some.svm")
    assert parsed[0].max_index == 1


def test_missing_values_may_be_zeros(tmp_path):
    table, _ = read([write(tmp_path, "1 1:nan 2:3\n")], missing="zero")
    assert table.indices.tolist() == [1]


def test_all_skipped_rows_are_counted_and_the_first_listed(tmp_path):
    table, parsed = read([write(tmp_path, "1 1:x\n" * 250 + "1 1:1\n")], on_bad_row="skip")
    assert table.n_rows == 1
    assert parsed[0].n_skipped == 250
    assert len(parsed[0].skipped) == LISTED


def test_rows_without_labels_for_predictions(tmp_path):
    table, _ = read([write(tmp_path, "1:2 3:4\n-1 2:1\n")], label_required=False)
    assert np.isnan(table.target[0])
    assert table.target[1] == -1
    assert table.indices.tolist() == [0, 2, 1]


def test_compiled_is_what_it_says():
    text = b"1 1:2.5 2:1e3 2:4 # c\n\nspam 1:1\n-1 qid:2 3:-7.25\n2 5:0\n1:1\n"
    array = np.frombuffer(text, np.uint8)
    found = []
    for run in (parse_rows, parse_rows.py_func):
        space = LibsvmSpace(
            np.zeros(9),
            np.zeros(9, np.int32),
            np.zeros(9, np.int64),
            np.zeros(9),
            np.zeros((9, 3), np.int64),
        )
        counts = run(
            array,
            LibsvmRules(1, 100, False, False, False, 1e70),
            space,
        )
        found.append((tuple(counts), [part.tolist() for part in space]))
    assert found[0] == found[1]
    assert found[0][0] == (3, 4, 2, 1)


def test_files_that_hold_nothing(tmp_path):
    assert "the file is empty" in refusal(tmp_path, "")
    with pytest.raises(BadInput, match=r"e\.svm\.gz: the file is empty"):
        read([write(tmp_path, gzip.compress(b""), "e.svm.gz")])
    with pytest.raises(FileNotFoundError, match=r"none\.svm: no such file"):
        read([tmp_path / "none.svm"])
    with pytest.raises(FileNotFoundError, match="no file fits"):
        read([tmp_path / "*.none"])
    (tmp_path / "folder").mkdir()
    with pytest.raises(BadInput, match="is a folder without files"):
        read([tmp_path / "folder"])
    with pytest.raises(BadInput, match="No source"):
        read([])


def test_settings_that_do_not_fit(tmp_path):
    for setting in (
        {"label": "y"},
        {"drop": (1,)},
        {"weight": 0},
        {"delimiter": ","},
        {"header": True},
    ):
        with pytest.raises(BadInput, match=f"`{next(iter(setting))}` was given"):
            read([write(tmp_path, "1 1:1\n")], **setting)


def test_globs_several_files_and_formats_told_by_content(tmp_path):
    write(tmp_path, "2 1:1", "part-2")
    write(tmp_path, "1 1:1\n", "part-1")
    write(tmp_path, "3\n", "other")
    table, _ = read([tmp_path / "part-*", tmp_path / "other"])
    assert table.target.tolist() == [1, 2, 3]
    source = open_source([str(tmp_path / "part-*")])
    assert [(file.name, file.bytes) for file in source.files] == [
        (str(tmp_path / "part-1"), 6),
        (str(tmp_path / "part-2"), 5),
    ]
    write(tmp_path, "a,b\n1,2\n", "part-3.csv")
    with pytest.raises(BadInput, match="several formats"):
        read([tmp_path / "part-*"])
    with pytest.raises(BadInput, match="`format`"):
        read([write(tmp_path, "what is this\n", "odd")])
    magic = write(tmp_path, "1 [1:1\n", "glob[1].svm")
    with pytest.raises(BadInput, match=r"line 1: found '\[1:1'"):
        read([magic])


def test_remote_files_and_threads():
    store = fsspec.filesystem("memory")
    text = "".join(f"{k} {k % 90 + 1}:{k}.5\n" for k in range(20_000))
    store.pipe("/sources-test/a.svm", text.encode())
    store.pipe("/sources-test/b.svm.gz", gzip.compress(text.encode()))
    source = open_source(["memory://sources-test/*"])
    assert [file.name for file in source.files] == [
        "memory:///sources-test/a.svm",
        "memory:///sources-test/b.svm.gz",
    ]
    with ThreadPoolExecutor(4) as pool:
        parsed = list(pool.map(source.parse, source.pieces(10_000)))
    table = concatenate([part.table for part in parsed])
    assert table.target.tolist() == [*range(20_000), *range(20_000)]
    assert table.data.tolist() == (np.tile(np.arange(20_000), 2) + 0.5).tolist()


@pytest.mark.parametrize(
    "name",
    ["a9a.xz", pytest.param("sector/sector.scale.bz2", marks=pytest.mark.public_data)],
)
def test_estimated_bytes(data_file, name):
    source = open_source([str(data_file(name))])
    table, _ = read([data_file(name)])
    actual = sum(part.nbytes for part in table[:4])
    assert 0.7 * actual < source.estimated_bytes() < 1.4 * actual


def test_equal_indices_are_added_up_and_counted(tmp_path):
    path = tmp_path / "double.svm"
    path.write_text("1 1:2 1:3 2:0 4:1 4:1 4:-1\n-1 2:1 3:1\n1 7:1 7:1\nbad 1:1 1:1\n")
    source = open_source([str(path)], SourceOptions(on_bad_row="skip"))
    (piece,) = source.pieces(1 << 20)
    parsed = source.parse(piece)
    assert parsed.n_merged == 1 + 2 + 1  # none of the row that was skipped
    assert parsed.table.data.tolist() == [5, 1, 1, 1, 2]
    assert parsed.table.indices.tolist() == [0, 3, 1, 2, 6]
