"""A careful pipeline of scikit-learn, and boosting, on a table, each in a process of its own.

    python -m benchmarks.table_peers linear|boosting|lightgbm|ebm ABOUT TRAIN TEST OUT

ABOUT is the table's entry of meta.json.  OUT gets a column per class with its probability, or the
predicted number.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

MOST_CATEGORIES = 255  # that boosting takes of a column
#: Where they run: OpenMP's threads wait in loops, which counts where cores are shared.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
STOP_SHARE, STOP_ROUNDS = 0.15, 50  # rows that say when LightGBM ends, and rounds without gain
MOST_MINUTES = 20  # of the processor, that a peer is given
LIMITED = ["prlimit", f"--cpu={60 * MOST_MINUTES}:{60 * MOST_MINUTES + 60}"]  # soft:hard


def main() -> None:
    """Train one peer and write what it predicts."""
    side, about, train, test, out = sys.argv[1:]
    meta = json.loads(about)
    label, rows, new = meta["label"], pd.read_csv(train), pd.read_csv(test)
    X, y = features(rows, meta), rows[label]
    model = PEERS[side](X, meta).fit(X, y if meta["kind"] == "reg" else y.astype(str))
    predictions(model, features(new, meta), meta).to_csv(out, index=False)


def features(rows: pd.DataFrame, meta: dict[str, Any]) -> pd.DataFrame:
    """Return the columns but the label, dates as numbers, text without gaps."""
    X = rows.drop(columns=meta["label"])
    for name in meta["dates"]:
        when = pd.to_datetime(X.pop(name), utc=True, format="mixed")
        X[f"{name} days"] = when.astype("int64") / 86_400e9
        for part in ("month", "dayofweek", "hour"):
            X[f"{name} {part}"] = getattr(when.dt, part)
    for name in meta["text"]:
        X[name] = X[name].fillna("").astype(str)
    return X


def linear(X: pd.DataFrame, meta: dict[str, Any]) -> Any:
    """Impute, one-hot, standardise, tf-idf; then logistic or ridge regression as they come."""
    numbers, words = kinds(X, meta)
    of_numbers = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True), StandardScaler()
    )
    of_words = make_pipeline(
        SimpleImputer(strategy="constant", fill_value="missing"),
        OneHotEncoder(handle_unknown="ignore"),
    )
    of_text = ((TfidfVectorizer(), name) for name in meta["text"])
    encoder = make_column_transformer((of_numbers, numbers), (of_words, words), *of_text)
    return make_pipeline(
        encoder, Ridge() if meta["kind"] == "reg" else LogisticRegression(max_iter=1000)
    )


def boosting(X: pd.DataFrame, meta: dict[str, Any]) -> Any:
    """Gradient boosting of trees: words as codes, categories where they are few, no text."""
    numbers, words = kinds(X, meta)
    codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
    encoder = make_column_transformer((codes, words), ("passthrough", numbers))
    few = [at for at, name in enumerate(words) if X[name].nunique() < MOST_CATEGORIES]
    kind = (
        HistGradientBoostingRegressor if meta["kind"] == "reg" else HistGradientBoostingClassifier
    )
    return make_pipeline(encoder, kind(categorical_features=few or None, random_state=0))


class EarlyStopped:
    """LightGBM until rows left out at random are predicted no better; words as categories, no text.

    A class's first row is learnt from: LightGBM refuses labels that are only left out.
    """

    def __init__(self, X: pd.DataFrame, meta: dict[str, Any]) -> None:
        from lightgbm import LGBMClassifier, LGBMRegressor

        numbers, words = kinds(X, meta)
        codes = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1)
        kind = LGBMRegressor if meta["kind"] == "reg" else LGBMClassifier
        self._encoder = make_column_transformer((codes, words), ("passthrough", numbers))
        self._model = kind(
            n_estimators=5000, learning_rate=0.05, n_jobs=1, random_state=0, verbosity=-1
        )
        self._words, self._has_classes = list(range(len(words))), meta["kind"] != "reg"

    def fit(self, X: pd.DataFrame, y: pd.Series) -> Any:
        """Return the fitted pipeline."""
        from lightgbm import early_stopping

        coded = self._encoder.fit_transform(X)
        own = np.random.default_rng(0).random(len(y)) >= STOP_SHARE
        if self._has_classes:
            own |= ~y.duplicated().to_numpy()
        self._model.fit(
            coded[own], y[own],
            eval_set=[(coded[~own], y[~own])],  # it does not code the labels of `eval_y`
            callbacks=[early_stopping(STOP_ROUNDS, verbose=False)],
            categorical_feature=self._words or "auto",
        )  # fmt: skip
        return make_pipeline(self._encoder, self._model)


def ebm(X: pd.DataFrame, meta: dict[str, Any]) -> Any:
    """InterpretML's additive models of trees, with pairs; no text."""
    from interpret.glassbox import (
        ExplainableBoostingClassifier,
        ExplainableBoostingRegressor,
    )

    kind = ExplainableBoostingRegressor if meta["kind"] == "reg" else ExplainableBoostingClassifier
    numbers, words = kinds(X, meta)
    chosen = make_column_transformer(("passthrough", [*numbers, *words]))
    trees = kind(outer_bags=4, interactions="3x", n_jobs=1, random_state=0)
    return make_pipeline(chosen.set_output(transform="pandas"), trees)


def kinds(X: pd.DataFrame, meta: dict[str, Any]) -> tuple[list[str], list[str]]:
    """Return the names of the columns of numbers, and of those of words."""
    numbers = list(X.select_dtypes(include=["number", "bool"]).columns)
    return numbers, [name for name in X.columns if name not in {*numbers, *meta["text"]}]


def ended_by(errors: str) -> str:
    """Say by what a peer ended, out of the lines that it left."""
    last = (errors.strip().splitlines() or ["killed"])[-1]
    return f"over {MOST_MINUTES} CPU minutes" if f"status -{signal.SIGXCPU:d}." in last else last


def predictions(model: Any, X: pd.DataFrame, meta: dict[str, Any]) -> pd.DataFrame:
    """Return the predicted number of every row, or the probability of every class."""
    if meta["kind"] == "reg":
        return pd.DataFrame({"predicted": model.predict(X)})
    return pd.DataFrame(model.predict_proba(X), columns=[str(name) for name in model.classes_])


PEERS: dict[str, Callable[[pd.DataFrame, dict[str, Any]], Any]] = {
    "linear": linear,
    "boosting": boosting,
    "lightgbm": EarlyStopped,
    "ebm": ebm,
}

if __name__ == "__main__":
    main()
