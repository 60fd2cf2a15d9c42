"""Estimators against scikit-learn's own, and the laws of what they are given."""

import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from fewpass import LinearClassifier, LinearRegressor
from fewpass.solvers.kernels.compiling import Compiling
from testing.prefect_server import patience

N, D = 400, 6


def rows(n=N, d=D, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(0.5, 2.0, d) + 0.3
    score = X @ rng.standard_normal(d) + rng.standard_normal(n)
    edges = np.quantile(score, np.arange(1, classes) / classes)
    return X, np.searchsorted(edges, score), score


# -- oracles ---------------------------------------------------------------------------------------


def test_logistic_regression_is_scikit_learns_up_to_the_charge_of_the_intercept():
    X, y, _ = rows(4000)
    found = LinearClassifier(tol=1e-10).fit(X, y)
    theirs = LogisticRegression(C=1.0, tol=1e-10).fit(X, y)
    np.testing.assert_allclose(found.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(found.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_without_an_intercept_the_models_are_the_same():
    X, y, score = rows()
    ours = LinearClassifier(tol=1e-12, fit_intercept=False).fit(X, y)
    theirs = LogisticRegression(C=1.0, tol=1e-12, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-6)
    ours = LinearClassifier(loss="squared_hinge", lam="0.5/n", tol=1e-12, fit_intercept=False).fit(
        X, y
    )
    theirs = LinearSVC(C=1.0, tol=1e-10, fit_intercept=False, max_iter=10**5).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-5)
    ours = LinearRegressor(tol=1e-14, fit_intercept=False).fit(X, score)
    theirs = Ridge(alpha=1.0, fit_intercept=False).fit(X, score)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-7)
    away = X @ theirs.coef_ - score
    least = (away @ away + theirs.coef_ @ theirs.coef_) / (2 * N)
    assert ours.objective_ == pytest.approx(least, rel=1e-12)


# -- laws ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-6, None])
def test_dense_and_sparse_rows_make_the_same_model(tol):
    X, y, _ = rows()
    X[np.random.default_rng(1).random(X.shape) < 0.5] = 0.0
    dense = LinearClassifier(tol=tol).fit(X, y)
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix):
        found = LinearClassifier(tol=tol).fit(kind(X), y)
        np.testing.assert_allclose(found.coef_, dense.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_frames_keep_their_names(frame):
    X, y, score = rows()
    named = frame({f"x{j}": X[:, j] for j in range(D)})
    for model, target in ((LinearClassifier(), y), (LinearRegressor(), score)):
        found = clone(model).fit(named, target)
        assert list(found.feature_names_in_) == [f"x{j}" for j in range(D)]
        np.testing.assert_allclose(found.coef_, model.fit(X, target).coef_, rtol=1e-12)
        assert np.array_equal(found.predict(named), model.predict(X))
    turned = frame({f"x{j}": X[:, j] for j in reversed(range(D))})
    with pytest.raises(ValueError, match="feature names"):
        found.predict(turned)


def test_what_is_given_stays_as_it_was():
    X, y, _ = rows()
    S = sparse.csr_matrix((np.ones(4), [2, 0, 0, 1], [0, 3, 4]), shape=(2, 3))  # not canonical
    kept = S.copy()
    LinearClassifier().fit(S, [0, 1])
    assert np.array_equal(S.indices, kept.indices)
    before = X.copy()
    LinearClassifier(scale="standard").fit(X, y)
    assert np.array_equal(X, before)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_arrays_that_are_marked_read_only_need_no_kernels_of_their_own(form):
    """Those of pandas' frames are, and shared memory's; they stay as they were."""
    X, _, score = rows()
    X = form(X)
    weight = np.linspace(0.5, 1.5, N)
    estimator = LinearRegressor(tol=1e-3, lam=1e-3)
    expected = estimator.fit(X, score, weight).coef_
    parts = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
    before = [part.copy() for part in parts]
    for part in (*parts, score, weight):
        part.setflags(write=False)
    with Compiling() as compiling:
        found = estimator.fit(X, score, weight)
        found.predict(X)
    assert compiling.kernels == 0
    assert np.array_equal(found.coef_, expected)
    assert all(np.array_equal(*pair) for pair in zip(parts, before, strict=True))


@given(st.lists(st.integers(0, 3), min_size=60, max_size=60), st.sampled_from([2, 3]))
@example([2] * 60, 2)
@settings(max_examples=15)
def test_a_weight_is_a_number_of_equal_rows(counts, classes):
    X, y, _ = rows(60, classes=classes)
    counts = np.array(counts)
    if len(np.unique(y[counts > 0])) < classes:
        return
    often = np.repeat(np.arange(60), counts)
    weighted = LinearClassifier(tol=1e-12).fit(X, y, sample_weight=counts)
    repeated = LinearClassifier(tol=1e-12).fit(X[often], y[often])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)


