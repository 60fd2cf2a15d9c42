"""Predictions out of core: every row, in its order, scaled like the training rows."""

import errno
import re
import resource
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewpass.pipeline import budget
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.scoring import scoring_budget
from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows
from fewpass.pipeline.scoring.prediction import predict
from fewpass.pipeline.scoring.prediction_files import open_predictions
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan, PredictionPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.storage.os_errors import described
from testing.interruptions import trained_model

MEMORY = 128 << 20


def as_csv(path, X, y):
    names = ",".join(f"x{j}" for j in range(X.shape[1]))
    rows = "\n".join(f"{label},{','.join(map(repr, row))}" for label, row in zip(y, X.tolist()))
    path.write_text(f"label,{names}\n{rows}\n")
    return str(path)


@pytest.fixture(scope="module")
def spam(tmp_path_factory):
    """A model of ham and spam, trained on standardised columns of very different sizes."""
    folder = tmp_path_factory.mktemp("spam")
    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((3000, 4)) * [1, 50, 0.1, 3] + [0, 7, 0, -2], 3)
    y = np.where(X @ [1, 0.05, 5, 0.2] > 0, "spam", "ham")
    source = as_csv(folder / "mail.csv", X, y)
    ingest(IngestPlan(sources=(source,), dataset=str(folder / "set"), scale="standard"))
    plan = TrainingPlan(dataset=str(folder / "set"), lam="1/n", memory=MEMORY, loss="logistic")
    return trained_model(plan, folder / "run")[0], source, X, y


@pytest.mark.parametrize(
    ("first", "second", "fits"),
    [
        ([1, 2], ["007", "8"], False), ([1, 2], [1.5, 2.0], False), ([None], ["a"], False),
        ([1.5], [2**53 + 1], False), ([1, 2], [3.0], True), (["a"], [None], True),
    ],
)  # fmt: skip
def test_cells_that_are_kept_stay_what_they_are_or_are_refused(tmp_path, first, second, fits):
    out = str(tmp_path / "out.parquet")

    def write():
        with open_predictions(out, ["id"]) as file:
            file.write({"id": pa.array(first)})
            file.write({"id": pa.array(second)})

    if fits:
        write()
        assert pa.parquet.read_table(out)["id"].to_pylist() == [*first, *second]
        return
    with pytest.raises(BadInput, match=r"Column 'id' holds .* in the first rows, and .* in others"):
        write()
    assert not Path(out).exists()


@given(cuts=st.lists(st.integers(0, 12_000), max_size=12), wide=st.booleans())
@settings(max_examples=25, deadline=None)
def test_parquet_has_the_same_bytes_however_rows_came(tmp_path_factory, cuts, wide):
    """Pieces depend on threads and memory: the file does not."""
    n, folder = 12_000, tmp_path_factory.mktemp("cuts")
    words = pa.array([None if k % 97 == 0 else "w" * (k % 7 if wide else 3000) for k in range(n)])
    rows = {"score": np.arange(n) / 7, "predicted": words}
    rows |= {f"p{k}": np.arange(n, dtype=np.float32) for k in range(90 * wide)}
    found = []
    for name, ends in (("whole", [n]), ("cut", [*sorted(cuts), n])):
        with open_predictions(str(folder / f"{name}.parquet"), list(rows)) as target:
            for start, stop in pairwise([0, *ends]):
                target.write({name: column[start:stop] for name, column in rows.items()})
        found.append((folder / f"{name}.parquet").read_bytes())
    assert found[0] == found[1]
    table = pyarrow.parquet.read_table(folder / "cut.parquet")
    assert table["predicted"].to_pylist() == words.to_pylist()
    assert np.array_equal(table["score"], rows["score"])


def expected(model, X):
    scaled = ((X.astype(np.float32) - model.shift) * model.scale).astype(np.float32)
    return scaled @ model.weights.coef + model.weights.intercept


