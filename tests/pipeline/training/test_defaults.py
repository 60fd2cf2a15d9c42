"""A training with neither a tolerance nor passes: proven where that takes seconds."""

import pytest

from fewpass.pipeline.planning.place import rough_seconds
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.defaults import with_defaults, with_end
from testing.datasets import make


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return make(tmp_path_factory.mktemp("end") / "set", n=200)


def planned(dataset, **settings):
    return plan_of(TrainingPlan, {"dataset": dataset.folder.url} | settings)


@pytest.mark.parametrize(
    "settings", [{}, {"lam": "1/n"}, {"loss": "hinge"}, {"held_out": "x", "lam": "1/n,10/n"}]
)
def test_an_open_end_is_a_tolerance(dataset, settings):
    plan = with_end(planned(dataset, **settings))
    assert plan == with_end(plan) == planned(dataset, tol=1e-3, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"passes": 1}, {"tol": 1e-2}, {"certify": True}, {"solver": {"kind": "onepass"}},
        {"lam": "1/n,10/n"}, {"start_from": "run"}, {"penalty": "l1"},
    ],
)  # fmt: skip
def test_an_end_that_is_named_stays(dataset, settings):
    plan = planned(dataset, **settings)
    assert with_end(plan) is plan


def test_of_more_data_one_pass_is_made(dataset, monkeypatch):
    seconds = rough_seconds(planned(dataset, tol=1e-3), dataset.manifest)
    monkeypatch.setattr("fewpass.pipeline.training.defaults.LONG_SECONDS", seconds)
    assert with_end(planned(dataset)).passes == 1
    monkeypatch.setattr("fewpass.pipeline.training.defaults.LONG_SECONDS", 1.001 * seconds)
    assert with_end(planned(dataset)).passes == 100


def test_to_a_tolerance_the_loss_is_open_unless_it_lam_or_the_method_is_named(dataset):
    named = {"loss": "hinge"}, {"lam": "1/n"}, {"solver": "newton"}, {"passes": 1}
    assert [with_defaults(planned(dataset, **own)).loss for own in named] == ["hinge", *[None] * 3]
    assert {with_defaults(planned(dataset, **own)).loss for own in ({}, {"tol": 1e-2})} == {"auto"}
