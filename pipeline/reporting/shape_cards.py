"""The shapes of an additive model, as cards of the report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup

from fewpass.pipeline.drawing.charts import Curve, Kind, chart
from fewpass.pipeline.drawing.pieces import (
    Bar,
    bars,
    card,
    cards,
    document,
    fold,
    header,
    heat,
    section,
    table,
)
from fewpass.pipeline.explaining.plain_shapes import (
    ShapeImportance,
    importances,
    places_of,
)
from fewpass.pipeline.reporting.model_shapes import (
    ClassShapes,
    form_in_words,
    is_additive,
    model_shapes,
)
from fewpass.pipeline.reporting.shown_shapes import (
    FEW_ROWS,
    cell_words,
    left_out,
    shown_levels,
    shown_map,
    stretches,
    within_sample,
)
from fewpass.pipeline.runs.model import Model
from fewpass.pipeline.scoring.predictor import classes_of
from fewpass.pipeline.tables.encoding.additive_recipe import ChosenForm
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    LevelSteps,
    Shapes,
    Surface,
    title_of,
)
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.manifest import Labels

MOST_BARS, MOST_SHAPES, MOST_LEVELS, MOST_CELLS = 20, 10, 30, 14
#: Of several classes: those that are shown besides the most frequent one, and shapes of each.
MOST_OTHERS, SHAPES_OF_OTHERS = 8, 6
#: Characters of a line of a map that fit into half the page.
NARROW = 66
FUNCTIONS = "report/functions.html"


def write_functions(model: Model, each: Sequence[ClassShapes], names: Sequence[str]) -> str:
    """Draw functions and importances on a page in the run's folder; return its address."""
    rows = importances([one.shapes for one in each])[:MOST_BARS]
    title = f"{model.run.folder.name}: what moves scores"
    drawn = [section("Importance", _importances(rows, len(each) if len(each) > 1 else 0))]
    for one in each:
        by_name = {title_of(function): function for function in one.shapes.functions}
        whose = "Functions" if one.label is None else f"Functions of {one.label}"
        drawn.append(section(whose, *(_card(by_name[name]) for name in names)))
    model.run.folder.write(FUNCTIONS, document(title, [header(title), *drawn]).encode())
    return str(model.run.folder.address(FUNCTIONS))


def shape_cards(model: Model) -> Markup:
    """Return the importances and the most important shapes; nothing of a model without any.

    Of a model of several classes the most frequent one's, and the others' folded away.
    """
    if not is_additive(model):
        return Markup()
    classes = by_frequency(model)
    each = [model_shapes(model, label) for label in classes] or [model_shapes(model)]
    rows = importances(each)[:MOST_BARS]
    first = [_importances(rows, len(classes)), _form(model)]
    if not classes:
        return section("Shapes", *first, *_cards(each[0], MOST_SHAPES))
    folded = [
        fold(f"Shapes of {label}", cards(_cards(one, SHAPES_OF_OTHERS)))
        for label, one in zip(classes[1 : 1 + MOST_OTHERS], each[1:], strict=False)
    ]
    return (
        section("Shapes", *first)
        + section(f"Shapes of {classes[0]}", *_cards(each[0], MOST_SHAPES))
        + Markup().join(folded)
    )


def by_frequency(model: Model) -> list[str]:
    """Return the classes of a model of several scores, the most frequent first."""
    classes, targets = classes_of(model), model.record.targets
    if not isinstance(targets, Labels) or len(targets.counts) != len(classes):
        return [*classes]
    order = sorted(range(len(classes)), key=lambda k: -targets.counts[k])
    return [classes[k] for k in order]


def _cards(shapes: Shapes, most: int) -> list[Markup]:
    """Return the most important functions, each as a card."""
    by_name = {title_of(function): function for function in shapes.functions}
    return [_card(by_name[row.name]) for row in importances([shapes])[:most]]


def _importances(rows: list[ShapeImportance], n_classes: int) -> Markup:
    drawn = bars([Bar(row.name, row.importance, f"{row.importance:.4g}") for row in rows])
    of = f", over all {n_classes} classes" if n_classes else ""
    note = (
        "The standard deviation of what each column, and each pair beyond its columns, adds to the "
        f"score of the sample's rows{of}."
    )
    return card("Importance", drawn, note)