def test_scaling_is_a_matter_of_training_alone():
    X, y, score = rows()
    wide = X * 10.0 ** np.arange(-2, 4)
    inside = LinearClassifier(scale="standard", tol=1e-10).fit(wide, y)
    before = make_pipeline(StandardScaler(), LinearClassifier(tol=1e-10)).fit(wide, y)
    np.testing.assert_allclose(
        inside.decision_function(wide), before.decision_function(wide), atol=1e-6
    )
    again = LinearRegressor(scale="maxabs", tol=1e-12).fit(wide, score)
    warm = clone(again).set_params(warm_start=True).fit(wide, score)
    np.testing.assert_allclose(warm.predict(wide), again.predict(wide), atol=1e-6)


def test_single_precision_stays_what_it_is():
    X, y, _ = rows()
    single = X.astype(np.float32)
    found = LinearClassifier().fit(single, y)
    np.testing.assert_allclose(found.coef_, LinearClassifier().fit(X, y).coef_, atol=1e-4)
    assert found.predict_proba(single).dtype == np.float64


# -- batches ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sizes", [(7,), (150, 250)])
def test_batches_make_the_model_of_all_rows_in_their_order(classes, sizes):
    X, y, _ = rows(1000, classes=classes)
    solver = {"lam": 1e-3, "solver": "asgd"}
    whole = LinearClassifier(**solver).partial_fit(X[:500], y[:500], classes=range(classes))
    whole.partial_fit(X[500:], y[500:])
    cut = LinearClassifier(**solver).partial_fit(X[:500], y[:500], classes=range(classes))
    at, k = 500, 0
    while at < 1000:
        size = sizes[k % len(sizes)]
        cut.partial_fit(X[at : at + size], y[at : at + size])
        at, k = at + size, k + 1
    assert cut.coef_.tobytes() == whole.coef_.tobytes()
    assert cut.rows_seen_ == 1000


