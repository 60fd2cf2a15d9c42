"""Models of several lam trained in groups, as the states of all do not fit into the memory."""

import numpy as np
import pytest

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.default_memory import with_memory
from fewpass.pipeline.planning.job import groups_of, is_grouped
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make
from testing.interruptions import stopped_often, trained
from testing.jobs import job_of

D, TOL = 4_000, 1e-4
LAMS = ".8max,.5max,.3max,.2max,.1max"
KINDS = {
    "newton": {"solver": {"kind": "newton"}, "penalty": "l1", "lam": LAMS},
    "psdca": {"solver": {"kind": "psdca"}, "lam": "1,.7,.5,.4,.3,.2,.1,.07"},
}


@pytest.fixture(scope="module", params=[0, 3], ids=["two sides", "three classes"])
def sets(request, tmp_path_factory):
    at = tmp_path_factory.mktemp("lams")
    made = {"d": D, "layout": "sparse", "nnz": 6, "classes": request.param}
    return [make(at / str(k), n=n, chunk_rows=40, seed=k, **made) for k, n in ((3, 160), (4, 90))]


def plan_for(sets, kind, memory=None):
    """A budget that some of the models fit into, unless another is given."""
    where = {"dataset": sets[0].folder.url, "held_out": sets[1].folder.url, "classes": "ovr"}
    fields = where | KINDS[kind] | {"tol": TOL, "passes": 300}
    if memory is not None:
        return TrainingPlan.model_validate(fields | {"memory": memory})
    step = 10_000_000 if kind == "newton" else 20_000
    for tried in range(96_000_000, 400_000_000, step):
        plan = TrainingPlan.model_validate(fields | {"memory": tried})
        if models_in(plan, sets[0]):
            return plan
    raise AssertionError("no budget leaves room for some of the models")


def models_in(plan, dataset):
    """Models that are trained at once, 0 where not even one fits."""
    known = plan.model_copy(update={"lam": plan.lam.resolved("max", 1.0)})
    try:
        job = job_of(known, dataset)
    except BadInput:
        return 0
    assert is_grouped(job), "all fit"
    return job.models


@pytest.mark.parametrize("kind", KINDS)
def test_every_lam_is_proven_as_near_as_all_at_once_and_the_same_is_chosen(sets, tmp_path, kind):
    plan = plan_for(sets, kind)
    run, whole = trained(plan, tmp_path / "groups"), trained(
        plan_for(sets, kind, memory=4 * 10**9), tmp_path / "whole"
    )  # fmt: skip
    assert run.forecast.groups > 1 == whole.forecast.groups
    assert run.result.converged and whole.result.converged
    assert run.result.lam == whole.result.lam
    assert len(run.result.candidates) == len(plan.lam.factors)
    for mine, other in zip(run.result.candidates, whole.result.candidates, strict=True):
        assert mine["objective"] - mine["gap"] <= other["objective"]
        assert other["objective"] - other["gap"] <= mine["objective"]
    (chosen,) = [one for one in run.result.candidates if one["lam"] == run.result.lam]
    coef = run.newest.weights.coef
    assert coef.shape == whole.newest.weights.coef.shape
    assert chosen["nonzeros"] is None or np.count_nonzero(coef) == chosen["nonzeros"]
    assert run.newest.certificate.objective == chosen["objective"]


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_anywhere_it_is_the_same_in_the_end(sets, tmp_path, kind):
    plan = plan_for(sets, kind)
    quiet = trained(plan, tmp_path / "quiet")
    events = sum(1 for _ in quiet.run.events())
    stopped = stopped_often(plan, tmp_path / "stopped", events // 6)
    assert stopped.result.weights_sha256 == quiet.result.weights_sha256
    assert stopped.result.candidates == quiet.result.candidates


def test_a_later_lam_begins_at_the_weights_of_the_one_before(sets, tmp_path):
    plan = plan_for(sets, "newton")
    warm = trained(plan, tmp_path / "warm")
    last = LAMS.rpartition(",")[2]
    given = plan.model_dump(exclude={"memory", "lam"}, exclude_unset=True)
    cold = trained(TrainingPlan.model_validate(given | {"lam": last}), tmp_path / "cold")
    assert warm.newest.groups[-1].passes < cold.result.passes


def test_all_lam_go_together_where_the_memory_suffices(sets):
    plan = plan_for(sets, "psdca")
    open_end = TrainingPlan.model_validate(plan.model_dump(exclude={"memory"}, exclude_unset=True))
    assert not is_grouped(job_of(with_memory(Planner(open_end, sets[0]), 4 * 10**9), sets[0]))
    several = groups_of(job_of(plan, sets[0]))
    assert len(several) > 1
    without = plan.model_copy(update={"held_out": None})
    with pytest.raises(BadInput, match="with `held_out` rows for several `lam`"):
        TrainingRun.start(without, "memory://run", InProcess())
