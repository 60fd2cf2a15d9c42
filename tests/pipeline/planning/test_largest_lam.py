"""The largest lam: the smallest at which all weights are 0, of one reading of the rows."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.largest_lam import with_largest_lam
from fewpass.pipeline.planning.problem import loss_of
from fewpass.pipeline.rows.buffers import dataset_block
from fewpass.pipeline.rows.targets import target_rule
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.losses import slope, value
from fewpass.solvers.protocol import as_sides
from testing.datasets import make
from testing.interruptions import trained


def largest_by_scipy(dataset, plan):
    loss = loss_of(plan, dataset.manifest)
    rule = target_rule(dataset.manifest, loss, plan.positive, plan.class_weight)
    blocks = [dataset_block(dataset.read_stored(k), dataset, rule) for k in range(dataset.n_chunks)]
    y, c = (np.concatenate([getattr(b, name) for b in blocks]) for name in ("y", "weight"))
    X = np.concatenate([b.rows.X for b in blocks])
    found = []
    for label in range(rule.n_classes) if rule.n_classes else (-1,):
        side = as_sides(y, label)
        b = 0.0
        if plan.intercept != "none":
            mean = lambda b, side=side: float(c @ value(loss, np.full(len(side), b), side))  # noqa: E731
            b = minimize_scalar(mean, bracket=(-3.0, 3.0), tol=1e-13).x
        found.append(np.abs((c * slope(loss, np.full(len(side), b), side)) @ X).max() / len(y))
    return max(found) / plan.l1_share


@pytest.mark.parametrize(
    ("classes", "words", "near"),
    [
        (2, {"penalty": "l1"}, 1e-7),
        (2, {"penalty": "l1", "intercept": "none", "loss": "squared_hinge"}, 1e-7),
        (2, {"l1_ratio": 0.5, "class_weight": {"-1": 3.0}}, 1e-7),
        (3, {"penalty": "l1"}, 1e-7),
        (0, {"penalty": "l1"}, 1e-7),
        (0, {"penalty": "l1", "loss": "huber"}, 0.05),  # b is of the first rows
    ],
)
def test_it_is_the_largest_slope_at_zero_weights(tmp_path, classes, words, near):
    targets = {"targets": "values"} if classes == 0 else {"classes": classes}
    dataset = make(tmp_path / "set", n=300, d=6, weighted=classes != 2, chunk_rows=70, **targets)
    url = dataset.folder.url
    plan = TrainingPlan(dataset=url, held_out=url, lam="1max,.1max,1/n", **words)
    expected = largest_by_scipy(dataset, plan)
    found = with_largest_lam(plan, dataset)
    assert found.lam.values(300) == pytest.approx((expected, 0.1 * expected, 1 / 300), rel=near)


def test_what_has_no_largest_is_refused(tmp_path):
    dataset = make(tmp_path / "set", n=60, d=400, layout="sparse", classes=30)
    plan = TrainingPlan(dataset=dataset.folder.url, penalty="l1", lam="1max", memory=50_000)
    with pytest.raises(BadInput, match="Give a number"):
        with_largest_lam(plan, dataset)


def test_a_run_has_its_number_tells_its_zeros_and_the_same_command_goes_on(tmp_path):
    dataset, url = make(tmp_path / "set", n=400, d=8), str(tmp_path / "run")
    plan = TrainingPlan(
        dataset=dataset.folder.url, penalty="l1", lam=".5max", solver="psdca", tol=1e-6
    )
    first = trained(plan, url)
    result = first.result
    lam = with_largest_lam(plan, dataset).lam
    assert (result.penalty, result.lam) == ("l1", lam.values(400)[0])
    assert first.run.record().plan.lam == lam
    weights = load_model(first.run).weights.coef
    assert result.nonzeros == np.count_nonzero(weights) < 8
    assert 0 < result.proven_zeros <= 8 - result.nonzeros
    again = TrainingRun.start(plan, url, InProcess())
    assert [event.kind for event in again] == ["resume", "finish"]
    assert again.result.proven_zeros == result.proven_zeros
