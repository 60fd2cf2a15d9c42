"""`fewpass predict`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from fewpass.flows.options import FIXED, OUTPUT, WHERE, Output, Where, given, takes
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.sizes import counted, format_bytes, format_seconds

if TYPE_CHECKING:
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.scoring.scored_file import PredictionResult


#: Facts that are left out where there is nothing to say.
OPTIONAL = (
    "left_out", "beyond", "files", "done_before", "table", "notes", "skipped", "skipped_rows",
)  # fmt: skip
SKIPPED_SHOWN = 10


@takes(PredictionPlan, but=(*FIXED, "threads"))
class PredictionOptions:
    """Options of the columns to write, and of reading rows."""


PREDICTION = PredictionOptions()


def predict(
    run: str,
    inputs: tuple[str, ...],
    out: str,
    /,
    *,
    asked: PredictionOptions = PREDICTION,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Show predictions as `fewpass.predict` makes them.

    - stands for standard input in place of INPUT, and for CSV on standard output in place of OUT.
    """
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.refresh.named_run import run_at
    from fewpass.pipeline.passes.executor import open_cluster
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.scoring import prediction
    from fewpass.pipeline.scoring.prediction_files import STANDARD_OUTPUT
    from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS

    piped = out in STANDARD_INPUT_WORDS
    if piped and output.json:
        raise UsageError(
            "Predictions and the JSON object would both go to standard output. Name a file."
        )
    terminal, place = Terminal(output), checked(Execution, given(where))
    plan = place.threads_for(checked(PredictionPlan, given(asked)))
    prediction.require_parts(out, place)
    model = load_model(run_at(run))
    with work_display(terminal, "Predicting") as show:
        result = prediction.predict(
            model, inputs, STANDARD_OUTPUT if piped else out, plan,
            on_progress=lambda now: show(now.fraction, counted(now.rows, "row")),
            cluster=partial(open_cluster, place),
        )  # fmt: skip
    _show_result(terminal, result, piped=piped)
    return 0


def _show_result(terminal: Terminal, result: PredictionResult, *, piped: bool) -> None:
    """Show a result; not on standard output, where predictions go there."""
    from fewpass.flows.display.console import facts_table

    say_what_was_odd(terminal, result)
    table = facts_table("Predictions", _shown(result))
    if piped:
        terminal.show(table)
    else:
        facts = {k: v for k, v in result._asdict().items() if v or k not in OPTIONAL}
        terminal.result(facts, table)


def say_what_was_odd(terminal: Terminal, result: PredictionResult) -> None:
    """Say which columns and rows were left out, and what somebody should look at."""
    from fewpass.pipeline.matching import left_out_sentence

    if result.left_out:
        terminal.say(left_out_sentence(result.left_out), style="yellow")
    for note in (*result.notes, *(f"Skipped {row}" for row in result.skipped_rows[:SKIPPED_SHOWN])):
        terminal.say(note, style="yellow")


def _files(result: PredictionResult) -> str | None:
    before = f", {result.done_before:,} of them before" if result.done_before else ""
    return f"{result.files:,}{before}" if result.files else None


def _shown(result: PredictionResult) -> dict[str, Any]:
    """Return what a person is shown of a result."""
    left_out = (
        f"{counted(result.beyond, 'value')} beyond the model's features" if result.beyond else None
    )
    return {
        "at": result.output,
        "table": result.table,
        "rows": result.rows,
        "skipped rows": result.skipped or None,
        "files": _files(result),
        "columns": ", ".join(result.columns) or None,
        "left out": left_out,
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory"
        if result.seconds
        else None,
    }
