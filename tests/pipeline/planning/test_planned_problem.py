"""Moments of columns as methods get them: those of the stored rows, in stored order."""

import numpy as np
import pytest
from scipy.sparse import random as random_sparse
from sklearn.datasets import dump_svmlight_file

from fewpass.pipeline.planning.planned_problem import (
    PlannedProblem,
    column_moments,
    moments_reader,
)
from fewpass.pipeline.rows.buffers import unit_weights
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.solvers.losses import value
from fewpass.solvers.protocol import as_sides
from fewpass.storage.dataset import Dataset
from fewpass.storage.manifest import Labels, Values
from fewpass.storage.memory_dataset import MemoryDataset
from fewpass.storage.table import DenseTable, concatenate
from testing.datasets import dense, make


def stored_matrix(dataset):
    """All rows as they lie, dense."""
    rows = concatenate([dataset.read_stored(k) for k in range(dataset.n_chunks)])
    return dense(rows, dataset.n_features).astype(float)


def assert_moments(dataset):
    X, found = stored_matrix(dataset), column_moments(dataset)
    count = (X != 0.0).sum(axis=0)
    np.testing.assert_allclose(found.share, count / len(X))
    squares = (X**2).sum(axis=0) / np.maximum(count, 1)
    np.testing.assert_allclose(found.square, squares, rtol=1e-10)


@pytest.mark.parametrize("order", ["source", "frequency"])
@pytest.mark.parametrize("scale", ["none", "maxabs", "unit-rows"])
def test_of_an_ingested_set(tmp_path, order, scale):
    rng = np.random.default_rng(3)
    X = random_sparse(400, 30, density=0.2, format="csr", rng=rng, data_rvs=rng.standard_normal)
    X = X @ np.diag(10.0 ** rng.uniform(-3, 3, 30))
    path = tmp_path / "rows.svm"
    dump_svmlight_file(X, rng.integers(0, 2, 400), str(path), zero_based=False)
    plan = IngestPlan(
        sources=(str(path),), dataset=str(tmp_path / "set"), scale=scale, column_order=order,
        options={"dtype": "float64"},
    )  # fmt: skip
    ingest(plan)
    assert_moments(Dataset.open(str(tmp_path / "set")))


@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_of_rows_in_memory_and_written_directly(tmp_path, layout):
    dataset = make(tmp_path / "set", n=300, chunk_rows=300, layout=layout)
    assert_moments(dataset)
    table = dataset.read_chunk(0)
    labels = Labels(labels=(-1.0, 1.0), counts=(1, 299))
    here = column_moments(MemoryDataset(table, dataset.n_features, labels))
    for mine, stored in zip(here, column_moments(dataset), strict=True):
        np.testing.assert_allclose(mine, stored, rtol=1e-12)


def test_where_nobody_measured_them(tmp_path):
    dataset = make(tmp_path / "set", n=300)
    assert moments_reader(dataset) is not None
    dataset.manifest = dataset.manifest.model_copy(update={"columns": {}})
    assert moments_reader(dataset) is None


@pytest.mark.parametrize(
    "targets, plan",
    [
        (2, {}),
        (2, {"class_weight": {"1": 9.0}}),
        (3, {}),
        (3, {"class_weight": "balanced"}),
        (3, {"positive": "1"}),
        ("numbers", {}),
        ("numbers", {"loss": "huber"}),
        ("numbers", {"intercept": "none"}),
    ],
)
def test_the_best_constant_is_that_of_all_rows(targets, plan, rng):
    """By counts or moments, and by a sample where there are no more rows than it has."""
    if targets == "numbers":
        y, kinds = (
            rng.normal(3.0, 2.0, 500),
            Values(mean=0.0, variance=1.0, minimum=0.0, maximum=1.0),
        )
        kinds = kinds.model_copy(update={"mean": float(y.mean()), "variance": float(y.var())})
    else:
        y = np.minimum(*rng.integers(0, targets, (2, 500))).astype(float)
        kinds = Labels(
            labels=tuple(map(str, range(targets))),
            counts=tuple(np.bincount(y.astype(int)).tolist()),
        )
    X = rng.standard_normal((500, 3))
    dataset = MemoryDataset(DenseTable(X, y, None), 3, kinds)
    planned = PlannedProblem.of(TrainingPlan(dataset="here", **plan), dataset)
    weights = unit_weights(dataset.table, dataset, planned.rule)
    for label, constant in zip(
        [t.label for t in planned.tasks], planned.stats.constants, strict=True
    ):
        seen = as_sides(planned.rule.read(y), label)
        spread = np.linspace(-8.0, 8.0, 2001)[:, None]
        if plan.get("intercept") == "none":
            spread = np.zeros((1, 1))
        least = (value(planned.problem.loss, spread, seen) @ weights / weights.sum()).min()
        assert constant == pytest.approx(least, rel=1e-3)