def test_raw_rows_are_scaled_and_labelled_as_the_training_rows_were(spam, tmp_path):
    model, source, X, y = spam
    out = str(tmp_path / "out.parquet")
    result = predict(model, [source], out, PredictionPlan(probability=True, memory=MEMORY))
    table = pyarrow.parquet.read_table(out)
    score = expected(model, X)
    assert result.rows == len(X) == table.num_rows
    shares = ("probability_ham", "probability_spam", "probability")
    assert result.columns == ("predicted", "score", *shares)
    ham, spammy, told = (np.array(table[name]) for name in shares)
    assert np.array_equal(told, spammy) and np.array_equal(ham, 1.0 - spammy)
    np.testing.assert_allclose(table["score"], score, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(table["probability"], 1 / (1 + np.exp(-score)), rtol=1e-5)
    labels = np.where(np.array(table["score"]) > 0.0, "spam", "ham")
    assert np.array_equal(table["predicted"], labels) and set(labels) == set(y)


def test_how_far_it_is_grows_to_the_end(spam, tmp_path, small_pieces):
    model, source, _, _ = spam
    for place in (source, model.record.plan.dataset):
        told = []
        out = str(tmp_path / "out.csv")
        how = PredictionPlan(overwrite=True, memory=1 << 22)
        result = predict(model, [place], out, how, on_progress=told.append)
        shares = [now.fraction for now in told]
        assert shares == sorted(shares)
        assert 0.9 < shares[-1] <= 1.0  # of text an estimate
        assert told[-1].rows == result.rows


@pytest.fixture
def small_pieces(monkeypatch):
    """Let a few kilobytes of text be a piece, as if the program itself took nothing."""
    monkeypatch.setattr(budget, "PROGRAM_BYTES", 0)
    monkeypatch.setattr(scoring_budget, "LEAST_PIECE", 1 << 12)


@pytest.mark.parametrize("memory", [1 << 22, MEMORY])
@pytest.mark.parametrize("threads", [1, 3])
def test_every_format_has_the_same_numbers_for_any_memory_and_threads(
    spam, tmp_path, memory, threads, small_pieces
):
    model, source, X, _ = spam
    for ending in ("csv", "npy", "parquet"):
        out = str(tmp_path / f"out.{ending}")
        predict(model, [source], out, PredictionPlan(memory=memory, threads=threads))
    scores = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(scores, expected(model, X), rtol=1e-5, atol=1e-6)
    assert np.array_equal(scores, pyarrow.csv.read_csv(tmp_path / "out.csv")["score"])
    assert np.array_equal(scores, pyarrow.parquet.read_table(tmp_path / "out.parquet")["score"])


def test_a_budget_that_nothing_fits_into_is_refused_by_what_is_needed(spam, tmp_path):
    model, source, _, _ = spam
    for place in (source, model.record.plan.dataset):
        out = str(tmp_path / "small.csv")
        with pytest.raises(
            BadInput, match=r"the program itself 96 MB\. Use `memory=(\d+)MB`"
        ) as no:
            predict(model, [place], out, PredictionPlan(memory=1000))
        enough = int(re.search(r"`memory=(\d+)MB`", str(no.value))[1]) * 10**6
        found = predict(model, [place], out, PredictionPlan(overwrite=True, memory=enough))
        assert found.rows
    with pytest.raises(BadInput, match="the program itself"):
        evaluate_rows(model, [source], EvaluationPlan(memory=1000))


def test_a_data_set_is_predicted_as_it_lies(spam, tmp_path):
    model, _, X, _ = spam
    out = str(tmp_path / "out.npy")
    predict(model, [model.record.plan.dataset], out, PredictionPlan())
    np.testing.assert_allclose(
        np.sort(np.load(out)), np.sort(expected(model, X)), rtol=1e-5, atol=1e-6
    )


def test_a_source_that_is_not_there_is_not_said_of_the_predictions(spam, tmp_path):
    out = tmp_path / "out.csv"
    with pytest.raises(FileNotFoundError, match=r"^\S*gone.csv: no such file. Check the path.$"):
        predict(spam[0], [str(tmp_path / "gone.csv")], str(out), PredictionPlan())
    assert not out.exists()


def test_nothing_is_left_behind_when_a_row_is_bad(spam, tmp_path):
    model, source, _, _ = spam
    bad = tmp_path / "bad.csv"
    bad.write_text(Path(source).read_text() + "ham,1,2,nan,4\n")
    for ending in ("csv", "npy", "parquet"):
        with pytest.raises(BadInput, match=r"bad\.csv.*3002"):
            predict(model, [str(bad)], str(tmp_path / f"out.{ending}"), PredictionPlan())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.csv"]


def test_other_widths_other_endings_and_dishonest_probabilities_are_refused(spam, tmp_path):
    model, source, X, y = spam
    wide = as_csv(tmp_path / "wide.csv", np.hstack([X, X]), y)
    with pytest.raises(BadInput, match=r"8|5"):
        predict(model, [wide], str(tmp_path / "out.npy"), PredictionPlan())
    with pytest.raises(BadInput, match=r"\.parquet, \.csv or \.npy"):
        predict(model, [source], str(tmp_path / "out.txt"), PredictionPlan())
    hinge = model.record.plan.model_copy(update={"loss": "hinge"})
    machine = model._replace(record=model.record.model_copy(update={"plan": hinge}))
    with pytest.raises(BadInput, match="`loss=logistic`"):
        predict(machine, [source], str(tmp_path / "o.npy"), PredictionPlan(probability=True))


def test_labels_that_a_spreadsheet_would_run_are_defused_on_request(spam, tmp_path):
    model, source, _, _ = spam
    labels = model.record.targets.model_copy(update={"labels": ("=1+2", "-1")})
    risky = model._replace(record=model.record.model_copy(update={"targets": labels}))
    found = {}
    for defuse in (False, True):
        for ending in ("csv", "parquet"):
            out = str(tmp_path / f"out.{ending}")
            predict(risky, [source], out, PredictionPlan(overwrite=True, defuse=defuse))
            read = pyarrow.csv.read_csv if ending == "csv" else pyarrow.parquet.read_table
            table = read(out)
            found[ending, defuse] = set(map(str, table["predicted"].to_pylist()))
            assert (np.array(table["score"]) < 0).any()  # numbers stay numbers
    plain = {"=1+2", "-1"}
    assert found.pop(("csv", True)) == {"'=1+2", "-1"}
    assert all(labels == plain for labels in found.values())


def write_zeros(path, error=None):
    with open_predictions(path, ["score"]) as out:
        out.write({"score": np.zeros(3000)})
        if error:
            raise error


def test_a_file_that_cannot_be_finished_is_not_there(tmp_path):
    """A write that fails is told of by the file's own name; what was there before stays."""
    path = tmp_path / "scores.csv"
    path.write_text("as it was")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="Allow larger files") as told:
            write_zeros(str(path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (told.value.errno, told.value.filename) == (errno.EFBIG, str(path))
    for number, advice in (
        (errno.EACCES, "permissions"),
        (errno.EROFS, "permissions"),
        (errno.EIO, "storage"),
    ):
        assert f" {advice}" in str(described(OSError(number, "No"), "scores.csv"))
    with pytest.raises(OSError, match="no such row") as told:
        write_zeros(str(path), OSError("There is no such row."))
    assert str(told.value) == "There is no such row."  # what readers say stays theirs
    assert [p.name for p in tmp_path.iterdir()] == ["scores.csv"]
    assert path.read_text() == "as it was"
    with pytest.raises(FileNotFoundError, match="no such folder"):
        open_predictions(str(tmp_path / "absent/scores.csv"), ["score"]).__enter__()
