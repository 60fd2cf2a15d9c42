"""Models of runs: read, evaluated, and predicting."""
# ruff: noqa: PLC0415 - what a function needs is imported when it is called

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fewpass.pipeline.api.call_arguments import ANYWHERE, Address, addresses, require_execution
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import plan_of
from fewpass.pipeline.settings.matching_options import Matching
from fewpass.pipeline.settings.prediction_plan import (
    EvaluationPlan,
    ExplanationPlan,
    PredictionPlan,
)
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.sizes import counted

if TYPE_CHECKING:
    from fewpass.pipeline.explaining.explain import ExplainedRow
    from fewpass.pipeline.explaining.plain_shapes import ModelShapes
    from fewpass.pipeline.reporting.largest_weights import NamedWeight
    from fewpass.pipeline.runs.model import Model
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.scoring.scored_file import PredictionResult


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
    from fewpass.pipeline.models.refresh.named_run import run_at
    from fewpass.pipeline.runs.model import load_model as model_of

    return model_of(run_at(os.fspath(run)))


def explain(
    run: Any,
    inputs: Address | Sequence[Address] | None = None,
    out: Address | None = None,
    **settings: Any,
) -> ModelShapes | list[NamedWeight] | list[ExplainedRow] | PredictionResult:
    """Explain a model, or scores of rows, column by column.

    Without `inputs` a linear model shows its largest weights, an additive one its functions: a
    score is a constant, a function of every column and one of every chosen pair, all of them
    centred, and a pair's has nothing of its columns alone.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    inputs
        File, glob or address that `ingest` could read, labels optional, whose scores are explained:
        base + contributions = score.
    out
        .parquet or .csv file for the contributions to all rows; without, the first rows are shown.
    **settings
        Fields of `ExplanationPlan` (class_label; top of weights; rows, keep, ... of inputs) and of
        `SourceOptions`.

    Returns
    -------
    ModelShapes
        Of an additive model: constant, columns, pairs, rest, importances; the score is the constant
        plus all functions.  `data()` returns what `fewpass explain RUN --json` writes.
    list of NamedWeight
        Of a linear one: feature, weight, per_unit of the largest weights.
    list of ExplainedRow
        Of the first rows of inputs: row, predicted, label, score, base, offset, terms.
    PredictionResult
        With `out`: output, rows, columns, ...

    Raises
    ------
    BadInput
        If rows cannot be read, if there are several classes of which none is named, or if a fitted
        model has no curves.  A ValueError.

    Notes
    -----
    Without `inputs`, `run` may be a fitted `LinearClassifier` or `LinearRegressor`, too, or a
    pipeline of a `TableEncoder` and a model.  Of an additive model, `explain(run)["hour"]` is the
    function of a column: points, contributions and rows of the sample there, as lists and arrays of
    equal length, the last entry of missing cells.  `explain(run)["hour", "day"]` is that of a pair:
    points_a, points_b, and contributions and rows as grids.  Of both, and of all importances,
    `to_pandas()` makes a frame.
    """
    plan = plan_of(ExplanationPlan, settings)
    if inputs is not None:
        return _explained_rows(run, addresses(inputs), out, plan)
    plan.refuse_reading()
    if out is not None:
        raise BadInput("out is for the contributions to rows. Name inputs, or leave it out.")
    if isinstance(run, str | os.PathLike):
        from fewpass.pipeline.explaining.plain_shapes import ModelShapes
        from fewpass.pipeline.reporting.largest_weights import MOST_LISTED, largest_weights
        from fewpass.pipeline.reporting.model_shapes import is_additive, model_shapes

        model = load_model(run)
        if is_additive(model):
            _require_all_asked(plan)
            return ModelShapes.of(model_shapes(model, plan.class_label))
        return largest_weights(model, plan.top or MOST_LISTED, plan.class_label)
    from fewpass.pipeline.models.estimators.fitted_shapes import shapes_of_fitted

    _require_all_asked(plan)
    return shapes_of_fitted(run, plan.class_label)


