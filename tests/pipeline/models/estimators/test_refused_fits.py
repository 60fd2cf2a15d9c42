"""What a `LinearClassifier` refuses in `fit` and `partial_fit`: settings, rows, and tables."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pytest

from fewpass import LinearClassifier, ingest
from tests.pipeline.models.estimators.test_estimators import rows
from tests.pipeline.test_tables import people

X, Y, _ = rows(20)
FRAME = people(300)
CELLS, BOUGHT = FRAME.drop(columns="bought"), FRAME["bought"]
SETTINGS = {
    'lam is "1/m"': {"lam": "1/m"},
    "several values, and nothing to choose by": {"lam": [1e-4, 1e-2]},
    "held_out is 2": {"lam": [1e-4, 1e-2], "held_out": 2},
    "penalty=l1": {"lam": ".1max"},
    "penalty is": {"penalty": "l3"},
    "l1_ratio = 0.3 is the share of elasticnet": {"penalty": "l1", "l1_ratio": 0.3},
    "s2gd does not take an l1 penalty; newton and psdca": {"penalty": "l1", "solver": "s2gd"},
    "l1 alone": {"penalty": "l1", "solver": "sdca"},
    "Did you mean sdca": {"solver": "sdac"},
    "not for estimators": {"solver": "simba"},
    "penalty is None": {"penalty": None},
    "solver is None": {"solver": None},
    "names no method": {"solver": {"king": "newton"}},
    "Choose one of hinge, squared_hinge": {"loss": "log"},
    "not for LinearClassifier": {"loss": "squared"},
    "fit_intercept is 'no'": {"fit_intercept": "no"},
    "much": {"memory": "much"},
    "verbose is 'yes'": {"verbose": "yes"},
    "tol is -1.0, but it should be greater than 0": {"tol": -1.0},
    "scale is 'minmax'": {"scale": "minmax"},
    r"encode is 'yes'\. Choose one of": {"encode": "yes"},
    r"gives 1 the weight -2\.0": {"class_weight": {1: -2.0}},
}


@pytest.mark.parametrize("said", SETTINGS)
def test_settings_are_named(said):
    with pytest.raises(ValueError, match=said):
        LinearClassifier(**SETTINGS[said]).fit(X, Y)


def without_target(missing):
    return np.array(["no"] * 3 + [missing] + ["yes"] * 16, object)


def fit(X, y, weight=None, **settings):
    return LinearClassifier(**settings).fit(X, y, weight)


def partial_fit(X, y, classes=None, **settings):
    return LinearClassifier(**settings).partial_fit(X, y, classes=classes)


def fit_again_with_held_out_rows():
    return fit(X, Y, lam=1e-2, held_out=0.5, warm_start=True).fit(X, Y)


LACKS = "lacks 1 of 20 targets, the first in row 3"
ROWS = [
    ("fourth power overflows", lambda: fit(1e200 * X, Y)),
    ("one class", lambda: fit(X, np.zeros(20))),
    (r"one class, 1;.* weight is not 0", lambda: fit(X, Y, Y)),
    (LACKS, lambda: fit(X, without_target(None))),
    (LACKS, lambda: fit(X, without_target(np.nan))),
    (LACKS, lambda: fit(X, without_target(pd.NA))),
    ("All of sample_weight are zero", lambda: fit(X, Y, np.zeros(20))),
    ("negative", lambda: fit(X, Y, -np.ones(20))),
    ("held_out chooses among several", fit_again_with_held_out_rows),
    ("first call", lambda: partial_fit(X, Y)),
    (r"labels \[.*5.*\]", lambda: partial_fit(X, Y + 5, [0, 1])),
    ("needs all rows", lambda: partial_fit(X, Y, [0, 1], class_weight="balanced")),
    ("collect", lambda: fit(pl.DataFrame(X).lazy(), Y)),
    ("no column 'z'", lambda: fit(FRAME, "z")),
    (r"NaN: values are missing. Fill them in", lambda: fit([[0.0], [np.nan]], [0, 1])),
    (r"hold words, dates or gaps .* encode='auto'", lambda: fit(CELLS, BOUGHT)),
    (
        r"words, dates or gaps .*'when'",
        lambda: fit(pd.DataFrame({"x": X[:, 0], "when": pd.Timestamp("2026-01-01")}), Y),
    ),
    *(
        (r"partial_fit sees a batch\. Encode the batches with", call)
        for call in (
            lambda: partial_fit(CELLS, BOUGHT, ["no", "yes"], encode="auto"),
            lambda: partial_fit(CELLS[["income"]], BOUGHT, [0, 1], columns={"income": "bins:4"}),
            lambda: (
                fit(pd.DataFrame(X), Y, encode="always").set_params(encode="none").partial_fit(X, Y)
            ),
        )
    ),
    (
        r"X is a Dask collection\. Put a TableEncoder",
        lambda: fit(dd.from_pandas(CELLS, 2), dd.from_pandas(BOUGHT, 2), encode="always"),
    ),
]


@pytest.mark.parametrize(("said", "call"), ROWS)
def test_rows_are_refused_by_what_is_wrong_with_them(said, call):
    with pytest.raises(ValueError, match=said):
        call()


def test_stored_rows_that_cannot_be_encoded_are_refused(tmp_path):
    (tmp_path / "plain.csv").write_text("x,y\n" + "".join(f"{k},{k % 2}\n" for k in range(200)))
    with pytest.raises(ValueError, match=r"encode is 'yes'\. Choose one of"):
        LinearClassifier(encode="yes").fit(tmp_path / "plain.csv", "y")
    made = ingest(tmp_path / "plain.csv", tmp_path / "plain", encode="none")
    with pytest.raises(ValueError, match=r"is a data set of numbers as they came\. Leave encode"):
        LinearClassifier(encode="always").fit(made.dataset)


def test_a_loss_without_probabilities_says_so():
    with pytest.raises(AttributeError) as refused:
        LinearClassifier(loss="hinge").fit([[0.0], [1.0]], [0, 1]).predict_proba([[0.0]])
    assert "scores and no probabilities" in str(refused.value.__cause__)
