"""Fits of rows that are not in memory: stored as a data set first, trained from there.

A fit of rows in memory imports none of it.
"""

# ruff: noqa: SLF001 - the other half of the estimators

from __future__ import annotations

from typing import Any

from fewpass.pipeline.models.estimators.encoded_rows import require_encode
from fewpass.pipeline.models.estimators.fits import (
    held_out_share,
    kernels_of,
    plan_of,
    store_result,
)
from fewpass.pipeline.models.estimators.interruptible import interruptible
from fewpass.pipeline.models.estimators.meanings import budget_of, scaling_of, seed_of
from fewpass.pipeline.models.estimators.stored import Task, Wanted, stored, train_stored
from fewpass.pipeline.models.estimators.work_folder import work_folder
from fewpass.pipeline.reporting.notebooks import progress
from fewpass.pipeline.rows.scaling import Scaler, scaled, unscaled
from fewpass.pipeline.runs.model import stored_weights
from fewpass.pipeline.settings.encoding import Encode, column_kinds


def fit_stored(
    model: Any, X: Any, y: Any, sample_weight: Any, offset: Any = None, exposure: Any = None
) -> None:
    """Store rows that are not in memory, train on them, and take the model."""
    at = model._model() if model.warm_start and hasattr(model, "coef_") else None
    if model.warm_start and model.folder is not None:
        raise ValueError(
            "warm_start=True begins at coef_, of which a run in folder=... knows nothing. "
            "Leave one of them out."
        )
    with work_folder(model.folder) as folder:
        given = {"offset": offset, "exposure": exposure}
        rows = stored(X, y, sample_weight, wanted_of(model), folder, given)
        class_weight = getattr(model, "class_weight", None)
        by_label = rows.weights_by_label(class_weight)
        model._know(rows, at)
        plan = plan_of(
            model,
            rows.total_weight(class_weight),
            dataset=rows.dataset.folder.url,
            passes=model.passes,
            memory=budget_of(model.memory),
            class_weight=by_label,
            held_out=rows.held_out,
        )
        scaler = Scaler.of(rows.dataset)
        start = None
        if at is not None:
            start = stored_weights(scaled(at, scaler), rows.dataset), model.rows_seen_
        trained = interruptible(
            kernels_of(model),
            lambda stop, tell: train_stored(plan, folder.run, model.scheduler, start, stop, tell),
            progress(model.verbose, plan.passes),
        )
        model._take(unscaled(trained.weights, scaler))
        model._see(rows.dataset.manifest.targets, more=at is not None)
        store_result(model, trained, plan, rows.dataset.n_rows)
        model._last, model._weight_seen = None, rows.total_weight(None)
        model._has_offset = rows.dataset.manifest.has_offset
        model.dataset_ = rows.dataset.folder.url if folder.retained else None
        model.run_ = folder.run if folder.retained else None


def wanted_of(model: Any) -> Wanted:
    """Return how rows that are not in memory are to be stored."""
    require_encode(model.encode)
    task: Task = "regression" if model._takes_numbers else "classification"
    columns = column_kinds(model.columns)
    encode: Encode = "auto" if columns and model.encode == "none" else model.encode
    return Wanted(
        task, scaling_of(model.scale), budget_of(model.memory), seed_of(model.random_state),
        held_out_share(model), encode, columns,
    )  # fmt: skip
