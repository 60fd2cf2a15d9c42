"""`fewpass evaluate`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fewpass.flows.options import OUTPUT, READING, WHERE, Output, Reading, Where, given
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.sizes import counted, parse_bytes
from fewpass.storage.redaction import shown_address

if TYPE_CHECKING:
    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.reporting.reliability_report import DrawnReliability
    from fewpass.pipeline.runs.model import Model
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.scoring.row_metrics import AskedMetrics

NO_DIAGRAM = (
    "No diagram is drawn, as matplotlib is not installed. Install it with pip install "
    "'fewpass[plots]'."
)


class EvaluationOptions(NamedTuple):
    """What is asked for, and within how much memory."""

    memory: int | None = None
    reliability: bool = False
    importance: bool = False
    metrics: AskedMetrics | None = None  # None: the usual ones


class Evaluated(NamedTuple):
    """What is shown; None where it was not asked for."""

    evaluation: Evaluation
    probabilities: DrawnReliability | None
    columns: Importance | None


def evaluate(
    run: str,
    dataset: str,
    /,
    *,
    reliability: bool = False,
    importance: bool = False,
    by: tuple[str, ...] = (),
    threshold: float | None = None,
    top: float | None = None,
    memory: str | None = None,
    reading: Reading = READING,
    where: Where = WHERE,
    output: Output = OUTPUT,
) -> int:
    """Evaluate a run's model on a data set, such as the rows held out.

    Parameters
    ----------
    run
        Folder or address of the run.
    dataset
        Data set made by ingest (with --like, or split off by --test-fraction), or a file, glob or
        address that ingest could read, with labels: its columns are made features as those that
        the model was trained on.
    reliability
        Say whether its probabilities come true, too: Brier score, log loss, calibration error, and
        the reliability diagram in RUN/report/reliability.png.
    importance
        Say how important each column is, too: its share of the scores' variance, and how much the
        loss grows where its values are exchanged among rows.
    by
        Column of the file whose values are slices, each evaluated by itself, with intervals; of
        numbers with the edges of ranges (age:20,40,60); at most 1,000; may be repeated.
    threshold
        Call rows positive from this probability of the second of two labels on [default: where the
        score is above 0], for error, precision, recall and F1.
    top
        Share of the rows with the highest scores whose lift is measured [default: 0.1].
    memory
        Memory limit, in addition to what the libraries take [default: as in training; of files
        1GiB].
    """
    from fewpass.flows.display.console import Terminal
    from fewpass.flows.settings import checked
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.scoring.row_metrics import AskedMetrics
    from fewpass.pipeline.tables.stream.sources import is_source

    terminal, words = Terminal(output), given(reading)
    place = checked(Execution, given(where))
    options = checked(SourceOptions, words)
    limit = parse_bytes(memory) if memory else None
    wanted = EvaluationOptions(limit, reliability, importance, AskedMetrics(threshold, top))
    if is_source(dataset):
        model = load_model(run_at(run))
        evaluated = _on_files(terminal, model, dataset, options, place, wanted, by)
    else:
        _refuse_reading(words, by, dataset)
        model = load_model(run_at(run))
        evaluated = _on_data_set(terminal, model, dataset, options, place, wanted)
    _show(terminal, f"{run} on {shown_address(dataset)}", evaluated)
    return 0


def _show(terminal: Terminal, title: str, evaluated: Evaluated) -> None:
    from fewpass.flows.commands.evaluation_tables import all_facts, all_tables
    from fewpass.pipeline.matching import left_out_sentence

    evaluation, probabilities, _ = evaluated
    if evaluation.left_out:
        terminal.say(left_out_sentence(evaluation.left_out), style="yellow")
    if probabilities is not None and probabilities.image is None:
        terminal.say(NO_DIAGRAM)
    terminal.result(all_facts(*evaluated), all_tables(title, *evaluated))


def _refuse_reading(words: dict[str, Any], by: Sequence[str], dataset: str) -> None:
    """Refuse what is asked of files alone, where rows are those of a data set."""
    refuse_reading(words.keys() - Matching.model_fields.keys(), dataset)
    if by:  # what is imported only then takes Arrow
        from fewpass.pipeline.scoring.evaluate_rows import require_file

        require_file(by, dataset)


def _on_data_set(
    terminal: Terminal,
    model: Model,
    dataset: str,
    rules: Matching,
    place: Execution,
    wanted: EvaluationOptions,
) -> Evaluated:
    from fewpass.flows.cluster import engine_for_pass
    from fewpass.flows.display.bars import rows_display
    from fewpass.pipeline.reporting.reliability_report import draw_reliability
    from fewpass.pipeline.runs.model import within
    from fewpass.pipeline.scoring import evaluation
    from fewpass.pipeline.scoring.probabilities import probabilities_of
    from fewpass.pipeline.scoring.row_metrics import USUAL
    from fewpass.storage.dataset import Dataset

    drawn, columns, data = None, None, Dataset.open(dataset)
    _say_snapshot(terminal, model)
    model = within(model, wanted.memory)
    with engine_for_pass(place, data) as executor:
        if wanted.reliability:
            probabilities_of(model)  # refuses a model without any before it is evaluated
        with rows_display(terminal, "Evaluating", data.n_rows) as count:
            asked = wanted.metrics or USUAL
            result = evaluation.evaluate(model, data, executor, count, rules, asked)
        if wanted.reliability:
            drawn = draw_reliability(model, data, executor, rules)
        if wanted.importance:
            from fewpass.pipeline.explaining.importance import importance

            columns = importance(model, data, executor, rules=rules)
    return Evaluated(result, drawn, columns)


def _on_files(
    terminal: Terminal,
    model: Model,
    source: str,
    options: SourceOptions,
    place: Execution,
    wanted: EvaluationOptions,
    by: Sequence[str],
) -> Evaluated:
    from fewpass.flows.display.bars import work_display
    from fewpass.pipeline.explaining.importance import (
        sum_over_files,
        summary_of_terms,
        terms_for,
    )
    from fewpass.pipeline.reporting.reliability_report import DrawnReliability, draw
    from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows, require_here
    from fewpass.pipeline.scoring.row_metrics import USUAL

    require_here(place)
    _say_snapshot(terminal, model)
    terms = terms_for(model) if wanted.importance else None
    with work_display(terminal, "Evaluating") as show:
        result = evaluate_rows(
            model,
            [source],
            options,
            with_reliability=wanted.reliability,
            others=[sum_over_files(model, terms)] if terms else [],
            by=by,
            asked=wanted.metrics or USUAL,
            memory=wanted.memory,
            on_progress=lambda rows, share: show(share, counted(rows, "row")),
        )
    if result.skipped:
        terminal.say(
            f"Left out {counted(result.skipped, 'row')} (--on-bad-row skip).", style="yellow"
        )
    columns = summary_of_terms(terms, result.others[0]) if terms else None
    if result.reliability is None:
        return Evaluated(result.evaluation, None, columns)
    image = draw(model, result.reliability, Path(shown_address(source)).name)
    return Evaluated(result.evaluation, DrawnReliability(result.reliability, image), columns)


def _say_snapshot(terminal: Terminal, model: Model) -> None:
    """Say which snapshot of a run, unfinished maybe, is evaluated."""
    terminal.say(f"Snapshot {model.snapshot} of {model.run.url}")


def evaluate_shown(terminal: Terminal, run: str, dataset: str) -> Evaluation:
    """Evaluate a run's model on a data set, with a display."""
    from fewpass.pipeline.models.refresh.store_state import run_at
    from fewpass.pipeline.runs.model import load_model

    model = load_model(run_at(run))
    return _on_data_set(
        terminal, model, dataset, BY_NAME, Execution(), EvaluationOptions()
    ).evaluation
