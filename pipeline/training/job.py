"""What a plan means on a data set: the problem, the facts, the windows."""

from __future__ import annotations

import numpy as np

from pipeline.memory import return_freed_memory
from pipeline.streaming.reader import row_view, unit_weights
from pipeline.streaming.sweeps import Job
from pipeline.streaming.targets import TargetRule, target_rule
from pipeline.streaming.windows import plan_windows
from pipeline.training.plan import TrainingPlan, problem_of
from solvers.losses import Problem
from solvers.protocol import Facts
from solvers.rows import DenseRows, SparseRows
from solvers.spectrum import SAMPLED_TOO_LOW, sigma_square
from storage.dataset import Dataset
from storage.manifest import Manifest


def make_job(plan: TrainingPlan, dataset: Dataset) -> Job:
    """Work out what spans need.

    Raises
    ------
    BadInput
        When plan and data set do not fit: loss and targets, streams and chunks, memory.
    """
    return_freed_memory()
    manifest = dataset.manifest
    problem = problem_of(plan, manifest)
    rule = target_rule(manifest, problem.loss, plan.positive)
    spread = sampled_sigma_square(dataset)
    facts = facts_of(manifest, rule, streams=plan.streams, seed=plan.seed, sigma_square=spread)
    plan.solver.init(problem, facts)  # refuses settings that do not fit
    row_numbers = plan.solver.row_numbers(facts)
    windows = plan_windows(
        manifest,
        row_numbers=row_numbers,
        memory=plan.memory,
        state_bytes=bytes_of_states(plan, problem, facts),
        streams=plan.streams,
        seed=plan.seed,
    )
    return Job(dataset, problem, facts, rule, windows, row_numbers=row_numbers)


def bytes_of_states(plan: TrainingPlan, problem: Problem, facts: Facts) -> int:
    """Bytes of the method's arrays with all their copies.

    Per stream what a span is given and its own copy; once a snapshot's copies, compressed bytes,
    read-out and the sums of a gradient.
    """
    return plan.solver.state_bytes(problem, facts) * (2 * plan.streams + 5)


def facts_of(
    manifest: Manifest,
    rule: TargetRule,
    *,
    streams: int = 1,
    seed: int = 0,
    sigma_square: float | None = None,
) -> Facts:
    """Return what ingest measured, as step sizes need it; sigma^2 is max ||x||^2 at most."""
    weights, n = manifest.weights, manifest.n_rows
    norms = manifest.norms
    return Facts(
        n=n,
        d=manifest.n_features,
        rows_kind=DenseRows if manifest.layout == "dense" else SparseRows,
        mean_square=norms.mean_square,
        max_square=norms.max_square,
        max_weight=weights.maximum * n / weights.total if weights else 1.0,
        stream_rows=n // streams,
        shuffled=manifest.shuffle.seed is not None,
        target_square=rule.mean_square(manifest.targets),
        sigma_square=norms.max_square if sigma_square is None else sigma_square,
        streams=streams,
        seed=seed,
    )


def sampled_sigma_square(dataset: Dataset) -> float:
    """Estimate the largest eigenvalue of mean x x^T from above, on rows of the first chunk."""
    table = dataset.read_chunk(0)
    weight = unit_weights(table, dataset)
    norms = dataset.manifest.norms
    order, d = np.arange(table.n_rows), dataset.manifest.n_features
    found = sigma_square(row_view(table), weight, d, order)
    return min(SAMPLED_TOO_LOW * found, norms.max_square)
