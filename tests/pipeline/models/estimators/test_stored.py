"""Rows that are not in memory: the same models, whatever they come in and however they are cut."""

import inspect
import os
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from distributed import Client, get_task_stream
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from fewpass import LinearClassifier, LinearRegressor
from fewpass.pipeline.models.estimators.kinds_of_rows import is_stored
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.tables.ingest.phases import ingest
from testing.prefect_server import patience

N, D = 1500, 5
MEMORY = "130MB"
NAMES = [f"x{k}" for k in range(D)]

_rng = np.random.default_rng(3)
X = _rng.standard_normal((N, D))
SCORE = X @ _rng.standard_normal(D) + _rng.standard_normal(N)
Y = (SCORE > 0.0).astype(np.int64)
WEIGHT = _rng.random(N) * 3.0
WORDS = np.array(["no", "yes"])[Y]


def classifier(**parameters):
    return LinearClassifier(**{"tol": 1e-14, "memory": MEMORY} | parameters)


def frame():
    return pd.DataFrame(X, columns=NAMES).assign(t=WORDS, w=WEIGHT)


def delayed(array, size=400):
    return [dask.delayed(array[k : k + size]) for k in range(0, array.shape[0], size)]


def framed(partitions=3):
    return dd.from_pandas(frame(), npartitions=partitions)


def as_csv(folder):
    frame().to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def as_parquet(folder):
    (folder / "parts").mkdir()
    for k in range(3):
        frame()[k * 500 : (k + 1) * 500].to_parquet(folder / f"parts/{k}.parquet")
    return str(folder / "parts/*.parquet")


def as_dataset(folder):
    options = SourceOptions(label="t", weight="w", dtype="float64")
    plan = {"sources": [str(as_csv(folder))], "dataset": str(folder / "set"), "options": options}
    return ingest(IngestPlan(**plan, scale="none")).dataset


ROUTES = {
    "array": lambda _: (da.from_array(X, chunks=(400, D)), da.from_array(Y, chunks=333), WEIGHT),
    "array cut by columns": lambda _: (da.from_array(X, chunks=(700, 2)), Y, WEIGHT),
    "frame, columns by name": lambda _: (framed(), "t", "w"),
    "frame, series": lambda _: (framed()[NAMES], framed()["t"], framed()["w"]),
    "delayed": lambda _: (delayed(X), delayed(Y), delayed(WEIGHT)),
    "delayed frames": lambda _: (delayed(frame()[NAMES]), delayed(frame().t), delayed(frame().w)),
    "delayed CSR": lambda _: (delayed(sparse.csr_matrix(X)), delayed(Y), delayed(WEIGHT)),
    "CSV": lambda folder: (as_csv(folder), "t", "w"),
    "Parquet": lambda folder: (as_parquet(folder), "t", "w"),
    "a list of files": lambda folder: ([as_csv(folder)], "t", "w"),
    "data set": lambda folder: (as_dataset(folder), None, None),
}


@pytest.fixture(scope="module")
def in_memory():
    return LinearClassifier(tol=1e-14).fit(X, Y, WEIGHT)


#: No manifest says what the rows of a label weigh: a stored set's b_0 has their mean weights as in its
#: first chunk, and a tenth of b_0 moves a model by some millionths.
OF_SAMPLED_WEIGHTS = 1e-5


def both(model):
    return np.append(model.coef_, model.intercept_)


def test_without_weights_the_intercept_is_that_of_rows_in_memory_too():
    """Then b_0 is by the counts of labels, on every route."""
    there = LinearClassifier(tol=1e-14).fit(X, Y)
    for rows, labels in ((da.from_array(X, chunks=(400, D)), Y), (delayed(X), delayed(Y))):
        found = classifier().fit(rows, labels)
        np.testing.assert_allclose(found.coef_, there.coef_, atol=1e-7)
        np.testing.assert_allclose(found.intercept_, there.intercept_, atol=1e-7)


