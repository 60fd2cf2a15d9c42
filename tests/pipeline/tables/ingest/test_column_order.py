"""Columns by frequency: stored in another order, and nobody outside notices."""

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix, random_array, vstack

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.scoring.evaluation import evaluate
from fewpass.pipeline.scoring.prediction import predict
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest import mapping
from fewpass.pipeline.tables.ingest.frequency_order import (
    CACHED_COLUMNS,
    IN_ORDER,
    ColumnCounts,
    renumber,
)
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.column_copy import load_columns
from fewpass.storage.column_file import KEY, write_columns
from fewpass.storage.column_order import ColumnOrder, by_frequency
from fewpass.storage.dataset import Dataset
from fewpass.storage.folder import Damaged, Folder
from fewpass.storage.table import SparseTable
from fewpass.storage.writer import DatasetWriter
from testing.datasets import column_by_page, random_table, table_of
from testing.interruptions import cut_and_resumed, trained_model
from tests.conftest import ROUNDING

D = CACHED_COLUMNS + 1000
ORDERS = ("source", "frequency")

#: Every family of methods, each with a loss it takes.
METHODS = {
    "asgd": {"passes": 2},
    "onepass": {"passes": 2},
    "s2gd+": {"passes": 8},
    "sdca": {"passes": 5, "streams": 2},
    "sdca hinge": {"passes": 5, "loss": "hinge"},
    "pegasos": {"passes": 3, "loss": "hinge"},
    "psdca": {"passes": 8, "lam": "0.1/n"},
    "asdca": {"passes": 5},
    "sag": {"passes": 4},
    "agd": {"passes": 6},
    "lbfgs": {"passes": 8},
}


def popular_rows(n, seed=0, d=D, nnz=20, first=0):
    """Rows whose columns from `first` are the more frequent the earlier they come in a shuffle."""
    rng = np.random.default_rng(seed)
    shuffled = np.random.default_rng(first).permutation(d)
    rows = [np.unique(shuffled[(d * rng.random(nnz) ** 4).astype(int)]) for _ in range(n)]
    indptr = np.cumsum([0] + [len(row) for row in rows])
    data = rng.integers(1, 100, indptr[-1]).astype(np.float32) / 64
    X = csr_matrix((data, np.concatenate(rows), indptr), shape=(n, d))
    score = X @ np.random.default_rng(99).standard_normal(d)
    return X, score


def write(path, X, labels):
    with path.open("w") as file:
        for label, row in zip(labels, X, strict=True):
            entries = zip(row.indices + 1, row.data, strict=True)
            file.write(f"{label} " + " ".join(f"{j}:{x}" for j, x in entries) + "\n")
    return str(path)


def made(source, place, order="frequency", **changes):
    plan = IngestPlan(sources=(source,), dataset=str(place), column_order=order,
                      options={"n_features": D}, **changes)  # fmt: skip
    ingest(plan)
    return Dataset.open(str(place))


def matrix(dataset):
    """All rows as they leave the data set, with their targets."""
    table = table_of(dataset)
    shape = (table.n_rows, dataset.n_features)
    return csr_matrix((table.data, table.indices, table.indptr), shape), table


def same_table(a, b):
    for one, other in zip(a, b, strict=True):
        assert np.array_equal(one, other)
        assert one is None or one.dtype == other.dtype


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """The same rows in both orders, and other rows that make other columns popular."""
    folder = tmp_path_factory.mktemp("pair")
    X, score = popular_rows(700)
    source = write(folder / "rows.svm", X, np.where(score > 0, 1, -1))
    found = {name: made(source, folder / name, name, chunk_bytes="8kB") for name in ORDERS}
    others, score = popular_rows(300, 1, first=5)
    other = write(folder / "other.svm", others, np.where(score > 0, 1, -1))
    for name in ORDERS:
        url = f"other-{name}"
        found[url] = made(other, folder / url, name, like=found["source"].folder.url)
    X, score = popular_rows(500, 2)
    classes = write(folder / "classes.svm", X, np.digitize(score, np.quantile(score, [0.4, 0.7])))
    for name in ORDERS:
        found[f"classes-{name}"] = made(classes, folder / f"classes-{name}", name)
    found["file"] = other
    return found


# -- laws -------------------------------------------------------------------------------------------


