"""Held-out rows, drawn: ROC, precision and recall, calibration, confusion of classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.reporting.page.charts import Line, Whisker, chart
from fewpass.pipeline.reporting.page.pieces import card, facts, heat, last_part, section, table
from fewpass.pipeline.reporting.page.quality import CELLS, Cells, Curves, Quality
from fewpass.pipeline.scoring.evaluate import Evaluation
from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
from fewpass.pipeline.scoring.reliability import Reliability

NARROW_CLASSES = 12  # whose table takes half a row
FEW_CLASSES = 5  # whose table stands below the figures
MOST_CLASSES = 20  # of which a table of all against all can be read
UNIT = (0.0, 1.0)


def held_out(found: Quality) -> str:
    """Draw all figures of held-out rows."""
    figures = found.figures
    return section(
        "On held-out rows",
        card("Figures", _figures(found)),
        _roc(found.curves, figures) if found.curves else "",
        _precision(found) if found.curves else "",
        _reliability(found.reliability, several=figures.classes is not None)
        if found.reliability
        else "",
        _confusion(found.labels, found.confusion) if len(found.labels) > FEW_CLASSES else "",
        _classes(figures.classes) if figures.classes else "",
        _cells(found.cells) if found.cells else "",
    )


def shown_figures(found: Evaluation) -> dict[str, str | None]:
    """Write the figures of an evaluation; those without a meaning are None."""
    within = f" (exact to {found.auc_within:.1g})" if found.auc_within is not None else ""
    return {
        "rows": f"{found.rows:,}",
        "mean loss": f"{found.loss:.6g}",
        "objective": f"{found.objective:.6g}",
        "error": None if found.error is None else f"{found.error:.3%}",
        "area under the ROC curve": None if found.auc is None else f"{found.auc:.5f}{within}",
        "mean squared error": None if found.mse is None else f"{found.mse:.6g}",
        "R squared": None if found.r2 is None else f"{found.r2:.5f}",
    }


def _figures(found: Quality) -> str:
    of_few = 0 < len(found.labels) <= FEW_CLASSES
    confusion = _confusion(found.labels, found.confusion) if of_few else ""
    shown = {"data set": last_part(found.dataset)} | shown_figures(found.figures)
    if (base := base_rate(found)) is not None:
        shown["error"] = f"{shown['error']} (base rate {base:.3%})"
    return facts(shown) + confusion


def base_rate(found: Quality) -> float | None:
    """Return the error of giving all rows the label that most of them have."""
    if found.confusion is None:
        return None
    rows = found.confusion.sum(axis=1)
    return float(1.0 - rows.max() / rows.sum())


def _roc(found: Curves, figures: Evaluation) -> str:
    points = list(zip(found.false_positive_rate.tolist(), found.recall.tolist(), strict=True))
    lines = [Line("model", points, 1), Line("by chance", [(0.0, 0.0), (1.0, 1.0)], 2, "dashed")]
    drawn = chart(
        lines, "false positive rate", "true positive rate", x_range=UNIT, y_range=UNIT
    )  # fmt: skip
    return card("ROC curve", drawn, f"Area {figures.auc:.4f}.")


def _precision(found: Quality) -> str:
    curves, confusion = found.curves, found.confusion
    assert curves is not None
    assert confusion is not None
    share = float(confusion[1].sum() / confusion.sum())
    points = list(zip(curves.recall[1:].tolist(), curves.precision[1:].tolist(), strict=True))
    lines = [Line("model", points, 1), Line("by chance", [(0.0, share), (1.0, share)], 2, "dashed")]
    drawn = chart(lines, "recall", "precision", x_range=UNIT, y_range=UNIT)
    note = (
        f"Of the label {found.labels[1]}, {share:.2%} of all rows. "
        f"Average precision {curves.average_precision:.4f}."
    )
    return card("Precision and recall", drawn, note)


def _reliability(found: Reliability, *, several: bool) -> str:
    points = [(one.predicted, one.observed) for one in found.bins]
    lines = [
        Line("predicted = observed", [(0.0, 0.0), (1.0, 1.0)], 2, "dashed"),
        Line("observed, with 95 % intervals", points, 1, "marks"),
    ]
    strokes = [Whisker(one.predicted, one.low, one.high) for one in found.bins]
    whose = "of the most probable class" if several else "of the second label"
    drawn = chart(
        lines, f"predicted probability {whose}", "observed frequency", whiskers=strokes,
        x_range=UNIT, y_range=UNIT,
    )  # fmt: skip
    note = (
        f"Brier score {found.brier:.4f}, log loss {found.log_loss:.4f}, calibration error "
        f"{found.calibration_error:.4f}."
    )
    return card("Calibration", drawn, note)


def _confusion(labels: tuple[str, ...], found: NDArray[np.float64] | None) -> str:
    if found is None or len(labels) > MOST_CLASSES:
        return ""
    shares = found / np.maximum(found.sum(axis=1, keepdims=True), 1e-300)
    texts = [[f"{cell:,.0f}" for cell in row] for row in found.tolist()]
    drawn = heat(labels, shares.tolist(), texts, "actual / predicted")
    note = "A row per actual label, a column per predicted one; colour: the share of the row."
    if len(labels) > FEW_CLASSES:
        return card("Confusion", drawn, note, wide=len(labels) > NARROW_CLASSES)
    return f'<h3 class="next">Confusion</h3>{drawn}<p class="quiet">{note}</p>'


def _classes(classes: tuple[ClassFigures, ...]) -> str:
    worst = sorted(classes, key=lambda one: 1.0 if one.recall is None else one.recall)
    rows = [
        (one.label, one.mistaken_for or "-", f"{one.rows:,.0f}", _share(one.recall),
         _share(one.precision))
        for one in worst[:MOST_CLASSES]
    ]  # fmt: skip
    head = ("label", "mistaken for", "rows", "recall", "precision")
    title = "Classes" if len(classes) <= MOST_CLASSES else f"The {MOST_CLASSES} worst classes"
    return card(title, table(head, rows, text_columns=2))


def _share(share: float | None) -> str:
    return "-" if share is None else f"{share:.4f}"


def _cells(found: Cells) -> str:
    """Draw per range of the actual number the mean prediction, and where half of them lie."""
    width = (found.high - found.low) / CELLS
    middles = found.low + width * (np.arange(CELLS) + 0.5)
    points, strokes = [], []
    for middle, row in zip(middles.tolist(), found.counts, strict=True):
        if row.any():
            points.append((middle, float(row @ middles / row.sum())))
            below = np.cumsum(row) / row.sum()
            low, high = (float(middles[int(np.searchsorted(below, q))]) for q in (0.25, 0.75))
            strokes.append(Whisker(middle, low, high))
    ends = (found.low, found.high)
    lines = [
        Line("equal", [(x, x) for x in ends], 2, "dashed"),
        Line("mean prediction, and where half of them lie", points, 1, "marks"),
    ]
    drawn = chart(lines, "actual", "predicted", whiskers=strokes, x_range=ends, y_range=ends)
    return card("Predicted / actual", drawn)
