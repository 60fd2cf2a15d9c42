"""What else a training does, on rows of an additive model, which are stored as codes."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import xlogy

from fewpass import ingest
from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import concatenate
from testing.interruptions import trained
from testing.jobs import job_of

CLASSES = 12
PAIRS = "a:b,a:c,b:c,a:town"
#: Losses (n,) of scores, and their slopes.
LOSSES = {
    "gamma": (lambda s, y: y * np.exp(-s) + s, lambda s, y: 1.0 - y * np.exp(-s)),
    "poisson": (lambda s, y: np.exp(s) - y * s, lambda s, y: np.exp(s) - y),
}


def frame(n, seed=0):
    """Amounts, counts and classes that bend with two numbers together."""
    drawn = np.random.default_rng(seed)
    a, b, c = drawn.uniform(-1, 1, (3, n)).round(3)
    mean = np.exp(np.sin(3 * a) + a * b)
    kind = (drawn.random(n) * 2 + (CLASSES - 2) * (a + 1) / 2).astype(int)
    return pd.DataFrame({
        "a": a, "b": b, "c": c, "town": drawn.choice(["north", "south", "west"], n),
        "amount": drawn.gamma(4.0, mean / 4.0).round(4) + 1e-3, "visits": drawn.poisson(mean),
        "kind": [f"k{k:02}" for k in kind],
    })  # fmt: skip


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """Data sets of the same columns, each with a label of its own, and held-out rows of one."""
    folder = tmp_path_factory.mktemp("trained")
    frame(1200).to_csv(folder / "rows.csv", index=False)
    frame(600, seed=5).to_csv(folder / "later.csv", index=False)
    labels = "amount", "visits", "kind"
    for label in labels:
        others = {name: "drop" for name in labels if name != label}
        task = "classification" if label == "kind" else "regression"
        ingest(
            str(folder / "rows.csv"), str(folder / label), label=label, encode="additive", task=task,
            pairs=PAIRS, knots=64, columns=False, column=others, test_fraction=0.25,
        )  # fmt: skip
        assert Dataset.open(str(folder / label)).manifest.codes
    return folder


def plan_for(dataset, **fields):
    known = {"dataset": str(dataset), "lam": "1/n", "tol": 1e-3, "passes": 200}
    return TrainingPlan.model_validate(known | fields)


def features_of(dataset):
    """All rows as a matrix, and their targets."""
    rows = concatenate([dataset.read_chunk(k) for k in range(dataset.n_chunks)])
    shape = rows.n_rows, dataset.n_features
    return sparse.csr_matrix((rows.data, rows.indices, rows.indptr), shape), rows.target


@pytest.mark.parametrize(("loss", "label"), [("gamma", "amount"), ("poisson", "visits")])
def test_amounts_and_counts_are_certified(work, tmp_path, loss, label):
    run = trained(plan_for(work / label, loss=loss), tmp_path / "run")
    X, y = features_of(Dataset.open(str(work / label)))
    of, slope = LOSSES[loss]
    charged = np.r_[0.01, np.ones(X.shape[1])] / len(y)  # the intercept a hundredth of lam
    level = np.r_[np.log(y.mean()), np.zeros(X.shape[1])]

    def objective(w):
        s = X @ w[1:] + w[0]
        slopes, away = slope(s, y) / len(y), w - level
        value = of(s, y).mean() + away @ (charged * away) / 2
        return value, np.r_[slopes.sum(), X.T @ slopes] + charged * away

    best = minimize(
        objective, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-15, "gtol": 1e-9},
    )  # fmt: skip
    certificate, weights = run.newest.certificate, run.newest.weights
    own = objective(np.r_[weights.intercept, weights.coef])[0]
    assert run.result.converged
    assert own - certificate.gap - 1e-11 <= best.fun <= own + 1e-11


def grouped(dataset, **fields):
    """A budget that some of the classes fit into."""
    plan = plan_for(dataset, solver={"kind": "psdca"}, classes="ovr", lam=0.02, **fields)
    for memory in range(96_000_000, 110_000_000, 50_000):
        tried = plan.model_copy(update={"memory": memory})
        try:
            if 1 < job_of(tried, Dataset.open(str(dataset))).models < CLASSES:
                return tried
        except BadInput:
            continue
    raise AssertionError("no budget leaves room for some of the classes")


def test_classes_in_groups_are_proven_as_near_as_all_at_once(work, tmp_path):
    plan = grouped(work / "kind")
    run = trained(plan, tmp_path / "groups")
    whole = trained(plan.model_copy(update={"memory": 10**9}), tmp_path / "whole")
    assert run.forecast.groups > 1 == whole.forecast.groups
    mine, others = run.newest.certificate.models, whole.newest.certificate.models
    assert run.result.converged and len(mine) == len(others) > 2
    for (objective, gap), (elsewhere, other_gap) in zip(mine, others, strict=True):
        assert objective - gap <= elsewhere and elsewhere - other_gap <= objective


def test_later_rows_start_from_the_model_of_before(work, tmp_path):
    """By the recipe of before: weights mean the same, and the proof is anew."""
    made = ingest(str(work / "later.csv"), str(tmp_path / "later"), like=str(work / "amount"))
    cold = trained(plan_for(made.dataset, loss="gamma"), tmp_path / "cold")
    first = trained(plan_for(work / "amount", loss="gamma"), tmp_path / "first")
    warm = trained(
        plan_for(made.dataset, loss="gamma", start_from=str(tmp_path / "first")), tmp_path / "warm"
    )
    assert recipe_in(Dataset.open(made.dataset).schema) == recipe_in(
        Dataset.open(str(work / "amount")).schema
    )
    assert warm.cursor.rows_before == first.cursor.rows_seen
    assert cold.result.converged and warm.result.converged
    one, other = cold.newest.certificate, warm.newest.certificate
    assert one.objective - one.gap <= other.objective
    assert other.objective - other.gap <= one.objective


def test_held_out_rows_end_a_training(work, tmp_path):
    """What is kept is the model of the lowest loss, as `evaluate` finds it."""
    held_out = f"{work / 'visits'}-test"
    plan = plan_for(
        work / "visits", loss="poisson", solver={"kind": "psdca"}, lam=1e-6, tol=None,
        held_out=held_out, early_stopping=True, n_iter_no_change=2,
    )  # fmt: skip
    run = trained(plan, tmp_path / "run")
    losses = [one["loss"] for one in run.run.events() if one["event"] == "validation"]
    (chosen,) = run.result.candidates
    assert chosen["loss"] == min(losses)
    X, y = features_of(Dataset.open(held_out))
    weights = run.newest.weights
    above = xlogy(y, y) - y  # half of the deviance is told
    wanted = (LOSSES["poisson"][0](X @ weights.coef + weights.intercept, y) + above).mean()
    assert chosen["loss"] == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize(
    ("label", "loss"), [("amount", "gamma"), ("visits", "poisson"), ("kind", "softmax")]
)
def test_a_model_learnt_while_reading_has_the_recipe_of_the_first_rows(
    work, tmp_path, label, loss, capsys
):
    """Rows that are kept are those that were learnt from: predictions of both are the same."""
    others = [f"{name}=drop" for name in ("amount", "visits", "kind") if name != label]
    words = [word for one in others for word in ("--column", one)]
    run, kept = str(tmp_path / "run"), str(tmp_path / "kept")
    source = ["train", str(work / "rows.csv"), run, "--label", label, "--loss", loss, "-q"]
    source += ["--lam", "1/n", "--additive", "--pairs", "a:b"]
    assert main([*source, *words, "--keep", kept]) == 0
    model, dataset = load_model(RunFolder(run)), Dataset.open(kept)
    recipe = recipe_in(model.record.columns)
    assert recipe == recipe_in(dataset.schema)
    assert [pair.name for pair in recipe.additive.pairs] == ["a x b"]
    said = []
    for rows in ([kept], [str(work / "rows.csv"), "--label", label]):
        capsys.readouterr()
        assert main(["evaluate", run, *rows, "--json", "-q"]) == 0
        said.append(json.loads(capsys.readouterr().out)["loss"])
    assert said[0] == pytest.approx(said[1], rel=1e-9)
