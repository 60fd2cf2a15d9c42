"""Prediction for any input, in its order, streamed to a file in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING

from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.output_table import OutputTable
from fewpass.pipeline.scoring.predicted_parts import PartPredictor, Tell
from fewpass.pipeline.scoring.prediction_folder import is_folder, predict_folder, predict_new
from fewpass.pipeline.scoring.predictor import PredictedColumns
from fewpass.pipeline.scoring.probabilities import caution
from fewpass.pipeline.scoring.scored_file import PredictionResult, ScoredOutput, written_rows
from fewpass.pipeline.scoring.table_choice import output_table
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.storage.redaction import without_secrets

if TYPE_CHECKING:
    from fewpass.pipeline.passes.executor import Cluster


def predict(
    model: Model,
    inputs: Sequence[str],
    output: str,
    options: SourceOptions,
    *,
    overwrite: bool = False,
    probability: bool = False,
    defuse: bool = False,
    clip: bool = True,
    memory: int | None = None,
    keep: Sequence[str] = (),
    threshold: float | None = None,
    threads: int | None = None,
    table: str | None = None,
    only_new: bool = False,
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
    options
        Options for reading, and for matching the columns with the model's.
    overwrite
        Replace an existing `output`; never an input, a source of the model's rows, or a file in a
        data set or a run.  Of a table: all of its rows, if it has the columns of predictions.
    probability
        Add a column per class, `probability_LABEL`, and `probability`: of the positive label, or
        with several classes of the predicted label.  They are those of the run's calibration;
        without one those of the logistic loss, which with several classes are each model's divided
        by the sum of all models', and not calibrated.
    defuse
        Write a ' before labels that a spreadsheet would run as a formula (``=1+2``); .csv only.
    clip
        Clip predicted numbers to the range of the targets that the model learnt from, as its
        training was asked to; False: write the linear function as it is.
    memory
        Memory budget in bytes beyond that of imported libraries; default: 1 GiB plus the weights.
    keep
        Columns of the files that are written first, as they are, such as ids.
    threshold
        Call rows positive whose probability of the second of two labels is at least this; by
        default those whose score is above 0.
    threads
        Number of threads for parsing and scoring; default: the number of cores.
    table
        Name of the table, where the output is a database.
    only_new
        Of the files of the inputs predict only those that are not predicted there yet, by whatever
        model, as they are now; the output is a folder or a table.
    cluster
        Opens a cluster whose workers predict, each within `memory`; the output is a folder.

    Raises
    ------
    BadInput
        Rows are unreadable or do not have the model's columns; there are no probabilities; the
        output is of another kind or must not be written.
    """
    model = model if clip else model._replace(seen=None)
    how = PredictedColumns(probability, defuse, tuple(keep), threshold)
    place = output_table(output, table)
    _require_several(output, place, overwrite=overwrite, only_new=only_new)
    if place is None and is_folder(output):
        predictor = PartPredictor(how, model, options, overwrite, memory, threads)
        settings = how._asdict() | {"clip": clip, "reading": options.model_dump(mode="json")}
        made = predict_folder(
            predictor, inputs, output, settings, only_new=only_new, cluster=cluster,
            on_progress=on_progress,
        )  # fmt: skip
        return _cautious(made, model, probability=probability)

    def into(specs: Sequence[str], tell: Tell) -> PredictionResult:
        out = ScoredOutput(output, overwrite, how.keep, memory, threads, tell, place, only_new)
        return written_rows(how.maker(model, out), model, specs, options, out).result

    if place is not None and only_new:
        made = predict_new(lambda spec, tell: into([spec], tell), place, inputs, on_progress)
    else:
        made = into(inputs, on_progress)
    return _cautious(made, model, probability=probability)


def _cautious(made: PredictionResult, model: Model, *, probability: bool) -> PredictionResult:
    """Return a result whose first note says why its probabilities are not calibrated."""
    said = caution(model) if probability else None
    return made if said is None else made._replace(notes=(said, *made.notes))


def require_parts(output: str, execution: Execution) -> None:
    """Raise BadInput where a cluster is asked for, and one process has to write all there is."""
    if execution.engine != "threads" and not is_folder(output):
        raise BadInput(
            f"{without_secrets(output)} is written by one process, not by a cluster. Name a folder "
            "(with a slash at its end), or leave `scheduler` and `workers` out."
        )


def _require_several(
    output: str, place: OutputTable | None, *, overwrite: bool, only_new: bool
) -> None:
    """Refuse `only_new` where nothing could be left as it is."""
    if not only_new:
        return
    if overwrite:
        raise BadInput("`overwrite` makes all anew, and `only_new` what is new. Leave one out.")
    if place is None and not is_folder(output):
        raise BadInput(
            f"`only_new` leaves what is predicted, and {without_secrets(output)} would be one file "
            "of all. Name a folder (with a slash at its end) or a table."
        )