@pytest.mark.parametrize("route", ROUTES)
def test_every_route_makes_the_model_of_rows_in_memory(route, in_memory, tmp_path):
    found = classifier().fit(*ROUTES[route](tmp_path))
    np.testing.assert_allclose(both(found), both(in_memory), atol=OF_SAMPLED_WEIGHTS)
    assert found.certificate_ <= 1e-14
    assert len(found.classes_) == 2
    assert found.dataset_ is None


def test_a_zarr_array_larger_than_the_budget_is_read_by_chunks(tmp_path, monkeypatch, in_memory):
    rows = zarr.create_array(str(tmp_path / "rows.zarr"), data=X, chunks=(400, D))
    assert [is_stored(rows, budget) for budget in (rows.nbytes - 1, rows.nbytes)] == [True, False]
    monkeypatch.setattr("fewpass.pipeline.models.estimators.linear.is_stored", lambda *_: True)
    found = classifier().fit(rows, Y, WEIGHT)
    np.testing.assert_allclose(found.coef_, in_memory.coef_, atol=1e-7)


@given(st.lists(st.integers(1, 700), min_size=1, max_size=8), st.booleans())
@settings(max_examples=8)
def test_partitions_change_no_bit(sizes, is_sparse):
    """One pass in the order of the stored rows: any other order would be seen."""
    one_pass = classifier(tol=None, solver="asgd")
    rows = sparse.csr_matrix(X) if is_sparse else X
    whole = one_pass.fit([dask.delayed(rows)], [dask.delayed(WORDS)]).coef_.tobytes()
    edges = np.minimum(np.cumsum([0, *sizes]), N)
    edges = [*edges, N]
    cut = list(pairwise(edges))
    blocks = [dask.delayed(rows[a:b]) for a, b in cut]
    assert one_pass.fit(blocks, [dask.delayed(WORDS[a:b]) for a, b in cut]).coef_.tobytes() == whole


@pytest.mark.parametrize("labels", [WORDS, WORDS.astype(object), Y, Y.astype(bool), Y + 0.5])
def test_labels_keep_their_type(labels):
    found = classifier(tol=1e-3).fit(da.from_array(X, chunks=(400, D)), da.from_array(labels, 400))
    assert found.classes_.dtype.kind == labels.dtype.kind
    assert list(found.classes_) == sorted(set(labels.tolist()))


def test_whole_numbers_in_files_come_back_as_integers(tmp_path):
    frame().assign(t=Y).drop(columns="w").to_csv(tmp_path / "rows.csv", index=False)
    assert classifier(tol=1e-3).fit(tmp_path / "rows.csv", "t").classes_.dtype == np.int64


def test_weights_of_classes_scaling_and_a_warm_start_mean_what_they_do_in_memory():
    parameters = {"class_weight": {"yes": 3.0}, "scale": "standard"}
    found = classifier(**parameters).fit(framed().drop(columns="w"), "t")
    there = LinearClassifier(tol=1e-14, **parameters).fit(X, WORDS)
    np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-7)
    assert list(found.feature_names_in_) == NAMES
    for class_weight in ("balanced", {"yes": 3.0}):
        parameters = {"class_weight": class_weight, "lam": "30/n"}
        found = classifier(**parameters).fit(framed(), "t", "w")
        there = LinearClassifier(tol=1e-14, **parameters).fit(X, WORDS, WEIGHT)
        np.testing.assert_allclose(found.coef_, there.coef_, rtol=1e-7)
        np.testing.assert_allclose(found.class_weight_, there.class_weight_, rtol=1e-12)
        assert found.lam_ == pytest.approx(there.lam_, rel=1e-12)
    warm = classifier(warm_start=True).fit(da.from_array(X, 400), Y)
    cold, coef = warm.passes_, warm.coef_
    assert warm.fit(da.from_array(X, 400), Y).passes_ < cold
    np.testing.assert_allclose(warm.coef_, coef, atol=1e-5)
    numbers = LinearRegressor(tol=1e-12, memory=MEMORY).fit(da.from_array(X, 400), SCORE)
    np.testing.assert_allclose(numbers.coef_, LinearRegressor(tol=1e-12).fit(X, SCORE).coef_)


