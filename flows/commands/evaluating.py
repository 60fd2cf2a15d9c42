"""`fewpass evaluate`."""
# ruff: noqa: PLC0415

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fewpass.flows.display.printing import printable
from fewpass.flows.options import OUTPUT, READING, WHERE, Output, Reading, Where, given
from fewpass.flows.outcomes import evaluation_facts
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import BY_NAME, Matching
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import refuse_reading
from fewpass.pipeline.sizes import parse_bytes
from fewpass.storage.redaction import without_secrets

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from fewpass.flows.display.console import Terminal
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.reporting.reliability_report import DrawnReliability
    from fewpass.pipeline.runs.model import Model
    from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
    from fewpass.pipeline.scoring.evaluated_slices import Sliced
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.scoring.row_metrics import AskedMetrics

NO_DIAGRAM = (
    "No diagram is drawn, as matplotlib is not installed. Install it with pip install "
    "'fewpass[plots]'."
)
MOST_CLASSES = 20  # that are shown one by one; --json has all


def evaluate(
    run: str,
    dataset: str,
    /,
    *,
    reliability: bool = False,
    importance: bool = False,
    by: tuple[str, ...] = (),
    threshold: float | None = None,
    top: float = 0.1,
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
        numbers with the edges of ranges (age:20,40,60); may be repeated.
    threshold
        Call rows positive from this probability of the second of two labels on [default: where the
        score is above 0], for error, precision, recall and F1.
    top
        Share of the rows with the highest scores whose lift is measured [default: 0.1].
    memory
        Memory limit, in addition to what the libraries take [default: as in training; of files
        1GiB].
    """
    from rich.console import Group

    from fewpass.flows.display.console import Terminal, facts_table
    from fewpass.flows.settings import checked
    from fewpass.pipeline.matching import left_out_sentence
    from fewpass.pipeline.models.refresh.publications import run_at
    from fewpass.pipeline.runs.model import load_model
    from fewpass.pipeline.scoring.row_metrics import AskedMetrics
    from fewpass.pipeline.tables.stream.sources import is_source

    terminal, words = Terminal(output), given(reading)
    place = checked(Execution, given(where))
    options = checked(SourceOptions, words)
    limit = parse_bytes(memory) if memory else None
    from_files = is_source(dataset)
    if not from_files:
        refuse_reading(words.keys() - Matching.model_fields.keys(), dataset)
        if by:  # what is imported only then takes Arrow
            from fewpass.pipeline.scoring.evaluate_rows import require_file

            require_file(by, dataset)
    asked = AskedMetrics(threshold, top)
    model = load_model(run_at(run))
    work = _on_files if from_files else _on_data_set
    evaluation, probabilities, columns = work(
        terminal, model, dataset, options, place, memory=limit, with_reliability=reliability,
        with_importance=importance, by=by, asked=asked,
    )  # fmt: skip
    if evaluation.left_out:
        terminal.say(left_out_sentence(evaluation.left_out), style="yellow")
    shown: list[RenderableType] = [
        facts_table(f"{run} on {without_secrets(dataset)}", _shown(evaluation))
    ]
    if evaluation.classes:
        shown.append(class_table(evaluation.classes))
    shown += [slice_table(column, of) for column, of in evaluation.slices]
    facts = evaluation_facts(evaluation)
    if probabilities is not None:
        if probabilities.image is None:
            terminal.say(NO_DIAGRAM)
        facts["reliability"] = reliability_facts(probabilities)
        shown.append(reliability_table(probabilities))
    if columns is not None:
        facts["importance"] = importance_facts(columns)
        shown.append(importance_table(columns))
    terminal.result(facts, Group(*shown))
    return 0


def _on_data_set(
    terminal: Terminal,
    model: Model,
    dataset: str,
    rules: Matching,
    place: Execution,
    *,
    memory: int | None = None,
    with_reliability: bool = False,
    with_importance: bool = False,
    by: Sequence[str] = (),  # noqa: ARG001 - of files alone
    asked: AskedMetrics | None = None,
) -> tuple[Evaluation, DrawnReliability | None, Importance | None]:
    from fewpass.flows.cluster import engine_for_pass
    from fewpass.flows.display.bars import rows_display
    from fewpass.pipeline.reporting.reliability_report import draw_reliability
    from fewpass.pipeline.runs.model import within
    from fewpass.pipeline.scoring import evaluation
    from fewpass.pipeline.scoring.probabilities import probabilities_of
    from fewpass.pipeline.scoring.row_metrics import USUAL
    from fewpass.storage.dataset import Dataset

    drawn, data = None, Dataset.open(dataset)
    _say_snapshot(terminal, model)
    model = within(model, memory)
    with engine_for_pass(place, data) as executor:
        if with_reliability:
            probabilities_of(model)  # refuses a model without any before it is evaluated
        with rows_display(terminal, "Evaluating", data.n_rows) as count:
            result = evaluation.evaluate(model, data, executor, count, rules, asked or USUAL)
        if with_reliability:
            drawn = draw_reliability(model, data, executor, rules)
        columns = None
        if with_importance:
            from fewpass.pipeline.explaining.importance import importance

            columns = importance(model, data, executor, rules=rules)
    return result, drawn, columns


def _on_files(
    terminal: Terminal,
    model: Model,
    source: str,
    options: SourceOptions,
    place: Execution,
    *,
    memory: int | None,
    with_reliability: bool,
    with_importance: bool,
    by: Sequence[str],
    asked: AskedMetrics,
) -> tuple[Evaluation, DrawnReliability | None, Importance | None]:
    from fewpass.flows.display.bars import work_display
    from fewpass.pipeline.explaining.importance import (
        sum_over_files,
        summary_of_terms,
        terms_for,
    )
    from fewpass.pipeline.reporting.reliability_report import DrawnReliability, draw
    from fewpass.pipeline.scoring.evaluate_rows import evaluate_rows, require_here

    require_here(place)
    _say_snapshot(terminal, model)
    terms = terms_for(model) if with_importance else None
    with work_display(terminal, "Evaluating") as show:
        result = evaluate_rows(
            model,
            [source],
            options,
            with_reliability=with_reliability,
            others=[sum_over_files(model, terms)] if terms else [],
            by=by,
            asked=asked,
            memory=memory,
            on_progress=lambda rows, share: show(share, f"{rows:,} rows"),
        )
    if result.skipped:
        terminal.say(f"{result.skipped:,} rows were left out (--on-bad-row skip).", style="yellow")
    columns = summary_of_terms(terms, result.others[0]) if terms else None
    if result.reliability is None:
        return result.evaluation, None, columns
    image = draw(model, result.reliability, Path(without_secrets(source)).name)
    return result.evaluation, DrawnReliability(result.reliability, image), columns


def _say_snapshot(terminal: Terminal, model: Model) -> None:
    """Say which snapshot of a run, unfinished maybe, is evaluated."""
    terminal.say(f"Snapshot {model.snapshot} of {model.run.url}")


def evaluate_shown(terminal: Terminal, run: str, dataset: str) -> Evaluation:
    """Evaluate a run's model on a data set, with a display."""
    from fewpass.pipeline.models.refresh.publications import run_at
    from fewpass.pipeline.runs.model import load_model

    result, *_ = _on_data_set(terminal, load_model(run_at(run)), dataset, BY_NAME, Execution())
    return result


def importance_facts(columns: Importance) -> dict[str, Any]:
    """Return what --json prints of the importance of columns."""
    return columns._asdict() | {"terms": [one._asdict() for one in columns.terms]}


def importance_table(columns: Importance, most: int = MOST_CLASSES) -> Table:
    """Lay out how important columns are, the largest share of the scores' variance first."""
    from fewpass.flows.display.console import titled_table

    shown = columns.terms[:most]
    more = "" if len(shown) == len(columns.terms) else f", the first of {len(columns.terms):,}"
    table = titled_table(
        f"Columns{more} (scores vary by {columns.deviation:.4g}; loss {columns.loss:.6g})"
    )
    table.add_column("column", style="cyan", overflow="fold")
    for name in ("share of the variance", "mean contribution", "loss without it", "+-"):
        table.add_column(name, justify="right")
    for one in shown:
        table.add_row(
            printable(one.name), f"{one.share:.2%}", f"{one.size:.4g}", f"{one.loss_without:+.4g}",
            f"{1.96 * one.standard_error:.2g}",
        )  # fmt: skip
    return table


def reliability_facts(drawn: DrawnReliability) -> dict[str, Any]:
    """Return what --json prints of probabilities."""
    facts = drawn.figures._asdict() | {"image": drawn.image}
    return facts | {"bins": [one._asdict() for one in drawn.figures.bins]}


def reliability_table(drawn: DrawnReliability) -> Table:
    """Lay out whether probabilities come true."""
    from fewpass.flows.display.console import facts_table
    from fewpass.pipeline.scoring.reliability import BINS

    figures = drawn.figures
    shown = {
        "Brier score": figures.brier,
        "log loss": figures.log_loss,
        "calibration error": f"{figures.calibration_error:.6f} (of {BINS} bins)",
        "diagram": drawn.image,
    }
    return facts_table("Probabilities", shown)


def class_table(classes: Sequence[ClassFigures]) -> Table:
    """Lay out what becomes of each class, those that fare worst first."""
    from fewpass.flows.display.console import titled_table

    shown = sorted(classes, key=lambda c: 1.0 if c.recall is None else c.recall)[:MOST_CLASSES]
    title = (
        "Classes"
        if len(shown) == len(classes)
        else f"The {len(shown)} of {len(classes)} classes that fare worst"
    )
    table = titled_table(title)
    for name in ("label", "rows", "recall", "precision", "mistaken for"):
        table.add_column(name, justify="left" if name == "label" else "right", no_wrap=True)
    for c in shown:
        shares = ("-" if share is None else f"{share:.4f}" for share in (c.recall, c.precision))
        table.add_row(c.label, f"{c.rows:,.0f}", *shares, c.mistaken_for or "-")
    return table


def slice_table(column: str, slices: Sliced) -> Table:
    """Lay out the figures of slices of the rows, with 95 % intervals."""
    from fewpass.flows.display.console import titled_table

    table = titled_table(f"By {printable(column)}, with 95 % intervals")
    of_labels = any(one.error_low is not None for one in slices)
    names = ("error", "base rate", "AUC") if of_labels else ("mean absolute error", "R squared")
    table.add_column("slice", style="cyan", overflow="fold")
    for name in ("rows", "loss", *names):
        table.add_column(name, justify="right")
    for one in slices:
        figures, metrics = one.evaluation, one.evaluation.metrics
        loss = f"{figures.loss:.5g} +- {one.loss_within:.2g}"
        if of_labels:
            error = f"{figures.error:.2%} ({one.error_low:.2%} to {one.error_high:.2%})"
            base = "-" if metrics is None else f"{metrics.base_error:.2%}"
            cells = [error, base, _or_dash(figures.auc, ".4f")]
        else:
            mae = None if metrics is None else metrics.mae
            cells = [_or_dash(mae, ".5g"), _or_dash(figures.r2, ".4f")]
        table.add_row(printable(one.name), f"{figures.rows:,}", loss, *cells)
    return table


def _or_dash(figure: float | None, style: str) -> str:
    return "-" if figure is None else format(figure, style)


#: Figures that are shown with the one of a model that knows no columns.
BASES = {
    "error": "base_error", "precision": "base_precision", "average_precision": "base_precision",
    "log_loss": "base_log_loss", "brier": "base_brier", "mae": "base_mae", "rmse": "base_rmse",
}  # fmt: skip


OF_NUMBERS = ("mae", "rmse")


def _shown(evaluation: Evaluation) -> dict[str, Any]:
    facts = evaluation_facts(evaluation)
    for name in ("classes", "left_out", "slices"):
        facts.pop(name, None)
    for name, base in BASES.items():
        if name in facts and (of_base := facts.get(base)) is not None:
            digits = ".6g" if name in OF_NUMBERS else ".6f"
            facts[name] = f"{facts[name]:{digits}} (base rate {of_base:{digits}})"
    for base in BASES.values():
        facts.pop(base, None)
    if (top := facts.pop("lift_top", None)) is not None:
        facts["lift"] = f"{facts['lift']:.4f} (in the top {top:.3g} of the rows)"
    if evaluation.auc is not None and evaluation.auc_within is not None:
        facts["auc"] = f"{evaluation.auc:.6f} (exact to {evaluation.auc_within:.1g})"
    return facts
