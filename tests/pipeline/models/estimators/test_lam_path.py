"""Several lam in the same passes: each as if it were alone, the best on held-out rows kept."""

import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import log_loss, mean_squared_error
from sklearn.model_selection import train_test_split

from fewpass import LinearClassifier, LinearRegressor
from tests.pipeline.models.estimators.test_estimators import rows

LAMS = [1e-4, "0.5/n", 1e-2, 1.0]


def split(n, y=None):
    parts = train_test_split(np.arange(n), test_size=0.25, random_state=0, stratify=y)
    return map(np.sort, parts)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(("loss", "tol"), [("logistic", 1e-9), ("hinge", 1e-3)])
def test_every_lam_is_trained_as_if_it_were_alone(classes, loss, tol):
    X, y, _ = rows(classes=classes)
    train, test = split(len(X), y)
    path = LinearClassifier(loss=loss, lam=LAMS, held_out=0.25, tol=tol).fit(X, y)
    assert [found["lam"] for found in path.candidates_] == [1e-4, 0.5 / len(train), 1e-2, 1.0]
    best = min(path.candidates_, key=lambda found: found["loss"])
    assert path.lam_ == best["lam"]
    assert path.certificate_ == best["gap"] <= tol
    for lam, found in zip(LAMS, path.candidates_, strict=True):
        alone = LinearClassifier(loss=loss, lam=lam, tol=tol).fit(X[train], y[train])
        assert found["objective"] == pytest.approx(alone.objective_, abs=2.0 * tol)
        assert 1.0 - found["error"] == pytest.approx(alone.score(X[test], y[test]), abs=0.02)
        if loss == "logistic" and classes == 2:
            there = log_loss(y[test], alone.predict_proba(X[test]))
            assert found["loss"] == pytest.approx(there, rel=1e-4)
        if lam == path.lam_ and loss == "logistic":
            np.testing.assert_allclose(path.coef_, alone.coef_, atol=1e-4)


def test_a_path_takes_the_passes_of_its_slowest_lam():
    X, y, score = rows(2000)
    alone = [LinearClassifier(lam=lam).fit(X, y).passes_ for lam in LAMS]
    assert LinearClassifier(lam=LAMS, held_out=0.25).fit(X, y).passes_ <= max(alone) + 2
    numbers = LinearRegressor(lam="1e-3,1,10", held_out=0.25).fit(X, score)
    _, test = split(len(X))
    found = next(c["loss"] for c in numbers.candidates_ if c["lam"] == numbers.lam_)
    assert 2.0 * found == pytest.approx(
        mean_squared_error(score[test], numbers.predict(X[test])), rel=1e-9
    )


@pytest.mark.parametrize("n", [25, 200])
def test_a_lam_that_is_chosen_does_not_depend_on_the_unit_of_weights(n):
    """Weights that add up to 1 are as good as others: 1/n is that of so many rows."""
    X, y, _ = rows(n)
    weight = np.random.default_rng(0).random(n) + 0.5
    one, other = (
        LinearClassifier(lam="auto").fit(X, y, unit * weight) for unit in (1.0, 1.0 / weight.sum())
    )
    assert other.lam_ == one.lam_
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=1e-6)


def test_lam_is_what_it_says_whatever_holds_it():
    X, y, _ = rows(600)
    word, listed = (LinearClassifier(lam=lam).fit(X, y) for lam in ("auto", ["auto"]))
    assert listed.lam_ == word.lam_ and listed.candidates_ == word.candidates_
    assert LinearClassifier(lam=np.array(0.1)).fit(X, y).lam_ == 0.1


def test_rows_that_are_not_in_memory_are_held_out_as_they_are_stored():
    X, y, _ = rows(3000)
    collection = da.from_array(X, chunks=(500, -1))
    found = LinearClassifier(lam=LAMS, held_out=0.25, memory="130MB").fit(collection, y)
    assert len(found.candidates_) == 4
    assert found.lam_ == min(found.candidates_, key=lambda c: c["loss"])["lam"]
