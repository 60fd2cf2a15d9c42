"""`fewpass evaluate` and `fewpass predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table

from fewpass.flows.cluster import engine_for_pass
from fewpass.flows.display.bars import work_display
from fewpass.flows.display.console import Terminal, facts_table, format_seconds
from fewpass.flows.errors import UsageError
from fewpass.flows.options import MATCHING, Matching, Output, Reading, Where, given, option_names
from fewpass.flows.settings import checked, execution, source_options
from fewpass.pipeline.executors.executor import Executor
from fewpass.pipeline.matching import left_out_sentence
from fewpass.pipeline.models.refresh.publications import run_at
from fewpass.pipeline.reporting.reliability_report import DrawnReliability, draw, draw_reliability
from fewpass.pipeline.runs.model import Model, load_model, within
from fewpass.pipeline.scoring.evaluate import Evaluation, evaluate
from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
from fewpass.pipeline.scoring.probabilities import caution, probabilities_of
from fewpass.pipeline.scoring.reliability import BINS
from fewpass.pipeline.settings.formats import STANDARD_INPUT_WORDS
from fewpass.pipeline.settings.matching import Matching as Rules
from fewpass.pipeline.sizes import format_bytes, parse_bytes
from fewpass.pipeline.tables.stream.sources import is_source
from fewpass.pipeline.training.reduce import ReduceReport
from fewpass.storage.dataset import Dataset

NO_DIAGRAM = (
    "No diagram is drawn, as matplotlib is not installed. Install it with pip install "
    "'fewpass[plots]'."
)
MOST_CLASSES = 20  # that are shown one by one; --json has all


def run_evaluate(
    run: str,
    dataset: str,
    with_reliability: bool,
    memory: str | None,
    reading: Reading,
    where: Where,
    output: Output,
) -> int:
    """Evaluate a run's model on a data set or on rows of files, and report."""
    terminal = Terminal(output)
    judge = _on_files if is_source(dataset) else _on_data_set
    found = judge(terminal, run, dataset, with_reliability, memory, reading, where)
    evaluation, probabilities = found
    if evaluation.left_out:
        terminal.say(left_out_sentence(evaluation.left_out), style="yellow")
    shown: list[RenderableType] = [facts_table(f"{run} on {dataset}", _shown(evaluation))]
    if evaluation.classes:
        shown.append(class_table(evaluation.classes))
    facts = evaluation_facts(evaluation)
    if probabilities is not None:
        if probabilities.image is None:
            terminal.say(NO_DIAGRAM)
        facts["reliability"] = told_reliability(probabilities)
        shown.append(reliability_table(probabilities))
    terminal.result(facts, Group(*shown))
    return 0


def _on_data_set(
    terminal: Terminal,
    run: str,
    dataset: str,
    with_reliability: bool,
    memory: str | None,
    reading: Reading,
    where: Where,
) -> tuple[Evaluation, DrawnReliability | None]:
    others = set(given(reading)) - set(Rules.model_fields)
    if others:
        flags = ", ".join(option_names()[name] for name in sorted(others))
        raise UsageError(
            f"{flags}: how files are read, but {dataset} is a data set. Leave that out."
        )
    found = None
    matching = Matching(**{n: v for n, v in given(reading).items() if n in Rules.model_fields})
    with _judging(terminal, run, dataset, memory, where, matching) as judging:
        if with_reliability:
            probabilities_of(judging[0])  # refuses a model without any before it is evaluated
        evaluation = _evaluated(terminal, *judging)
        if with_reliability:
            found = draw_reliability(*judging)
    return evaluation, found


def _on_files(
    terminal: Terminal,
    run: str,
    dataset: str,
    with_reliability: bool,
    memory: str | None,
    reading: Reading,
    where: Where,
) -> tuple[Evaluation, DrawnReliability | None]:
    from fewpass.pipeline.scoring.evaluate_rows import (  # noqa: PLC0415 - Arrow, for files
        evaluate_rows,
        require_here,
    )

    require_here(execution(where))
    model = load_model(run_at(run))
    terminal.say(f"Snapshot {model.snapshot} of {run}")
    with work_display(terminal, "Evaluating") as show:
        found = evaluate_rows(
            model,
            [dataset],
            source_options(given(reading)),
            with_reliability=with_reliability,
            memory=parse_bytes(memory) if memory else None,
            on_progress=lambda rows, share: show(share, f"{rows:,} rows"),
        )
    if found.skipped:
        terminal.say(f"{found.skipped:,} rows were left out (--on-bad-row skip).", style="yellow")
    if found.reliability is None:
        return found.evaluation, None
    image = draw(model, found.reliability, Path(dataset).name)
    return found.evaluation, DrawnReliability(found.reliability, image)


def told_reliability(found: DrawnReliability) -> dict[str, Any]:
    """Return what --json prints of probabilities."""
    told = found.figures._asdict() | {"image": found.image}
    return told | {"bins": [one._asdict() for one in found.figures.bins]}


def reliability_table(found: DrawnReliability) -> Table:
    """Lay out whether probabilities come true."""
    figures = found.figures
    shown = {
        "Brier score": figures.brier,
        "log loss": figures.log_loss,
        "calibration error": f"{figures.calibration_error:.6f} (of {BINS} bins)",
        "diagram": found.image,
    }
    return facts_table("Probabilities", shown)


