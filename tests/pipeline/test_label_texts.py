"""Labels of tables that no float gives back are kept as they are written, in every command; others are
refused where they might become one."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fewpass import LinearClassifier, evaluate, ingest, predict, train
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.tables.ingest.label_counts import LabelCounts
from fewpass.pipeline.tables.ingest.target_map import TargetMap
from fewpass.pipeline.tables.readers.label_texts import LabelTexts, is_number, labelled
from fewpass.pipeline.tables.readers.source import ParsedRows
from fewpass.storage.manifest import Labels
from fewpass.storage.table import DenseTable

N = 90
A = np.random.default_rng(0).normal(size=N)
PADDED = ("007", "07", "7")
LONG = ("100000000000000001", "100000000000000003", "7")
UNSIGNED = ("18446744073709551613", "18446744073709551615", "5")
FRACTIONS = ("0.12345678901234567891", "0.12345678901234567892", "1")


def of_rows(labels):
    return [labels[0] if v < -0.4 else labels[1] if v < 0.4 else labels[2] for v in A]


def csv(folder, y, cell="{}", beside="{}"):
    path = folder / "t.csv"
    rows = (f"{A[k]:.5f},{beside.format(k % 7)},{cell.format(y[k])}\n" for k in range(N))
    path.write_text("a,b,label\n" + "".join(rows))
    return path


def quoted(folder, y):
    return csv(folder, y, cell='"{}"')


def encoded(folder, y):
    return csv(folder, y, beside="w{}")


def svm(folder, y):
    path = folder / "t.svm"
    path.write_text("".join(f"{y[k]} 1:{A[k]:.5f} 2:{k % 7}\n" for k in range(N)))
    return path


def vw(folder, y):
    path = folder / "t.vw"
    path.write_text("".join(f"{y[k]} 1.0 '{k}| a:{A[k]:.5f} b:{k % 7}\n" for k in range(N)))
    return path


def jsonl(folder, y):
    path = folder / "t.jsonl"
    path.write_text("".join(f'{{"a":{A[k]},"label":{y[k]}}}\n' for k in range(N)))
    return path


def parquet(folder, y, kind=None, **more):
    path = folder / "t.parquet"
    whole = list(map(int, y))
    kind = kind or (pa.uint64() if max(whole) >= 1 << 63 else pa.int64())
    pq.write_table(pa.table({"a": A, "label": pa.array(whole, kind), **more}), path)
    return path


def parquet_of_words(folder, y):
    return parquet(folder, y, b=[f"w{k % 7}" for k in range(N)])


def decimals(folder, y):
    path = folder / "t.parquet"
    label = pa.array(list(map(Decimal, y)), pa.decimal128(38, 3))
    pq.write_table(pa.table({"a": A, "label": label}), path)
    return path


def npz(folder, y):
    path, kind = folder / "t.npz", "u8" if max(map(int, y)) >= 1 << 63 else "i8"
    np.savez(path, X=A.reshape(-1, 1), y=np.array(list(map(int, y)), kind))
    return path


TEXTS = (csv, quoted, encoded)
TYPED = (jsonl, parquet, parquet_of_words, decimals)
CASES = [
    *((made, labels) for made in TEXTS for labels in (PADDED, LONG, UNSIGNED, FRACTIONS)),
    *((made, labels) for made in TYPED for labels in (LONG, UNSIGNED)),
]


@pytest.mark.parametrize(
    ("made", "labels"), CASES, ids=[f"{f.__name__}-{labels[0]}" for f, labels in CASES]
)
def test_every_reader_keeps_them(tmp_path, made, labels):
    path = made(tmp_path, of_rows(labels))
    found = ingest(path, tmp_path / "data", task="classification")
    assert found.labels == labels


@pytest.mark.parametrize("labels", [LONG, UNSIGNED])
@pytest.mark.parametrize("made", [svm, vw, npz])
def test_formats_of_numbers_refuse_labels_that_may_have_become_one(tmp_path, made, labels):
    with pytest.raises(BadInput, match=r"is beyond 2\^53.*as a table"):
        ingest(made(tmp_path, of_rows(labels)), tmp_path / "data")
    ingest(tmp_path / made(tmp_path, of_rows(labels)).name, tmp_path / "data", task="regression")


@pytest.mark.parametrize("made", [svm, vw])
def test_formats_of_numbers_know_no_zeros_in_front(tmp_path, made):
    assert ingest(made(tmp_path, of_rows(("007", "07", "8"))), tmp_path / "d").labels == (7.0, 8.0)


@pytest.mark.parametrize("made", [csv, parquet_of_words])
def test_every_command_gives_them_back(tmp_path, made):
    y = of_rows(LONG)
    path = made(tmp_path, y)
    data, run, straight, out = (
        str(tmp_path / name) for name in ("data", "run", "straight", "p.csv")
    )
    ingest(path, data)
    train(data, run)
    predict(run, path, out, probability=True)
    told = pd.read_csv(out, dtype=str)
    assert set(told["predicted"]) == set(LONG)
    assert [f"probability_{label}" for label in LONG] == list(told.columns[2:5])
    by_hand = float(np.mean(told["predicted"].to_numpy() != np.array(y)))
    assert evaluate(run, path).error == pytest.approx(by_hand) == evaluate(run, data).error
    train(path, straight)
    assert evaluate(straight, path).rows == N
    later = made(tmp_path, of_rows((LONG[0], LONG[1], "100000000000000005")))
    with pytest.raises(BadInput, match="100000000000000005"):
        evaluate(run, later)


@pytest.mark.parametrize("labels", [("no", "yes", "yes"), ("no", "maybe", "yes")])
def test_a_label_that_a_model_does_not_know_is_refused_in_files_and_in_data_sets(tmp_path, labels):
    """Of two labels as of three: it is not the other one."""
    data, run, more = (tmp_path / name for name in ("data", "run", "more"))
    ingest(csv(tmp_path, of_rows(labels)), data, encode="none")
    train(data, run)
    train(data, tmp_path / "named", positive="yes")
    path = csv(tmp_path, ["Yes", "yes", "no"] * (N // 3))
    ingest(path, more, encode="none")
    for rows in (path, more):
        with pytest.raises(BadInput, match=r'label "Yes" is unknown to the model.*differ by case'):
            evaluate(run, rows)
    with pytest.raises(BadInput, match='The label "Yes" is unknown'):
        train(data, tmp_path / "chosen", held_out=str(more), early_stopping=True)
    assert evaluate(tmp_path / "named", more).error == evaluate(tmp_path / "named", path).error


def test_a_label_that_comes_late_is_no_other(tmp_path):
    """The first piece of 4 MB has numbers alone."""
    rows = "".join(f"{1 + k % 2},{k % 10}.5,{'1' * 30}\n" for k in range(120_000))
    path = tmp_path / "t.csv"
    path.write_text("y,a,b\n" + rows + "01,2,3\n" * 3 + "2.0,2,3\n" * 5)
    made = ingest(path, tmp_path / "data")
    assert made.labels == ("01", "1", "2")  # as 2.0 is 2


def test_numbers_stay_numbers(tmp_path):
    made = ingest(csv(tmp_path, of_rows(("+1", "1.0", "-1"))), tmp_path / "data")
    assert made.labels == (-1.0, 1.0)
    made = ingest(csv(tmp_path, [f"0{k}.5" for k in range(N)]), tmp_path / "numbers")
    assert made.task == "regression"


def test_positive_and_class_weights_name_them(tmp_path):
    ingest(csv(tmp_path, of_rows(PADDED)), tmp_path / "data")
    train(tmp_path / "data", tmp_path / "run", positive="007")
    train(tmp_path / "data", tmp_path / "weighted", class_weight={"007": 2.0})
    predict(tmp_path / "run", tmp_path / "t.csv", tmp_path / "p.csv")
    assert set(pd.read_csv(tmp_path / "p.csv", dtype=str)["predicted"]) == {"007", "not 007"}


def test_numbers_of_eleven_digits_are_written_out(tmp_path):
    y = of_rows(("10000000007", "20000000003", "0.5"))
    path = csv(tmp_path, y)
    ingest(path, tmp_path / "data", task="classification")
    train(tmp_path / "data", tmp_path / "run")
    predict(tmp_path / "run", path, tmp_path / "p.csv")
    assert set(pd.read_csv(tmp_path / "p.csv", dtype=str)["predicted"]) <= set(y)
    assert '"' not in (tmp_path / "p.csv").read_text()


@pytest.mark.parametrize("kind", ["Int64", "int64[pyarrow]", "int64"])
def test_estimators_know_long_numbers_apart(kind):
    y = pd.Series(list(map(int, of_rows(LONG)))).astype(kind)
    found = LinearClassifier().fit(A.reshape(-1, 1), y)
    assert sorted(map(int, found.classes_)) == sorted(map(int, LONG))


def test_what_is_a_number():
    for text in ("1", "+1", "1.0", "1e3", "-0.5", "0", "0.30000000000000004", "9007199254740992"):
        assert is_number(text)
    for text in ("01", "-01", "00", "9007199254740993", "0.1000000000000000055", "1e-400"):
        assert not is_number(text)
    assert is_number("01", padded=False)
    assert not is_number("9007199254740993", padded=False)
    assert not is_number(str(1 << 60))  # a float, and so are its neighbours


def test_labels_that_are_known_as_numbers_know_no_zeros_in_front():
    """Data sets that were made before have numbers for 01 and 2."""
    texts = LabelTexts(np.array([0, 2]), pa.array(["01", "9007199254740993"]))
    target = np.array([1.0, 2.0, 9007199254740992.0])
    codes, names = labelled(target, texts, padded=False)
    assert [names[k] for k in codes] == ["1", "2", "9007199254740993"]
    padded = LabelTexts(np.array([0]), pa.array(["01"]))
    counts = LabelCounts("auto")
    counts.count(counts.listed(parsed(target[:2], padded)), 0)
    found = TargetMap(counts, Labels(labels=(1.0, 2.0), counts=(1, 1)))
    assert found.targets(0).counts == (1, 1)
    with pytest.raises(BadInput, match="Labels 01"):
        TargetMap(counts, Labels(labels=("02", "2"), counts=(1, 1)))


def parsed(target, texts):
    """Rows of a piece without features."""
    return ParsedRows(
        DenseTable(np.zeros((len(target), 0)), target, None), None, -1, (), 0, texts=texts
    )


def test_an_ingest_that_goes_on_knows_them_still():
    counts = LabelCounts("auto")
    texts = LabelTexts(np.array([1]), pa.array(["01"]))
    targets = counts.listed(parsed(np.array([1.0, 1.0, 2.0]), texts))
    counts.count(targets, 0)
    again = TargetMap(LabelCounts.from_state("auto", counts.state()), None)
    assert again.labels == ("01", "1", "2")
    np.testing.assert_array_equal(again.apply(*targets[:2]), [1.0, 0.0, 2.0])
    np.testing.assert_array_equal(targets.numbers, [1.0, 1.0, 2.0])
