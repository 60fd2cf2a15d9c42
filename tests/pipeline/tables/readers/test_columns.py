"""CSV, Parquet, NPY and NPZ: the same rows from all of them, and the same refusals by column and row."""

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csr_matrix, random_array, save_npz

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.readers import open_source
from fewpass.storage.table import concatenate

KDD = "kddcup99_10pct/kddcup.data_10_percent.gz"


def read(specs, piece_bytes=1 << 22, **options):
    source = open_source(
        [str(spec) for spec in specs], SourceOptions(**{"encode": "none"} | options)
    )
    parsed = [source.parse(piece) for piece in source.pieces(piece_bytes)]
    table = concatenate([part.table for part in parsed])
    if source.n_features is not None and source.layout == "dense":
        assert table.X.shape[1] == source.n_features == parsed[0].max_index + 1
    assert source.has_weight == (table.weight is not None)
    return table, parsed


def labels(parsed):
    return [part.labels[int(code)] for part in parsed for code in part.table.target]


def write(folder, text, name="some.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def refused(specs, match, **options):
    with pytest.raises(BadInput, match=match):
        read(specs, **options)


# --- CSV ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rows", "normal"),
    [
        ("kddcup99.csv.gz", 3000, 557),
        pytest.param(KDD, 494_021, 97_278, marks=pytest.mark.public_data),
    ],
)
def test_csv_words_of_real_data(data_file, name, rows, normal):
    path = data_file(name)
    refused(
        [path],
        r"row 1: column 1 \(counting from 0\) holds 'tcp', a number was expected\. .*`drop=1`",
        label=-1,
    )
    table, parsed = read([path], 20_000_000, label="-1", drop=(1, 2, 3))
    assert table.X.shape == (rows, 38)
    words = np.array(labels(parsed[:1]))
    assert set(words) <= {label for part in parsed for label in part.labels}
    assert sum((np.array(labels([part])) == "normal.").sum() for part in parsed) == normal


def test_everything_that_csv_allows(tmp_path):
    text = (
        '\ufeffid,"a, b",Target,w,c\r\n'
        "x1, 1.5 ,yes,2,-3e2\r\n"
        "\r\n"
        '"x,""2",.5,"no ""really""",0,+4\r\n'
        "x3\t,1.,yes,1.5,12345678901234567890123"
    )
    settings = {"drop": ("id",), "weight": "w", "dtype": "float64"}
    for piece_bytes in (1, 1000):
        table, parsed = read([write(tmp_path, text)], piece_bytes, **settings)
        assert table.X.tolist() == [[1.5, -300], [0.5, 4], [1, 12345678901234567890123.0]]
        assert labels(parsed) == ["yes", 'no "really"', "yes"]
        assert table.weight.tolist() == [2, 0, 1.5]
    assert open_source(
        [str(tmp_path / "some.csv")], SourceOptions(**settings)
    ).schema.feature_names == (
        "a, b",
        "c",
    )


def test_delimiter_and_header_are_told_or_given(tmp_path):
    for text, settings in [
        ("y;a\n1;2\n", {}),
        ("y\ta\n1\t2\n", {}),
        ("y a\n1 2\n", {"delimiter": " "}),
        ("1,2\n", {"label": 0}),
        ("7,8\n1,2\n", {"label": 0, "header": True}),
        ("2|1\n", {"label": -1}),
    ]:
        table, _ = read([write(tmp_path, text)], **settings)
        assert (table.target.tolist(), table.X.tolist()) == ([1], [[2]]), text
    refused(
        [write(tmp_path, "y,a\n1,2\n")],
        "row 1: column [01] .*holds '[ya]'.*`header=true`",
        header=False,
        label=0,
    )


