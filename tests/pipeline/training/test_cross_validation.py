"""Folds side by side: each model is proven to be that of the rows without its fold."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.metrics import log_loss

import fewpass
from fewpass.flows.cli import main
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.rows.targets import folds_in
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.cross_validation import FoldPlanner, cross_validate
from fewpass.storage.dataset import Dataset
from testing.datasets import every_row, make

FOLDS, LAM = 4, 0.01


def rows_of(dataset):
    """Rows, targets and the fold of each: its chunk's, or its own where there are few."""
    X, y, _ = every_row(dataset)
    chunks = np.repeat(
        np.arange(dataset.n_chunks), [*map(dataset.manifest.rows_of, range(dataset.n_chunks))]
    )
    return X, y, (np.arange(len(y)) if dataset.n_chunks < FOLDS else chunks) % FOLDS


def optimum(X, y, loss):
    """The least objective without an intercept, by scipy."""
    side = 2.0 * y - 1.0

    def objective(w):
        p = X @ w
        if loss == "squared":
            value, slope = 0.5 * (p - y) ** 2, p - y
        else:
            value, slope = np.logaddexp(0.0, -side * p), -side / (1.0 + np.exp(side * p))
        return value.mean() + 0.5 * LAM * w @ w, X.T @ slope / len(y) + LAM * w

    start = np.zeros(X.shape[1])
    return minimize(
        objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-9}
    )


def test_few_rows_in_several_chunks_are_dealt_to_all_folds():
    """Two rows in each of three chunks: the first two folds had all of them."""
    manifest = SimpleNamespace(n_chunks=3, rows_of=lambda _chunk: 2)
    folds = np.concatenate([folds_in(manifest, chunk, 5) for chunk in range(3)])
    assert folds.tolist() == [0, 1, 2, 3, 4, 0]


@pytest.mark.parametrize(
    ("solver", "layout", "targets", "chunk_rows"),
    [("newton", "dense", "labels", 60), ("psdca", "sparse", "labels", 300),
     ("s2gd+", "dense", "labels", 60), ("lbfgs", "sparse", "values", 700),
     ("sdca", "dense", "values", 60), ("newton", "sparse", "labels", 700)],
)  # fmt: skip
def test_each_fold_is_certified_against_an_independent_optimum(
    tmp_path, solver, layout, targets, chunk_rows
):
    data = make(
        tmp_path / "data", 700, 12, chunk_rows, layout=layout, targets=targets, nnz=5
    )  # fmt: skip
    loss = "squared" if targets == "values" else "logistic"
    plan = TrainingPlan(
        dataset=data.folder.url, tol=1e-4, lam=LAM, loss=loss, intercept="none",
        solver={"kind": solver}, memory="128MB",
    )  # fmt: skip
    (one,) = cross_validate(plan, str(tmp_path / "1"), InProcess(1), FOLDS)
    (three,) = cross_validate(plan, str(tmp_path / "3"), InProcess(3), FOLDS)
    assert one._replace(seconds=0.0) == three._replace(seconds=0.0)
    X, y, folds = rows_of(Dataset.open(data.folder.url))
    for fold in one.folds:
        others, own = folds != fold.fold, folds == fold.fold
        best = optimum(X[others], y[others], loss)
        assert fold.objective - fold.gap <= best.fun * (1.0 + 1e-9)
        assert best.fun <= fold.objective * (1.0 + 1e-9)
        assert fold.relative_gap <= 1e-4
        assert fold.rows == fold.evaluation.rows == own.sum()
        p = X[own] @ best.x
        held_out = (
            0.5 * np.mean((p - y[own]) ** 2) if loss == "squared"
            else log_loss(y[own], 1.0 / (1.0 + np.exp(-p)))
        )  # fmt: skip
        assert fold.evaluation.loss == pytest.approx(held_out, rel=2e-2)
    each = [fold.evaluation.loss for fold in one.folds]
    means = {mean.metric: mean for mean in one.means}
    assert means["loss"].mean == pytest.approx(np.mean(each))
    assert means["loss"].standard_error == pytest.approx(np.std(each, ddof=1) / np.sqrt(FOLDS))


@pytest.mark.parametrize("classes", ["ovr", "multinomial"])
def test_classes_are_as_they_are_alone(tmp_path, classes):
    """A fold's model of classes is that of a data set of the other chunks."""
    data = make(tmp_path / "data", 600, 8, classes=3)
    settings = {"loss": "logistic", "classes": classes, "tol": 1e-5, "lam": LAM, "solver": "psdca"}
    (result,) = fewpass.cross_validate(data.folder.url, folds=FOLDS, **settings)
    X, y, folds = rows_of(Dataset.open(data.folder.url))
    model = fewpass.LinearClassifier(
        loss="logistic", multi_class=classes, tol=1e-5, lam=LAM, solver="psdca"
    )
    for fold in result.folds:
        own = folds == fold.fold
        model.fit(X[~own], y[~own])
        wrong = np.mean(model.predict(X[own]) != y[own])
        assert fold.evaluation.error == pytest.approx(wrong, abs=3.0 / own.sum())
        assert fold.relative_gap <= 1e-5


