"""Laws that hold of every method: the same bits wherever it runs, however often it is cut, of rows
stored either way."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.drive import sweeps
from fewpass.solvers.registry import METHODS, method_class
from testing.blocks import block_of, stats_of
from testing.datasets import make
from testing.interruptions import assert_cuts_change_nothing, trained
from testing.oracles import as_stored, problem_of, rows_of

MEMORY = "96.1MB"  # leaves windows of a few small chunks
NEWTONS = "96.3MB"  # with the sums of newton besides

#: Settings of each method, in several forms where it has some.
FORMS = {
    "sgd": [{"loss": "squared_hinge", "intercept": "none"}],
    "asgd": [
        {"average_from": "auto"}, {"average_from": 1500, "passes": 2},
        {"streams": 2, "passes": 2, "certify": True, "intercept": "regularised"},
        {"streams": 3, "passes": 2, "certify": True, "lam": "10/n"},
    ],
    "onepass": [{"streams": 2, "certify": True, "memory": "128MB"}],
    "pegasos": [{"loss": "hinge", "passes": 3}, {"loss": "hinge", "streams": 2, "passes": 3}],
    "s2gd": [{"m": 3000, "passes": 4, "streams": 2, "lam": "30/n"}],
    "s2gd+": [{"passes": 6}],
    "svrg": [{"passes": 6}],
    "sdca": [
        {"loss": "hinge", "passes": 3}, {"batch": "aggressive", "passes": 3},
        {"loss": "hinge", "shrink_rounds": 9, "streams": 2, "passes": 3, "plan_memory": NEWTONS},
    ],
    "psdca": [
        {"columns": "apart", "passes": 7, "lam": "0.01/n"},
        {"streams": 3, "passes": 4, "lam": "0.01/n", "plan_memory": NEWTONS},
        {"batch": "rounds", "batch_size": 32, "shrink_rounds": 2, "passes": 4, "lam": "0.1/n"},
    ],
    "asdca": [{"batch_size": 40, "passes": 4}],
    "gd": [{"passes": 5}],
    "agd": [{"passes": 7}],
    "sag": [{"passes": 2}],
    "sag+": [{"passes": 4, "lam": "30/n", "certify": True}],
    "lbfgs": [{"memory": 2, "passes": 7}],
    "newton": [
        {"passes": 6, "loss": "smoothed_hinge"},
        {"penalty": "l1", "lam": ".05max", "tol": 1e-8, "plan_memory": NEWTONS},
        {"penalty": "l1", "lam": ".1max", "streams": 2, "plan_memory": NEWTONS},
    ],
}  # fmt: skip
#: Of several classes: a model of each, side by side, and one of all.
OF_CLASSES = [
    {"solver": {"kind": "s2gd+"}, "passes": 6, "classes": "ovr"},
    {"solver": {"kind": "sdca"}, "loss": "hinge", "passes": 3},
    {"solver": {"kind": "psdca"}, "passes": 6, "lam": "3e-3", "penalty": "l1", "classes": "ovr"},
    {"solver": {"kind": "psdca"}, "streams": 2, "passes": 4, "lam": "0.1/n", "memory": "96.4MB"},
]
#: What belongs to the plan; the rest belongs to the method.
OF_PLAN = ("loss", "intercept", "streams", "passes", "certify", "lam", "penalty", "tol")
EVERY = [(word, k) for word, forms in FORMS.items() for k in range(len(forms))]


def test_every_method_has_a_form():
    assert {*FORMS} | {"simba"} == {*METHODS}  # simba's rows are columns: test_feature_run.py


def plan_for(dataset, word, form):
    own, settings = {"kind": word}, {"memory": MEMORY, "lam": "1/n"}
    for name, value in form.items():
        of_plan = name in OF_PLAN or (word == "onepass" and name == "memory")
        (settings if of_plan else own)[name] = value
    if "plan_memory" in own:
        settings["memory"] = own.pop("plan_memory")
    return TrainingPlan(dataset=dataset.folder.url, solver=own, **settings)


def layout_of(form):
    return "dense" if "streams" in form else "sparse"


# -- wherever it runs ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def quiet_runs(tmp_path_factory):
    """Plans with what training them in this process, without Dask, came to."""
    sets = {
        layout: make(tmp_path_factory.mktemp(layout) / "set", layout=layout, weighted=True, n=2000)
        for layout in ("dense", "sparse")
    }
    plans = [plan_for(sets[layout_of(FORMS[word][k])], word, FORMS[word][k]) for word, k in EVERY]
    several = make(
        tmp_path_factory.mktemp("classes") / "set", n=1500, chunk_rows=50, layout="sparse",
        weighted=True, classes=4,
    )  # fmt: skip
    settings = {"dataset": several.folder.url, "memory": "96.15MB", "lam": "1/n"}
    plans += [TrainingPlan(**settings | form) for form in OF_CLASSES]
    folder = tmp_path_factory.mktemp("quiet")
    return [(plan, trained(plan, folder / str(k)).result) for k, plan in enumerate(plans)]


@pytest.mark.parametrize(
    "execution",
    [
        Execution(threads=4),
        Execution(scheduler="local", threads=2),
        Execution(workers=3, threads=1),  # more than the streams of most plans here
    ],
    ids=lambda e: f"{e.workers} processes" if e.workers else f"{e.threads} threads",
)
def test_bits_do_not_depend_on_where_it_runs(tmp_path, quiet_runs, execution):
    # A process loads the kernels of every method anew: a third of the plans, of either layout.
    few = [*quiet_runs[: len(EVERY) : 3], *quiet_runs[len(EVERY) :]]
    plans = few if execution.workers else quiet_runs
    with open_executor(execution) as executor:
        for k, (plan, quiet) in enumerate(plans):
            there = trained(plan, tmp_path / f"run{k}", executor).result
            assert there.weights_sha256 == quiet.weights_sha256, plan
            assert (there.objective, there.certificate) == (quiet.objective, quiet.certificate)


# -- however often it is cut -----------------------------------------------------------------------


@pytest.mark.parametrize(("word", "k"), EVERY)
def test_interrupted_anywhere_equals_uninterrupted(tmp_path, word, k, monkeypatch):
    monkeypatch.setattr("fewpass.solvers.sag.RENEW_EVERY", 2)
    monkeypatch.setattr("fewpass.pipeline.training.walk.FASTER", 4)  # more places to stop at
    form = FORMS[word][k]
    # A snapshot after every span takes longest.
    n = 2000 if form.get("passes", 1) == 1 else 1000
    dataset = make(tmp_path / "set", layout=layout_of(form), n=n, chunk_rows=30)
    plan = plan_for(dataset, word, form)
    assert_cuts_change_nothing(plan, tmp_path, trained(plan, tmp_path / "quiet").result, 5)


# -- rows stored either way ------------------------------------------------------------------------


@pytest.mark.parametrize("word", FORMS)
def test_dense_rows_and_sparse_ones_come_to_the_same_weights(word):
    method = method_class(word)()
    loss = "hinge" if method.needs.only_loss else "logistic"
    problem = problem_of(loss, 0.05, "regularised")
    X, y, _ = rows_of(600, 8, loss, seed=2)
    X = as_stored(X)
    found = []
    for rows in (X, csr_matrix(X)):
        known = stats_of(X, y)._replace(rows_kind=type(block_of(rows, y).rows))
        last = None
        for k, last in enumerate(sweeps(method, problem, known, block_of(rows, y))):
            if k >= 5:
                break
        weights = method.weights(last.state)
        found.append([*weights.coef, weights.intercept])
    assert np.abs(found[0]).max() > 0.0
    np.testing.assert_allclose(found[0], found[1], rtol=0, atol=1e-9 * np.abs(found[0]).max())
