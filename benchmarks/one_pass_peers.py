"""One pass by other libraries over rows in memory, in their order: weights, and what was heard.

Vowpal Wabbit by five settings, scikit-learn's averaged SGD by its defaults and with the constant
step that is best in hindsight, River's AdaGrad by its defaults.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from benchmarks.data_sets import Half
from benchmarks.optimum import Aim, Linear, objective
from benchmarks.real_data import theirs

VW = {
    "vw": "",
    "vw --power_t 0": "--power_t 0",
    "vw --l2 lam": "--l2 {lam}",
    "vw --ftrl": "--ftrl",
    "vw --coin": "--coin",
}
SKLEARN, BEST_STEP, RIVER = "sklearn", "sklearn, best step", "river adagrad"
PEERS = (*VW, SKLEARN, BEST_STEP, RIVER)
BITS = 22  # of Vowpal Wabbit's table of weights: more than columns, so that none share one
CONSTANT = 11650396 % (1 << BITS)  # where it keeps the intercept
STEPS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)  # that one is chosen of in hindsight
MOST_SECONDS = 150.0  # of River's, which is Python row by row


class Learnt(NamedTuple):
    """A model, and the mean loss of the rows before it knew them, where that is told."""

    at: Linear
    progressive: float | None = None


class VowpalWabbit:
    """Vowpal Wabbit on rows that are written out once."""

    def __init__(self, rows: Half, loss: str) -> None:
        self._loss, self._features = loss, rows.X.shape[1]
        self._known: dict[str, Learnt] = {}
        self._folder = tempfile.TemporaryDirectory()
        self._text = Path(self._folder.name) / "rows.vw"
        with self._text.open("w") as file:
            file.writelines(vw_lines(rows))

    def __call__(self, settings: str) -> Learnt:
        """One pass; the weights as its readable model has them."""
        if settings not in self._known:
            self._known[settings] = self._learn(settings)
        return self._known[settings]

    def _learn(self, settings: str) -> Learnt:
        from vowpalwabbit import Workspace

        model = Path(self._folder.name) / "model.txt"
        loss = "logistic" if self._loss == "logistic" else "squared"
        vw = Workspace(
            f"-d {self._text} --loss_function {loss} -b {BITS} {settings} "
            f"--readable_model {model} --no_stdin --quiet"
        )
        heard = vw.get_sum_loss() / vw.get_weighted_examples()
        vw.finish()
        text = model.read_text()
        shrunk = re.search(r"^l2_state (\S+)", text, re.MULTILINE)
        assert shrunk is not None, "a readable model has it"
        w, b, factor = np.zeros(self._features), 0.0, float(shrunk[1])
        for place, weight in re.findall(r"^(\d+):(\S+)", text, re.MULTILINE):
            if int(place) == CONSTANT:
                b = factor * float(weight)
            else:
                w[int(place)] = factor * float(weight)
        halved = heard if self._loss == "logistic" else heard / 2.0  # theirs is (p - y)^2
        return Learnt(Linear(w, b), halved)

    def close(self) -> None:
        """Delete the text."""
        self._folder.cleanup()


def vw_lines(rows: Half) -> Iterator[str]:
    """Write rows as Vowpal Wabbit wants them."""
    X = sparse.csr_matrix(rows.X)
    for i, target in enumerate(rows.y):
        own = slice(X.indptr[i], X.indptr[i + 1])
        pairs = zip(X.indices[own], X.data[own], strict=True)
        yield f"{target:.17g} | {' '.join(f'{j}:{x:.9g}' for j, x in pairs)}\n"


def best_step(rows: Half, aim: Aim) -> Learnt:
    """scikit-learn's averaged SGD with a constant step: of six, the one that ends lowest."""
    each = [
        theirs(rows, aim, 0, learning_rate="constant", eta0=step, shuffle=False).at
        for step in STEPS
    ]
    return Learnt(min(each, key=lambda at: np.nan_to_num(objective(at, rows, aim), nan=np.inf)))


def river(rows: Half, loss: str) -> Learnt | None:
    """River's AdaGrad; None where it takes too long.

    Without an L2 penalty: River would charge it on all columns at every row.
    """
    from river import linear_model, optim

    kind = linear_model.LogisticRegression if loss == "logistic" else linear_model.LinearRegression
    model, heard, began = kind(optimizer=optim.AdaGrad()), 0.0, time.perf_counter()
    for i, (x, y) in enumerate(as_dicts(rows)):
        p = model.intercept + sum(model.weights.get(j, 0.0) * value for j, value in x.items())
        heard += float(np.logaddexp(0.0, -y * p)) if loss == "logistic" else 0.5 * (p - y) ** 2
        model.learn_one(x, y > 0 if loss == "logistic" else y)
        if i % 500 == 0 and time.perf_counter() - began > MOST_SECONDS:
            return None
    w = np.zeros(rows.X.shape[1])
    for j, weight in model.weights.items():
        w[j] = weight
    return Learnt(Linear(w, float(model.intercept)), heard / len(rows.y))


def as_dicts(rows: Half) -> Iterator[tuple[dict[int, float], float]]:
    """Yield rows as River takes them."""
    X = sparse.csr_matrix(rows.X)
    for i, y in enumerate(rows.y.tolist()):
        own = slice(X.indptr[i], X.indptr[i + 1])
        yield dict(zip(X.indices[own].tolist(), X.data[own].tolist(), strict=True)), y


def peers(
    rows: Half, aim: Aim, vw: VowpalWabbit, of_river: Learnt | None
) -> dict[str, Learnt | None]:
    """Let every peer make its pass."""
    found: dict[str, Learnt | None] = {
        name: vw(settings.format(lam=repr(aim.lam))) for name, settings in VW.items()
    }
    default = Learnt(theirs(rows, aim, 0, shuffle=False).at)
    return found | {SKLEARN: default, BEST_STEP: best_step(rows, aim), RIVER: of_river}


def metrics_of(at: Linear, test: Half, aim: Aim) -> dict[str, Any]:
    """Mean loss, error and area under the ROC curve on test rows."""
    from sklearn.metrics import roc_auc_score

    with np.errstate(over="ignore", invalid="ignore"):
        p = test.X @ at.w + at.b
        if aim.loss == "squared":
            error, auc = float(np.mean((p - test.y) ** 2)), None
        else:
            error = float(np.mean((p > 0) != (test.y > 0)))
            auc = float(roc_auc_score(test.y, p)) if np.isfinite(p).all() else None
    return {"loss": objective(at, test, aim._replace(lam=0.0)), "error": error, "auc": auc}
