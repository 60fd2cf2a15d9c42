"""An evaluation as tables, and what --json prints of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.table import Table

from fewpass.flows.display.console import facts_table, titled_table
from fewpass.flows.display.printing import printable
from fewpass.flows.outcomes import evaluation_facts

if TYPE_CHECKING:
    from fewpass.pipeline.explaining.importance import Importance
    from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
    from fewpass.pipeline.scoring.evaluated_slices import Sliced
    from fewpass.pipeline.scoring.evaluation import Evaluation
    from fewpass.pipeline.scoring.reliability import Reliability

MOST_CLASSES = 20  # that are shown one by one; --json has all
#: Figures that are shown with the one of a model that knows no columns.
BASES = {
    "error": "base_error", "precision": "base_precision", "average_precision": "base_precision",
    "log_loss": "base_log_loss", "brier": "base_brier", "mae": "base_mae", "rmse": "base_rmse",
}  # fmt: skip
OF_NUMBERS = ("mae", "rmse")


def all_tables(
    title: str,
    evaluation: Evaluation,
    probabilities: Reliability | None,
    columns: Importance | None,
    page: str | None,
) -> Group:
    """Return the figures of all rows, classes and slices, and what was asked for with them."""
    shown: list[RenderableType] = [facts_table(title, _shown(evaluation))]
    if evaluation.classes:
        shown.append(class_table(evaluation.classes))
    shown += [slice_table(column, of) for column, of in evaluation.slices]
    if probabilities is not None:
        shown.append(reliability_table(probabilities, page))
    if columns is not None:
        shown.append(importance_table(columns))
    return Group(*shown)


def all_facts(
    evaluation: Evaluation,
    probabilities: Reliability | None,
    columns: Importance | None,
    page: str | None,
) -> dict[str, Any]:
    """Return the same as --json prints it."""
    facts = evaluation_facts(evaluation)
    if probabilities is not None:
        facts["reliability"] = reliability_facts(probabilities) | {"page": page}
    if columns is not None:
        facts["importance"] = importance_facts(columns)
    return facts


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


def importance_facts(columns: Importance) -> dict[str, Any]:
    """Return what --json prints of the importance of columns."""
    return columns._asdict() | {"terms": [one._asdict() for one in columns.terms]}


def importance_table(columns: Importance, most: int = MOST_CLASSES) -> Table:
    """Lay out how important columns are, the largest share of the scores' variance first."""
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


def class_table(classes: Sequence[ClassFigures]) -> Table:
    """Lay out what becomes of each class, those that fare worst first."""
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