@pytest.mark.parametrize(
    ("row", "fact"),
    [
        ("1,2,3", r"the row has 3 cells, 4 were expected.*`delimiter`"),
        ("1,2,3,4,5", r"the row has 5 cells, 4 were expected"),
        (
            "1,2,cat,1",
            r"column 'b' holds 'cat', a number was expected\. Leave the column out \(`drop='b'`\)",
        ),
        ("1,2,3x,1", r"column 'b' holds '3x'"),
        ("1,,3,1", r"the value in column 'a' is missing\. .*`missing=zero`"),
        ("1,?,3,1", r"column 'a' is missing"),
        ("1,n/A,3,1", r"column 'a' is missing"),
        ("1,NaN,3,1", r"column 'a' is missing"),
        ("1,2,inf,1", r"the value in column 'b' is not finite in float32"),
        ("1,2,1e39,1", r"the value in column 'b' is not finite"),
        ("NULL,2,3,1", r"the target in column 'y' is missing.*Fill it in"),
        ("yes,2,3,1", r"the target in column 'y' is 'yes', a number was expected"),
        ("1,2,3,-1", r"the weight in column 'w' is '-1', a number from 0 to 1e\+100 was expected"),
        ("1,2,3,1e101", r"the weight in column 'w' is '1e101', a number from 0 to 1e\+100 was"),
        ("1,2,3,", r"the weight in column 'w' is missing, a number from 0 to 1e"),
        ('1,2,"3"x,1', r"column 'b' holds '3x'"),
        ("1,2,\x02\x01,1", r"column 'b' holds '\\x02\\x01'"),
    ],
)
def test_bad_csv_rows_are_refused_or_skipped(tmp_path, row, fact):
    path = write(tmp_path, f"y,a,b,w\n1,2,3,4\n\n{row}\n5,6,7,8\n")
    for piece_bytes in (1, 1000):
        with pytest.raises(BadInput, match=r"some\.csv, row 3: .*" + fact):
            read([path], piece_bytes, weight="w", quote="double")
    table, parsed = read([path], weight="w", quote="double", on_bad_row="skip")
    assert table.X.tolist() == [[2, 3], [6, 7]]
    assert table.target.tolist() == [1, 5]
    assert table.weight.tolist() == [4, 8]
    assert (parsed[0].n_skipped, parsed[0].skipped[0].line) == (1, 3)


def test_columns_that_cannot_be_used(tmp_path):
    path = write(tmp_path, "y,a,a,label\n1,2,3,4\n")
    refused([path], "it could be any of 'y', 'label'")
    refused([path], "2 columns are named 'a', `drop` means one", label="y", drop=("a",))
    refused([path], "no column 4, which `label` names", label=4)
    refused([path], "is label and weight", label="y", weight=0)
    refused([path], "is also dropped", label="y", drop=(0,))
    refused([path], "no feature is left", label="y", drop=(1, 2, 3))
    refused([path], "2 columns are named 'a'. Give each a name of its own", label="y")
    refused([path], "2 feature columns, but 5 were asked for", label="y", drop=(1,), n_features=5)
    other = write(tmp_path, "y,b,a,label\n1,2,3,4\n", "other.csv")
    refused(
        [path, other], r"other\.csv: its columns differ.*: it has 'b' besides", label="y", drop=(1,)
    )


def test_csv_without_targets_for_predictions(tmp_path):
    path = write(tmp_path, "a,b\n1,2\n")
    table, _ = read([path], label_required=False, label="outcome")
    assert table.X.tolist() == [[1, 2]]
    assert np.isnan(table.target).all()
    path = write(tmp_path, "a,y\n1,no\n2,NA\n3,yes\n")
    refused([path], r"row 3: the target in column 'y' is missing or not finite\. Fill it in")
    partly, parsed = read([path], label_required=False)
    assert partly.X.tolist() == [[1], [2], [3]]
    assert np.isnan(partly.target).tolist() == [False, True, False]
    assert parsed[0].labels == ("no", "yes")


# --- Parquet -----------------------------------------------------------------------------------


def parquet(folder, name="some.parquet", rows_per_group=3, **columns):
    path = folder / name
    pq.write_table(pa.table(columns), path, row_group_size=rows_per_group)
    return path


def test_parquet_of_many_types(tmp_path):
    path = parquet(
        tmp_path,
        a=pa.array([1, 2, 3, 4], pa.int16()),
        b=pa.array([True, False, True, True]),
        c=pa.array([0.5, 1e-3, -2, 7], pa.float32()),
        y=pa.array(["no", "yes", "no", "yes"]).dictionary_encode(),
        w=[1, 2, 3, 0],
    )
    for piece_bytes in (1, 10**6):
        table, parsed = read([path, path], piece_bytes, weight="w")
        one = [[1, 1, 0.5], [2, 0, np.float32(1e-3)], [3, 1, -2], [4, 1, 7]]
        assert table.X.tolist() == one + one
        assert labels(parsed) == ["no", "yes", "no", "yes"] * 2
        assert table.weight.tolist() == [1, 2, 3, 0] * 2
    source = open_source([str(path)], SourceOptions(weight="w"))
    assert source.schema.feature_names == ("a", "b", "c")
    assert source.estimated_bytes() == 4 * (3 * 4 + 16)


