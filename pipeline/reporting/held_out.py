"""Held-out rows, drawn: ROC, precision and recall, calibration, confusion of classes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from fewpass.pipeline.drawing.charts import XY, Curve, Whisker, chart
from fewpass.pipeline.drawing.pieces import (
    card,
    document,
    facts,
    header,
    heat,
    last_part,
    paragraph,
    rows_of,
    section,
)
from fewpass.pipeline.reporting.figure_rows import class_rows, shown_figures, worst_classes
from fewpass.pipeline.reporting.quality import CELLS, Cells, Curves, Quality, Vector
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.evaluate_classes import ClassFigures
from fewpass.pipeline.scoring.evaluation import Evaluation
from fewpass.pipeline.scoring.reliability import Reliability

NARROW_CLASSES = 12  # whose table takes half a row
FEW_CLASSES = 5  # whose table stands below the figures
MOST_CLASSES = 20  # of which a table of all against all can be read
UNIT = (0.0, 1.0)
RELIABILITY = "report/reliability.html"


def held_out(quality: Quality) -> Markup:
    """Draw all figures of held-out rows."""
    curves, labels, classes = quality.curves, quality.labels, quality.figures.classes
    several = classes is not None
    return section(
        "On held-out rows",
        card("Figures", _figures(quality)),
        _roc(curves, quality.figures) if curves else None,
        _precision(quality) if curves else None,
        _reliability(quality.reliability, several=several) if quality.reliability else None,
        _confusion(labels, quality.confusion) if len(labels) > FEW_CLASSES else None,
        _classes(classes) if classes else None,
        _cells(quality.cells) if quality.cells else None,
    )


def _classes(classes: Sequence[ClassFigures]) -> Markup:
    rows = rows_of(class_rows(classes, MOST_CLASSES), text_columns=2)
    return card(worst_classes(classes, MOST_CLASSES), rows)


def _figures(quality: Quality) -> Markup:
    of_few = 0 < len(quality.labels) <= FEW_CLASSES
    confusion = _confusion(quality.labels, quality.confusion) if of_few else Markup()
    shown = {"data set": last_part(quality.dataset)} | shown_figures(quality.figures)
    return facts(shown) + confusion


def _roc(curves: Curves, figures: Evaluation) -> Markup:
    of = curves.false_positive_rate, curves.recall
    drawn = _next_to_chance(*of, "false positive rate", "true positive rate", UNIT)
    return card("ROC curve", drawn, f"Area {figures.auc:.4f}.")


def _next_to_chance(x: Vector, y: Vector, across: str, up: str, chance: XY) -> Markup:
    """Draw a curve of shares, and where a model without columns would lie from 0 to 1."""
    lines = [
        Curve("model", [*zip(x.tolist(), y.tolist(), strict=True)], 1),
        Curve("by chance", [*zip(UNIT, chance, strict=True)], 2, "dashed"),
    ]
    return chart(lines, across, up, x_range=UNIT, y_range=UNIT)


def _precision(quality: Quality) -> Markup:
    curves, confusion = quality.curves, quality.confusion
    assert curves is not None
    assert confusion is not None
    share = float(confusion[1].sum() / confusion.sum())
    of = curves.recall[1:], curves.precision[1:]
    drawn = _next_to_chance(*of, "recall", "precision", (share, share))
    note = (
        f"Of the label {quality.labels[1]}, {share:.2%} of all rows. "
        f"Average precision {quality.figures.metrics.average_precision:.4f}."
    )
    return card("Precision and recall", drawn, note)


def write_reliability(model: Model, diagram: Reliability, scored_on: str) -> str:
    """Draw whether probabilities come true, on a page in the run's folder; return its address."""
    folder, several = model.run.folder, model.weights.coef.ndim == 2
    title = f"{folder.name} on {scored_on}"
    drawn = section("Probabilities", _reliability(diagram, several=several))
    folder.write(RELIABILITY, document(title, [header(title), drawn]).encode())
    return str(folder.address(RELIABILITY))


def _reliability(diagram: Reliability, *, several: bool) -> Markup:
    points = [(one.predicted, one.observed) for one in diagram.bins]
    lines = [
        Curve("predicted = observed", [(0.0, 0.0), (1.0, 1.0)], 2, "dashed"),
        Curve("observed, with 95 % intervals", points, 1, "marks"),
    ]
    strokes = [Whisker(one.predicted, one.low, one.high) for one in diagram.bins]
    whose = "of the most probable class" if several else "of the second label"
    drawn = chart(
        lines, f"predicted probability {whose}", "observed frequency", whiskers=strokes,
        x_range=UNIT, y_range=UNIT,
    )  # fmt: skip
    note = (
        f"Brier score {diagram.brier:.4f}, log loss {diagram.log_loss:.4f}, calibration error "
        f"{diagram.calibration_error:.4f}."
    )
    return card("Calibration", drawn, note)


def _confusion(labels: tuple[str, ...], counts: NDArray[np.float64] | None) -> Markup:
    if counts is None or len(labels) > MOST_CLASSES:
        return Markup()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)
    texts = [[f"{cell:,.0f}" for cell in row] for row in counts.tolist()]
    drawn = heat(labels, labels, shares.tolist(), texts, corner="actual / predicted")
    note = "A row per actual label, a column per predicted one; colour: the share of the row."
    if len(labels) > FEW_CLASSES:
        return card("Confusion", drawn, note, wide=len(labels) > NARROW_CLASSES)
    return Markup('<h3 class="next">Confusion</h3>') + drawn + paragraph(note, "quiet")


def _cells(cells: Cells) -> Markup:
    """Draw per range of the actual number the mean prediction, and where half of them lie."""
    width = (cells.high - cells.low) / CELLS
    middles = cells.low + width * (np.arange(CELLS) + 0.5)
    points, strokes = [], []
    for middle, row in zip(middles.tolist(), cells.counts, strict=True):
        if row.any():
            points.append((middle, float(row @ middles / row.sum())))
            below = np.cumsum(row) / row.sum()
            low, high = (float(middles[int(np.searchsorted(below, q))]) for q in (0.25, 0.75))
            strokes.append(Whisker(middle, low, high))
    ends = (cells.low, cells.high)
    lines = [
        Curve("equal", [(x, x) for x in ends], 2, "dashed"),
        Curve("mean prediction, and where half of them lie", points, 1, "marks"),
    ]
    drawn = chart(lines, "actual", "predicted", whiskers=strokes, x_range=ends, y_range=ends)
    return card("Predicted / actual", drawn)