@given(
    counts=st.lists(st.integers(0, 3), min_size=1, max_size=300),
    seed=st.integers(0, 1000),
    dtypes=st.sampled_from([(np.int32, np.float32), (np.int64, np.float64)]),
)
def test_there_and_back(counts, seed, dtypes):
    rng, d = np.random.default_rng(seed), len(counts)
    order = by_frequency(np.array(counts))
    rows = random_array((9, d), density=0.4, rng=rng, format="csr")
    table = SparseTable(rows.data.astype(dtypes[1]), rows.indices.astype(dtypes[0]),
                        rows.indptr.astype(np.int64), rng.random(9), None)  # fmt: skip
    stored = table._replace(data=table.data.copy(), indices=table.indices.copy())
    renumber(stored, order)
    source = order.source
    assert np.array_equal(source, np.lexsort((np.arange(d), -np.array(counts))))
    expected = csr_matrix(rows.toarray()[:, source])
    assert np.array_equal(stored.indices, expected.indices)
    assert np.array_equal(stored.data, expected.data.astype(dtypes[1]))
    same_table(order.sourced_rows(stored), table)
    numbers = rng.random((2, d))
    assert np.array_equal(order.stored(numbers), numbers[:, source])
    assert np.array_equal(order.sourced(order.stored(numbers)), numbers)
    assert order.stored(numbers).flags.c_contiguous


@given(st.lists(st.lists(st.integers(0, 9000), min_size=1, max_size=30), min_size=1, max_size=9))
def test_counts_do_not_depend_on_how_rows_come(rows):
    tables = [
        SparseTable(np.ones(len(r)), np.array(r), np.array([0, len(r)]), np.ones(1), None)
        for r in rows
    ]
    forth, back = ColumnCounts(), ColumnCounts()
    for table in tables:
        forth.add(table, int(table.indices.max()))
    for table in tables[::-1]:
        back.add(table, 9000)
    counts = np.bincount(np.concatenate(rows), minlength=9001)
    expected = by_frequency(counts).source
    share = counts[:CACHED_COLUMNS].sum() / counts[expected[:CACHED_COLUMNS]].sum()
    for counted in (forth, back):
        found = counted.order(9001).source
        assert (found is None) == (share >= IN_ORDER)
        assert found is None or np.array_equal(found, expected)


# -- data sets --------------------------------------------------------------------------------------


def test_rows_and_statistics_leave_in_the_order_of_the_source(pair):
    a, b = pair["source"], pair["frequency"]
    assert (a.column_order.source is None, b.column_order.source is None) == (True, False)
    for k in range(a.n_chunks):
        same_table(a.read_chunk(k), b.read_chunk(k))
    assert {*a.manifest.columns} == {*b.manifest.columns} - {"source"}
    for name in a.manifest.columns:
        assert np.array_equal(a.column(name), b.column(name))
    one, other = load_columns(a), load_columns(b)  # what SIMBA reads
    assert all(np.array_equal(one[name], other[name]) for name in one)
    with pytest.raises(KeyError, match="source"):
        b.column("source")


def test_what_lies_on_disk_is_by_popularity(pair):
    """As somebody reads it who has Zarr, SciPy and docs/format.md."""
    dataset = pair["frequency"]
    group = zarr.open_group(str(dataset.folder.local_path()), mode="r")
    source = column_by_page(dataset.folder, "source")
    parts = []
    for k in range(group["target"].nchunks):
        chunk = group[f"rows-{k:06d}"]
        indptr, indices, data = (chunk[name][:] for name in ("indptr", "indices", "data"))
        parts.append(csr_matrix((data, indices, indptr), shape=chunk.attrs["shape"]))
        assert parts[-1].has_sorted_indices
    stored = vstack(parts).tocsr()
    counts = stored.getnnz(axis=0)
    assert (np.diff(counts) <= 0).all()
    ties = np.diff(counts) == 0
    assert (np.diff(source)[ties] > 0).all()
    found = stored[:, np.argsort(source)]
    assert (found != matrix(dataset)[0]).nnz == 0
    assert np.array_equal(counts, dataset.column("count")[source])


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    n=st.integers(30, 200), seed=st.integers(0, 5), threads=st.integers(1, 4),
    fraction=st.sampled_from([0.0, 0.4]), scale=st.sampled_from(["none", "maxabs", "unit-rows"]),
)  # fmt: skip
def test_the_same_set_however_it_is_made(tmp_path, monkeypatch, n, seed, threads, fraction, scale):
    monkeypatch.setattr(mapping, "PIECE_BYTES", 2000)
    X, _ = popular_rows(n, seed)
    source = write(tmp_path / "rows.svm", X, np.arange(n) % 2)
    results = {}
    for name in (*ORDERS, "again"):
        for url in (f"memory://{name}", f"memory://{name}-test"):
            Folder(url).delete_tree()
        plan = IngestPlan(
            sources=(source,), dataset=f"memory://{name}", test_fraction=fraction, scale=scale,
            column_order="source" if name == "source" else "frequency",
        )  # fmt: skip
        results[name] = ingest(plan, threads=threads if name == "again" else 1)
    assert results["again"].fingerprint == results["frequency"].fingerprint
    assert results["again"].test_fingerprint == results["frequency"].test_fingerprint
    for end in ("", "-test") if fraction else ("",):
        a, b = (Dataset.open(f"memory://{name}{end}") for name in ORDERS)
        same_table(matrix(a)[1], matrix(b)[1])
        assert (np.diff(b.column("count")[b.column_order.source]) <= 0).all()
        for name in a.manifest.columns:
            assert np.array_equal(a.column(name), b.column(name))
        assert [*b.verify()] == []


