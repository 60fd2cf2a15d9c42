"""The flow `predict`: scores of every row of an input."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from prefect.states import Completed

from fewpass.flows.orchestration import requests
from fewpass.flows.orchestration.artifacts import show_text, shown_progress
from fewpass.flows.orchestration.scheduled import UNCHANGED, durable_task, made_flow
from fewpass.flows.orchestration.scheduled_dates import dated
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.matching import left_out_sentence
from fewpass.pipeline.models.refresh.named_run import run_at
from fewpass.pipeline.passes.executor import open_cluster
from fewpass.pipeline.runs.model import load_model
from fewpass.pipeline.scoring.input_files import are_there
from fewpass.pipeline.scoring.prediction import predict as predicted
from fewpass.pipeline.scoring.prediction import require_parts
from fewpass.pipeline.scoring.scored_file import PredictionResult
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.sizes import counted


@made_flow(requests.PredictParameters, "out")
def predict(run: str, inputs: tuple[str, ...], out: str, execution: Execution, **plan: Any) -> Any:
    """Score the rows, and return what was written in the state that tells of it."""
    run, out, inputs = dated(run, "run"), dated(out, "out"), dated(inputs, "inputs")
    asked = execution.threads_for(PredictionPlan(**plan))
    if asked.only_new and not are_there(inputs):
        none = PredictionResult(out, rows=0, columns=(), seconds=0.0, peak_memory_bytes=0)
        message = f"No file yet: {', '.join(inputs)}."
        return Completed(name=UNCHANGED, message=message, data=none._asdict())
    result: PredictionResult = score.with_options(task_run_name=f"predict {out}")(
        run, inputs, out, asked, execution
    )
    if asked.only_new and result.files == result.done_before:
        message = f"No new file: {counted(result.files, 'file')} scored before."
        return Completed(name=UNCHANGED, message=message, data=result._asdict())
    place = result.output if result.table is None else f"{result.output}, table {result.table}"
    text = "\n".join(f"- {as_markdown(one)}" for one in _sentences(result, place))
    show_text(result.output, "predictions", text, f"predictions of {run}")
    message = f"{counted(result.rows, 'row')} scored{_of_files(result)}: {place}."
    return Completed(message=message, data=result._asdict())


def _sentences(result: PredictionResult, place: str) -> Iterator[str]:
    columns = ", ".join(result.columns)
    yield f"{counted(result.rows, 'row')} with the columns {columns} in {place}"
    if result.files:
        before = f", {result.done_before:,} of them before" * (result.done_before > 0)
        yield f"{counted(result.files, 'file')}{before}"
    if result.left_out:
        yield left_out_sentence(result.left_out)
    if result.beyond:
        yield f"Ignored {counted(result.beyond, 'value')} beyond the model's features"
    if result.skipped:
        yield f"{counted(result.skipped, 'bad row was', 'bad rows were')} skipped"
    yield from (*(f"Skipped {row}" for row in result.skipped_rows), *result.notes)


def _of_files(result: PredictionResult) -> str:
    new = result.files - result.done_before
    return f" of {counted(new, 'new file')}" if result.done_before else ""


@durable_task("predict")
def score(
    run: str,
    inputs: tuple[str, ...],
    out: str,
    plan: PredictionPlan,
    execution: Execution = requests.HERE,
) -> PredictionResult:
    """Predict into a file or a table, where all rows are or none, or into files of a folder."""
    require_parts(out, execution)
    with shown_progress(out, "predicting into") as show:
        return predicted(
            load_model(run_at(run)),
            inputs,
            out,
            plan,
            on_progress=lambda now: show(now.fraction, counted(now.rows, "row")),
            cluster=partial(open_cluster, execution),
        )
