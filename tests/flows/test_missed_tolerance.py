"""A tolerance that was asked for and not certified: who says so, and what it changes."""

import json
import logging

import numpy as np
import pytest

from fewpass.flows.orchestration.refresh import ended
from fewpass.flows.outcomes import require_convergence
from fewpass.flows.refusals import ToleranceMissed
from fewpass.pipeline.models.refresh.refresh_result import RefreshResult
from fewpass.pipeline.reporting.model_card import model_card
from fewpass.pipeline.reporting.report import read_report
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.protocol import Certificate
from testing.datasets import make
from testing.interruptions import trained

NO_DASK = ["--scheduler", "none"]
MISSED = ["--solver", "gd", "--tol", "1e-9", "--passes", "3"]
REACHED = ["--solver", "newton", "--tol", "1e-3"]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tolerance")
    made = {"two": make(folder / "two", n=400), "three": make(folder / "three", n=400, classes=3)}
    return {name: dataset.folder.url for name, dataset in made.items()}


def words_of(result):
    verdict = "reached" if result["converged"] else "missed"
    gap = result["relative_gap"]
    certified = "nothing" if gap >= 1.0 else f"{gap:.3g}"  # no loss is below 0: nobody doubts it
    return (
        f"Tolerance {result['tol']:g} {verdict}: certified {certified} after "
        f"{result['passes']:.4g} {'pass' if result['passes'] == 1 else 'passes'}."
    )


@pytest.mark.parametrize(
    ("asked", "name", "converged"),
    [
        (MISSED, "two", False),
        (["--solver", "sdca", "--tol", "1e-12", "--passes", "2"], "two", False),
        (["--solver", "asgd", "--tol", "1e-9", "--passes", "1"], "two", False),
        (MISSED, "three", False),
        (REACHED, "two", True),
        (REACHED, "three", True),
        (["--certify"], "two", None),
        (["--solver", "simba", "--set", "solver.iterations=100"], "two", None),
    ],
)
def test_every_surface_says_it(fewpass, datasets, tmp_path, asked, name, converged):
    run = tmp_path / "run"
    place = [] if "simba" in asked else NO_DASK
    status, out, err = fewpass("train", datasets[name], run, *asked, *place, "--json")
    result = json.loads(out)
    assert status == 0
    assert result["converged"] is converged
    saved = RunFolder(str(run)).snapshots.latest()[0].attributes
    certified = Certificate(**saved["certificate"])
    assert result["relative_gap"] == certified.relative
    told = list(RunFolder(str(run)).events())[-1]
    assert told["event"] == "finish"
    assert {k: told[k] for k in ("tol", "relative_gap", "converged")} == {
        k: result[k] for k in ("tol", "relative_gap", "converged")
    }
    report = read_report(RunFolder(str(run))).report
    assert (report.converged, report.relative_gap) == (converged, result["relative_gap"])
    card = model_card(RunFolder(str(run)))
    if converged is None:
        assert "Tolerance" not in err + card
        return
    assert converged == (certified.relative <= result["tol"])
    last = err.strip().splitlines()[-1]
    assert last.startswith(words_of(result))
    assert words_of(result) in card
    assert words_of(result) in " ".join(fewpass("report", run)[1].split())
    assert (f"--start-from {run}" in last) == (not converged)
    assert fewpass("resume", run, *NO_DASK)[2].strip().splitlines()[-1] == last


@pytest.mark.parametrize(("asked", "expected"), [(MISSED, 1), (REACHED, 0)])
def test_require_tol_is_in_the_exit_status(fewpass, datasets, tmp_path, asked, expected):
    words = ("train", datasets["two"], tmp_path / "run", *asked, *NO_DASK, "--json", "-q")
    status, out, err = fewpass(*words, "--require-tol")
    result = json.loads(out)
    assert status == expected
    assert (f"fewpass: {words_of(result)} The model is in {tmp_path / 'run'}." in err) == expected
    again, out, _ = fewpass("resume", tmp_path / "run", *NO_DASK, "--json", "--require-tol")
    assert (again, json.loads(out)["weights_sha256"]) == (expected, result["weights_sha256"])
    assert RunFolder(str(tmp_path / "run")).snapshots.latest()[0].attributes["finished"]


def test_require_tol_needs_one(fewpass, datasets, tmp_path):
    one_pass = ["--passes", "1", "--require-tol", *NO_DASK]
    status, _, err = fewpass("train", datasets["two"], tmp_path / "run", *one_pass)
    assert status == 2
    assert "Give --tol, or leave --require-tol out." in err
    assert not (tmp_path / "run").exists()
    with pytest.raises(ValueError, match=r"training\.tol is not"):
        RefreshPlan(sources=("in/*",), store="store", require_tol=True, training={"passes": 1})


