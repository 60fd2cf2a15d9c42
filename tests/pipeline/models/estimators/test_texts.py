"""Bags of texts go into fit as they are: the same columns and model as scikit-learn's hashing."""

import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from dask_ml.feature_extraction import text as of_dask_ml
from sklearn.feature_extraction.text import HashingVectorizer

from fewpass import LinearClassifier, ScoreCalibrator

TOPICS = {"space": "moon rocket orbit crew star", "money": "bank stock rate fund market"}
KIND = {"lam": 1e-2, "tol": 1e-4, "memory": "400MB"}


@pytest.fixture(scope="module")
def corpus():
    rng = np.random.default_rng(0)
    topics = rng.choice(list(TOPICS), 240)
    texts = [" ".join(["The", *rng.choice(TOPICS[topic].split(), 4)]) for topic in topics]
    return texts, topics.tolist()


def bags(corpus, npartitions):
    return [db.from_sequence(part, npartitions=npartitions) for part in corpus]


@pytest.fixture(scope="module")
def fitted(corpus):
    return LinearClassifier(**KIND).fit(*bags(corpus, 4))


def test_the_model_is_that_of_hashed_rows(corpus, fitted):
    texts, topics = corpus
    rows = HashingVectorizer().transform(texts)
    there = LinearClassifier(**KIND).fit(rows, topics)
    assert fitted.n_features_in_ == 1 << 20
    assert list(fitted.classes_) == ["money", "space"]
    assert fitted.objective_ == pytest.approx(there.objective_, abs=2e-4)
    assert fitted.certificate_ <= 1e-4
    np.testing.assert_allclose(
        fitted.decision_function(rows), there.decision_function(rows), atol=0.1
    )


@pytest.mark.parametrize("npartitions", [1, 3, 16])
def test_partitions_change_no_bit(corpus, fitted, npartitions):
    again = LinearClassifier(**KIND).fit(*bags(corpus, npartitions))
    assert np.array_equal(again.coef_, fitted.coef_)


def test_bags_are_predicted_lazily(corpus, fitted):
    texts, topics = bags(corpus, 5)
    found = fitted.predict(texts)
    assert isinstance(found, da.Array)
    there = fitted.predict(HashingVectorizer().transform(corpus[0]))
    assert np.array_equal(found.compute(), there)
    assert fitted.score(texts, topics) == (there == np.array(corpus[1])).mean()
    hashed = of_dask_ml.HashingVectorizer().transform(texts)
    assert np.array_equal(
        fitted.decision_function(texts).compute(), fitted.decision_function(hashed).compute()
    )
    p = ScoreCalibrator(fitted).fit(texts, topics).predict_proba(texts).compute()
    assert p.shape == (240, 2)


def test_bags_that_are_cut_otherwise_are_refused(corpus):
    texts, _ = bags(corpus, 4)
    with pytest.raises(ValueError, match=r"X has 4 blocks of unknown length, but y has 3"):
        LinearClassifier(**KIND).fit(texts, bags(corpus, 3)[1])
