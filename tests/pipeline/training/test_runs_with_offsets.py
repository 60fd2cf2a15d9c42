"""Files with an exposure column, from ingest to predictions: the same as rows in memory."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize_scalar

from fewpass import LinearRegressor, evaluate, ingest, predict, train
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.estimators.of_run import from_run
from fewpass.pipeline.planning.planned_problem import PlannedProblem
from fewpass.pipeline.rows.targets import TargetRule
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.against_constant import FirstRowsLoss
from fewpass.solvers.estimates.spectrum import MOST_ROWS
from fewpass.solvers.losses import LOSSES, Problem, value
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Weights
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Values
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import DenseTable

LAM, N = 1e-3, 600
NUMBERS = {"a": "number", "b": "number"}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A table, its data set in many chunks, and a run."""
    at, rng = tmp_path_factory.mktemp("offsets"), np.random.default_rng(0)
    X, time = rng.standard_normal((N, 2)), rng.uniform(0.5, 20.0, N)
    events = rng.poisson(time * np.exp(X @ [0.3, -0.2] - 1.0))
    table = pd.DataFrame(X, columns=["a", "b"]).assign(time=time, events=events)
    table["w"] = rng.choice([0.5, 1.0, 2.0], N)
    table.to_csv(at / "rows.csv", index=False)
    how = {"label": "events", "weight": "w", "column": NUMBERS, "task": "regression"}
    ingest(at / "rows.csv", at / "data", exposure="time", dtype="float64", chunk_bytes=1200, **how)
    train(at / "data", at / "run", loss="poisson", lam=LAM, tol=1e-10, solver="newton")
    return at


def stored(at):
    """All rows of the data set as kernels get them, and their exposures."""
    dataset = Dataset.open(str(at / "data"))
    tables = [dataset.read_stored(k) for k in range(dataset.n_chunks)]
    return dataset, *(
        np.concatenate([getattr(t, name) for t in tables])
        for name in ("X", "target", "weight", "offset")
    )


def test_the_offset_is_stored_beside_the_weight(place):
    dataset, X, y, weight, offset = stored(place)
    table = pd.read_csv(place / "rows.csv")
    assert dataset.n_chunks > 4
    assert dataset.manifest.row_parts == ("target", "weight", "offset")
    assert X.shape == (N, 2)
    order = np.lexsort((y, offset))
    expected = np.lexsort((table.events, np.log(table.time)))
    np.testing.assert_allclose(offset[order], np.log(table.time)[expected], rtol=1e-15)
    np.testing.assert_array_equal(weight[order], table.w.to_numpy()[expected])
    means = np.average(table[["time", "events"]], axis=0, weights=table.w)
    manifest = dataset.manifest
    assert [manifest.offsets.mean_exp, manifest.targets.weighted_mean] == pytest.approx(means)
    roles = {column.name: column.role for column in dataset.schema.columns}
    assert roles["time"] == "exposure"


@pytest.mark.parametrize("solver", ["newton", "psdca"])
@pytest.mark.parametrize("streams", [1, 2])
def test_a_run_is_rows_in_memory(place, tmp_path, solver, streams):
    _, X, y, weight, offset = stored(place)
    memory = LinearRegressor(loss="poisson", lam=LAM, tol=1e-10, solver="newton")
    memory.fit(X, y, sample_weight=weight, offset=offset)
    train(
        place / "data", tmp_path / "run", loss="poisson", lam=LAM, tol=1e-9, solver=solver,
        streams=streams, memory="128MB",
    )  # fmt: skip
    model = load_model(RunFolder(str(tmp_path / "run")))
    np.testing.assert_allclose(model.weights.coef, memory.coef_, atol=2e-4)
    assert model.weights.intercept == pytest.approx(memory.intercept_, abs=2e-4)
    figures = evaluate(tmp_path / "run", place / "data")
    assert figures.objective == pytest.approx(memory.objective_, abs=2e-9)


