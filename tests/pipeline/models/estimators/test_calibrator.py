"""Probabilities learnt from held-out rows: against the exact fits, and honest on rows not seen."""

from itertools import pairwise

import dask.array as da
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import log_softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss
from sklearn.svm import LinearSVC

from fewpass import LinearClassifier, ScoreCalibrator
from fewpass.pipeline.calibration import BINS, ScoreCounts, fit_softmax, softmax_log_loss
from tests.conftest import SMALL_DATA


@pytest.fixture(scope="module")
def adults():
    """Thirds of a9a: to train on, to calibrate on, to test on."""
    import lzma

    with lzma.open(SMALL_DATA / "a9a.xz") as file:
        X, y = load_svmlight_file(file)
    order = np.random.default_rng(0).permutation(len(y))
    return [(X[part], y[part]) for part in np.array_split(order, 3)]


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    return [(X[part] / 16.0, y[part]) for part in np.array_split(order, 3)]


@pytest.fixture(scope="module")
def models(adults, digits):
    """Models of the first thirds: of a9a by their losses, and of digits."""
    by_loss = {k: LinearClassifier(loss=k, tol=1e-2).fit(*adults[0]) for k in ("logistic", "hinge")}
    return by_loss | {"digits": LinearClassifier(lam=1e-3).fit(*digits[0])}


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
@pytest.mark.parametrize(("method", "theirs"), [("platt", "sigmoid"), ("isotonic", "isotonic")])
def test_bins_fit_as_rows_do(adults, models, loss, method, theirs):
    """scikit-learn's fits to the rows themselves are the oracle."""
    (_, held_out, (X_test, y_test)), model = adults, models[loss]
    ours = ScoreCalibrator(model, method=method).fit(*held_out).predict_proba(X_test)
    exact = CalibratedClassifierCV(FrozenEstimator(model), method=theirs).fit(*held_out)
    there = log_loss(y_test, exact.predict_proba(X_test))
    assert log_loss(y_test, ours) == pytest.approx(there, abs=1e-3)


@pytest.mark.parametrize(
    ("rows", "method"), [("adults", "platt"), ("adults", "isotonic"), ("digits", "platt")]
)
@pytest.mark.parametrize("unit", [1e-5, 1e4])
def test_probabilities_do_not_depend_on_the_unit_of_scores(rows, method, unit, request):
    (X, y), held_out, (X_test, y_test) = request.getfixturevalue(rows)
    model = LinearSVC().fit(X, y)
    other = LinearSVC().fit(X, y)
    other.coef_, other.intercept_ = unit * model.coef_, unit * model.intercept_
    losses = [
        log_loss(y_test, ScoreCalibrator(one, method=method).fit(*held_out).predict_proba(X_test))
        for one in (model, other)
    ]
    assert losses[1] == pytest.approx(losses[0], abs=1e-3)


