"""Experiments of the papers at small sizes: what their benchmarks measure in full."""

from itertools import pairwise

import numpy as np
import pytest

from benchmarks.papers.acceptance_primal import excess_after
from benchmarks.papers.asgd import mean_estimation, regression
from benchmarks.papers.minibatch_svm import (
    fixed_chunks,
    passes_in_memory,
    passes_through_pipeline,
    permuted,
    stored,
)
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.s2gd.s2gd import S2gdPlus
from fewpass.solvers.sag import Sag
from fewpass.solvers.sgd.averaged_sgd import Sgd
from testing.dual_runs import unit_data
from testing.synthetic import sparse_logistic, text_rows


def test_the_order_of_the_methods_on_sparse_logistic_data():
    """After 20 passes; constant-step SGD stays where its noise is."""
    X, y = sparse_logistic()
    problem = Problem(LOSSES["logistic"](), L2(1.0 / len(y)), 0.0, 1.0)
    ends = [
        excess_after(solver, problem, X, y, 0.4221829267, (20,))[0]
        for solver in (
            S2gdPlus(subspace=0),
            Sag(step="safe"),
            Lbfgs(),
            Sgd(gamma0=0.5, c=0.0),
        )
    ]
    assert all(better < worse for better, worse in pairwise(ends))


def test_mixed_chunks_of_a_sorted_store_are_as_good_as_a_permutation_of_all(tmp_path):
    X, y = text_rows(3000, 4000, 7, noise=0.05)
    by_label = np.argsort(y, kind="stable")
    permutation = passes_in_memory(unit_data(X, y), permuted)[1]
    mixed = passes_through_pipeline(stored(tmp_path, X[by_label], y[by_label], shuffle=False), 8)
    assert mixed[1] <= 2 * permutation
    fixed = passes_in_memory(unit_data(X[by_label], y[by_label]), fixed_chunks)
    assert fixed[1] > 2 * permutation


# Experiments 6.1 and 6.2 of the paper; the bounds are those of section 2.5


def test_experiment_6_1():
    late = [mean_estimation(seed, [10_000, 100_000]) for seed in range(3)]
    early = [mean_estimation(seed, [10_000]) for seed in range(3, 20)]
    asgd, bad = (np.mean([r[name][0] for r in late + early]) for name in ("ASGD", "ASGD_BAD"))
    assert asgd == pytest.approx(6.81e-4, rel=0.25)
    assert bad / asgd > 25
    asgd, bad, sgd, _ = (np.mean([r[name][1] for r in late]) for name in late[0])
    assert 0.95 <= np.mean([r["ASGD"][1] / r["batch"][1] for r in late]) <= 1.2
    assert bad / asgd > 4
    assert sgd / asgd > 8


def test_experiment_6_2():
    ratios = [regression(seed, [10_000, 100_000]) for seed in range(8)]
    asgd, sgd = (np.mean([r[name] for r in ratios], axis=0) for name in ("ASGD", "SGD"))
    assert 3.0 <= asgd[0] <= 4.0
    assert 1.2 <= asgd[1] <= 1.7
    assert 16.5 <= sgd[0] <= 24.5
    assert 20.0 <= sgd[1] <= 30.0
    assert sgd[1] / asgd[1] > 10