def test_predictions_and_figures_are_on_the_scale_of_the_targets(place, tmp_path):
    table = pd.read_csv(place / "rows.csv")
    predict(place / "run", place / "rows.csv", tmp_path / "p.csv")
    found = pd.read_csv(tmp_path / "p.csv").predicted.to_numpy()
    by_estimator = from_run(place / "run").predict(table[["a", "b"]], exposure=table.time)
    np.testing.assert_allclose(found, by_estimator, rtol=1e-9)
    mu, y, w = found, table.events.to_numpy(), table.w.to_numpy()
    figures = evaluate(place / "run", place / "data")
    assert figures.mse == pytest.approx(np.average((mu - y) ** 2, weights=w), rel=1e-6)

    def deviance(mean):
        terms = np.where(y > 0, y * np.log(np.where(y > 0, y, 1) / mean), 0.0) - (y - mean)
        return 2.0 * np.average(terms, weights=w)

    rate = (w * y).sum() / (w * table.time).sum()
    assert figures.deviance == pytest.approx(deviance(mu), rel=1e-6)
    assert figures.d2 == pytest.approx(1 - deviance(mu) / deviance(rate * table.time), rel=1e-6)
    evaluated = evaluate(place / "run", place / "rows.csv")
    assert evaluated.deviance == pytest.approx(figures.deviance, rel=1e-6)
    assert evaluated.d2 == pytest.approx(figures.d2, rel=1e-6)


def test_on_the_command_line(place, tmp_path, fewpass, as_json):
    run = str(place / "run")
    facts = as_json("evaluate", run, str(place / "data"))
    assert {"mse", "r2", "deviance", "d2"} <= facts.keys()
    table = pd.read_csv(place / "rows.csv").rename(columns={"time": "hours"})
    table.to_csv(tmp_path / "renamed.csv", index=False)
    out = str(tmp_path / "p.csv")
    status, _, error = fewpass("predict", run, str(tmp_path / "renamed.csv"), out)
    assert status == 2
    assert "no exposure column time" in error.replace("\n", " ").replace('"', "").replace("'", "")
    assert json.dumps(facts)


def test_the_pinball_loss_of_a_quantile_is_told(place, tmp_path, as_json):
    train(place / "data", tmp_path / "run", loss="quantile", quantile=0.9, lam=1e-3)
    facts = as_json("evaluate", str(tmp_path / "run"), str(place / "data"))
    out, table = tmp_path / "p.csv", pd.read_csv(place / "rows.csv")
    predict(tmp_path / "run", place / "rows.csv", out)
    over = table.events - pd.read_csv(out).predicted
    pinball = np.average(np.maximum(0.9 * over, -0.1 * over), weights=table.w)
    assert facts["pinball"] == pytest.approx(pinball, rel=1e-5)


def test_what_does_not_go_is_refused(place, tmp_path):
    rows, how = place / "rows.csv", {"label": "events", "column": NUMBERS, "task": "regression"}
    sides = {"label": "events", "column": NUMBERS, "task": "classification", "drop": ["w"]}
    ingest(rows, tmp_path / "labels", offset="time", **sides)
    with pytest.raises(BadInput, match="the logistic loss takes none"):
        train(tmp_path / "labels", tmp_path / "run", loss="logistic", positive="1")
    with pytest.raises(BadInput, match="Leave `encode=none` out"):
        ingest(rows, tmp_path / "data", label="events", exposure="time", encode="none")
    with pytest.raises(BadInput, match="column 2 is label and exposure"):
        ingest(rows, tmp_path / "data", label="time", exposure="time")
    table = pd.read_csv(rows)
    table.loc[6, "time"] = 0.0
    table.to_csv(tmp_path / "bad.csv", index=False)
    with pytest.raises(BadInput, match=r"row 8: the exposure .* is '0.0', a number above 0"):
        ingest(tmp_path / "bad.csv", tmp_path / "data", exposure="time", **how)
    ingest(rows, tmp_path / "plain", drop=["time", "w"], **how)
    with pytest.raises(BadInput, match="have no offsets, and those that the model was trained on"):
        evaluate(place / "run", tmp_path / "plain")
    svm = tmp_path / "rows.svm"
    svm.write_text("1 1:2\n0 1:3\n")
    with pytest.raises(BadInput, match="columns of tables"):
        ingest(svm, tmp_path / "data", offset=0)
    gamma = tmp_path / "gamma"
    with pytest.raises(
        BadInput, match="smallest target is 0, and the gamma loss is for targets above"
    ):
        train(place / "data", gamma, loss="gamma")
    with pytest.raises(ValueError, match="no bound, and asgd needs one"):
        train(place / "data", gamma, loss="poisson", solver="asgd")