def test_predictions_of_collections_are_lazy_and_the_same(in_memory):
    rows = da.from_array(X, chunks=(400, 2))
    for name in ("predict", "decision_function", "predict_proba"):
        found, there = getattr(in_memory, name)(rows), getattr(in_memory, name)(X)
        assert isinstance(found, da.Array)
        assert (found.dtype, found.shape) == (there.dtype, there.shape)
        assert found.compute().tobytes() == there.tobytes()
    named = LinearClassifier().fit(frame()[NAMES], WORDS)
    assert list(named.predict(framed()[NAMES]).compute()) == list(named.predict(frame()[NAMES]))
    assert named.score(framed(), "t", "w") == pytest.approx(
        named.score(frame()[NAMES], WORDS, WEIGHT), rel=1e-12
    )
    numbers = LinearRegressor().fit(X, SCORE)
    there = numbers.score(X, SCORE, WEIGHT)
    assert numbers.score(rows, SCORE, WEIGHT) == pytest.approx(there, rel=1e-12)
    with pytest.raises(ValueError, match="no rows to score"):
        numbers.score(rows, SCORE, 0.0 * WEIGHT)
    alike = np.full(len(X), 2.0)
    assert numbers.score(rows, alike) == numbers.score(X, alike) == 0.0


def test_a_client_that_happens_to_exist_computes_blocks_and_nothing_else(in_memory):
    with (
        Client(
            n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as client,
        get_task_stream(client) as stream,
    ):
        found = classifier().fit(da.from_array(X, chunks=(400, D)), Y, WEIGHT)
    np.testing.assert_allclose(found.coef_, in_memory.coef_, atol=1e-7)
    names = {str(record["key"]) for record in stream.data}
    assert any("of-" in name for name in names), names
    assert not any("walk" in name or "sum" in name for name in names), names


# -- folders ---------------------------------------------------------------------------------------


FIT = """
import sys
from fewpass import LinearClassifier
model = LinearClassifier(solver="sdca", tol=1e-99, passes=60, memory="130MB", folder=sys.argv[2])
print(model.fit(sys.argv[1], "t", "w").coef_.tobytes().hex())
"""


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_killed_fit_goes_on_when_it_is_called_again(tmp_path):
    rows = as_csv(tmp_path)
    quiet = classifier(solver="sdca", tol=1e-99, passes=60, folder=tmp_path / "quiet")
    quiet.fit(rows, "t", "w")
    words = [sys.executable, "-W", "ignore", "-c", FIT, str(rows), str(tmp_path / "killed")]
    process = subprocess.Popen(words)
    started = tmp_path / "killed/run/run.json"
    deadline = time.monotonic() + 120
    while not started.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait(patience(60))
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=200)
    assert done.stdout.strip() == quiet.coef_.tobytes().hex()
    assert [quiet.dataset_, quiet.run_] == [f"{tmp_path}/quiet/{name}" for name in ("data", "run")]
    again = classifier(solver="sdca", tol=1e-99, passes=60, folder=tmp_path / "quiet")
    began = (tmp_path / "quiet/run/run.json").stat().st_mtime_ns
    assert again.fit(rows, "t", "w").coef_.tobytes() == quiet.coef_.tobytes()
    assert (tmp_path / "quiet/run/run.json").stat().st_mtime_ns == began
    with pytest.raises(ValueError, match="plan"):
        classifier(solver="sdca", passes=3, folder=tmp_path / "quiet").fit(rows, "t", "w")


def tokens(folder):
    """By which frames of a folder's files are known again."""
    import dask.dataframe as dd

    from fewpass.pipeline.tables.readers.collections import token_of

    frame = dd.read_parquet(folder)
    return [token_of(frame.assign(more=1), frame["t"], None), token_of(frame, "t", None)]


