"""Offsets and exposures: against formulas written out."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

from fewpass import LinearClassifier, LinearRegressor

LAM = 1e-3


def rows(n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    exposure = rng.uniform(0.5, 20.0, n)
    return X, exposure, exposure * np.exp(X @ [0.3, -0.2, 0.1] - 1.0), rng


def counts():
    X, exposure, mean, rng = rows()
    return X, exposure, rng.poisson(mean).astype(float)


def amounts():
    X, exposure, mean, rng = rows()
    return X, exposure, rng.gamma(2.0, mean / 2.0) + 1e-3


TARGETS = {"poisson": counts, "gamma": amounts}


def optimum(loss, X, y, o, weight):
    """The least objective by somebody else, the charge of the intercept from the level included."""
    level = np.log(y.mean()) - np.log(np.exp(o).mean())

    def objective(v):
        p = X @ v[:3] + v[3] + o
        phi = np.exp(p) - y * p if loss == "poisson" else y * np.exp(-p) + p
        slope = np.exp(p) - y if loss == "poisson" else 1.0 - y * np.exp(-p)
        up, u = v[3] - level, weight * slope / len(y)
        value = np.mean(weight * phi) + 0.5 * LAM * (v[:3] @ v[:3] + 0.01 * up**2)
        return value, np.append(X.T @ u + LAM * v[:3], u.sum() + 0.01 * LAM * up)

    best = minimize(objective, np.zeros(4), jac=True, method="BFGS", options={"gtol": 1e-10})
    return best.x


@pytest.mark.parametrize("loss", TARGETS)
@pytest.mark.parametrize("solver", ["newton", "psdca"])
def test_the_optimum_is_that_of_the_formula(loss, solver):
    X, exposure, y = TARGETS[loss]()
    weight = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(y))
    weight /= weight.mean()
    model = LinearRegressor(loss=loss, lam=LAM, solver=solver, tol=1e-11)
    model.fit(X, y, sample_weight=weight, exposure=exposure)
    expected = optimum(loss, X, y, np.log(exposure), weight)
    found = np.append(model.coef_, model.intercept_)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert 0.0 <= model.certificate_ <= 1e-11 * max(1.0, model.objective_)
    predicted = exposure * np.exp(X @ model.coef_ + model.intercept_)
    np.testing.assert_allclose(model.predict(X, exposure=exposure), predicted, rtol=1e-12)
    by_offset = model.predict(X, offset=np.log(exposure))
    np.testing.assert_allclose(by_offset, predicted, rtol=1e-12)


@pytest.mark.parametrize("loss", ["squared", "quantile"])
def test_offsets_of_residuals_are_taken_off_the_targets(loss):
    X, offset, y = counts()
    with_offset = LinearRegressor(loss=loss, lam=0.1, tol=1e-6).fit(X, y, offset=offset)
    without = LinearRegressor(loss=loss, lam=0.1, tol=1e-6).fit(X, y - offset)
    # the level is their mean, added up in another way
    np.testing.assert_allclose(with_offset.coef_, without.coef_, rtol=1e-3)
    predicted = with_offset.predict(X, offset=offset)
    np.testing.assert_allclose(predicted, without.predict(X) + offset, rtol=1e-3)


def test_columns_of_a_frame_are_named():
    X, exposure, y = counts()
    frame = pd.DataFrame(X, columns=list("abc")).assign(time=exposure, events=y)
    model = LinearRegressor(loss="poisson").fit(frame, "events", exposure="time")
    alone = LinearRegressor(loss="poisson").fit(frame[list("abc")], y, exposure=exposure)
    assert np.array_equal(model.coef_, alone.coef_)
    predicted = model.predict(frame.drop(columns="events"), exposure="time")
    np.testing.assert_array_equal(predicted, alone.predict(frame[list("abc")], exposure=exposure))
    assert model.score(frame, "events", exposure="time") == pytest.approx(
        alone.score(frame[list("abc")], y, exposure=exposure)
    )


def test_what_does_not_go_is_refused(tmp_path):
    X, exposure, y = counts()
    model = LinearRegressor(loss="poisson").fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="predictions need them"):
        model.predict(X)
    assert model.predict(X, exposure=1.0).shape == y.shape
    with pytest.raises(ValueError, match="fitted without"):
        LinearRegressor(loss="poisson").fit(X, y).predict(X, offset=exposure)
    with pytest.raises(ValueError, match=r"exposure\[0\] is -"):
        LinearRegressor(loss="poisson").fit(X, y, exposure=-exposure)
    with pytest.raises(ValueError, match=r"has the shape \(3,\)"):
        LinearRegressor(loss="poisson").fit(X, y, offset=np.zeros(3))
    with pytest.raises(ValueError, match="Both offset and exposure"):
        LinearRegressor(loss="poisson").fit(X, y, offset=exposure, exposure=exposure)
    with pytest.raises(ValueError, match=r"predicts sums\. Choose loss='poisson'"):
        LinearRegressor().fit(X, y, exposure=exposure)
    with pytest.raises(ValueError, match="takes rows alone"):
        model.save_model(tmp_path / "model.onnx")
    with pytest.raises(TypeError, match="offset"):
        LinearClassifier().fit(X, y > 1, offset=exposure)


def test_held_out_rows_have_offsets_too():
    X, exposure, y = counts()
    model = LinearRegressor(loss="poisson", lam=[1.0, LAM], held_out=0.2, tol=1e-6)
    model.fit(X, y, exposure=exposure)
    assert model.lam_ == LAM
    losses = [one["loss"] for one in model.candidates_]
    assert losses[1] < losses[0]


@pytest.fixture(scope="module")
def cut():
    """The same rows as blocks of Dask: an array, a frame, a list of delayed blocks."""
    da, dd = pytest.importorskip("dask.array"), pytest.importorskip("dask.dataframe")
    delayed = pytest.importorskip("dask").delayed
    X, exposure, y = counts()
    array = [da.from_array(part, chunks=(90, *part.shape[1:])) for part in (X, y, exposure)]
    frame = pd.DataFrame(X, columns=list("abc")).assign(time=exposure, events=y)
    lists = [[delayed(part[:50]), delayed(part[50:])] for part in (X, y, exposure)]
    return array, dd.from_pandas(frame, npartitions=3), lists


def test_collections_have_exposures_as_rows_in_memory_do(cut):
    X, exposure, y = counts()
    (rows, targets, times), frame, lists = cut
    new = lambda: LinearRegressor(loss="poisson", lam=LAM, tol=1e-10)  # noqa: E731
    alone = new().fit(X, y, exposure=exposure)
    named = new().fit(frame, "events", exposure="time")
    series = new().fit(frame[list("abc")], frame.events, exposure=frame.time)
    logs = new().fit(rows, targets, offset=np.log(exposure))
    of_array, of_lists = (new().fit(*each[:2], exposure=each[2]) for each in (cut[0], lists))
    for model in (named, series, logs, of_array, of_lists):
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-6)
    predicted = alone.predict(X, exposure=exposure)
    unlabelled = frame.drop(columns=["events"])
    for lazily in (
        of_array.predict(rows, exposure=times), of_lists.predict(lists[0], exposure=lists[2]),
        named.predict(unlabelled, exposure="time"),
        named.predict(frame[list("abc")], exposure=frame.time),
    ):  # fmt: skip
        np.testing.assert_allclose(lazily.compute(), predicted, rtol=1e-5)
    for one in (1.0, np.int64(1)):
        rates = of_array.predict(rows, exposure=one).compute()
        np.testing.assert_allclose(rates * exposure, predicted, rtol=1e-5)
    score = alone.score(X, y, exposure=exposure)
    assert of_array.score(rows, targets, exposure=times) == pytest.approx(score, rel=1e-5)
    assert named.score(frame, "events", exposure="time") == pytest.approx(score, rel=1e-5)


def test_what_does_not_go_with_collections_is_refused(cut):
    (rows, targets, times), frame, lists = cut
    model = LinearRegressor(loss="poisson")
    with pytest.raises(ValueError, match=r"exposure is missing.*not above 0"):
        model.fit(rows, targets, exposure=-times)
    with pytest.raises(ValueError, match="Both offset and exposure"):
        model.fit(rows, targets, offset=times, exposure=times)
    with pytest.raises(ValueError, match="X has 2 blocks, but exposure has 1"):
        model.fit(*lists[:2], exposure=lists[2][:1])
    with pytest.raises(ValueError, match="exposure is ndarray in memory"):
        model.fit(frame, "events", exposure=np.ones(400))
    model.fit(rows, targets, exposure=times)
    with pytest.raises(ValueError, match="predictions need them"):
        model.predict(rows)
