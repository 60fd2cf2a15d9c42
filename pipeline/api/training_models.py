"""Models, trained on data sets and files, and cross-validated."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, require_execution
from fewpass.pipeline.planning.engines import engine_for_training
from fewpass.pipeline.reporting.notebooks import ShownResult, progress
from fewpass.pipeline.runs.events import Event
from fewpass.pipeline.runs.outcome import TrainingResult
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.stream.sources import is_source, read_first_rows
from fewpass.pipeline.training.cross_validation import CrossValidated, cross_validated
from fewpass.pipeline.training.defaults import with_defaults
from fewpass.pipeline.training.training_run import TrainingRun


def train(
    dataset: Address,
    run: Address,
    *,
    execution: Execution = ANYWHERE,
    on_event: Callable[[Event], None] = lambda _: None,
    verbose: int | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train a model, as `fewpass train` does.

    The same call again continues an interrupted training, and returns a finished one.

    Parameters
    ----------
    dataset
        Folder or address of a data set; or a file, which is read once and not stored.
    run
        Folder or address for log, snapshots and model.
    execution
        Where to train: threads of this process, or Dask.  The model is the same, bit for bit.
    on_event
        Called after every span, snapshot and certificate with an event: `kind`, `cursor` and
        `facts`, an object with the fields of its kind in the log.
    verbose
        Show progress if training takes more than a second: None in notebooks, 1 always, 0 never.
    **settings
        Fields of `TrainingPlan` (loss, lam, tol, passes, solver, memory, ...).  For a file also
        those of `SourceOptions` (label, ...), and scale, task, test_fraction, expected_rows.

    Returns
    -------
    TrainingResult
        objective, certificate, relative_gap, tol, converged, passes, solver, loss, lam,
        candidates, calibration, seconds, ...: what `fewpass train --json` prints.  A notebook shows
        it as a table with the loss curve.

    Raises
    ------
    BadInput, PlanMismatch
        Settings that cannot be used; a run that has another plan.  Both are ValueErrors.
    Diverged
        If the loss explodes whatever the step size.
    """
    require_execution(execution)
    places: dict[str, Any] = {"dataset": os.fspath(dataset)}
    if is_source(places["dataset"]):
        places["sources"] = (places["dataset"],)
    else:
        refuse_reading(settings, places["dataset"])
    plan = with_defaults(plan_of(TrainingPlan, settings | places))
    with engine_for_training(execution, plan) as executor:
        training = TrainingRun.start(plan, os.fspath(run), executor, open_source=read_first_rows)
        show = progress(verbose, training.plan.passes)
        for event in training:
            on_event(event)
            if show:
                show(event)
    return ShownResult.of(training.result)


def cross_validate(
    dataset: Address,
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> list[CrossValidated]:
    """Cross-validate a training, as `fewpass cross-validate` does.

    Parameters
    ----------
    dataset
        Folder or address of a shuffled data set, whose chunks (or rows, of few chunks) are folds.
    execution
        Where to train.
    **settings
        Fields of `CrossValidationPlan`: folds (5), folder, and those of `TrainingPlan` (loss, lam,
        tol, solver, memory, ...); tol is 1e-3 by default.

    Returns
    -------
    list of CrossValidated
        For each lam: lam, solver, passes, seconds, folds (fold, rows, objective, gap, evaluation),
        means (metric, mean, standard_error).

    Raises
    ------
    BadInput
        The rows are not shuffled or fewer than folds, or settings cannot be used.
    """
    require_execution(execution)
    plan = plan_of(CrossValidationPlan, settings | {"dataset": os.fspath(dataset)})
    with engine_for_training(execution, plan.of_one_lam) as executor:
        return cross_validated(plan, executor)