def test_a_frame_of_files_is_known_again_in_another_process(tmp_path):
    frame().to_parquet(tmp_path / "rows.parquet")
    first = tokens(str(tmp_path))
    there = f"import sys\n{inspect.getsource(tokens)}\nprint(*tokens(sys.argv[1]))"
    words = [sys.executable, "-c", there, str(tmp_path)]
    assert subprocess.check_output(words, text=True).split() == first
    assert len(set(first)) == 2
    frame().assign(t=Y[::-1]).to_parquet(tmp_path / "rows.parquet")
    assert not set(first) & set(tokens(str(tmp_path)))


def test_temporary_folders_go_also_after_an_error_or_a_kill(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rows = da.from_array(np.where(np.arange(N)[:, None] == 777, np.nan, X), chunks=(400, D))
    with pytest.raises(ValueError, match=r"row 778: X in column 0 is missing"):
        classifier().fit(rows, Y)
    assert not list(tmp_path.iterdir())
    code = (
        "from fewpass.pipeline.models.estimators.work_folder import work_folder\nimport os, signal\n"
        "with work_folder(None) as folder: os.makedirs(folder.data); os.kill(os.getpid(), 9)"
    )
    killed = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 1
    classifier(tol=1e-3).fit(da.from_array(X, chunks=(400, D)), Y)
    assert not list(tmp_path.iterdir())


# -- what is refused -------------------------------------------------------------------------------


def with_text(_):
    return framed().assign(city="Bern"), "t", "w"


def missing_blocks(_):
    return delayed(X), delayed(Y)[:-1], None


REFUSED = {
    "y is missing": lambda _: (framed(), None, None),
    r"no column 'z'\. Its columns are 'x0'": lambda _: (framed(), "z", None),
    r"city \(.*\) is not of numbers": with_text,
    "X has 4 blocks, but y has 3 blocks": missing_blocks,
    "y is ndarray. Give the name of a column": lambda folder: (as_csv(folder), Y, None),
    "is a data set, which holds its own y": lambda folder: (as_dataset(folder), "t", None),
    "no such file": lambda folder: (folder / "nothing.csv", "t", None),
    "All 1500 training rows have the label": lambda _: (da.from_array(X, 400), np.zeros(N), None),
    r"y has the shape \(1499,\), but X has 1500": lambda _: (da.from_array(X, 400), Y[1:], None),
    r"30 different numbers, such as 0\.5, and labels were expected": lambda _: (
        da.from_array(X, 400),
        np.arange(N) % 30 + 0.5,
        None,
    ),
    "integers beyond 2": lambda _: (delayed(X), delayed(Y * 2**60), None),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_stored_is_refused_with_what_to_do(sentence, tmp_path):
    with pytest.raises((ValueError, FileNotFoundError), match=sentence):
        classifier().fit(*REFUSED[sentence](tmp_path))


def test_wrong_parameters_are_named(tmp_path):
    rows = da.from_array(X, chunks=(400, D))
    with pytest.raises(ValueError, match="memory"):
        classifier(memory="plenty").fit(rows, Y)
    with pytest.raises(ValueError, match="too little"):
        classifier(memory="1MB").fit(rows, Y)
    with pytest.raises(ValueError, match="'class_weight' parameter"):
        classifier(class_weight="unbalanced").fit(rows, Y)
    with pytest.raises(ValueError, match=r"class_weight gives 1 the weight 0\.0"):
        classifier(class_weight={1: 0.0}).fit(rows, Y)
    with pytest.raises(ValueError, match='`scheduler` is "threads", which is no address'):
        classifier(scheduler="threads").fit(rows, Y)
    with pytest.raises(ValueError, match="warm_start=True begins at coef_"):
        classifier(warm_start=True, folder=tmp_path).fit(rows, Y)
    with pytest.raises(ValueError, match=r"labels \['maybe'\]"):
        classifier(class_weight={"maybe": 2.0}).fit(framed(), "t")
    with pytest.raises(ValueError, match="command `fewpass predict`"):
        LinearClassifier().fit(X, Y).predict(Path("rows.csv"))