def test_sets_that_gain_nothing_keep_their_columns(tmp_path):
    """Dense ones, narrow ones and those in order already; their bytes are the first format's."""
    n = 60
    wide = csr_matrix((np.ones(n, np.float32), np.arange(n), np.arange(n + 1)), shape=(n, D))
    narrow = popular_rows(n, d=CACHED_COLUMNS)[0]
    for number, X in enumerate((wide, narrow)):
        source = write(tmp_path / f"{number}.svm", X, np.arange(n) % 2)
        sets = []
        for order in ORDERS:
            plan = IngestPlan(sources=(source,), dataset=str(tmp_path / f"{number}-{order}"),
                              column_order=order, options={"n_features": X.shape[1]})  # fmt: skip
            sets.append(ingest(plan).fingerprint)
            dataset = Dataset.open(plan.dataset)
            assert dataset.column_order.source is None
        assert sets[0] == sets[1]
    np.savez(tmp_path / "dense.npz", X=np.eye(5, D), y=np.arange(5) % 2)
    ingest(IngestPlan(sources=(str(tmp_path / "dense.npz"),), dataset=str(tmp_path / "dense")))
    assert Dataset.open(str(tmp_path / "dense")).column_order.source is None


def ordered_set(place, source):
    """A few rows with an order of the columns as given, right or wrong."""
    table = random_table(6, D, layout="sparse")
    writer = DatasetWriter(Folder(str(place)), "sparse", D, 6, 6, "float32", has_weight=False)
    record = writer.write_chunk(0, table)
    stored, writer._columns = write_columns(writer.folder, {}, ColumnOrder(source), D)
    writer._objects[KEY] = stored
    counts = tuple(np.bincount(table.target.astype(int), minlength=2).tolist())
    targets = {"kind": "labels", "labels": (-1.0, 1.0), "counts": counts}
    return writer.commit([record], targets=targets)


@pytest.mark.parametrize("wrong", ["twice", "negative", "beyond"])
def test_an_order_that_is_none_is_damage(tmp_path, wrong):
    source = np.arange(D, dtype=np.int32)
    source[7] = {"twice": 8, "negative": -1, "beyond": D}[wrong]
    ordered_set(tmp_path / "set", source)
    dataset = Dataset.open(str(tmp_path / "set"))
    with pytest.raises(Damaged, match="no order of its 5096 columns"):
        dataset.read_chunk(0)


def test_an_order_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="order that they cannot have"):
        ordered_set(tmp_path / "type", np.arange(D, dtype=np.int64))
    writer = DatasetWriter(Folder(str(tmp_path)), "sparse", 3, 1, 1, "float32", has_weight=False)
    with pytest.raises(ValueError, match="order of 4 columns"):
        writer.write_columns({}, ColumnOrder(np.arange(4)))


# -- models -----------------------------------------------------------------------------------------


def plan_for(dataset, method="asgd", **changes):
    kind, settings = method.split()[0], METHODS[method]
    values = {"memory": "128MB", "lam": "10/n", "certify": True, "solver": {"kind": kind}}
    return TrainingPlan.model_validate(
        values | {"dataset": dataset.folder.url} | settings | changes
    )


