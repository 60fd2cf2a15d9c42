"""Models, trained on data sets and files, and cross-validated."""
# ruff: noqa: PLC0415 - what a function needs is imported when it is called

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, require_execution
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.settings.training_plan import TrainingPlan

if TYPE_CHECKING:
    from fewpass.pipeline.runs.events import Event
    from fewpass.pipeline.runs.outcome import TrainingResult
    from fewpass.pipeline.training.cross_validation import CrossValidated


def train(
    dataset: Address,
    run: Address,
    *,
    execution: Execution = ANYWHERE,
    on_event: Callable[[Event], None] = lambda _: None,
    verbose: int | None = None,
    **settings: Any,
) -> TrainingResult:
    """Train a model on a data set, to a tolerance or in some passes.

    It also takes what `ingest` reads (a file, a folder, a glob, an address, - for standard input),
    and then learns from the rows in one pass without storing them. The same call again continues a
    training that was interrupted, and leaves a finished one alone.

    Parameters
    ----------
    dataset
        Data set made by `ingest`, or a source of rows.
    run
        Folder or address for the run: its plan, log, snapshots and model.
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
    from fewpass.pipeline.planning.engines import engine_for_training
    from fewpass.pipeline.reporting.notebooks import ShownResult, progress
    from fewpass.pipeline.tables.stream.sources import is_source, read_first_rows
    from fewpass.pipeline.training.defaults import with_defaults
    from fewpass.pipeline.training.training_run import TrainingRun

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
    """Cross-validate a training: a certified model for each fold.

    All are trained in the same passes. Chunks of the shuffled data set, or rows of few chunks, are
    dealt to folds. Settings are those of a training. Each fold's model is evaluated on the rows it
    has not learnt from, and nothing is stored.

    Parameters
    ----------
    dataset
        Data set made by `ingest`, shuffled.
    execution
        Where to train: threads of this process, or Dask.
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
    from fewpass.pipeline.planning.engines import engine_for_training
    from fewpass.pipeline.training.cross_validation import cross_validated

    require_execution(execution)
    plan = plan_of(CrossValidationPlan, settings | {"dataset": os.fspath(dataset)})
    with engine_for_training(execution, plan.of_one_lam) as executor:
        return cross_validated(plan, executor)
