"""The loss of numbers where nobody gave one: squared, or poisson's where effects multiply."""

import shutil

import numpy as np
import pytest

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.row_losses import RowLosses
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training import models_by_lam
from fewpass.pipeline.training.chosen_loss import loss_choice, with_chosen_loss
from fewpass.pipeline.training.defaults import with_defaults
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.batch.newton_in_memory import minimise
from fewpass.storage.table import DenseTable
from testing.datasets import make, write

EFFECTS = {"poisson": np.exp, "squared": lambda score: 5.0 + score}


def amounts(url, effect, unit=1.0):
    """Rows whose targets vary by a fifth around what their scores make of them."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((600, 3)).astype(np.float32)
    y = unit * effect(X @ [0.5, -0.4, 0.3]) * rng.gamma(25.0, 1.0 / 25.0, 600)
    return write(url, DenseTable(X, y, None), 3, 200, targets="numbers")


def asked(dataset, **settings):
    return with_defaults(plan_of(TrainingPlan, {"dataset": dataset.folder.url} | settings))


def trained(plan, url):
    run = TrainingRun.start(plan, url, InProcess())
    kinds = [event.kind for event in run]
    return run.result, kinds


@pytest.mark.parametrize("word", EFFECTS)
def test_the_loss_is_that_of_the_effects_and_the_model_is_of_the_plan_that_names_it(word, tmp_path):
    data, url = amounts(tmp_path / "data", EFFECTS[word]), str(tmp_path / "run")
    chosen, _ = trained(asked(data), url)
    plan, origin = (getattr(RunFolder(url).record(), name) for name in ("plan", "lam_origin"))
    assert chosen.loss == plan.loss == origin.loss.loss == word
    assert ("loss poisson, not squared" in origin.sentence()) == (word == "poisson")
    again, kinds = trained(asked(data), url)
    assert kinds == ["resume", "finish"]
    named, _ = trained(asked(data, loss=word, lam=plan.lam.written, tol=1e-3), f"{url}-named")
    assert chosen.weights_sha256 == again.weights_sha256 == named.weights_sha256


def test_what_goes_on_from_a_model_has_its_loss_unless_it_names_one(tmp_path):
    data, url = amounts(tmp_path / "data", np.exp), str(tmp_path / "run")
    trained(asked(data), url)
    on, _ = trained(asked(data, start_from=url), f"{url}-on")
    later = asked(data, start_from=f"{url}-on")
    assert (on.loss, later.loss, later.tol) == ("poisson", "poisson", 1e-3)
    assert asked(data, start_from=url, loss="squared").loss == "squared"
    most = {"loss": "quantile", "quantile": 0.9, "lam": "1/n", "tol": 1e-2}
    trained(asked(data, **most), f"{url}-most")
    of_most = asked(data, start_from=f"{url}-most")
    assert (of_most.loss, of_most.quantile) == ("quantile", 0.9)


def test_a_run_that_has_begun_does_without_the_model_that_it_started_from(tmp_path):
    data, url = amounts(tmp_path / "data", np.exp), str(tmp_path / "run")
    few = {"lam": "1/n", "passes": 1}
    trained(asked(data, loss="quantile", quantile=0.9, **few), url)
    on, kinds = trained(asked(data, start_from=url, **few), f"{url}-on")
    assert (on.loss, kinds[-1]) == ("quantile", "finish")
    shutil.rmtree(url)
    again, kinds = trained(asked(data, start_from=url, **few), f"{url}-on")
    assert (again.weights_sha256, kinds) == (on.weights_sha256, ["resume", "finish"])


def test_what_both_losses_are_compared_by_is_not_trained_again(tmp_path, monkeypatch):
    calls = []

    def noted(problem, *rest, **more):
        calls.append(problem)
        return minimise(problem, *rest, **more)

    monkeypatch.setattr(models_by_lam, "minimise", noted)
    dataset = amounts(tmp_path / "d", np.exp)
    origin = with_chosen_loss(asked(dataset), dataset)[1]
    assert origin.loss is not None
    tried = {(problem.loss, problem.lam) for problem in calls}
    assert len(calls) == len(tried) * origin.folds * origin.times


def test_the_unit_of_amounts_does_not_matter(tmp_path):
    """A hundred times the targets have a hundred times the loss and lam, and the same weights."""
    sets = [amounts(tmp_path / f"{unit}", np.exp, unit) for unit in (1.0, 100.0)]
    (plan, origin), (of_cents, in_cents) = (with_chosen_loss(asked(one), one) for one in sets)
    assert [plan.loss, of_cents.loss] == ["poisson", "poisson"]
    assert of_cents.lam.values(600)[0] == pytest.approx(100.0 * plan.lam.values(600)[0])
    assert in_cents.loss[2:] == pytest.approx(origin.loss[2:], rel=1e-3)


def test_other_targets_and_plans_keep_their_loss(tmp_path):
    def chosen(data, **settings):
        return with_chosen_loss(asked(data, **settings), data)[0].loss

    data = amounts(tmp_path / "amounts", np.exp)
    assert chosen(data, loss="huber") == "huber"
    assert {chosen(data, **own) for own in ({"metric": "mae"}, {"penalty": "l1"})} == {None}
    for own in ({"passes": 1}, {"lam": "1/n"}, {"solver": "newton"}):
        assert asked(data, **own).loss is None
    assert chosen(amounts(tmp_path / "negative", lambda score: score)) is None
    assert chosen(make(tmp_path / "labels", n=200)) is None


@pytest.mark.parametrize(
    ("squares", "of_amounts", "word"),
    [
        ((1.0, 0.5), (1.0, 1.0), "poisson"),  # squared errors are lower for sure
        ((1.0, 0.995), (1.0, 0.5), "squared"),  # by less than a percent
        ((1.0, 1.5), (1.0, 0.5), "squared"),  # higher for sure, whatever the deviance
        ((0.0, 0.0), (0.0, 0.0), "squared"),
    ],
)
def test_squared_errors_decide_where_they_tell(squares, of_amounts, word):
    each = [
        RowLosses(np.outer(pair, np.ones(50)), None, np.ones(50))
        for pair in zip(squares, of_amounts, strict=True)
    ]
    assert loss_choice(*each).loss == word


@pytest.mark.parametrize(("deviance", "word"), [(0.5, "poisson"), (0.95, "squared")])
def test_the_deviance_decides_where_a_few_targets_hide_the_rest(deviance, word):
    squares, ones = np.where(np.arange(50) < 2, 1e6, 1.0), np.ones(50)
    others = squares * [1.5, 0.6, *[0.5] * 48], deviance * ones
    sides = np.array([squares, ones]), np.array(others)
    assert loss_choice(*(RowLosses(one, None, ones) for one in sides)).loss == word
