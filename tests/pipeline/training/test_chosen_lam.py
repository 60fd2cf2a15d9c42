"""lam where nobody gave one: against models trained by hand, and what is stored of the choice."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.runs.grid import Candidate, best_of
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.scoring.row_losses import RowLosses
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.chosen_lam import (
    MULTIPLES,
    between_best,
    candidates_of,
    origin_on,
    with_chosen_lam,
)
from fewpass.pipeline.training.lam_comparison import LamComparison
from fewpass.pipeline.training.lam_sample import in_memory
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import DenseTable, SparseTable
from testing.datasets import every_row, make


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Rows of three hundred columns of which few count, so that much regularisation is best."""
    folder = tmp_path_factory.mktemp("lam")
    return {
        layout: [
            make(folder / f"{layout}{k}", n=n, d=60, chunk_rows=300, layout=layout, seed=5 + k)
            for k, n in enumerate((300, 200))
        ]
        for layout in ("dense", "sparse")
    }


def plan_for(dataset, **fields):
    return TrainingPlan.model_validate({"dataset": dataset.folder.url, "lam": "auto"} | fields)


def test_the_losses_are_those_of_models_trained_by_hand(sets):
    """scikit-learn minimises the same problems; the intercept's charge hardly counts."""
    train, held_out = sets["dense"]
    origin = with_chosen_lam(plan_for(train, tol=1e-3), train, held_out)[1]
    (X, y, _), (others, theirs, _) = every_row(train), every_row(held_out)
    assert origin.rows == len(y)
    assert origin.held_out_rows == len(theirs)
    sides = np.where(theirs > 0, 1.0, -1.0)
    for one in origin.candidates:
        model = LogisticRegression(C=1.0 / (one.lam * len(y)), tol=1e-10, max_iter=10_000)
        margins = sides * model.fit(X, y).decision_function(others)
        assert one.loss == pytest.approx(np.logaddexp(0.0, -margins).mean(), rel=0.05)
        assert one.error == pytest.approx(np.mean(margins < 0.0), abs=0.02)
    assert {round(one.lam * len(y), 9) for one in origin.candidates} >= set(MULTIPLES)


def test_dense_and_sparse_rows_choose_the_same(sets):
    """Also where the sparse ones have columns without a value, which are left out."""
    dense = sets["dense"][0].read_chunk(0)
    X = csr_matrix(np.hstack([np.zeros((dense.n_rows, 3)), dense.X]))
    indices, indptr = X.indices.astype(np.uint32), X.indptr.astype(np.int64)
    sparse = SparseTable(X.data, indices, indptr, dense.target, None)
    targets = sets["dense"][0].manifest.targets
    kinds = [in_memory(sets["dense"][0], dense), MemoryDataset(sparse, X.shape[1], targets)]
    found = [with_chosen_lam(plan_for(sets["dense"][0]), rows)[1] for rows in kinds]
    assert found[0].written == found[1].written
    for one, other in zip(found[0].candidates, found[1].candidates, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=0.02)
    assert (found[0].folds, found[0].times, found[0].held_out_rows) == (5, 4, dense.n_rows)


@pytest.mark.parametrize(
    "classes, fields",
    [
        (3, {"classes": "ovr"}),
        (3, {"tol": 1e-3}),  # of all scores at once
        (2, {"loss": "hinge"}),
        (3, {"loss": "hinge"}),
    ],
)
def test_any_method_and_number_of_classes(tmp_path, classes, fields):
    """Dual ascent side by side, Newton's method one after the other."""
    data = make(tmp_path / "d", n=400, d=8, classes=classes)
    origin = with_chosen_lam(plan_for(data, **fields), data)[1]
    losses = [one.loss for one in origin.candidates]
    assert len(losses) == len(MULTIPLES) + 1
    assert losses[0] > min(losses)  # 1000/n leaves next to no weights
    assert all(0.0 <= one.error <= 1.0 for one in origin.candidates)


def test_parts_without_a_label_do_not_count_in_a_metric(rng):
    """Four rows of 600 in five parts: an AUC of all parts has no meaning, for any lam."""
    X = rng.standard_normal((600, 4))
    y = np.zeros(600)
    y[np.argsort(-X[:, 0])[:4]] = 1.0
    rows = MemoryDataset(DenseTable(X, y, None), 4, Labels(labels=("a", "b"), counts=(596, 4)))
    plan = TrainingPlan(dataset="memory", lam="auto", tol=1e-3, metric="auc")
    costs = [one.cost for one in with_chosen_lam(plan, rows)[1].candidates]
    assert np.isfinite(costs).all()
    assert min(costs) == pytest.approx(-1.0)


def test_a_metric_without_meaning_leaves_the_choice_to_the_loss():
    losses = RowLosses(
        np.array([[2.0, 2.0], [1.0, 1.0]]), None, np.ones(2), np.full((3, 2), np.inf), np.ones(3)
    )
    assert losses.criterion().tolist() == [2.0, 1.0]
    assert [one.cost for one in candidates_of((0.1, 0.2), losses)] == [None, None]


def test_more_than_the_largest_is_tried_where_that_is_the_best(rng):
    """Labels that no column tells anything of."""
    X, y = rng.standard_normal((300, 20)), rng.integers(0, 2, 300).astype(float)
    targets = Labels(labels=("a", "b"), counts=tuple(np.bincount(y.astype(int)).tolist()))
    rows = MemoryDataset(DenseTable(X, y, None), 20, targets)
    plan = TrainingPlan(dataset="memory", lam="auto", tol=1e-3)
    origin = with_chosen_lam(plan, rows)[1]
    assert origin.candidates[0].lam > MULTIPLES[0] / 300
    assert abs(origin.candidates[0].loss - np.log(2.0)) < 0.02