def close(a, b, rel=1e-9):
    assert np.linalg.norm(a - b) <= rel * np.linalg.norm(a)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_is_the_same_up_to_rounding(tmp_path, pair, method):
    found = [trained_model(plan_for(pair[name], method), tmp_path / name) for name in ORDERS]
    (a, of_a), (b, of_b) = found
    close(a.weights.coef, b.weights.coef)
    assert b.weights.intercept == pytest.approx(a.weights.intercept, rel=1e-8, abs=1e-10)
    assert of_b.objective == pytest.approx(of_a.objective, rel=1e-9)
    assert of_b.certificate == pytest.approx(of_a.certificate, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize("method", ["asgd", "s2gd+", "sdca"])
def test_models_of_several_classes_too(tmp_path, pair, method):
    plans = [
        plan_for(pair[f"classes-{name}"], method, class_weight="balanced", streams=1)
        for name in ORDERS
    ]
    found = [
        trained_model(plan, tmp_path / name)[0] for plan, name in zip(plans, ORDERS, strict=True)
    ]
    assert found[0].weights.coef.shape == (3, D)
    close(*(model.weights.coef for model in found))
    figures = [evaluate(found[1], pair[f"classes-{name}"], InProcess()) for name in ORDERS]
    assert figures[0].error == figures[1].error
    assert figures[0].loss == pytest.approx(figures[1].loss, rel=ROUNDING)


def test_simba_sees_the_source(tmp_path, pair):
    """Its rows and columns come as the source has them: the same bits."""
    found = []
    for name in ORDERS:
        solver = {"kind": "simba", "iterations": 2000}
        plan = TrainingPlan(dataset=pair[name].folder.url, lam="1/n", loss="hinge", solver=solver)
        found.append(trained_model(plan, tmp_path / name)[0].weights.coef)
    assert found[0].any()
    assert np.array_equal(*found)


@pytest.mark.parametrize("trained_on", ORDERS)
def test_a_model_meets_sets_in_other_orders(tmp_path, pair, trained_on):
    """Evaluated, started from and asked for predictions: with SciPy's figures on the source."""
    model, _ = trained_model(plan_for(pair[trained_on]), tmp_path / "run")
    w, b = model.weights
    for name in ("source", "frequency", "other-source", "other-frequency"):
        X, table = matrix(pair[name])
        y, p = 2 * table.target - 1, X @ w + b
        found = evaluate(model, pair[name], InProcess())
        assert found.loss == pytest.approx(np.logaddexp(0, -y * p).mean(), rel=1e-12)
        assert found.error == pytest.approx(np.mean((p > 0) != (y > 0)), abs=ROUNDING)
        out = str(tmp_path / f"{name}.npy")
        predict(model, [pair[name].folder.url], out, PredictionPlan())
        np.testing.assert_allclose(np.load(out), p, rtol=1e-12, atol=1e-12)
        plan = plan_for(pair[name], "lbfgs", start_from=model.run.url, lam=1e-2)
        run = TrainingRun.start(plan, str(tmp_path / f"from-{name}"), InProcess())
        proven = [event.facts for event in run if event.kind == "certificate"]
        objective = found.loss + 0.5e-2 * (w @ w + 0.01 * (b - run.problem.level) ** 2)
        assert proven[0].objective == pytest.approx(objective, rel=1e-12)


@pytest.mark.parametrize("test_rows", ["other-source", "other-frequency"])
def test_held_out_rows_in_another_order_evaluate_the_same(tmp_path, pair, test_rows):
    held_out = pair[test_rows].folder.url
    plan = plan_for(pair["frequency"], lam="1e-1,1e-2,1e-3", held_out=held_out)
    model, result = trained_model(plan, tmp_path / "run")
    assert len(result.candidates) == 3
    for k, told in enumerate(result.candidates):
        alone = plan.model_copy(update={"lam": Lam.of(told["lam"]), "held_out": None})
        own, _ = trained_model(alone, tmp_path / f"run{k}")
        figures = evaluate(own, pair["other-source"], InProcess())
        assert told["loss"] == pytest.approx(figures.loss, rel=1e-12)
        if told["lam"] == result.lam:
            assert np.array_equal(model.weights.coef, own.weights.coef)


def test_a_file_is_predicted_as_the_set_is(tmp_path, pair):
    model, _ = trained_model(plan_for(pair["frequency"]), tmp_path / "run")
    how = PredictionPlan(options=SourceOptions(n_features=D))
    predict(model, [pair["file"]], str(tmp_path / "file.npy"), how)
    X, _ = popular_rows(300, 1, first=5)
    expected = X @ model.weights.coef + model.weights.intercept
    np.testing.assert_allclose(np.load(tmp_path / "file.npy"), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["asgd", "s2gd+", "sdca"])
def test_cut_short_it_has_the_quiet_runs_bits(tmp_path, pair, method):
    plan = plan_for(pair["frequency"], method, snapshot_every=1e-9)
    _, quiet = trained_model(plan, tmp_path / "quiet")
    for stop in (1, 3, 6, 9):
        found = cut_and_resumed(plan, str(tmp_path / f"cut{stop}"), stop)
        assert found.weights_sha256 == quiet.weights_sha256


def test_a_million_columns(tmp_path):
    X, score = popular_rows(400, d=1_000_000, nnz=50)
    source = write(tmp_path / "rows.svm", X, np.where(score > 0, 1, -1))
    models = []
    for order in ORDERS:
        plan = IngestPlan(sources=(source,), dataset=str(tmp_path / order), column_order=order,
                          options={"n_features": 1_000_000})  # fmt: skip
        ingest(plan)
        dataset = Dataset.open(plan.dataset)
        models.append(
            trained_model(plan_for(dataset, memory="512MB"), tmp_path / f"run-{order}")[0]
        )
    close(*(model.weights.coef for model in models))
    seen = np.flatnonzero(X.getnnz(axis=0))
    assert np.array_equal(np.flatnonzero(models[1].weights.coef), seen)
