"""Vowpal Wabbit's text: its grammar, by hand and against plain Python."""

import json
import shutil

import numpy as np
import pytest
from sklearn.utils import murmurhash3_32

from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.readers import SourceOptions, open_source
from fewpass.pipeline.tables.readers.vw import names_in, remembered_names
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import concatenate

LINES = """\
1 |words big:2 red |n price:0.5
-1 3 'tag|words red
0.5 2 0.1 tag|n:10 price:0.25
1 |a x x
"""


def read(path, piece_bytes=1 << 20, **options):
    source = open_source([str(path)], SourceOptions(**options))
    parsed = [source.parse(piece) for piece in source.pieces(piece_bytes)]
    return source, concatenate([part.table for part in parsed]), sum(p.n_merged for p in parsed)


def test_importances_that_the_first_lines_have_not_are_refused(tmp_path):
    """Where a row counts by them: rows to predict do not."""
    for name, importance in (("a.vw", ""), ("b.vw", " 1"), ("c.vw", " 3")):
        (tmp_path / name).write_text(f"1{importance} |a x\n0 |a z\n")
    first, ones, threes = (str(tmp_path / name) for name in ("a.vw", "b.vw", "c.vw"))

    def weights(*paths, **options):
        source = open_source(paths, SourceOptions(**options))
        return [source.parse(piece).table.weight for piece in source.pieces(1 << 20)]

    assert weights(first, ones) == [None, None]
    assert weights(first, threes, label_required=False) == [None, None]
    assert [own.tolist() for own in weights(ones, threes)] == [[1.0, 1.0], [3.0, 1.0]]
    with pytest.raises(BadInput, match=r"c.vw, from line 1 on: a row has the importance 3, .*a.vw"):
        weights(first, threes)


def column(namespace, name, bits=20):
    return murmurhash3_32(f"{namespace}^{name}", positive=True) % (1 << bits)


def rows(table):
    ends = zip(table.indptr[:-1], table.indptr[1:], strict=True)
    return [
        dict(zip(table.indices[a:b].tolist(), table.data[a:b].tolist(), strict=True))
        for a, b in ends
    ]


def test_by_hand(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text(LINES)
    source, table, merged = read(path)
    assert type(source).__name__ == "VowpalWabbitSource"
    assert table.target.tolist() == [1.0, -1.0, 0.5, 1.0]
    assert table.weight.tolist() == [1.0, 3.0, 2.0, 1.0]
    red, big, price = column("words", "red"), column("words", "big"), column("n", "price")
    assert rows(table) == [
        {big: 2.0, red: 1.0, price: 0.5}, {red: 1.0}, {price: 2.5}, {column("a", "x"): 2.0},
    ]  # fmt: skip
    assert merged == 1
    assert source.n_features == 1 << 20
    assert (np.diff(table.indices[: table.indptr[1]]) > 0).all()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("yes |a x", "line 2: 'yes .* stands where the label should"),
        ("1 -2 |a x", "line 2: the importance in"),
        ("1 a x", "line 2: "),
        ("1 |a x:big", "line 2: the value in 'x:big' is not a finite number"),
        (" |a x", "line 2: the label before"),
    ],
)
def test_bad_lines_are_refused_or_skipped(tmp_path, line, message):
    path = tmp_path / "rows.vw"
    path.write_text(f"1 |a x\n{line}\n-1 |a z\n")
    with pytest.raises(BadInput, match=message):
        read(path)
    assert read(path, on_bad_row="skip")[1].n_rows == 2


def test_rows_to_predict_need_no_label(tmp_path):
    path = tmp_path / "rows.vw"
    path.write_text("|a x\n'tag |a z\n")
    assert np.isnan(read(path, label_required=False)[1].target).all()


def test_columns_are_named_by_what_is_hashed_to_them(tmp_path):
    """Those that share a column have all their names."""
    path = tmp_path / "rows.vw"
    path.write_text(LINES + "1 |größe word:2 |a y|b z\n")
    features = ["words^big", "words^red", "n^price", "a^x", "größe^word", "a^y", "b^z"]
    names = names_in(str(path), 1 << 20)
    assert names == {column(*name.split("^")): name for name in features}
    few = names_in(str(path), 2)
    for number, several in few.items():
        told = several.split(" or ")
        shown = [name for name in told if name in features]
        assert all(column(*name.split("^"), bits=1) == number for name in shown)
        most = sum(column(*name.split("^"), bits=1) == number for name in features)
        assert len(shown) == min(most, 3)
        assert (told[3:] == [f"{most - 3} more"]) if most > 3 else told == shown
    with pytest.raises(BadInput, match="3 columns"):
        names_in(str(path), 3)


@pytest.mark.parametrize("straight", [False, True])
def test_a_run_alone_knows_names_of_the_text(tmp_path, capsys, straight):
    """Others are named by more text; neither changes a weight."""
    source, run, rows = str(tmp_path / "rows.vw"), str(tmp_path / "run"), tmp_path / "set"
    (tmp_path / "rows.vw").write_text(("1 |words red n1\n-1 |words blue n2\n") * 50)
    told = ["--hash-bits", "16", "-q"]
    if not straight:
        assert main(["ingest", source, str(rows), *told]) == 0
        assert not list(Dataset.open(str(rows)).verify())
        source, told = str(rows), ["-q"]
    assert main(["train", source, run, "--passes", "1", "--scheduler", "none", *told]) == 0
    shutil.rmtree(rows, ignore_errors=True)
    (tmp_path / "rows.vw").write_text("1 |words other blue\n")
    found = []
    for names in ([], ["--names", str(tmp_path / "rows.vw")]):
        capsys.readouterr()
        assert main(["explain", run, *names, "--json"]) == 0
        found.append(json.loads(capsys.readouterr().out)["weights"])
    by_name = {weight["feature"]: weight["weight"] for weight in found[0]}
    assert {*by_name} == {"words^red", "words^n1", "words^blue", "words^n2"}
    assert by_name["words^red"] > 0 > by_name["words^blue"]
    assert found[0] == found[1]


def test_names_that_are_remembered_are_few_and_short():
    many = b"1 |a " + b" ".join(b"f%d" % k for k in range(30_000))
    names = remembered_names(many + b"\n1 |a f29999 " + b"y" * 1000 + b"\n", 1 << 20)
    assert len(names) < 20_001
    assert names[column("a", "f29999")].startswith("a^f29999")
    assert max(map(len, names.values())) <= 100