@pytest.mark.parametrize("encode", ["none", "auto"])
def test_a_store_gives_the_pieces_that_a_disk_gives(encode, tmp_path):
    """Rows of row groups that are asked for one by one are cut as those of a whole file are."""
    words = pa.array(["red", "green", None, "blue"] * 25).dictionary_encode()
    path = parquet(
        tmp_path,
        a=np.arange(100.0),
        kind=np.ones(100) if encode == "none" else words,
        y=["no", "yes"] * 50,
        rows_per_group=7,
    )
    fs = fsspec.filesystem("memory")
    fs.pipe("/rows.parquet", path.read_bytes())
    for piece_bytes in (1, 8 * 3 * 5, 8 * 3 * 30, 10**6):
        found = []
        for place in (path, "memory://rows.parquet"):
            source = open_source([str(place)], SourceOptions(label="y", encode=encode))
            pieces = list(source.pieces(piece_bytes))
            tables = [source.parse(piece).table for piece in pieces]
            found.append((pieces, tables))
        (here, mine), (there, others) = found
        assert [piece.first_line for piece in here] == [piece.first_line for piece in there]
        for one, other in zip(mine, others, strict=True):
            for left, right in zip(one, other, strict=True):
                np.testing.assert_array_equal(left, right)
    fs.rm("/rows.parquet")


def test_bad_parquet(tmp_path):
    good = {"a": [1.0, 2, 3, 4], "y": [0.0, 1, 0, 1], "w": [1.0, 1, 1, 1]}

    def bad(match, settings=None, **change):
        refused([parquet(tmp_path, **(good | change))], match, weight="w", **(settings or {}))

    bad(r"row 4: the value in column 'a' is missing.*`missing=zero`", a=[1, 2, 3, None])
    bad(r"row 2: the value in column 'a' is missing", a=[1, float("nan"), 3, 4])
    bad(r"row 3: the value in column 'a' is not finite in float32", a=[1, 2, 1e39, 4])
    bad(r"row 1: the target in column 'y' is missing", y=[None, 1, 0, 1])
    bad(r"row 2: the target in column 'y' is missing or not finite", y=[0, float("inf"), 0, 1])
    bad(r"row 4: the weight in column 'w' is '?-1", w=[1, 1, 1, -1])
    bad(
        r"row 1: column 'city' holds string values, numbers were expected.*`drop='city'`",
        city=list("abcd"),
    )
    bad("the label, column 'y', holds list", y=[[1], [2], [3], [4]])
    bad("setting for text", {"delimiter": ","})
    path = parquet(tmp_path, **(good | {"a": [1, None, 3, None]}))
    table, parsed = read([path], on_bad_row="skip", drop=("w",))
    assert table.X.tolist() == [[1], [3]]
    assert [row.line for row in parsed[0].skipped] == [2, 4]
    assert read([path], missing="zero", drop=("w",))[0].X.tolist() == [[1], [0], [3], [0]]
    content = path.read_bytes()
    refused(
        [write(tmp_path, content[:-9], "cut.parquet")],
        r"cut\.parquet: the file is not whole Parquet",
    )
    other = parquet(tmp_path, "other.parquet", b=[1.0], y=[0.0], w=[1.0])
    refused(
        [path, other], r"other\.parquet: its columns differ.*: it lacks 'a' and has 'b'", weight="w"
    )


# --- NPY and NPZ -------------------------------------------------------------------------------


def saved(folder, array, name="some.npy"):
    np.save(folder / name, array)
    return folder / name


def test_npy(tmp_path, rng):
    array = rng.standard_normal((100, 4))
    path = saved(tmp_path, array)
    for piece_bytes in (1, 1000, 10**6):
        table, _ = read([path], piece_bytes, dtype="float64")
        assert np.array_equal(table.X, array[:, :3])
        assert np.array_equal(table.target, array[:, 3])
    table, _ = read([path], label=0, weight=-1, drop=(1,), dtype="float64", on_bad_row="skip")
    kept = array[array[:, 3] >= 0]
    assert np.array_equal(table.X, kept[:, [2]])
    assert np.array_equal(table.weight, kept[:, 3])
    everything, _ = read([path], label_required=False)
    assert everything.X.shape == (100, 4)
    assert np.isnan(everything.target).all()
    assert open_source([str(path)]).estimated_bytes() == 100 * (3 * 4 + 8)
    integers, _ = read([saved(tmp_path, np.array([[1, 2], [3, 4]], np.uint8), "i.npy")])
    assert (integers.X.tolist(), integers.target.tolist()) == ([[1], [3]], [2, 4])


