"""What a plan means on a data set: the problem, the facts, the windows."""

from __future__ import annotations

import numpy as np

from pipeline.streaming.sweeps import Job
from pipeline.streaming.targets import TargetRule, target_rule
from pipeline.streaming.windows import plan_windows
from pipeline.training.plan import TrainingPlan, problem_of
from solvers.protocol import Facts
from solvers.rows import DenseRows, SparseRows
from storage.dataset import Dataset
from storage.manifest import Manifest


def make_job(plan: TrainingPlan, dataset: Dataset) -> Job:
    """Work out what spans need.

    Raises
    ------
    BadInput
        When plan and data set do not fit: loss and targets, streams and chunks, memory.
    """
    manifest = dataset.manifest
    problem = problem_of(plan, manifest)
    rule = target_rule(manifest, problem.loss, plan.positive)
    facts = facts_of(manifest, rule, plan.streams)
    state = plan.solver.init(problem, facts)
    arrays = sum(v.nbytes for v in state if isinstance(v, np.ndarray))
    windows = plan_windows(
        manifest,
        memory=plan.memory,
        # Per stream what a span is given and its own copy; once a snapshot's copies, compressed
        # bytes, read-out and the sums of a gradient.
        state_bytes=arrays * (2 * plan.streams + 5),
        streams=plan.streams,
        seed=plan.seed,
    )
    return Job(dataset, problem, facts, rule, windows)


def facts_of(manifest: Manifest, rule: TargetRule, streams: int) -> Facts:
    """Return what ingest measured, as step sizes need it."""
    weights, n = manifest.weights, manifest.n_rows
    return Facts(
        n=n,
        d=manifest.n_features,
        rows_kind=DenseRows if manifest.layout == "dense" else SparseRows,
        mean_square=manifest.norms.mean_square,
        max_square=manifest.norms.max_square,
        max_weight=weights.maximum * n / weights.total if weights else 1.0,
        stream_rows=n // streams,
        shuffled=manifest.shuffle.seed is not None,
        target_square=rule.mean_square(manifest.targets),
    )