def evaluate_shown(
    terminal: Terminal,
    run: str,
    dataset: str,
    memory: str | None,
    where: Where,
    matching: Matching = MATCHING,
) -> Evaluation:
    """Evaluate, and say which snapshot of an unfinished run that is."""
    with _judging(terminal, run, dataset, memory, where, matching) as judging:
        return _evaluated(terminal, *judging)


Judging = tuple[Model, Dataset, Executor, Rules]


@contextmanager
def _judging(
    terminal: Terminal, run: str, dataset: str, memory: str | None, where: Where, matching: Matching
) -> Iterator[Judging]:
    """Open a model, the rows to judge it by, where to do that, and how to match columns."""
    model = load_model(run_at(run))
    data = Dataset.open(dataset)
    terminal.say(f"Snapshot {model.snapshot} of {run}")
    limited = within(model, parse_bytes(memory) if memory else None)
    with engine_for_pass(execution(where), data) as executor:
        yield limited, data, executor, checked(Rules, given(matching))


def _evaluated(
    terminal: Terminal, model: Model, data: Dataset, executor: Executor, rules: Rules
) -> Evaluation:
    with rows_display(terminal, "Evaluating", data) as count:
        return evaluate(model, data, executor, count, rules)


@contextmanager
def rows_display(
    terminal: Terminal, doing: str, data: Dataset
) -> Iterator[Callable[[ReduceReport], None]]:
    """Show how many of a data set's rows were read; yields what takes the reports of spans."""
    n_rows, rows = data.manifest.n_rows, 0
    with work_display(terminal, doing) as show:

        def count(report: ReduceReport) -> None:
            nonlocal rows
            rows += report.rows
            show(rows / n_rows, f"{rows:,} of {n_rows:,} rows")

        yield count


def evaluation_facts(evaluation: Evaluation) -> dict[str, Any]:
    """Return what --json prints: error and auc for labels, mse and r2 for numbers.

    Of more than two classes, the error and what becomes of each.
    """
    figures = ("error", "auc") if evaluation.mse is None else ("mse", "r2")
    names = ("rows", "objective", "loss", *figures)
    facts = {name: getattr(evaluation, name) for name in names}
    if evaluation.left_out:
        facts["left_out"] = evaluation.left_out
    if evaluation.classes:
        del facts["auc"]
        facts["classes"] = [figures._asdict() for figures in evaluation.classes]
    return facts


def class_table(classes: Sequence[ClassFigures]) -> Table:
    """Lay out what becomes of each class, those that fare worst first."""
    shown = sorted(classes, key=lambda c: 1.0 if c.recall is None else c.recall)[:MOST_CLASSES]
    title = (
        "Classes"
        if len(shown) == len(classes)
        else f"The {len(shown)} of {len(classes)} classes that fare worst"
    )
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    for name in ("label", "rows", "recall", "precision", "mistaken for"):
        table.add_column(name, justify="left" if name == "label" else "right", no_wrap=True)
    for c in shown:
        shares = ("-" if share is None else f"{share:.4f}" for share in (c.recall, c.precision))
        table.add_row(c.label, f"{c.rows:,.0f}", *shares, c.mistaken_for or "-")
    return table


def _shown(evaluation: Evaluation) -> dict[str, Any]:
    facts = evaluation_facts(evaluation)
    facts.pop("classes", None)
    facts.pop("left_out", None)
    if evaluation.auc is not None and evaluation.auc_within is not None:
        facts["auc"] = f"{evaluation.auc:.6f} (exact to {evaluation.auc_within:.1g})"
    return facts


def run_predict(
    run: str,
    source: str,
    out: str,
    overwrite: bool,
    probability: bool,
    defuse: bool,
    memory: str | None,
    threads: int | None,
    reading: Reading,
    output: Output,
) -> int:
    """Predict every row of a source into a file, and report."""
    from fewpass.pipeline.scoring.predict import predict  # noqa: PLC0415 - Arrow, to write files by
    from fewpass.pipeline.scoring.predictions import STANDARD_OUTPUT  # noqa: PLC0415 - the same

    piped = out in STANDARD_INPUT_WORDS
    if piped and output.json:
        raise UsageError(
            "Predictions and the JSON object would both go to standard output. Name a file."
        )
    terminal, model = Terminal(output), load_model(run_at(run))
    if probability and (sentence := caution(model)):
        terminal.say(sentence, style="yellow")
    with work_display(terminal, "Predicting") as show:
        result = predict(
            model,
            [source],
            STANDARD_OUTPUT if piped else out,
            source_options(given(reading)),
            overwrite=overwrite,
            probability=probability,
            defuse=defuse,
            memory=parse_bytes(memory) if memory else None,
            threads=threads,
            on_progress=lambda now: show(now.fraction, f"{now.rows:,} rows"),
        )
    if result.left_out:
        terminal.say(left_out_sentence(result.left_out), style="yellow")
    shown = {
        "at": result.output,
        "rows": result.rows,
        "columns": ", ".join(result.columns),
        "left out": f"{result.beyond:,} values beyond the model's features"
        if result.beyond
        else None,
        "took": f"{format_seconds(result.seconds)}, at most "
        f"{format_bytes(result.peak_memory_bytes)} of memory",
    }
    facts = result._asdict()
    facts = {k: v for k, v in facts.items() if v or k not in ("left_out", "beyond")}
    if piped:
        terminal.show(facts_table("Predictions", shown))
    else:
        terminal.result(facts, facts_table("Predictions", shown))
    return 0
