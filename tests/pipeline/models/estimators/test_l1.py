"""Estimators with l1 and the elastic net: scikit-learn's models, and zeros."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression

from fewpass import LinearClassifier, LinearRegressor


def rows(n=400, d=20, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    s = X[:, :3] @ np.array([2.0, -1.0, 0.7]) + 0.5
    return X, s + rng.standard_normal(n), np.where(s + rng.logistic(size=n) > 0.0, "yes", "no")


@pytest.mark.parametrize(
    ("words", "theirs"),
    [
        ({"penalty": "l1", "lam": 0.1}, Lasso(alpha=0.1, tol=1e-12)),
        ({"penalty": "elasticnet", "lam": 0.2}, ElasticNet(alpha=0.2, l1_ratio=0.5, tol=1e-12)),
        ({"penalty": "elasticnet", "l1_ratio": 0.9, "lam": 0.1},
         ElasticNet(alpha=0.1, l1_ratio=0.9, tol=1e-12)),
    ],
)  # fmt: skip
def test_lasso_and_elastic_net_are_these(words, theirs):
    X, y, _ = rows()
    ours = LinearRegressor(tol=1e-9, **words).fit(X, y)
    theirs.fit(X, y)
    assert np.array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    assert (ours.coef_ == 0.0).sum() > 0
    # the intercept is charged a millionth, or a hundredth of what squares are
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=3e-3 if "l1_ratio" in words else 5e-3)
    assert ours.lam_ == words["lam"]


@pytest.mark.parametrize("solver", ["psdca", "newton"])
def test_logistic_regression_is_this(solver):
    X, _, labels = rows()
    ours = LinearClassifier(
        penalty="l1", lam=0.02, solver=solver, tol=1e-7, fit_intercept=False
    ).fit(csr_matrix(X), labels)
    theirs = LogisticRegression(
        l1_ratio=1.0, C=1.0 / (0.02 * 400), solver="saga", fit_intercept=False, tol=1e-10,
        max_iter=10_000,
    ).fit(X, labels)  # fmt: skip
    assert np.array_equal(ours.coef_ == 0.0, theirs.coef_ == 0.0)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)


def test_from_the_largest_lam_on_all_weights_are_zero():
    X, y, _ = rows()
    for share, zero in (("1.001max", 20), (".9max", 19)):
        fitted = LinearRegressor(penalty="l1", lam=share, tol=1e-6).fit(X, y)
        assert (fitted.coef_ == 0.0).sum() == zero
    assert fitted.lam_ == pytest.approx(0.9 * np.abs(X.T @ (y - y.mean())).max() / 400, rel=1e-6)
