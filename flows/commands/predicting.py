"""`fewpass predict`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fewpass.flows.options import OUTPUT, READING, Output, Reading, given, named, whole
from fewpass.flows.refusals import UsageError
from fewpass.pipeline.settings.model_config import MOST_WORKERS
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.sizes import counted, format_bytes, parse_bytes

if TYPE_CHECKING:
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.scoring.scored_file import PredictionResult


#: Facts that are left out where there is nothing to say.
OPTIONAL = ("left_out", "beyond", "files", "done_before", "table")


def predict(
    run: str,
    input_: Annotated[str, named("INPUT")],
    out: str,
    /,
    *,
    overwrite: bool = False,
    probability: bool = False,
    defuse: bool = False,
    clip: bool = True,
    keep: tuple[str, ...] = (),
    threshold: float | None = None,
    memory: str | None = None,
    threads: Annotated[int | None, whole(1, MOST_WORKERS)] = None,
    table: str | None = None,
    only_new: bool = False,
    reading: Reading = READING,
    output: Output = OUTPUT,
) -> int:
    """Predict every row of a file or data set, into a .parquet, .csv or .npy file or a table.

    Parameters
    ----------
    run
        Folder or address of the run.
    input_
        File, glob or address that ingest could read, labels optional; or a data set.
    out
        File to write; its ending says what kind. A - stands for CSV on standard output. A folder,
        with a slash at its end: a file for each of INPUT's files, which may be killed and repeated.
        A database (postgresql://host/name, .sqlite, .duckdb) with --table, or a table of Delta Lake
        (.delta): all rows are put there or none, and the same command again replaces its rows.
    overwrite
        Replace OUT if it exists already; never an input, a source of the model's data set, or what
        lies in a data set or a run. Of a table: all rows, if it has the columns of predictions.
    probability
        Add a column per class, and last that of the positive label, or of the label predicted: by
        --calibrate of the training, else by the logistic loss.
    defuse
        In .csv, put a ' before labels that a spreadsheet would run as a formula.
    clip
        Clip predicted numbers to the range of the targets seen, if the training was to.
    keep
        Column of INPUT that is written first, as it is, such as an id; may be repeated.
    threshold
        Predict the second of two labels from this probability on [default: where the score is
        above 0].
    memory
        Memory limit, in addition to what the libraries take [default: 1GiB, and what the weights
        take].
    threads
        Threads that read and score [default: one per core].
    table
        Table of the database that OUT is.
    only_new
        Predict only those of INPUT's files that are not predicted in OUT, a folder or a table, yet,
        by whatever model, as they are now.
    """
    from fewpass.flows.display.bars import work_display
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.scoring.prediction import predict as predicted
    from fewpass.pipeline.scoring.prediction_files import STANDARD_OUTPUT
    from fewpass.pipeline.scoring.probabilities import caution
    from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS

    piped = out in STANDARD_INPUT_WORDS
    if piped and output.json:
        raise UsageError(
            "Predictions and the JSON object would both go to standard output. Name a file."
        )
    terminal, model = Terminal(output), load_model(run_at(run))
    if probability and (sentence := caution(model)):
        terminal.say(sentence, style="yellow")
    with work_display(terminal, "Predicting") as show:
        result = predicted(
            model, [input_], STANDARD_OUTPUT if piped else out,
            checked(SourceOptions, given(reading)), overwrite=overwrite, probability=probability,
            defuse=defuse, clip=clip, keep=keep, threshold=threshold,
            memory=parse_bytes(memory) if memory else None, threads=threads,
            table=table, only_new=only_new,
            on_progress=lambda now: show(now.fraction, counted(now.rows, "row")),
        )  # fmt: skip
    _show_result(terminal, result, piped=piped)
    return 0


def _show_result(terminal: Terminal, result: PredictionResult, *, piped: bool) -> None:
    """Show a result; not on standard output, where predictions go there."""
    from fewpass.flows.display.console import facts_table
    from fewpass.pipeline.matching import left_out_sentence

    if result.left_out:
        terminal.say(left_out_sentence(result.left_out), style="yellow")
    table = facts_table("Predictions", _shown(result))
    if piped:
        terminal.show(table)
    else:
        facts = {k: v for k, v in result._asdict().items() if v or k not in OPTIONAL}
        terminal.result(facts, table)


def _files(result: PredictionResult) -> str | None:
    before = f", {result.done_before:,} of them before" if result.done_before else ""
    return f"{result.files:,}{before}" if result.files else None


def _shown(result: PredictionResult) -> dict[str, Any]:
    """Return what a person is shown of a result."""
    from fewpass.flows.display.console import format_seconds

    left_out = (
        f"{counted(result.beyond, 'value')} beyond the model's features" if result.beyond else None
    )
    return {
        "at": result.output,
        "table": result.table,
        "rows": result.rows,
        "files": _files(result),
        "columns": ", ".join(result.columns) or None,
        "left out": left_out,
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory"
        if result.seconds
        else None,
    }
