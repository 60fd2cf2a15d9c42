"""Losses of numbers as estimators: against scikit-learn's own, and what is exported of them."""

import numpy as np
import pytest
from sklearn.linear_model import GammaRegressor, PoissonRegressor, QuantileRegressor
from sklearn.svm import LinearSVR

from fewpass import LinearRegressor

STEEP = {"poisson": PoissonRegressor, "gamma": GammaRegressor}


def rows(n=400):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 4))
    score = X @ [0.3, -0.2, 0.1, 0.0] + 1.5
    return X, score, rng


def targets(loss):
    X, score, rng = rows()
    if loss == "poisson":
        return X, rng.poisson(np.exp(score)).astype(float)
    return X, rng.gamma(2.0, np.exp(score) / 2.0) + 1e-6


@pytest.mark.parametrize("loss", STEEP)
@pytest.mark.parametrize("solver", ["auto", "psdca"])
def test_generalised_linear_models(loss, solver):
    X, y = targets(loss)
    weight = np.random.default_rng(4).choice([0.0, 0.5, 1.0, 2.0], len(y))
    mine = LinearRegressor(loss=loss, lam=1e-2, tol=1e-11, solver=solver)
    mine.fit(X, y, sample_weight=weight)
    theirs = STEEP[loss](alpha=1e-2, tol=1e-10, max_iter=10_000).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(mine.coef_, theirs.coef_, atol=2e-5)
    np.testing.assert_allclose(mine.predict(X), theirs.predict(X), rtol=1e-4)
    assert mine.solver_ == ("newton" if solver == "auto" else "psdca")
    same = mine.to_sklearn()
    assert isinstance(same, STEEP[loss])
    np.testing.assert_allclose(same.predict(X), mine.predict(X), rtol=1e-12)


@pytest.mark.parametrize("tau", [0.2, 0.5, 0.9])
def test_quantiles(tau):
    X, score, rng = rows()
    y = score + rng.standard_t(3.0, len(score))
    mine = LinearRegressor(loss="quantile", quantile=tau, lam=1e-4, tol=1e-4).fit(X, y)
    theirs = QuantileRegressor(quantile=tau, alpha=0.0).fit(X, y)

    def pinball(model):
        r = y - model.predict(X)
        return np.maximum(tau * r, (tau - 1.0) * r).mean()

    charge = 0.5e-4 * (theirs.coef_ @ theirs.coef_ + 0.01 * theirs.intercept_**2)
    assert 0.0 <= pinball(mine) - pinball(theirs) <= charge + mine.certificate_


def test_support_vector_regression():
    X, score, rng = rows()
    y, lam = score + rng.standard_t(3.0, len(score)), 1e-2
    mine = LinearRegressor(loss="epsilon_insensitive", epsilon=0.3, lam=lam, tol=1e-4)
    mine.set_params(fit_intercept=False).fit(X, y)
    theirs = LinearSVR(
        epsilon=0.3, C=1.0 / (lam * len(y)), fit_intercept=False, tol=1e-8, max_iter=100_000
    )
    w = theirs.fit(X, y).coef_
    objective = np.maximum(0.0, np.abs(X @ w - y) - 0.3).mean() + 0.5 * lam * w @ w
    assert mine.objective_ - mine.certificate_ <= objective + 1e-9
    assert mine.objective_ <= objective + mine.certificate_


def test_targets_that_a_loss_is_not_defined_for_are_named():
    X, y = targets("poisson")
    with pytest.raises(ValueError, match=r"y\[7\] is -1, and loss='poisson' is for targets of at"):
        LinearRegressor(loss="poisson").fit(X, np.where(np.arange(len(y)) == 7, -1.0, y))
    with pytest.raises(ValueError, match=r"is 0, and loss='gamma' is for targets above 0"):
        LinearRegressor(loss="gamma").fit(X, np.maximum(y - 3.0, 0.0))
    with pytest.raises(ValueError, match=r"is 1e-310, and .* above 0, from 2\.23e-308 on"):
        LinearRegressor(loss="gamma").fit(X, np.maximum(y, 1e-310))
    with pytest.raises(ValueError, match="poisson loss has no bound, and lbfgs"):
        LinearRegressor(loss="poisson", solver="lbfgs").fit(X, y)
    with pytest.raises(ValueError, match="quantile loss has a kink, and newton"):
        LinearRegressor(loss="quantile", solver="newton").fit(X, y)
    assert not hasattr(LinearRegressor(loss="poisson"), "partial_fit")


def test_exports_are_on_the_scale_of_the_targets(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = targets("poisson")
    model = LinearRegressor(loss="poisson").fit(X, y)
    model.save_model(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    (predicted,) = session.run(["variable"], {"X": X})
    np.testing.assert_allclose(predicted[:, 0], model.predict(X), rtol=1e-12)
    with pytest.raises(ValueError, match="skops trusts no type"):
        model.save_model(tmp_path / "model.skops")
    with pytest.raises(ValueError, match="LIBLINEAR has no loss like"):
        model.save_model(tmp_path / "model.liblinear")