@given(st.lists(st.integers(1, 50), max_size=5), st.integers(0, 3))
def test_counts_of_parts_add_up(sizes, seed):
    rng = np.random.default_rng(seed)
    scores, positive, weight = rng.standard_cauchy(60) * 1e3, rng.random(60) < 0.4, rng.random(60)
    whole = ScoreCounts.of(scores, positive, weight)
    edges = [0, *np.minimum(np.cumsum(sizes), 60), 60]
    added = ScoreCounts(*np.zeros((3, BINS)))
    for a, b in pairwise(edges):
        added = added + ScoreCounts.of(scores[a:b], positive[a:b], weight[a:b])
    for ours, theirs in zip(added, whole, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


def test_a_weight_is_a_number_of_equal_rows(adults):
    (X, y), (X_held, y_held), (X_test, _) = adults
    model = LinearSVC().fit(X, y)
    counts = np.random.default_rng(1).integers(0, 3, len(y_held))
    weighted = ScoreCalibrator(model).fit(X_held, y_held, counts)
    often = np.repeat(np.arange(len(y_held)), counts)
    repeated = ScoreCalibrator(model).fit(X_held[often], y_held[often])
    np.testing.assert_allclose(
        weighted.predict_proba(X_test), repeated.predict_proba(X_test), rtol=1e-9
    )


def test_of_several_classes_the_log_loss_is_minimal(digits, models):
    (_, (X_held, y_held), (X_test, y_test)), model = digits, models["digits"]
    scores = model.decision_function(X_held)
    rows = (scores, y_held, np.ones(len(y_held)))
    found = fit_softmax(lambda at: softmax_log_loss(at, rows), 10)

    def loss(point):
        p = log_softmax(point[0] * scores + point[1:], axis=1)
        return -p[np.arange(len(y_held)), y_held].sum()

    best = minimize(loss, np.append(1.0, np.zeros(10)), options={"gtol": 1e-6})
    assert loss(np.append(found.slope, found.offsets)) <= best.fun + 1e-6
    calibrated = ScoreCalibrator(model).fit(X_held, y_held)
    p = calibrated.predict_proba(X_test)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert log_loss(y_test, p) < log_loss(y_test, model.predict_proba(X_test))
    assert (calibrated.predict(X_test) == calibrated.classes_[p.argmax(axis=1)]).all()


def test_collections_are_read_block_by_block(adults, digits, models):
    for name, (_, (X_held, y_held), (X_test, _)) in (("logistic", adults), ("digits", digits)):
        X_held, X_test = (
            np.asarray(a.todense()) if hasattr(a, "todense") else a for a in (X_held, X_test)
        )
        model = models[name]
        whole = ScoreCalibrator(model).fit(X_held, y_held)
        blocks = da.from_array(X_held, chunks=(200, -1))
        parts = ScoreCalibrator(model).fit(blocks, y_held)
        there = whole.predict_proba(X_test)
        found = parts.predict_proba(da.from_array(X_test, chunks=(300, -1)))
        assert found.shape == there.shape
        np.testing.assert_allclose(found.compute(), there, rtol=1e-9)
        labels = parts.predict(da.from_array(X_test, chunks=(300, -1))).compute()
        assert (labels == whole.predict(X_test)).all()


def test_blocks_whose_rows_weigh_nothing_are_none(adults, models):
    X, y = adults[1][0][:600].toarray(), adults[1][1][:600]
    weight = np.repeat([0.0, 1.0], [200, 400])
    cut = [da.from_array(part, chunks=(200, *[-1] * (part.ndim - 1))) for part in (X, y, weight)]
    calibrator = ScoreCalibrator(models["logistic"])
    found = calibrator.fit(*cut).calibration_
    assert found == calibrator.fit(X[200:], y[200:]).calibration_
    with pytest.raises(ValueError, match="no rows to calibrate on"):
        calibrator.fit(*cut[:2], 0.0 * cut[2])


def test_scores_without_bound_stay_probabilities(adults, models):
    found = ScoreCalibrator(models["logistic"]).fit(*adults[1]).calibration_
    p = found.probabilities(np.array([-1e300, 0, 1e300]))
    assert (p[0], p[2]) == (0.0, 1.0)


@pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 5.0}])
def test_what_classes_were_weighted_by_is_taken_off_the_odds(class_weight):
    """Rows of a logistic law: weighted and corrected, its probabilities come back."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 3))
    true = 1.0 / (1.0 + np.exp(2.0 - X @ [1.0, -0.5, 0.2]))
    y = (rng.random(20_000) < true).astype(int)
    weighted = LinearClassifier(class_weight=class_weight, tol=1e-6).fit(X, y)
    found = ScoreCalibrator(weighted, method="prior").fit()
    away = [np.abs(one.predict_proba(X)[:, 1] - true).mean() for one in (found, weighted)]
    assert away[0] < away[1]
    np.testing.assert_allclose(found.predict_proba(X)[:, 1], true, atol=0.05)
    parts = da.from_array(X, chunks=(10_000, 3)), da.from_array(y, chunks=10_000)
    stored = LinearClassifier(class_weight=class_weight, tol=1e-6).fit(*parts)
    np.testing.assert_allclose(stored.class_weight_, weighted.class_weight_, rtol=1e-12)


def test_what_cannot_be_calibrated_is_refused(adults, digits, models):
    (X, y), (X_held, y_held), _ = adults
    model = models["logistic"]
    with pytest.raises(ValueError, match="of one class"):
        ScoreCalibrator(model).fit(X_held[y_held > 0], y_held[y_held > 0])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        ScoreCalibrator(model).fit(X_held, y_held[:-1])
    with pytest.raises(ValueError, match=r"labels \[.*7"):
        ScoreCalibrator(model).fit(X_held, np.full(len(y_held), 7.0))
    with pytest.raises(ValueError, match="method is 'beta'"):
        ScoreCalibrator(model, method="beta").fit(X_held, y_held)
    for other in (LinearSVC().fit(X, y), models["hinge"]):
        with pytest.raises(ValueError, match="undoes the class_weight of a LinearClassifier"):
            ScoreCalibrator(other, method="prior").fit()
    with pytest.raises(ValueError, match="is for two classes, but there are 10"):
        ScoreCalibrator(models["digits"], method="isotonic").fit(*digits[1])