def test_bad_npy(tmp_path):
    array = np.ones((5, 3))
    array[3, 1] = np.nan
    refused(
        [saved(tmp_path, array)],
        r"some\.npy, row 4: the value in column 1 \(counting from 0\) is missing",
    )
    refused(
        [saved(tmp_path, np.asfortranarray(np.ones((5, 3))))],
        "stored column by column.*ascontiguousarray",
    )
    refused([saved(tmp_path, np.ones(5))], r"shape \(5,\), a matrix of numbers was expected")
    refused([saved(tmp_path, np.ones((0, 3)))], "no rows or no columns")
    refused([saved(tmp_path, np.array([[{}, 1]], object))], "holds object values")
    content = saved(tmp_path, np.ones((5, 3))).read_bytes()
    refused(
        [write(tmp_path, content[:-8], "cut.npy")],
        r"cut\.npy: the array of shape \(5, 3\) ends before its last row",
    )
    refused([write(tmp_path, content[:30], "cut.npy")], r"cut\.npy: it is not a NumPy array")
    wide = saved(tmp_path, np.ones((5, 4)), "wide.npy")
    refused([saved(tmp_path, np.ones((5, 3))), wide], "different widths: 3, 4")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_dense_npz(tmp_path, rng, save):
    X, weight = rng.standard_normal((50, 3)), rng.random(50)
    y = np.array(["spam", "ham"])[rng.integers(0, 2, 50)]
    path = tmp_path / "some.npz"
    save(path, X=X, y=y, weight=weight)
    for piece_bytes in (1, 500, 10**6):
        table, parsed = read([path], piece_bytes, dtype="float64")
        assert np.array_equal(table.X, X)
        assert labels(parsed) == y.tolist()
        assert np.array_equal(table.weight, weight)


def test_sparse_npz(tmp_path):
    matrix = csr_matrix(random_array((40, 30), density=0.2, rng=np.random.default_rng(1)))
    parts = {
        "data": matrix.data,
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "shape": matrix.shape,
    }
    path = tmp_path / "some.npz"
    np.savez(path, format=b"csr", y=np.arange(40), **parts)
    for piece_bytes in (1, 200, 10**6):
        table, parsed = read([path], piece_bytes, dtype="float64")
        assert (csr_matrix((table.data, table.indices, table.indptr), (40, 30)) != matrix).nnz == 0
        assert table.target.tolist() == list(range(40))
        assert max(part.max_index for part in parsed) == matrix.indices.max()
    assert open_source([str(path)]).n_features == 30
    scrambled = {
        "data": np.array([1.0, 2, 3, 0]),
        "indices": np.array([2, 0, 2, 1]),
        "indptr": np.array([0, 4]),
    }
    np.savez(path, format=b"csr", y=[1.0], shape=(1, 3), **scrambled)
    table, _ = read([path])
    assert (table.indices.tolist(), table.data.tolist()) == ([0, 2], [2, 4])
    save_npz(path, matrix)
    assert np.isnan(read([path], label_required=False)[0].target).all()
    refused([path], r"some\.npz holds no array y")


def test_bad_npz(tmp_path):
    path = tmp_path / "some.npz"

    def bad(match, settings=None, **arrays):
        np.savez(path, **arrays)
        refused([path], match, **(settings or {}))

    X, y = np.ones((4, 2)), np.ones(4)
    csr = {
        "data": np.ones(2),
        "indices": np.array([0, 1]),
        "indptr": np.array([0, 1, 2]),
        "shape": (2, 2),
        "format": b"csr",
    }
    two = np.ones(2)
    bad(r"some\.npz holds the arrays a; X, or the parts", a=X)
    bad("y has shape", X=X, y=y[:3])
    bad("row 1: the target is missing", X=X, y=y * np.nan)
    bad("row 1: the value in column 0 of X is missing", X=X * np.nan, y=y)
    bad("holds object values", X=X, y=y.astype(object))
    bad("2 columns, but 3 were asked for", {"n_features": 3}, X=X, y=y)
    bad("`label` was given", {"label": 0}, X=X, y=y)
    bad("holds a csc matrix", **(csr | {"format": b"csc"}), y=two)
    bad("do not fit its shape", **(csr | {"indptr": np.array([0, 2])}), y=two)
    bad("indptr: its numbers do not ascend", **(csr | {"indptr": np.array([0, 2, 1])}), y=two)
    bad("indptr: its numbers do not ascend", **(csr | {"indptr": np.array([0, 1, 9])}), y=two)
    bad(
        r"row 2: index 5 lies outside the 2 columns", **(csr | {"indices": np.array([0, 5])}), y=two
    )
    bad(
        r"row 2: a value is missing or not finite", **(csr | {"data": np.array([1, np.inf])}), y=two
    )
    np.savez(path, X=X, y=y)
    refused(
        [write(tmp_path, path.read_bytes()[:-50], "cut.npz")], r"cut\.npz: the archive is damaged"
    )
    broken = bytearray(path.read_bytes())
    broken[len(broken) // 4] ^= 255
    refused([write(tmp_path, bytes(broken), "broken.npz")], r"broken\.npz")
