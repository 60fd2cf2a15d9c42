"""What runs charge the intercept from: the best constant, which a heavy penalty leaves alone."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge

from fewpass import LinearClassifier, LinearRegressor, cross_validate, evaluate, ingest, train
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder

N, UP, HEAVY = 80, 1e6, 1e5
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 3))
AMOUNTS = X[:, 0] + RNG.exponential(size=N)
COUNTS = RNG.poisson(500 * np.exp(0.1 * X[:, 0]))
SIDES = np.where(X[:, 0] + RNG.normal(size=N) > 1.2, "yes", "no")
CLASSES = np.array(["p", "q", "r"])[np.searchsorted([1.0, 1.8], X[:, 0] + RNG.normal(size=N))]
WEIGHTS, TIMES = RNG.choice([0.5, 1.0, 4.0], N), RNG.uniform(1.0, 9.0, N)


def odds(of):
    return np.log(np.mean(of) / (1.0 - np.mean(of)))


SHARES = np.log([np.mean(word == CLASSES) for word in "pqr"])
SHARE = np.average(SIDES == "yes", weights=WEIGHTS)
OF_EACH = [odds(word == CLASSES) for word in "pqr"]
NUMBERS, WEIGHTED = {"task": "regression"}, {"weight": "w"}
EPS = {"loss": "epsilon_insensitive", "epsilon": 0.1, "tol": 1e-4}

#: Targets, settings of the training, how rows are read, the best constant, how near.
RUNS = {
    "squared": (UP + AMOUNTS, {}, NUMBERS, UP + AMOUNTS.mean(), 1e-3),
    "newton": (UP + AMOUNTS, {"tol": 1e-6, "solver": "newton"}, NUMBERS, UP + AMOUNTS.mean(), 1e-6),
    "psdca": (UP + AMOUNTS, {"tol": 1e-6, "solver": "psdca"}, NUMBERS, UP + AMOUNTS.mean(), 1e-6),
    "asgd": (UP + AMOUNTS, {"solver": "asgd"}, NUMBERS, UP + AMOUNTS.mean(), 1e-3),
    "regularised": (
        UP + AMOUNTS, {"intercept": "regularised", "tol": 1e-6}, NUMBERS, UP + AMOUNTS.mean(), 1e-6,
    ),
    "several lam": (UP + AMOUNTS, {"lam": "1e5,1e6"}, NUMBERS, UP + AMOUNTS.mean(), 1e-3),
    "l1": (UP + AMOUNTS, {"penalty": "l1", "tol": 1e-6}, NUMBERS, UP + AMOUNTS.mean(), 1e-6),
    "weights": (
        UP + AMOUNTS, {"tol": 1e-6}, NUMBERS | WEIGHTED, UP + np.average(AMOUNTS, weights=WEIGHTS),
        1e-6,
    ),
    "quantile": (
        UP + AMOUNTS, {"loss": "quantile", "quantile": 0.9, "tol": 1e-4}, NUMBERS,
        UP + np.quantile(AMOUNTS, 0.9), 0.2,
    ),
    "insensitive": (UP + AMOUNTS, EPS, NUMBERS, UP + np.median(AMOUNTS), 0.2),
    "poisson": (COUNTS, {"loss": "poisson", "tol": 1e-6}, NUMBERS, np.log(COUNTS.mean()), 1e-6),
    "exposures": (
        COUNTS, {"loss": "poisson", "tol": 1e-6}, NUMBERS | {"exposure": "time", "encode": "linear"},
        np.log(COUNTS.mean() / TIMES.mean()), 1e-2,
    ),
    "logistic": (SIDES, {}, {}, odds(SIDES == "yes"), 1e-4),
    "weighted sides": (
        SIDES, {"tol": 1e-6}, WEIGHTED, np.log(SHARE / (1.0 - SHARE)), 1e-6,
    ),
    "balanced": (SIDES, {"tol": 1e-6, "class_weight": "balanced"}, {}, 0.0, 1e-9),
    "ovr": (CLASSES, {"classes": "ovr"}, {}, OF_EACH, 1e-3),
    "ovr, one by one": (
        CLASSES, {"classes": "ovr", "tol": 1e-6, "solver": "lbfgs"}, {}, OF_EACH, 1e-6,
    ),
    "softmax": (
        CLASSES, {"loss": "softmax", "tol": 1e-6, "solver": "psdca"}, {}, SHARES - SHARES.mean(),
        1e-6,
    ),
    "softmax asgd": (CLASSES, {"loss": "softmax", "solver": "asgd"}, {}, SHARES - SHARES.mean(), 1e-4),
}  # fmt: skip
STRAIGHT = ("squared", "asgd", "several lam", "logistic", "ovr", "softmax asgd")


def written(at, y):
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(y=y, w=WEIGHTS, time=TIMES)
    table.to_csv(at / "rows.csv", index=False)
    return at / "rows.csv"


def reading(how):
    unused = {"w", "time"} - {how.get("weight"), how.get("exposure")}
    return {"label": "y", "drop": sorted(unused), "encode": "none", **how}


@pytest.mark.parametrize("name", RUNS)
def test_a_heavy_penalty_leaves_the_best_constant(tmp_path, name):
    y, settings, how, constant, near = RUNS[name]
    ingest(written(tmp_path, y), tmp_path / "set", **reading(how))
    result = train(tmp_path / "set", tmp_path / "run", **({"lam": HEAVY} | settings))
    model = load_model(RunFolder(str(tmp_path / "run")))
    np.testing.assert_allclose(model.weights.intercept, constant, atol=near, rtol=0.0)
    np.testing.assert_allclose(model.record.level, constant, atol=max(near, 1e-3), rtol=0.0)
    if "tol" in settings:
        found = evaluate(tmp_path / "run", tmp_path / "set")
        assert found.objective == pytest.approx(result.objective, rel=1e-9)


@pytest.mark.parametrize("name", STRAIGHT)
def test_straight_from_a_source(tmp_path, name):
    y, settings, how, constant, _near = RUNS[name]
    train(written(tmp_path, y), tmp_path / "run", **reading(how), **({"lam": HEAVY} | settings))
    model = load_model(RunFolder(str(tmp_path / "run")))
    np.testing.assert_allclose(model.weights.intercept, constant, atol=0.05, rtol=0.0)


@pytest.mark.parametrize("up", [0.0, 1e6, 1e9])
def test_targets_far_away_have_ridges_model(up):
    ours = LinearRegressor(lam=10.0 / N, tol=1e-9).fit(X, AMOUNTS + up)
    theirs = Ridge(10.0).fit(X, AMOUNTS)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-4)
    assert ours.intercept_ - up == pytest.approx(theirs.intercept_, abs=5e-4)


def test_rare_labels_have_scikit_learns_model():
    y = np.arange(N) < 4
    ours = LinearClassifier(lam=100.0 / N, tol=1e-9).fit(X, y)
    theirs = LogisticRegression(C=0.01, tol=1e-10, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
    np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=5e-3)


def test_batches_are_charged_from_the_first_ones_constant():
    model, classes = LinearRegressor(lam=HEAVY), LinearClassifier(lam=HEAVY)
    for k in range(0, N, 20):
        model.partial_fit(X[k : k + 20], AMOUNTS[k : k + 20] + UP)
        classes.partial_fit(X[k : k + 20], SIDES[k : k + 20], classes=["no", "yes"])
    assert model.intercept_ - UP == pytest.approx(AMOUNTS[:20].mean(), abs=0.05)
    assert classes.intercept_[0] == pytest.approx(odds(SIDES[:20] == "yes"), abs=0.05)


def test_a_run_goes_on_from_one_with_another_level(tmp_path):
    found = []
    for name, up, words in (("low", 0.0, {}), ("high", UP, {}), ("on", UP, {"start_from": "low"})):
        at = tmp_path / name
        at.mkdir()
        ingest(written(at, AMOUNTS + up), at / "set", **reading(NUMBERS))
        words = {key: str(tmp_path / run / "run") for key, run in words.items()}
        result = train(at / "set", at / "run", lam=0.1, tol=1e-9, solver="psdca", **words)
        found.append((load_model(RunFolder(str(at / "run"))).weights, result.objective))
    (low, least), *others = found
    for weights, objective in others:
        np.testing.assert_allclose(weights.coef, low.coef, atol=1e-3)
        assert weights.intercept - UP == pytest.approx(low.intercept, abs=1e-3)
        assert objective == pytest.approx(least, rel=1e-6)
    assert json.loads((tmp_path / "on" / "run" / "run.json").read_text())["level"] > UP - 1.0


def test_folds_of_targets_far_away_are_evaluated_as_those_near(tmp_path):
    means = []
    for up in (0.0, UP):
        at = tmp_path / f"{up:g}"
        at.mkdir()
        ingest(
            written(at, AMOUNTS + up),
            at / "set",
            chunk_bytes=1024,
            dtype="float64",
            **reading(NUMBERS),
        )
        (found,) = cross_validate(at / "set", folds=2, lam=0.1, tol=1e-8)
        means.append({one.metric: one.mean for one in found.means})
    assert means[1]["mse"] == pytest.approx(means[0]["mse"], rel=1e-3)
    assert means[1]["r2"] == pytest.approx(means[0]["r2"], abs=1e-3)
