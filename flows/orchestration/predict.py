"""The flow `predict`: scores of every row of an input."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import ProgressArtifact, show_text
from fewpass.flows.orchestration.scheduled import dated, durable_task, made_flow
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.matching import left_out_sentence
from fewpass.pipeline.models.refresh.store import run_at
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.scoring.prediction import predict as predicted
from fewpass.pipeline.scoring.scored_file import PredictionResult
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted


@made_flow(requests.PredictParameters, "out")
def predict(
    run: str, inputs: tuple[str, ...], out: str, options: SourceOptions,
    overwrite: bool, probability: bool, defuse: bool, clip: bool, keep: tuple[str, ...],
    threshold: float | None, memory: int | None, threads: int | None,
) -> Any:  # fmt: skip
    """Score the rows, and return what was written in the state that tells of it."""
    run, out, inputs = dated(run, "run"), dated(out, "out"), dated(inputs, "inputs")
    settings = {
        "overwrite": overwrite,
        "probability": probability,
        "defuse": defuse,
        "clip": clip,
        "keep": keep,
        "threshold": threshold,
        "memory": memory,
        "threads": threads,
    }
    result: PredictionResult = score.with_options(task_run_name=f"predict {out}")(
        run, inputs, out, options, settings
    )
    text = "\n".join(f"- {as_markdown(one)}" for one in _sentences(result))
    show_text(result.output, "predictions", text, f"predictions of {run}")
    message = f"{counted(result.rows, 'row')} scored: {result.output}."
    return Completed(message=message, data=result._asdict())


def _sentences(result: PredictionResult) -> Iterator[str]:
    columns = ", ".join(result.columns)
    yield f"{counted(result.rows, 'row')} with the columns {columns} in {result.output}"
    if result.files:
        before = f", {result.done_before:,} of them before" * (result.done_before > 0)
        yield f"{counted(result.files, 'file')}{before}"
    if result.left_out:
        yield left_out_sentence(result.left_out)
    if result.beyond:
        yield f"Ignored {counted(result.beyond, 'value')} beyond the model's features"


@durable_task("predict")
def score(
    run: str, inputs: tuple[str, ...], out: str, options: SourceOptions, settings: dict[str, Any]
) -> PredictionResult:
    """Predict into a file that appears whole or not at all."""
    bar = ProgressArtifact(out, "predicting into")
    return predicted(
        load_model(run_at(run)),
        inputs,
        out,
        options,
        on_progress=lambda now: bar.show(now.fraction, counted(now.rows, "row")),
        **settings,
    )
