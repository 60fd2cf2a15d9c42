"""Trainings on rows of an additive model: stored as codes, or learnt from while they are read."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize

from fewpass import ingest
from fewpass.flows.cli import main
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset
from testing.datasets import table_of
from testing.interruptions import trained

LABELS = {"amount": "gamma", "visits": "poisson", "kind": "softmax"}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """A file of amounts, counts and classes that bend with two numbers together."""
    drawn, n = np.random.default_rng(0), 1200
    a, b, c = drawn.uniform(-1, 1, (3, n)).round(3)
    mean = np.exp(np.sin(3 * a) + a * b)
    kind = (drawn.random(n) * 2 + 5 * (a + 1)).astype(int)
    frame = pd.DataFrame({
        "a": a, "b": b, "c": c, "town": drawn.choice(["north", "south", "west"], n),
        "amount": drawn.gamma(4.0, mean / 4.0).round(4) + 1e-3, "visits": drawn.poisson(mean),
        "kind": [f"k{k:02}" for k in kind],
    })  # fmt: skip
    path = tmp_path_factory.mktemp("trained") / "rows.csv"
    frame.to_csv(path, index=False)
    return str(path)


def features_of(dataset):
    """All rows as a matrix, and their targets."""
    rows = table_of(dataset)
    shape = rows.n_rows, dataset.n_features
    return sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape), rows.target


def test_rows_of_codes_are_certified(rows, tmp_path):
    """Against the optimum for the rows as `read_chunk` has them."""
    made = ingest(
        rows, str(tmp_path / "data"), label="amount", encode="additive", task="regression",
        pairs="a:b,a:c,b:c,a:town", knots=64, column_copy=False, drop=("visits", "kind"),
    )  # fmt: skip
    dataset = Dataset.open(made.dataset)
    assert dataset.manifest.codes
    plan = TrainingPlan(dataset=made.dataset, lam="1/n", tol=1e-3, passes=200, loss="gamma")
    run, (X, y) = trained(plan, tmp_path / "run"), features_of(dataset)
    charged = np.r_[0.01, np.ones(X.shape[1])] / len(y)  # the intercept a hundredth of lam
    level = np.r_[np.log(y.mean()), np.zeros(X.shape[1])]

    def objective(w):
        s = X @ w[1:] + w[0]
        slopes, away = (1.0 - y * np.exp(-s)) / len(y), w - level
        value = (y * np.exp(-s) + s).mean() + away @ (charged * away) / 2
        return value, np.r_[slopes.sum(), X.T @ slopes] + charged * away

    best = minimize(
        objective, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    certificate, weights = run.newest.certificate, run.newest.weights
    own = objective(np.r_[weights.intercept, weights.coef])[0]
    assert run.result.converged
    assert own - certificate.gap - 1e-11 <= best.fun <= own + 1e-11


@pytest.mark.parametrize(("label", "loss"), LABELS.items())
def test_a_model_learnt_while_reading_has_the_recipe_of_the_first_rows(
    rows, tmp_path, label, loss, capsys
):
    """Rows that are kept are those that were learnt from: predictions of both are the same."""
    words = [word for name in LABELS if name != label for word in ("--column", f"{name}=drop")]
    run, kept = str(tmp_path / "run"), str(tmp_path / "kept")
    source = ["train", rows, run, "--label", label, "--loss", loss, "-q"]
    source += ["--lam", "1/n", "--additive", "--pairs", "a:b"]
    assert main([*source, *words, "--ingest-into", kept]) == 0
    model, dataset = load_model(RunFolder(run)), Dataset.open(kept)
    recipe = recipe_in(model.record.columns)
    assert recipe == recipe_in(dataset.schema)
    assert [pair.name for pair in recipe.additive.pairs] == ["a x b"]
    said = []
    for where in ([kept], [rows, "--label", label]):
        capsys.readouterr()
        assert main(["evaluate", run, *where, "--json", "-q"]) == 0
        said.append(json.loads(capsys.readouterr().out)["loss"])
    assert said[0] == pytest.approx(said[1], rel=1e-9)
