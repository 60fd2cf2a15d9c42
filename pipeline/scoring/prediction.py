"""Prediction for any input, in its order, streamed to a file in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.output_table import OutputTable
from fewpass.pipeline.scoring.predicted_parts import PartPredictor, Tell
from fewpass.pipeline.scoring.prediction_folder import is_folder, predict_folder, predict_new
from fewpass.pipeline.scoring.predictor import planned_predictor
from fewpass.pipeline.scoring.probabilities import caution
from fewpass.pipeline.scoring.scored_file import PredictionResult, ScoredOutput, written_rows
from fewpass.pipeline.scoring.table_choice import output_table
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.storage.redaction import without_secrets

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Cluster


def predict(
    model: Model,
    inputs: Sequence[str],
    output: str,
    plan: PredictionPlan,
    *,
    cluster: Cluster = nullcontext,
    on_progress: Tell = lambda _: None,
) -> PredictionResult:
    """Predict every row of `inputs` (files, or one data set) into `output`.

    Parameters
    ----------
    model
        The model; raw rows are scaled as the training rows were.
    inputs
        Inputs as for `fewpass ingest`, labels optional; or the address of one data set.
    output
        A .parquet, .csv or .npy file, which appears only if complete; "-" for CSV on standard
        output.  A folder, with a slash at its end: a file for each file of the inputs, .csv for
        CSV and .parquet for others, or several in a folder of its name where it is longer than 64
        MB and can be read in parts; the same call again goes on where one was killed.  A database
        (postgresql://..., .sqlite, .duckdb) or a table of Delta Lake (.delta): all rows are put
        there, or none, in place of what the same model has predicted there of the same sources.
    plan
        What is written, and how the inputs are read and matched with the model's columns.
    cluster
        Opens a cluster whose workers predict, each within the plan's memory; the output is a
        folder.

    Raises
    ------
    BadInput
        Rows are unreadable or do not have the model's columns; there are no probabilities; the
        output is of another kind or must not be written.
    """
    model = model if plan.clip else model._replace(seen=None)
    place = output_table(output, plan.table)
    _require_several(output, place, plan)
    if place is None and is_folder(output):
        predictor = PartPredictor(plan, model)
        made = predict_folder(predictor, inputs, output, cluster=cluster, on_progress=on_progress)
        return _cautious(made, model, plan)

    def into(specs: Sequence[str], tell: Tell) -> PredictionResult:
        make = partial(planned_predictor, plan, model, output)
        return written_rows(make, model, specs, ScoredOutput(output, plan, tell, place)).result

    if place is not None and plan.only_new:
        made = predict_new(lambda spec, tell: into([spec], tell), place, inputs, on_progress)
    else:
        made = into(inputs, on_progress)
    return _cautious(made, model, plan)


def _cautious(made: PredictionResult, model: Model, plan: PredictionPlan) -> PredictionResult:
    """Return a result whose first note says why its probabilities are not calibrated."""
    said = caution(model) if plan.probability else None
    return made if said is None else made._replace(notes=(said, *made.notes))


def require_parts(output: str, execution: Execution) -> None:
    """Raise BadInput where a cluster is asked for, and one process has to write all there is."""
    if execution.engine != "threads" and not is_folder(output):
        raise BadInput(
            f"{without_secrets(output)} is written by one process, not by a cluster. Name a folder "
            "(with a slash at its end), or leave `scheduler` and `workers` out."
        )


def _require_several(output: str, place: OutputTable | None, plan: PredictionPlan) -> None:
    """Refuse `only_new` where nothing could be left as it is."""
    if not plan.only_new:
        return
    if plan.overwrite:
        raise BadInput("`overwrite` makes all anew, and `only_new` what is new. Leave one out.")
    if place is None and not is_folder(output):
        raise BadInput(
            f"`only_new` leaves what is predicted, and {without_secrets(output)} would be one file "
            "of all. Name a folder (with a slash at its end) or a table."
        )
