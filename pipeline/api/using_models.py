"""Models of runs: read, evaluated, and predicting."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, addresses, require_execution
from fewpass.pipeline.explaining.plain_shapes import ModelShapes
from fewpass.pipeline.models.refresh.store_state import run_at
from fewpass.pipeline.passes.executor import open_executor
from fewpass.pipeline.planning.place import place_for, seconds_of_pass
from fewpass.pipeline.reporting.model_shapes import model_shapes
from fewpass.pipeline.runs.model import Model, within
from fewpass.pipeline.runs.model import load_model as model_of
from fewpass.pipeline.scoring import evaluation, prediction
from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows, require_file, require_here
from fewpass.pipeline.scoring.row_metrics import AskedMetrics
from fewpass.pipeline.scoring.scored_file import PredictionResult
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.prediction_plan import EvaluationPlan, PredictionPlan
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.tables.stream.sources import is_source
from fewpass.storage.dataset import Dataset


def load_model(run: Address) -> Model:
    """Read the newest model of a run, or the one that is published in a store.

    Parameters
    ----------
    run
        Folder or address of a run, or of a store that `prefect run refresh` writes to.

    Returns
    -------
    Model
        `weights.coef` (d,) or (K, d), `weights.intercept`, and `lam`.  Where `scale` and `shift`
        (d,) are not None, the weights are for scaled rows, (x - shift) * scale.

    Raises
    ------
    BadInput
        If there is no model yet.
    Damaged
        If it is damaged.  An OSError.
    """
    return model_of(run_at(os.fspath(run)))


def shapes(model: Any, label: Any = None) -> ModelShapes:
    """Return what every column and pair of an additive model adds, as `fewpass shapes` does.

    `shapes["hour"]` is the function of a column: points, contributions and rows of the sample
    there, as lists and arrays of equal length, the last entry of missing cells.
    `shapes["hour", "day"]` is that of a pair: points_a, points_b, and contributions and rows as
    grids.  Of both, and of all importances, `to_pandas()` makes a frame.

    Parameters
    ----------
    model
        Folder or address of a run, or of a store that has published one; a fitted
        `LinearClassifier` or `LinearRegressor`; or a pipeline of a `TableEncoder` and a model.
    label
        Of a model of more than two classes, the one whose score is meant.

    Returns
    -------
    ModelShapes
        constant, columns, pairs, rest, importances; the score is the constant plus all functions.
        `data()` returns what `fewpass shapes RUN --json` writes.

    Raises
    ------
    BadInput
        If the model has no curves, or several classes of which none is named.  A ValueError.
    """
    if isinstance(model, str | os.PathLike):
        return ModelShapes.of(model_shapes(load_model(model), label))
    from fewpass.pipeline.models.estimators.fitted_shapes import shapes_of_fitted  # noqa: PLC0415 - an extra

    return shapes_of_fitted(model, label)


def evaluate(
    run: Address,
    dataset: Address | Sequence[Address],
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> evaluation.Evaluation:
    """Evaluate a model on labelled rows, as `fewpass evaluate` does.

    Parameters
    ----------
    run
        The run whose model to use.
    dataset
        A data set, or files that `ingest` reads.
    execution
        Where to read a data set.  Files are read in this process.
    **settings
        Fields of `EvaluationPlan` (threshold, top, memory; by, for files) and, for files, of
        `SourceOptions`; for a data set only `unknown_features` and `by_position` of these.

    Returns
    -------
    Evaluation
        rows, objective, loss, error, auc, mse, r2, classes, metrics (f1, log_loss, mae, ...):
        what `fewpass evaluate --json` prints; None where a figure has no meaning.

    Raises
    ------
    BadInput
        If rows cannot be read, or if columns, scaling or labels are not the model's.
    """
    require_execution(execution)
    model, places, plan = load_model(run), addresses(dataset), plan_of(EvaluationPlan, settings)
    asked = AskedMetrics(plan.threshold, plan.top)
    if len(places) == 1 and not is_source(places[0]):
        refuse_reading(settings.keys() - Matching.model_fields.keys(), places[0])
        require_file(plan.by, places[0])
        data = Dataset.open(places[0])
        with open_executor(*place_for(execution, seconds_of_pass(data.manifest))) as executor:
            return evaluation.evaluate(
                within(model, plan.memory), data, executor, rules=plan.options, asked=asked
            )
    require_here(execution)
    return evaluate_rows(
        model, places, plan.options, by=plan.by, asked=asked, memory=plan.memory
    ).evaluation


def predict(
    run: Address, inputs: Address | Sequence[Address], output: Address, **settings: Any
) -> PredictionResult:
    """Write predictions for files of any size to a file or a table, as `fewpass predict` does.

    Parameters
    ----------
    run
        The run whose model to use.
    inputs
        Files that `ingest` reads, with or without labels; or a data set.
    output
        A .parquet, .csv or .npy file.  It is either complete or does not exist.  A folder, with a
        slash at its end: a file for each of the inputs' files; the same call again goes on where
        one was killed.  A database (postgresql://..., .sqlite, .duckdb) or a table of Delta Lake
        (.delta): all rows are put there, or none; the same call again replaces its rows.
    **settings
        Fields of `PredictionPlan` (overwrite, probability, keep, table, ...) and of
        `SourceOptions`.

    Returns
    -------
    PredictionResult
        output, rows, columns, seconds, ...: what `fewpass predict --json` prints.

    Raises
    ------
    BadInput
        If rows cannot be read, if their columns are not the model's, if it has no probabilities,
        or if `output` must not be written.
    """
    plan = plan_of(PredictionPlan, settings)
    return prediction.predict(
        load_model(run), addresses(inputs), os.fspath(output), plan.options, **plan.written
    )
