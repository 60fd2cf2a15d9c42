"""Tiny, huge, empty and constant data: a model with a true certificate, or a refusal in words."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.rows.column_statistics import ColumnStatistics
from fewpass.pipeline.rows.scaling import Scaler
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.protocol import Diverged
from fewpass.storage.table import DenseTable, SparseTable
from testing.datasets import write
from testing.oracles import ROWS_OF, objective, optimum

SMOOTH = ["squared_hinge", "logistic", "squared"]
METHODS = {
    "sgd": [*SMOOTH, "hinge"], "asgd": [*SMOOTH, "hinge"], "onepass": [*SMOOTH, "hinge"], "pegasos": ["hinge"], "s2gd": SMOOTH,
    "s2gd+": SMOOTH, "svrg": SMOOTH, "sdca": [*SMOOTH, "hinge"], "psdca": [*SMOOTH, "hinge"],
    "asdca": SMOOTH, "gd": SMOOTH, "agd": SMOOTH, "sag": SMOOTH, "sag+": SMOOTH, "lbfgs": SMOOTH, "newton": SMOOTH,
    "auto": [*SMOOTH, "hinge"], "simba": ["hinge"],
}  # fmt: skip
CASES = [(method, loss) for method, losses in METHODS.items() for loss in losses]
ONE_PASS = ("sgd", "asgd", "onepass", "pegasos")
SIZES = [1e-30, 1.0, 1e30, 1e-200, 1e100]  # the last two of float64


@st.composite
def hostile(draw):
    """Rows, codes of labels, and row weights or none."""
    n, d = draw(st.sampled_from([1, 2, 9])), draw(st.sampled_from([1, 3]))
    X = np.random.default_rng(draw(st.integers(0, 9))).standard_normal((n, d))
    y = (X[:, 0] > 0.0).astype(float)
    X *= draw(st.sampled_from(SIZES))
    match draw(st.sampled_from(["", "zero", "zero rows", "a long row", "constant", "one label"])):
        case "zero":
            X *= 0.0
        case "zero rows":
            X[::2] = 0.0
        case "a long row":
            X[0] *= 1e20
        case "constant":
            X[:, -1] = X[0, -1]
        case "one label":
            y *= 0.0
    weight = draw(st.sampled_from([None, "some 0", "huge"]))
    some = np.arange(n) % 3 > 0 if n > 1 else np.full(n, True)
    given = {None: None, "some 0": some * 1.0, "huge": np.where(some, 1e30, 1e-30)}
    return X.astype(np.float64 if np.abs(X).max() > 1e35 else np.float32), y, given[weight]


def stored(X, y, weight, loss):
    """As the kind of rows that other tests compile kernels for, too."""
    if ROWS_OF[loss] is DenseRows or loss == "logistic":
        return DenseTable(X, y, weight)
    rows = csr_matrix(X)
    return SparseTable(rows.data, rows.indices, rows.indptr.astype(np.int64), y, weight)


def trained(plan, url):
    run = TrainingRun.start(plan, url, InProcess())
    assert all(run.warnings)
    for _ in run:
        pass
    return run


TINY = (np.array([[1.0, 2.0], [-2.0, 1.0], [0.5, -1.0]], np.float32) * np.float32(1e-30),
        np.array([0.0, 1.0, 1.0]), None)  # fmt: skip

LONG = (np.array([[1e19]], np.float32), np.ones(1), None)


@example(rows=LONG, case=("pegasos", "hinge"), lam="1/n")  # D was lost in a huge gap
@example(rows=LONG, case=("agd", "squared_hinge"), lam=1e-300)  # beyond what a plan takes
@example(rows=LONG, case=("agd", "squared_hinge"), lam=1e-100)
@example(rows=(LONG[0].astype(float) * 1e80, *LONG[1:]), case=("agd", "squared_hinge"), lam=1e-100)
@example(rows=TINY, case=("sdca", "squared_hinge"), lam=1e100)
@example(rows=TINY, case=("sdca", "logistic"), lam="1/n")
@example(rows=TINY, case=("psdca", "logistic"), lam="1/n")
@example(rows=(TINY[0] * 1e30, *TINY[1:]), case=("psdca", "squared_hinge"), lam=1e-99)
@example(rows=LONG, case=("psdca", "hinge"), lam=1e-99)
@example(rows=(TINY[0] * 1e30, *TINY[1:]), case=("psdca", "logistic"), lam=1e100)
@example(rows=TINY, case=("pegasos", "hinge"), lam="1/n")
@example(rows=TINY, case=("asdca", "logistic"), lam="1/n")
@example(rows=TINY, case=("simba", "hinge"), lam="1/n")
@example(rows=(TINY[0].astype(float) * 1e60, *TINY[1:]), case=("asdca", "logistic"), lam="1/n")
@example(rows=(TINY[0] * 1e30, *TINY[1:]), case=("svrg", "logistic"), lam=1e-99)
@example(rows=(TINY[0] * 1e30, *TINY[1:]), case=("pegasos", "hinge"), lam=1e-99)
@example(rows=(TINY[0] * 1e30, *TINY[1:]), case=("asdca", "logistic"), lam=1e-99)
@example(rows=(TINY[0] * 1e30, *TINY[1:]), case=("asdca", "logistic"), lam=1e100)
@example(rows=(*TINY[:1], np.zeros(3), None), case=("asdca", "squared"), lam="1/n")  # no loss at 0
@given(
    rows=hostile(),
    case=st.sampled_from(CASES),
    lam=st.sampled_from(["1/n", "1/n", 1e-6, 1e-100, 1e100]),
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy: what comes of it is checked
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
def test_a_true_certificate_or_a_refusal(tmp_path_factory, rows, case, lam):
    folder = tmp_path_factory.mktemp("hostile")
    (X, y, weight), (method, loss) = rows, case
    targets = "values" if loss == "squared" else "labels"
    solver = {"kind": method} | ({"iterations": 50} if method == "simba" else {})
    ends = {"passes": 2, "certify": True} if method in ONE_PASS else {"passes": 5, "tol": 1e-6}
    try:
        plan = TrainingPlan(
            dataset=str(folder / "set"), solver=solver, loss=loss, lam=lam, memory="97MB",
            **({} if method == "simba" else ends),
        )  # fmt: skip
        write(folder / "set", stored(X, y, weight, loss), X.shape[1], 4, targets=targets)
        run = trained(plan, str(folder / "run"))
    except (BadInput, Diverged, ValueError) as refused:
        assert str(refused).endswith("."), refused  # a sentence; "math domain error" is none
        assert " " in str(refused)
        return
    result, model = run.result, load_model(run.run)
    problem = run.problem
    w, b = model.weights.coef, float(model.weights.intercept)
    assert np.isfinite([*w, b, result.objective, result.certificate]).all()
    signs = y if loss == "squared" else 2.0 * y - 1.0
    unit = np.ones(len(y)) if weight is None else weight / weight.mean()
    data = (loss, problem, X.astype(float), signs, unit)
    with suppress(OverflowError), np.errstate(all="ignore"):
        best = min(optimum(*data), objective(*data, w, b)[0], objective(*data, 0.0 * w, 0.0)[0])
        if np.isfinite(best):
            assert result.objective - result.certificate <= best + 1e-9 * max(1.0, abs(best))


@pytest.mark.parametrize("level", [1.0 / 3.0, 1e30 / 3.0, 1e-30 / 3.0, 1e8 + 0.1])
def test_a_column_all_but_constant_has_no_negative_variance(level):
    for number in range(200):
        wobble = np.random.default_rng(number).integers(-1, 2, (7, 1)) * np.spacing(level)
        statistics = ColumnStatistics("dense", 1)
        statistics.add(DenseTable(level + wobble, np.zeros(7), None))
        assert statistics.columns(1)["variance"][0] >= 0.0
        scaler = Scaler.fitted("standard", statistics, 1)
        assert np.isfinite(scaler.apply(DenseTable(level + wobble, np.zeros(7), None)).X).all()


def test_a_column_without_a_deviation_is_refused_by_number():
    statistics = ColumnStatistics("dense", 2)
    X = np.array([[1.0, 1e200], [2.0, -1e200]])
    statistics.add(DenseTable(X, np.zeros(2), None))
    with pytest.raises(BadInput, match=r"Column 1 \(counted from 0\) .* too large to square"):
        Scaler.fitted("standard", statistics, 2)