def test_the_best_constant_is_that_beside_every_exposure(place):
    dataset = Dataset.open(str(place / "data"))
    sample = dataset.sample(MOST_ROWS)
    y, weight, offset = sample.target, sample.weight, sample.offset
    for word in ("poisson", "squared"):
        plan = TrainingPlan(dataset=str(place / "data"), loss=word, lam=LAM)
        (found,) = PlannedProblem.of(plan, dataset).stats.constants
        loss = LOSSES[word]()

        def mean(b, loss=loss):
            return weight @ value(loss, b + offset, y) / weight.sum()  # of mean 1 over the set

        best = minimize_scalar(mean, bracket=(-2.0, 2.0)).fun
        assert found == pytest.approx(best, rel=2e-3)


def test_from_run_has_the_penalty(place, tmp_path):
    train(place / "data", tmp_path / "run", loss="poisson", penalty="elasticnet", lam=LAM)
    made = from_run(str(tmp_path / "run"))
    assert (made[-1].penalty, made[-1].l1_ratio, made[-1].lam) == ("elasticnet", None, LAM)


def test_one_pass_with_exposures_is_near_the_optimum_stored_and_straight(place, tmp_path):
    """A pass of the data set, or of the file itself; what nobody named is the loss of counts."""
    best, how = evaluate(place / "run", place / "data"), {"lam": LAM}
    assert train(place / "data", tmp_path / "run", **how).loss == "poisson"
    once = train(place / "data", tmp_path / "once", passes=1, **how)
    assert once.solver == "onepass"
    straight = {"label": "events", "weight": "w", "column": NUMBERS, "task": "regression"}
    train(place / "rows.csv", tmp_path / "straight", exposure="time", **straight, **how)
    for run in ("once", "straight"):
        there = evaluate(tmp_path / run, place / "data")
        assert best.objective - 1e-6 <= there.objective <= 1.05 * best.objective, run


@pytest.mark.parametrize("size", [0.01, 1.0, 100.0])
def test_exposures_of_any_size_leave_a_constant_as_good_as_itself(size):
    rng = np.random.default_rng(0)
    exposure = size * rng.uniform(0.5, 1.5, N)
    y = rng.poisson(exposure / size).astype(float)
    table = DenseTable(np.zeros((N, 2)), y, None, np.log(exposure))
    moments = Values(mean=y.mean(), variance=y.var(), minimum=y.min(), maximum=y.max())
    rows, rule = MemoryDataset(table, 2, moments), TargetRule(folds=LOSSES["poisson"]())
    problem = Problem(LOSSES["poisson"](), L2(LAM), 1.0, LAM)
    first = FirstRowsLoss.of(rows)
    best = float(np.log(y.sum() / exposure.sum()))
    assert first.worse(problem, rule, Weights(np.zeros(2), best)) is None
    assert first.worse(problem, rule, Weights(np.zeros(2), best + 0.5)) is not None


@pytest.mark.parametrize("loss", ["poisson", "squared"])
def test_the_largest_lam_is_of_rows_with_their_offsets(place, tmp_path, loss):
    options = {"loss": loss, "penalty": "l1", "tol": 1e-9, "solver": "newton"}
    counts = [
        train(place / "data", tmp_path / lam, lam=f"{lam}max", **options).nonzeros
        for lam in ("1.01", ".99")
    ]
    assert counts == [0, 1]