@pytest.mark.parametrize(
    ("solver", "classes"), [("newton", 2), ("psdca", 2), ("psdca", 3), ("s2gd+", 2)]
)
def test_lams_share_their_passes_and_are_as_they_are_alone(tmp_path, solver, classes):
    """Each is certified, and at most as far from itself alone as both may be from the optimum."""
    data = make(tmp_path / "data", 600, 8, classes=classes).folder.url
    settings = {"tol": 1e-6, "solver": solver, "folds": FOLDS}
    together = fewpass.cross_validate(data, lam="1,.1,.01", **settings)
    assert len({one.passes for one in together}) == 1
    for lam, found in zip((1.0, 0.1, 0.01), together, strict=True):
        (alone,) = fewpass.cross_validate(data, lam=lam, **settings)
        assert found.lam == alone.lam == lam
        assert alone.passes <= found.passes
        for fold, same in zip(found.folds, alone.folds, strict=True):
            assert fold.relative_gap <= 1e-6
            assert fold.objective - fold.gap <= same.objective
            assert same.objective - same.gap <= fold.objective
            assert fold.evaluation.loss == pytest.approx(same.evaluation.loss, abs=2e-3)
            assert fold.evaluation.objective == pytest.approx(same.evaluation.objective, abs=2e-3)


def test_lams_take_turns_where_the_memory_is_short(tmp_path, monkeypatch):
    data = make(tmp_path / "data", 600, 8).folder.url
    settings = {"tol": 1e-6, "solver": "psdca", "folds": FOLDS, "lam": "1,.1,.01"}
    expected = fewpass.cross_validate(data, **settings)
    fits = FoldPlanner.fits
    monkeypatch.setattr(
        FoldPlanner, "fits", lambda own, m: len(own.plan.lam.factors) == 1 and fits(own, m)
    )
    found = fewpass.cross_validate(data, **settings)
    assert [one.lam for one in found] == [one.lam for one in expected]
    assert sum(one.passes for one in found) > expected[0].passes
    assert all(fold.relative_gap <= 1e-6 for one in found for fold in one.folds)


def test_a_path_is_of_the_largest_lam_of_all_rows(tmp_path):
    data = make(tmp_path / "data", 600, 8).folder.url
    found = fewpass.cross_validate(
        data, lam="1max,.1max", penalty="l1", tol=1e-4, folds=3, solver="psdca"
    )
    assert found[1].lam == pytest.approx(found[0].lam / 10.0)
    assert all(fold.relative_gap <= 1e-4 for one in found for fold in one.folds)


def test_the_command_says_it(tmp_path, capsys):
    data = make(tmp_path / "data", 600, 8).folder.url
    words = ["--lam", "1,.01", "--folds", "3", "--scheduler", "none"]
    assert main(["cross-validate", data, *words, "--json"]) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    assert [one["lam"] for one in results] == [1.0, 0.01]
    assert [len(one["folds"]) for one in results] == [3, 3]
    assert all(fold["relative_gap"] <= 1e-3 for one in results for fold in one["folds"])
    assert main(["cross-validate", data, *words]) == 0
    assert "standard error" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"folds": 1}, "folds is 1"),
        ({"folds": 40}, "30 rows, of which 40 folds cannot be made"),
        ({"tol": None, "solver": "asgd"}, "give `tol`"),
    ],
)
def test_what_cannot_be_cross_validated_is_refused(tmp_path, settings, why):
    data = make(tmp_path / "data", 30, 8).folder.url
    with pytest.raises(BadInput, match=why):
        fewpass.cross_validate(data, **settings)
    stored = make(tmp_path / "sorted", 600, 8, shuffled=False).folder.url
    with pytest.raises(BadInput, match="are not shuffled"):
        fewpass.cross_validate(stored)


def test_a_folder_takes_one_cross_validation(tmp_path):
    data = make(tmp_path / "data", 60, 8).folder.url
    fewpass.cross_validate(data, lam=0.1, folds=3, folder=tmp_path / "folds")
    with pytest.raises(BadInput, match="snapshots of another cross-validation"):
        fewpass.cross_validate(data, lam=0.1, folds=2, folder=tmp_path / "folds")
