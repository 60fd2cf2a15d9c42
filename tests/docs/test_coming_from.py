"""What docs/coming-from.md says of scikit-learn, LIBLINEAR and glmnet: the same weights."""

import numpy as np
import pytest
from liblinear.liblinearutil import train as liblinear
from sklearn.datasets import dump_svmlight_file, load_breast_cancer
from sklearn.linear_model import ElasticNet, Lasso, PoissonRegressor
from sklearn.preprocessing import StandardScaler

from fewpass import LinearRegressor, ingest, load_model, train

X, y = load_breast_cancer(return_X_y=True)
X = StandardScaler().fit_transform(X)
n = len(y)


@pytest.fixture
def target():
    return X[:, 0] - 2 * X[:, 5] + 0.1 * np.random.default_rng(1).standard_normal(n)


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (Lasso(alpha=0.05, tol=1e-10), {"penalty": "l1", "lam": 0.05}),
        (
            ElasticNet(alpha=0.05, l1_ratio=0.9, tol=1e-10),
            {"penalty": "elasticnet", "l1_ratio": 0.9, "lam": 0.05},
        ),
    ],
)
def test_sparse_models_have_the_same_zeros(target, theirs, words):
    ours = LinearRegressor(tol=1e-8, **words).fit(X, target)
    theirs.fit(X, target)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-3
    assert np.array_equal(ours.coef_ == 0, theirs.coef_ == 0)
    assert not ours.coef_.all()


def test_counts_are_those_of_scikit_learn_and_exposures_scale_them():
    rng = np.random.default_rng(0)
    hours = rng.uniform(1.0, 9.0, n)
    counts = rng.poisson(hours * np.exp(0.3 * X[:, 0] - 0.2))
    theirs = PoissonRegressor(alpha=0.01, tol=1e-10, max_iter=10_000).fit(X, counts)
    ours = LinearRegressor(loss="poisson", lam=0.01, tol=1e-10).fit(X, counts)
    assert np.abs(ours.coef_ - theirs.coef_).max() < 1e-4
    rates = LinearRegressor(loss="poisson", lam=0.01).fit(X, counts, exposure=hours)
    assert np.allclose(rates.predict(X, exposure=2.0), 2.0 * rates.predict(X, exposure=1.0))


def test_a_file_of_liblinear_gives_the_weights_of_liblinear(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    C, signs = 0.1, np.where(y == 1, 1, -1)
    dump_svmlight_file(X, signs, "rows.svm", zero_based=False)
    theirs = liblinear(signs, X, f"-s 2 -c {C} -B 1 -e 1e-9 -q")
    ingest("rows.svm", "rows")
    words = {"loss": "squared_hinge", "lam": 1 / (2 * C * n), "intercept": "regularised"}
    train("rows", "run", tol=1e-10, **words)
    w = np.abs(np.array(theirs.get_decfun()[0]))  # the first label it sees is its positive one
    assert np.abs(np.abs(load_model("run").weights.coef) - w).max() < 1e-3


def test_the_largest_lambda_is_1max(target):
    largest = np.abs(X.T @ (target - target.mean())).max() / n
    none = LinearRegressor(penalty="l1", lam="1.001max", tol=1e-8).fit(X, target)
    some = LinearRegressor(penalty="l1", lam=".99max", tol=1e-8).fit(X, target)
    assert not none.coef_.any()
    assert some.coef_.any()
    assert abs(some.lam_ - 0.99 * largest) < 1e-9
