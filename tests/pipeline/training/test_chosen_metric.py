"""`metric`: what held-out rows choose lam by, and when to stop."""

import numpy as np
import pytest

import fewpass
from fewpass.flows.commands.result_sentences import held_out_sentence
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.grid import LARGEST
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from testing.datasets import make

LAMS = (1.0, 0.1, 0.003)


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    at = tmp_path_factory.mktemp("sets")
    made = {}
    for targets in ("labels", "values"):
        made[targets] = [
            make(at / f"{targets}-{name}", n, 60, seed=seed, targets=targets).folder.url
            for name, n, seed in (("rows", 300, 1), ("test_rows", 500, 2))
        ]
    return made


@pytest.mark.parametrize(
    ("targets", "metric", "higher"),
    [("labels", "auc", True), ("labels", "f1", True), ("labels", "brier", False),
     ("values", "mae", False)],
)  # fmt: skip
def test_lam_is_chosen_by_it(sets, tmp_path, targets, metric, higher):
    """The best of models that are trained alone and evaluated, in the same order."""
    rows, test_rows = sets[targets]
    told = fewpass.train(
        rows, tmp_path / "run", held_out=test_rows, metric=metric, tol=1e-4, verbose=0,
        lam=",".join(map(str, LAMS)), solver="sdca", loss="logistic" if targets == "labels" else None,
    )  # fmt: skip
    alone = []
    for k, lam in enumerate(LAMS):
        fewpass.train(rows, tmp_path / f"{k}", lam=lam, tol=1e-4, solver="sdca", verbose=0,
                      loss="logistic" if targets == "labels" else None)  # fmt: skip
        figures = fewpass.evaluate(tmp_path / f"{k}", test_rows)
        alone.append(getattr(figures if metric == "auc" else figures.metrics, metric))
    costs = [one["cost"] for one in told.candidates]
    assert [-c if higher else c for c in costs] == pytest.approx(alone, abs=0.02)
    assert told.lam == LAMS[int(np.argmin(costs))]


@pytest.mark.parametrize("settings", [{"lam": "1e4,0.1"}, {"lam": 1e4, "early_stopping": True}])
def test_a_model_without_a_figure_is_one_all_the_same(sets, tmp_path, settings):
    """The precision of a model that calls no row positive: the loss stands in its place."""
    rows, test_rows = sets["labels"]
    told = fewpass.train(
        rows, tmp_path / "run", held_out=test_rows, metric="precision", solver="asgd", passes=2,
        class_weight={"-1": 9, "1": 1}, verbose=0, **settings,
    )  # fmt: skip
    costs = {one["lam"]: one["cost"] for one in told.candidates}
    assert costs[1e4] is None
    assert told.lam == (0.1 if 0.1 in costs else 1e4)


def test_auto_compares_by_it_and_says_so(sets, tmp_path):
    rows, _ = sets["labels"]
    told = fewpass.train(rows, tmp_path / "run", lam="auto", metric="auc", tol=1e-2, verbose=0)
    each = told.lam_origin["candidates"]
    assert told.lam == pytest.approx(min(each, key=lambda c: (c["cost"], -c["lam"]))["lam"])
    assert all(-1.0 < c["cost"] < -0.5 for c in each)
    again = RunFolder(str(tmp_path / "run")).record()
    assert (again.plan.metric, load_model(RunFolder(str(tmp_path / "run"))).lam) == (
        "auc",
        told.lam,
    )


def test_training_ends_by_it_with_the_best_model(sets, tmp_path):
    rows, test_rows = sets["labels"]
    told = fewpass.train(
        rows, tmp_path / "run", held_out=test_rows, early_stopping=True, n_iter_no_change=3, lam=1e-6,
        metric="error", solver="asgd", passes=30, verbose=0,
    )  # fmt: skip
    curve = [e["error"] for e in RunFolder(str(tmp_path / "run")).events()
             if e["event"] == "validation"]  # fmt: skip
    assert told.stopped_early
    assert told.candidates[0]["cost"] == min(curve)
    assert fewpass.evaluate(tmp_path / "run", test_rows).error == pytest.approx(min(curve))
    said = held_out_sentence(told, "error")
    assert f"the held-out error was best after {told.passes_of_model:.4g}, {min(curve):.6g}" in said


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"lam": 0.1, "tol": 1e-2}, "does neither. Leave it out"),
        ({"passes": 1}, "Name a data set with `held_out`, or give `tol`"),
        ({"metric": "mae", "tol": 1e-2}, "metric is mae, which these models have no figure of"),
        ({"metric": "brier", "tol": 1e-2, "loss": "hinge"}, "have no figure of .loss hinge"),
    ],
)
def test_a_metric_that_chooses_nothing_is_refused(sets, tmp_path, settings, why):
    with pytest.raises(BadInput, match=why):
        fewpass.train(
            sets["labels"][0],
            tmp_path / "run",
            **{"metric": "auc", "lam": "auto", "verbose": 0} | settings,
        )


def test_straight_from_a_source_neither_chooses_and_both_are_named(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n" + "1.5,no\n2.5,yes\n" * 100)
    straight = {"label": "y", "encode": "none", "test_fraction": 0.1, "lam": "auto", "verbose": 0}
    for asked, why in (
        ({"metric": "auc"}, "straight from a source lam is chosen by the loss"),
        ({"early_stopping": True}, "^early_stopping = True needs rows again"),
    ):
        with pytest.raises(BadInput, match=why):
            fewpass.train(tmp_path / "rows.csv", tmp_path / "run", **straight | asked)


@pytest.mark.parametrize(
    "settings", [{"lam": "10,1e-3"}, {"lam": "auto"}, {"early_stopping": True}]
)
def test_rows_that_a_model_is_infinitely_wrong_on_choose_all_the_same(tmp_path, settings):
    """A count whose logarithm is foretold as 5,000."""
    rng = np.random.default_rng(0)
    for name, far in (("rows", 0.0), ("test_rows", 5000.0)):
        x = rng.standard_normal(100)
        lines = [f"{y} 1:{x + far}" for x, y in zip(x, rng.poisson(np.exp(x)), strict=True)]
        (tmp_path / f"{name}.svm").write_text("\n".join(lines))
    fewpass.ingest(tmp_path / "rows.svm", tmp_path / "rows", task="regression", scale="none")
    fewpass.ingest(tmp_path / "test_rows.svm", tmp_path / "test_rows", like=tmp_path / "rows")
    told = fewpass.train(
        tmp_path / "rows", tmp_path / "run", held_out=tmp_path / "test_rows", loss="poisson",
        solver="onepass", passes=2, verbose=0, **settings,
    )  # fmt: skip
    tried = told.candidates if told.lam_origin is None else told.lam_origin["candidates"]
    assert max(one["loss"] for one in tried) == LARGEST
    assert RunFolder(str(tmp_path / "run")).record()
    assert "Infinity" not in (tmp_path / "run/log.jsonl").read_text()