def _form(model: Model) -> Markup:
    """Say how the form was chosen."""
    recipe = recipe_in(model.record.columns)
    own = recipe.additive if recipe else None
    if own is None or own.chosen is None:
        return Markup()
    return card(f"Form: {own.chosen.form}", _losses(own.chosen), form_in_words(own))


def _losses(chosen: ChosenForm) -> Markup:
    """Lay out the held-out loss of every form, and how much lower than the first one's it is."""
    first = chosen.candidates[0].loss
    rows = [
        (one.form, f"{one.loss:.4g}", f"{one.loss / first - 1.0:+.1%}" if first else "-")
        for one in chosen.candidates
    ]
    head = ("form", "held-out loss", f"against {chosen.candidates[0].form}")
    return table(head, rows)


def _card(function: Function) -> Markup:
    title = title_of(function)
    if isinstance(function, Surface):
        return _map_card(title, function)
    if isinstance(function, ColumnCurve):
        return card(title, curve(function), _missing(function))
    left = left_out(function, MOST_LEVELS)
    note = (
        f"Rows of the sample behind the names.{f' {left:,} rarer ones are not shown.' * (left > 0)}"
    )
    return card(title, _levels(function), note)


def curve(function: ColumnCurve) -> Markup:
    """Draw a curve over the rows of the sample, dashed where there are none, and missing cells."""
    values = function.values[:-1].tolist()
    points = [*zip(places_of(function).tolist(), values, strict=True)]
    inner = within_sample(function)
    lines = [Curve("adds", points[inner])]
    outer = (points[: inner.start + 1], points[inner.stop - 1 :])
    lines += [Curve("beyond the sample", part, 1, "dashed") for part in outer if len(part) > 1]
    low, high = min(values), max(values)
    if function.masses[-1] > 0.0:
        missing = float(function.values[-1])
        end = points[-1][0] + 0.04 * (points[-1][0] - points[0][0] or 1.0)
        lines.append(Curve("missing", [(end, missing)], 2, "marks"))
        low, high = min(low, missing), max(high, missing)
    lines += _rows(function, low - 0.3 * (high - low or 1.0), 0.22 * (high - low or 1.0))
    kind: Kind = "linear" if function.origin is None else "date"
    return chart(_named_once(lines), title_of(function), "added to the score", x=kind)


def _rows(function: ColumnCurve, foot: float, height: float) -> list[Curve]:
    """Return the outline of the rows of the sample, at the foot of a chart."""
    parts = stretches(function)
    if not parts:
        return []
    corners = [
        (at, foot + height * part.density) for part in parts for at in (part.start, part.end)
    ]
    outline = [(parts[0].start, foot), *corners, (parts[-1].end, foot)]
    return [Curve("rows of the sample", outline, 3, "area")]


def _named_once(lines: Sequence[Curve]) -> list[Curve]:
    """Name every kind of line once."""
    names = [line.name for line in lines]
    return [
        line._replace(name="") if line.name in names[:k] else line for k, line in enumerate(lines)
    ]


def _missing(function: ColumnCurve) -> str:
    rows = function.masses[-1]
    return f"Missing ({rows:,.0f} rows of the sample): {function.values[-1]:+.4g}." if rows else ""


def _levels(function: LevelSteps) -> Markup:
    return bars([
        Bar(f"{one.name} ({one.rows:,.0f})", one.adds, f"{one.adds:+.4g}")
        for one in shown_levels(function, MOST_LEVELS)
    ])  # fmt: skip


def _map_card(title: str, surface: Surface) -> Markup:
    shown = shown_map(surface, MOST_CELLS)
    down, across = shown.titles
    words = cell_words(shown.values)
    most = float(np.abs(shown.values).max(initial=0.0)) or 1.0
    shares = (shown.values / most).tolist()
    drawn = heat(shown.down, shown.across, shares, words, thin=shown.thin)
    names = max(map(len, shown.down), default=0)
    line = sum(2 + max(map(len, column)) for column in zip(shown.across, *words, strict=True))
    note = (
        f"{down} down, {across} across: what both add beyond what each adds alone. "
        f"Hatched: under {FEW_ROWS:.0f} rows of the sample."
    )
    return card(title, drawn, note, wide=names + line > NARROW)