def _explained_rows(
    run: Any, files: list[str], out: Address | None, plan: ExplanationPlan
) -> list[ExplainedRow] | PredictionResult:
    from fewpass.pipeline.explaining.explain import explain as explained
    from fewpass.pipeline.explaining.explain import explain_rows

    _require_all_asked(plan)
    plan.refuse_others(written=out is not None)
    model = load_model(run)
    if out is not None:
        return explained(model, files, os.fspath(out), plan)
    return explain_rows(model, files, plan)


def _require_all_asked(plan: ExplanationPlan) -> None:
    """Refuse a number of functions or contributions, of which all are returned; BadInput."""
    if plan.top is not None:
        raise BadInput(f"top = {plan.top} is of weights, and here all is returned. Leave it out.")


def evaluate(
    run: Address,
    dataset: Address | Sequence[Address],
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> Evaluation:
    """Evaluate the model of a run on labelled rows.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    dataset
        Data set made by `ingest` (with `like`, or split off by `test_fraction`); or files that it
        could read, with labels, whose columns are made features as in training.
    execution
        Where rows are read: by default on threads of this process, else by a cluster's workers.
    **settings
        Fields of `EvaluationPlan` (threshold, lift_at, memory; by, for files) and, for files, of
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
    return evaluated(run, dataset, execution, settings, lambda _share, _said: None)


def evaluated(
    run: Address,
    dataset: Address | Sequence[Address],
    execution: Execution,
    settings: dict[str, Any],
    on_progress: Callable[[float, str], None],
) -> Evaluation:
    """Evaluate as `evaluate` does; `on_progress` takes the share of rows read, and their number."""
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.passes.span import counting
    from fewpass.pipeline.planning.engines import engine_for_pass
    from fewpass.pipeline.runs.model import within
    from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows, require_file
    from fewpass.pipeline.scoring.evaluation import evaluate as evaluate_on
    from fewpass.pipeline.tables.stream.sources import is_source
    from fewpass.storage.dataset import Dataset

    require_execution(execution)
    model, places, plan = load_model(run), addresses(dataset), plan_of(EvaluationPlan, settings)
    if len(places) == 1 and not is_source(places[0]):
        refuse_reading(settings.keys() - Matching.model_fields.keys(), places[0])
        require_file(plan.by, places[0])
        data = Dataset.open(places[0])
        with engine_for_pass(execution, data) as executor:
            count = counting(data.n_rows, on_progress)
            at = within(model, plan.memory)
            return evaluate_on(at, data, executor, count, plan.options, plan)
    return evaluate_rows(
        model, places, plan, threads=execution.threads, cluster=partial(open_cluster, execution),
        on_progress=lambda rows, share: on_progress(share, counted(rows, "row")),
    ).evaluation  # fmt: skip


def predict(
    run: Address,
    inputs: Address | Sequence[Address],
    out: Address,
    *,
    execution: Execution = ANYWHERE,
    **settings: Any,
) -> PredictionResult:
    """Predict rows of files or a data set, into a file or a table.

    Parameters
    ----------
    run
        Folder or address of the run, or of a store that has published one.
    inputs
        Files, globs or addresses that `ingest` could read, labels optional; or one data set.
    out
        File to write (.parquet, .csv, .npy), which is either complete or does not exist. A folder,
        with a slash at its end: a file for each of the inputs' files, several of one that is longer
        than 64 MB; the same call again goes on where one was killed. A database
        (postgresql://host/name, .sqlite, .duckdb) with `table`, or a table of Delta Lake (.delta):
        all rows are put there, or none; the same call again replaces its rows.
    execution
        Where it runs: by default on threads of this process; with a scheduler or workers these
        predict files into a folder, each in `memory` bytes.
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
        or if `out` must not be written.
    """
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.scoring import prediction

    require_execution(execution)
    plan = execution.threads_for(plan_of(PredictionPlan, settings))
    place = os.fspath(out)
    prediction.require_parts(place, execution)
    return prediction.predict(
        load_model(run), addresses(inputs), place, plan, cluster=partial(open_cluster, execution)
    )