def test_of_several_lam_the_returned_model_counts(datasets, tmp_path):
    """The run ends when all are certified, or with its passes; converged is said of the model."""
    plan = TrainingPlan(
        dataset=datasets["two"], held_out=datasets["two"], lam="1,1e-7", solver={"kind": "gd"},
        tol=1e-3, passes=20, memory="97MB",
    )  # fmt: skip
    result = trained(plan, tmp_path / "run").result
    gap, objective = result.certificate, result.objective
    assert result.relative_gap == gap / objective
    assert result.converged == (result.relative_gap <= 1e-3)
    assert result.passes == 20


def test_where_nothing_is_proven_the_method_is_named_that_would(fewpass, datasets, tmp_path):
    asked = ["--certify", "--lam", "1e-4/n", *NO_DASK]
    said = fewpass("train", datasets["two"], tmp_path / "asgd", "--solver", "asgd", *asked)[2]
    assert "no useful bound yet" in said
    assert "--solver newton proves 0.01, usually in about" in said
    asked = ["--solver", "psdca", "--passes", "6", *asked, "--json"]
    result = json.loads(fewpass("train", datasets["two"], tmp_path / "psdca", *asked)[1])
    assert result["certificate"] < result["objective"]


def last_line(fewpass, *asked):
    return fewpass("train", *asked, *NO_DASK)[2].strip().splitlines()[-1]


def test_the_last_line_names_the_method_and_the_passes(fewpass, datasets, tmp_path):
    """The rate is that of the certificate, and a method that is the best of all is not renamed."""
    missed = ["--tol", "1e-12", "--passes", "12"]
    said = last_line(fewpass, datasets["two"], tmp_path / "s2gd", "--solver", "s2gd+", *missed)
    assert "--solver newton proves 1e-12, usually in about" in said
    proven = [
        (e["passes"], e["relative_gap"])
        for e in RunFolder(str(tmp_path / "s2gd")).events()
        if e["event"] == "certificate"
    ]
    before, now = next(p for p in reversed(proven) if p[0] <= 9.0), proven[-1]
    digits = np.log10(before[1] / now[1]) / (now[0] - before[0])
    left = np.log10(now[1] / 1e-12) / digits
    assert f"three passes s2gd+ needs about {left:,.0f} more." in said
    said = last_line(fewpass, datasets["two"], tmp_path / "auto", "--tol", "1e-16", "--passes", "3")
    assert "Tolerance 1e-16 missed" in said
    assert "proves 1e-16" not in said
    hinge = ["--loss", "hinge", "--solver", "pegasos", "--tol", "1e-9", "--passes", "4"]
    assert "--solver psdca proves 1e-09." in last_line(
        fewpass, datasets["two"], tmp_path / "p", *hinge
    )


def test_a_refresh_of_several_generations_ends_as_the_one_that_is_to_be_looked_at():
    first, second, last = (
        RefreshResult(store="store", state=state, message=f"{state}.", converged=converged)
        for state, converged in (("waits", None), ("kept back", False), ("published", True))
    )
    made = ended(last.model_copy(update={"earlier": (first,)}), require_tol=True)
    assert (made.name, made.message) == ("Waits", "waits. published.")
    of_all = last.model_copy(update={"earlier": (first, second)})
    assert ended(of_all, require_tol=False).name == "KeptBack"
    with pytest.raises(ToleranceMissed, match=r"waits\. kept back\. published\."):
        ended(of_all, require_tol=True)


def test_a_required_tolerance_that_an_unchanged_night_missed_is_missed_still(
    datasets, tmp_path, monkeypatch
):
    """Nothing is trained; the flow run must not end well where the one before it failed."""
    from fewpass.flows.orchestration import train

    monkeypatch.setattr(train, "get_run_logger", lambda: logging.getLogger(__name__))
    plan = TrainingPlan(dataset=datasets["two"], lam="1/n", tol=1e-9, solver="gd", passes=3)
    training = trained(plan, tmp_path / "run")
    assert training.result.converged is False
    assert train.unchanged(plan, training.run).name == "Unchanged"
    with pytest.raises(ToleranceMissed, match="Tolerance 1e-09 missed"):
        train.unchanged(plan, training.run, require_tol=True)


def test_a_missed_tolerance_is_told_of_a_lam_that_was_open(datasets, tmp_path):
    """As a flow has it: the plan that was asked for, in which lam is a share of the largest."""
    asked = TrainingPlan(
        dataset=datasets["two"], lam=".1max", penalty="l1", tol=1e-12, solver="psdca", passes=2
    )
    result = trained(asked, tmp_path / "run").result
    with pytest.raises(ToleranceMissed, match="Tolerance 1e-12 missed"):
        require_convergence(result, asked)