def test_the_usual_lam_is_left_where_another_is_better_by_more_than_chance_and_a_percent():
    candidates = [
        Candidate(1.0, 0.5, None, standard_error=0.01),
        Candidate(0.1, 0.405, None, standard_error=0.01),
        Candidate(0.01, 0.4, None, standard_error=0.0),
        Candidate(0.001, 0.403, None, standard_error=0.004),
    ]
    assert best_of(candidates).lam == 0.1  # the fewest columns, with a penalty of sizes
    assert best_of(candidates, usual=1.0).lam == 0.01  # 0.1 is within its error, not within 1 %
    assert best_of(candidates, usual=0.002).lam == 0.001
    assert best_of([one._replace(standard_error=None) for one in candidates]).lam == 0.01


def test_one_refinement_lies_between_the_best_two():
    assert between_best((100.0, 10.0, 1.0), np.array([3.0, 1.0, 2.0])) == pytest.approx(3.2)
    assert between_best((100.0, 10.0, 1.0), np.array([3.0, 2.0, 1.0])) == pytest.approx(3.2)
    assert between_best((100.0, 10.0, 1.0), np.array([1.0, 2.0, 1.0])) == pytest.approx(32.0)


def finished(plan, url):
    run = TrainingRun.start(plan, url, InProcess())
    events = list(run)
    return run.result, events


def test_the_choice_is_stored_and_a_repeat_goes_on_with_it(sets, tmp_path):
    train, _ = sets["dense"]
    plan, url = plan_for(train, tol=1e-3), str(tmp_path / "run")
    first, events = finished(plan, url)
    record = RunFolder(url).record()
    assert record.plan.lam.written == record.lam_origin.written == first.lam_origin["written"]
    assert first.lam == record.plan.lam.values(300)[0]
    assert "held-out rows" in events[0].facts.lam
    again, events = finished(plan, url)
    assert [event.kind for event in events] == ["resume", "finish"]
    assert (again.weights_sha256, again.lam_origin) == (first.weights_sha256, first.lam_origin)
    alone, _ = finished(plan_for(train, tol=1e-3, lam=first.lam_origin["written"]), url + "-given")
    assert alone.weights_sha256 == first.weights_sha256
    assert alone.lam_origin is None
    with pytest.raises(ValueError, match="lam was"):
        finished(plan_for(train, tol=1e-3, lam="7/n"), url)


def test_one_pass_chooses_by_the_losses_before_its_steps(sets, tmp_path):
    train, _ = sets["sparse"]
    result, _ = finished(plan_for(train, solver={"kind": "onepass"}), str(tmp_path / "run"))
    losses = {one["lam"]: one["loss"] for one in result.candidates}
    assert sorted(losses) == sorted(Lam.of("1/n,.1/n,.01/n").values(300))
    assert result.lam == min(losses, key=losses.get)
    assert all(0.0 < loss < 1.0 for loss in losses.values())


def test_a_few_rows_choose_nothing(tmp_path):
    data = make(tmp_path / "d", n=20, d=3)
    plan, origin = with_chosen_lam(plan_for(data), data)
    assert (plan.lam, origin) == (Lam.of("1/n"), None)
    finished(plan_for(data, tol=1e-3), str(tmp_path / "run"))
    _, events = finished(plan_for(data, tol=1e-3), str(tmp_path / "run"))
    assert [event.kind for event in events] == ["resume", "finish"]


@pytest.mark.parametrize("target", [0.0, 3.0])
def test_equal_targets_choose_nothing(target):
    """Of counts that are all 0 no lam is enough, and of others all are alike."""
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    values = Values(mean=target, variance=0.0, minimum=target, maximum=target)
    data = MemoryDataset(DenseTable(np.full(50, target), None, X), 3, values)
    plan = TrainingPlan(dataset="memory", lam="auto", loss="poisson")
    assert with_chosen_lam(plan, data) == (plan.model_copy(update={"lam": Lam.of("1/n")}), None)


@pytest.mark.parametrize(("l1_share", "best", "next_one"), [
    (0.0, 0.01, "0.001/n"), (0.0, 1.0, None), (1.0, 0.003, None), (1.0, 0.5, None), (1.0, 3e-5, None), (1.0, 1e-9, "1e-06max"),
])  # fmt: skip
def test_a_lam_at_the_end_of_those_tried_says_so(sets, l1_share, best, next_one):
    """The losses are given: least at one of the lam."""
    dataset = sets["dense"][0]
    penalty = "l1" if l1_share else "l2"

    def losses(plan):
        far = np.array([abs(np.log(one.number / best)) for one in plan.lam.factors])
        return RowLosses(np.repeat(1.0 + far[:, None], 9, axis=1), None, np.ones(9))

    origin = origin_on(plan_for(dataset, penalty=penalty), dataset, LamComparison(losses, 9, 9))
    assert origin.beyond == next_one
    assert len(origin.candidates) == {0.003: 8, 3e-5: 12, 1e-9: 12}.get(best, 7)
    assert ("none beyond it was tried" in origin.sentence()) == (next_one is not None)


def test_several_lam_to_a_tolerance_still_need_held_out_rows(sets):
    train, _ = sets["dense"]
    with pytest.raises(ValueError, match="need rows to choose by"):
        plan_for(train, lam="1/n,10/n", tol=1e-3)
    assert Dataset.open(train.folder.url).n_rows == 300
