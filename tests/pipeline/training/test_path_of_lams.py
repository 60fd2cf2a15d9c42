"""Paths over lam with an l1 penalty: the values, what rows say of each, the choice, the picture."""

from functools import reduce

import numpy as np
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.reporting.page import path_of_lams
from fewpass.pipeline.runs.grid import Candidate, Choice
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.choosing_lam import JOINT_LOSSES
from fewpass.pipeline.scoring.row_losses import row_losses
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights, add_parts
from testing.datasets import make
from testing.interruptions import trained
from testing.oracles import block, dense_rows


def test_a_path_is_twenty_shares_at_equal_ratios():
    shares = [factor.number for factor in Lam.of("path").factors]
    assert (len(shares), shares[0], shares[-1]) == (20, 1.0, 0.01)
    ratios = np.array(shares[1:]) / shares[:-1]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-3)
    assert Lam.of("path").resolved("max", 2.0).values(10)[0] == 2.0
    with pytest.raises(BadInput, match="none does"):
        TrainingPlan(dataset="d", lam="path", held_out="h")


@pytest.mark.parametrize("classes", [0, 3])
def test_errors_of_joint_means_are_those_row_by_row(classes, rng):
    X, weight = rng.standard_normal((90, 4)), rng.uniform(0.0, 2.0, 90)
    y = rng.integers(classes, size=90) if classes else np.where(X[:, 0] > 0.0, 1.0, -1.0)
    shape = (5, classes) if classes else (5,)
    models = zip(rng.standard_normal((*shape, 4)), rng.standard_normal(shape), strict=True)
    at = tuple(Weights(w, b) for w, b in models)
    problem = Problem(LOSSES["logistic"](), L2(1.0), 1.0, 1.0)

    def part_of(k):
        some = block(dense_rows(X[k]), y[k], weight[k])
        return JOINT_LOSSES.add(problem, at, some, JOINT_LOSSES.zero(at))

    total = reduce(add_parts, map(part_of, (slice(0, 20), slice(20, 70), slice(70, 90))))
    each = row_losses(problem, block(dense_rows(X), y, weight), at)
    best = int(np.argmin(each.mean()))
    assert int(np.argmin(total.mean)) == best
    found = total.errors_from(best)
    np.testing.assert_allclose(found, each.standard_errors(best), rtol=1e-9, atol=1e-9)
    assert found[best] == 0.0


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("path")
    sets = [
        make(folder / name, n=n, seed=k) for k, (name, n) in enumerate((("a", 1500), ("b", 800)))
    ]
    plan = TrainingPlan(
        dataset=sets[0].folder.url, held_out=sets[1].folder.url, penalty="l1", lam="path",
        solver={"kind": "newton"}, tol=1e-6,
    )  # fmt: skip
    return trained(plan, folder / "run").result, folder / "run"


def test_every_lam_is_certified_counted_and_compared(path):
    result, _ = path
    lams, counts, errors = (
        [one[name] for one in result.candidates] for name in ("lam", "nonzeros", "standard_error")
    )
    assert len(lams) == 20
    assert lams == sorted(lams, reverse=True)
    assert counts[0] == 0 < counts[-1]
    assert max(one["gap"] / one["objective"] for one in result.candidates) <= 1e-6
    losses = np.array([one["loss"] for one in result.candidates])
    near = losses <= losses.min() + np.array(errors)
    assert result.lam == lams[int(np.argmax(near))]  # the largest lam among them
    assert result.lam >= lams[int(np.argmin(losses))]


def test_the_model_that_is_kept_is_the_chosen_one_and_the_report_draws_the_path(path):
    result, folder = path
    run = RunFolder(str(folder))
    (chosen,) = [one for one in result.candidates if one["lam"] == result.lam]
    assert np.count_nonzero(load_model(run).weights.coef) == chosen["nonzeros"]
    drawn = path_of_lams(Choice(result.lam, tuple(Candidate(**one) for one in result.candidates)))
    assert drawn.count("<svg") == 2
    assert "not 0" in drawn
    assert path_of_lams(Choice(0.1)) == path_of_lams(None) == ""
