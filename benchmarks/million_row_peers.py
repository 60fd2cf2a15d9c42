"""Boosting and EBM on the table of million_rows.py, each in a process of its own.

    python -m benchmarks.million_row_peers boosting|lightgbm|ebm TRAIN TEST OUT

OUT gets the probability of "yes".  Settings are those that each has by default.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier


def main() -> None:
    """Train one peer and write what it predicts."""
    side, train, test, out = sys.argv[1:]
    rows, new = features(train), features(test)
    y = rows.pop("y") == "yes"
    new.pop("y")
    model = PEERS[side]()
    model.fit(rows, y)
    pd.DataFrame({"yes": model.predict_proba(new)[:, 1]}).to_csv(out, index=False)


def features(path: str) -> pd.DataFrame:
    """Read a table, words as categories."""
    rows = pd.read_parquet(path)
    words = [name for name in rows.columns if name.startswith("c")]
    return rows.astype(dict.fromkeys(words, "category"))


def boosting() -> Any:
    """Return scikit-learn's, categories as such."""
    return HistGradientBoostingClassifier(categorical_features="from_dtype", random_state=0)


def lightgbm() -> Any:
    """Return LightGBM's, which takes frames' categories as such."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=0, verbose=-1)


def ebm() -> Any:
    """Return the explainable boosting machine, with pairs as many as it takes by itself."""
    from interpret.glassbox import ExplainableBoostingClassifier

    return ExplainableBoostingClassifier(n_jobs=1, random_state=0)


PEERS: dict[str, Callable[[], Any]] = {"boosting": boosting, "lightgbm": lightgbm, "ebm": ebm}

if __name__ == "__main__":
    main()
