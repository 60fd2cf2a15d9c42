"""The flow `predict`: scores of every row of an input."""

from __future__ import annotations

from typing import Any

from prefect import flow
from pydantic import PositiveInt

from flows.orchestration.artifacts import ProgressArtifact, show_text
from flows.orchestration.scheduled import begin_flow, dated, durable_task, named, told_by_state
from pipeline.refresh.publishing import run_at
from pipeline.scoring.predict import PredictionResult
from pipeline.scoring.predict import predict as run_predict
from pipeline.settings.source_options import SourceOptions
from pipeline.sizes import ByteSize
from pipeline.training.model import load_model

READING = SourceOptions()


@flow(name="predict", flow_run_name=named("predict", "out"))
@told_by_state
def predict(
    run: str,
    inputs: tuple[str, ...],
    out: str,
    options: SourceOptions = READING,
    probability: bool = False,
    defuse: bool = False,
    memory: ByteSize = 1 << 30,
    threads: PositiveInt | None = None,
) -> dict[str, Any]:
    """Score every row of an input, in its order, into a .parquet, .csv or .npy file.

    Parameters
    ----------
    run
        Folder or address of the run, or of a refresh's store; {date} and {time} stand for the
        scheduled start.
    inputs
        Files, globs or addresses that ingest could read, labels optional; or one data set.
    out
        File to write; {date} and {time} stand for the scheduled start.
    options
        How to read the inputs.
    probability
        Add a column per class, and last that of the positive label, or of the label predicted.
    defuse
        In .csv, put a ' before labels that a spreadsheet would run as a formula.
    memory
        Memory to use at most beyond what the libraries take.
    threads
        Threads that read and score; default one per core.
    """
    begin_flow()
    arguments = {
        "probability": probability,
        "defuse": defuse,
        "memory": memory,
        "threads": threads,
    }
    result: PredictionResult = score.with_options(task_run_name=f"predict {dated(out)}")(
        dated(run), inputs, dated(out), options, arguments
    )
    text = f"{result.rows:,} rows with the columns {', '.join(result.columns)} in `{result.output}`"
    show_text(result.output, "predictions", text, f"predictions of {dated(run)}")
    return result._asdict()


@durable_task("predict")
def score(
    run: str, inputs: tuple[str, ...], out: str, options: SourceOptions, settings: dict[str, Any]
) -> PredictionResult:
    """Predict into a file that appears whole or not at all."""
    bar = ProgressArtifact(out, "predicting into")
    return run_predict(
        load_model(run_at(run)),
        inputs,
        out,
        options,
        on_progress=lambda now: bar.show(now.fraction, f"{now.rows:,} rows"),
        **settings,
    )