@pytest.mark.parametrize("solver", ["auto", "asgd"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "batches", [(sparse.csr_matrix, np.asarray), (np.asarray, sparse.csr_matrix)]
)
def test_batches_may_be_dense_and_sparse_in_turn(solver, classes, batches):
    X, y, _ = rows(400, classes=classes)
    alike, mixed = (LinearClassifier(lam=1e-2, solver=solver) for _ in range(2))
    for k, as_given in enumerate(batches):
        own, labels = X[200 * k : 200 * (k + 1)], y[200 * k : 200 * (k + 1)]
        alike.partial_fit(own, labels, classes=range(classes))
        mixed.partial_fit(as_given(own), labels, classes=range(classes))
    np.testing.assert_allclose(mixed.coef_, alike.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("classes", "method"), [(2, "onepass"), (6, "onepass"), (65, "asgd")])
def test_batches_are_learnt_as_one_pass_is(classes, method):
    """One batch is one pass; kept between batches, a state goes on as it was, and stays picklable."""
    X, y, _ = rows(1000, classes=classes)
    model = LinearClassifier(lam=1e-3).partial_fit(X[:500], y[:500], classes=range(classes))
    model = pickle.loads(pickle.dumps(model))
    before = model.coef_.tobytes()
    model.partial_fit(X[500:], y[500:])
    again = LinearClassifier(lam=1e-3).partial_fit(X[:500], y[:500], classes=range(classes))
    assert again.coef_.tobytes() == before
    assert again.partial_fit(X[500:], y[500:]).coef_.tobytes() == model.coef_.tobytes()
    assert model.solver_ == method


def test_one_pass_in_batches_sees_columns_of_any_scale():
    """Columns a million times apart, one of them not in the first batch: near the optimum."""
    X, _, score = rows(4000)
    X = X * np.logspace(-3, 3, X.shape[1])
    X[:100, 0] = 0.0
    best = LinearRegressor(lam=1e-6, tol=1e-8).fit(X, score)
    model = LinearRegressor(lam=1e-6)
    for k in range(0, 4000, 100):
        model.partial_fit(X[k : k + 100], score[k : k + 100])
    assert model.solver_ == "onepass"
    level = np.var(score)
    assert objective(model, X, score) - best.objective_ < 1e-3 * level


def objective(model, X, target):
    away = X @ model.coef_ + model.intercept_ - target
    charge = model.lam_ * (
        model.coef_ @ model.coef_ + (model.intercept_ - target.mean()) ** 2 / 100
    )
    return 0.5 * np.mean(away**2) + 0.5 * charge


def test_a_method_asked_for_otherwise_goes_on_at_the_model():
    X, y, _ = rows(1000)
    model = LinearClassifier(lam=1e-3).partial_fit(X[:500], y[:500], classes=[0, 1])
    model.set_params(solver="asgd").partial_fit(X[500:], y[500:])
    assert (model.solver_, model.rows_seen_) == ("asgd", 1000)


def test_batches_go_on_from_a_fit():
    X, _, score = rows(5000)
    regressor = LinearRegressor().fit(X[:100], score[:100])
    regressor.partial_fit(X[100:], score[100:])
    assert regressor.rows_seen_ > 5000
    assert regressor.score(X, score) > 0.0  # that of the mean


def test_one_number_is_the_weight_of_all_rows():
    X, y, _ = rows(100)
    one, each = (LinearClassifier().fit(X, y, w).coef_ for w in (2.0, np.full(100, 2.0)))
    np.testing.assert_array_equal(one, each)


@pytest.mark.parametrize("kind", ["boolean", "Int8", "bool[pyarrow]"])
def test_labels_of_pandas_own_types_stay_what_they_are(kind):
    X, y, _ = rows(100)
    found = LinearClassifier().fit(X, pd.Series(y > 0).astype(kind))
    assert (
        found.classes_.dtype.kind == found.predict(X).dtype.kind == ("i" if kind == "Int8" else "b")
    )


def test_labels_may_be_words_and_classes_be_weighted():
    X, y, _ = rows()
    words = np.array(["no", "yes"])[y]
    found = LinearClassifier(class_weight={"yes": 3.0, "no": 1.0}).fit(X, words)
    weighted = LinearClassifier().fit(X, words, sample_weight=1.0 + 2.0 * y)
    assert set(found.predict(X)) == {"no", "yes"}
    np.testing.assert_allclose(found.coef_, weighted.coef_, atol=1e-7)


def test_a_missed_tolerance_warns_and_leaves_a_model():
    X, y, _ = rows()
    with pytest.warns(ConvergenceWarning, match="3 passes"):
        model = LinearClassifier(solver="gd", tol=1e-9, passes=3).fit(X, y)
    assert model.certificate_ > 1e-9
    assert model.score(X, y) > 0.5


ENDLESS_FIT = """
import numpy as np
from fewpass import LinearRegressor
X = np.random.default_rng(0).standard_normal((20000, 50))
LinearRegressor(solver="gd", tol=1.0, passes=3).fit(X, X[:, 0])  # what a fit imports is there
model = LinearRegressor(solver="gd", tol=1e-99, passes=10**6)
print("fitting", flush=True)
model.fit(X, X[:, 0])
"""


def test_a_ctrl_c_ends_a_fit():
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS_FIT],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "fitting\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=patience(60))
    finally:  # else it would go on for ever
        process.kill()
        process.communicate()
    assert errors.rstrip().endswith("KeyboardInterrupt")
