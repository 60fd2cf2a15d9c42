"""An evaluation as tables, and what --json prints of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table

from fewpass.flows.display.console import facts_table, rows_table
from fewpass.flows.outcomes import evaluation_facts
from fewpass.pipeline.reporting.figure_rows import (
    class_rows,
    importance_rows,
    note_of,
    slice_rows,
    worst_classes,
)
from fewpass.pipeline.settings.metric_registry import METRICS

if TYPE_CHECKING:
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.scoring.reliability import Reliability

MOST_CLASSES = 20  # that are shown one by one; --json has all


def all_tables(
    title: str,
    evaluation: Evaluation,
    columns: Importance | None,
    page: str | None,
) -> Group:
    """Return the figures of all rows, classes and slices, and what was asked for with them."""
    shown: list[RenderableType] = [facts_table(title, _shown(evaluation))]
    if evaluation.classes:
        title = worst_classes(evaluation.classes, MOST_CLASSES)
        rows = class_rows(evaluation.classes, MOST_CLASSES)
        shown.append(rows_table(title, rows, text=("mistaken for",)))
    shown += [
        rows_table(f"By {column}, with 95 % intervals", slice_rows(of))
        for column, of in evaluation.slices
    ]
    if evaluation.reliability is not None and page is not None:
        shown.append(reliability_table(evaluation.reliability, page))
    if columns is not None:
        shown.append(importance_table(columns))
    return Group(*shown)


def all_facts(
    evaluation: Evaluation,
    columns: Importance | None,
    page: str | None,
) -> dict[str, Any]:
    """Return the same as --json prints it."""
    facts = evaluation_facts(evaluation)
    if evaluation.reliability is not None and page is not None:
        facts["reliability"] = reliability_facts(evaluation.reliability) | {"page": page}
    if columns is not None:
        facts["importance"] = importance_facts(columns)
    return facts


def _shown(evaluation: Evaluation) -> dict[str, Any]:
    facts = evaluation_facts(evaluation)
    for name in ("classes", "left_out", "skipped", "notes", "slices"):
        facts.pop(name, None)
    for name, metric in METRICS.items():
        form = ".4f" if name == "lift" else ".6g" if metric.of == "numbers" else ".6f"
        if name in facts and (note := note_of(evaluation, name, form)):
            facts[name] = f"{facts[name]:{form}}{note}"
    in_notes = ("lift_top", *(metric.base for metric in METRICS.values()))
    return {name: fact for name, fact in facts.items() if name not in in_notes}


def importance_facts(columns: Importance) -> dict[str, Any]:
    """Return what --json prints of the importance of columns."""
    return columns._asdict() | {"terms": [one._asdict() for one in columns.terms]}


def importance_table(columns: Importance, most: int = MOST_CLASSES) -> Table:
    """Lay out how important columns are, the largest share of the scores' variance first."""
    several = len(columns.terms)
    more = f", the first of {several:,}" if several > most else ""
    title = f"Columns{more} (scores vary by {columns.deviation:.4g}; loss {columns.loss:.6g})"
    return rows_table(title, importance_rows(columns, most))


def reliability_facts(figures: Reliability) -> dict[str, Any]:
    """Return what --json prints of probabilities."""
    return figures._asdict() | {"bins": [one._asdict() for one in figures.bins]}


def reliability_table(figures: Reliability, page: str | None) -> Table:
    """Lay out whether probabilities come true."""
    from fewpass.pipeline.scoring.reliability import BINS  # noqa: PLC0415 - what few ask for

    shown = {
        "Brier score": figures.brier,
        "log loss": figures.log_loss,
        "calibration error": f"{figures.calibration_error:.6f} (of {BINS} bins)",
        "diagram": page,
    }
    return facts_table("Probabilities", shown)
