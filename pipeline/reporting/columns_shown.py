"""The columns of a table on the page: how important each is, and what it contributes by value."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from fewpass.pipeline.drawing.charts import Curve, Kind, chart
from fewpass.pipeline.drawing.pieces import Bar, bars, card, section
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.explaining.importance import Importance, TermImportance
from fewpass.pipeline.explaining.term_shapes import TermShape, term_shapes
from fewpass.pipeline.paired_mean import NORMAL_975
from fewpass.pipeline.reporting.model_shapes import is_additive
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import classes_of

MOST_TERMS = 20  # whose importance is listed
MOST_SHAPES = 12  # columns that are drawn
MOST_BARS = 24
MOST_SCORES = 4  # of several classes, that are drawn in a picture


def columns_section(model: Model, importance: Importance | None) -> Markup:
    """Draw the importance of columns, and the shapes of those of a table that was encoded.

    Those of an additive model, with its pairs, are a section of their own (shape_cards.py).
    """
    shares = _shares(importance) if importance else Markup()
    return section("Columns", shares, *([] if is_additive(model) else _shapes(model, importance)))


def _shares(importance: Importance) -> Markup:
    shown = importance.terms[:MOST_TERMS]
    drawn = bars([Bar(one.name, one.share, _text(one)) for one in shown])
    more = len(importance.terms) - len(shown)
    rest = f" {more:,} more are not shown." if more else ""
    note = (
        "Share of the variance of scores on held-out rows; all shares add up to 1. Behind it how "
        "much the loss grows where the column's values are exchanged among rows, of "
        f"{importance.loss:.5g} with it.{rest}"
    )
    return card("Importance", drawn, note, wide=True)


def _text(one: TermImportance) -> str:
    return f"{one.share:.1%}, loss {one.loss_without:+.3g} +- {NORMAL_975 * one.standard_error:.1g}"


def _shapes(model: Model, importance: Importance | None) -> list[Markup]:
    """Draw the most important columns, or the first ones."""
    try:
        shapes = term_shapes(model)
    except BadInput:  # what features are on average is not known any more
        return []
    ranked = [one.name for one in importance.terms] if importance else [*shapes]
    drawn = [name for name in ranked if name in shapes][:MOST_SHAPES]
    return [_shape(model, shape) for name in drawn for shape in shapes[name]]


def _shape(model: Model, shape: TermShape) -> Markup:
    if shape.kind == "bars":
        return card(shape.title, _bars(shape), "Compared with the mean row." + _of_class(model))
    several = len(shape.contributions) > 1
    names = classes_of(model) if several else ("model",)
    places = [float(at) for at in shape.points]
    lines = [
        Curve(name if several else "", [*zip(places, c.tolist(), strict=True)], k + 1)
        for k, (name, c) in enumerate(zip(names, shape.contributions[:MOST_SCORES], strict=False))
    ]
    kind: Kind = "date" if shape.kind == "date" else "linear"
    missing = ""
    if shape.missing is not None:
        missing = f"A missing value: {shape.missing[0]:+.4g}.{_of_class(model)}"
    return card(shape.title, chart(lines, shape.title, "contribution", x=kind), missing)


def _of_class(model: Model) -> str:
    classes = classes_of(model)
    return f" Of the class {classes[0]}." if classes else ""


def _bars(shape: TermShape) -> Markup:
    first = shape.contributions[0]
    order: Sequence[int] = range(len(first))
    if len(first) > MOST_BARS:
        order = np.sort(np.argsort(-np.abs(first), kind="stable")[:MOST_BARS]).tolist()
    return bars([Bar(str(shape.points[k]), float(first[k]), f"{first[k]:+.4g}") for k in order])
