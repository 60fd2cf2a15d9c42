"""Pictures of the functions of an additive model, as PNG bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fewpass.pipeline.explaining.function_figures import ShapeImportance, places_of
from fewpass.pipeline.reporting.pictures import as_png
from fewpass.pipeline.reporting.shown_shapes import (
    FEW_ROWS,
    Level,
    shown_levels,
    shown_map,
    stretches,
    within_sample,
)
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    LevelSteps,
    Surface,
    title_of,
)
from fewpass.pipeline.tables.encoding.variables import MISSING, RARE

MOST_BARS, MOST_LEVELS, MOST_CELLS = 20, 30, 64
FACE, THIN, EDGE = "#3182bd", "#9ecae1", "#08519c"


def importance_bars(rows: Sequence[ShapeImportance]) -> bytes:
    """Draw how much the most important functions move scores."""
    shown = rows[:MOST_BARS][::-1]
    figure = Figure(figsize=(8.0, 0.6 + 0.28 * max(4, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    colours = [THIN if one.kind == "pair" else FACE for one in shown]
    axes.barh([one.name for one in shown], [one.importance for one in shown], color=colours)
    axes.set(xlabel="standard deviation of what it adds to the score (pairs are light)")
    axes.grid(alpha=0.3, axis="x")
    return as_png(figure)


def shape(function: Function, unit: str) -> bytes:
    """Draw a function: a line over the rows' density, bars of levels, or a map of a pair."""
    if isinstance(function, Surface):
        return surface_map(function, unit)
    return curve(function, unit) if isinstance(function, ColumnCurve) else bars_of(function, unit)


def curve(function: ColumnCurve, unit: str) -> bytes:
    """Draw a function of a number, the rows of the sample below, missing ones as a point.

    It is dashed where the sample has no rows.
    """
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    parts = stretches(function)
    axes, below = figure.subplots(2, sharex=True, height_ratios=(5, 1 if parts else 1e-3))
    grid, values, inner = _places(function), function.values[:-1], within_sample(function)
    axes.plot(grid[inner], values[inner], color=EDGE)
    for outer in (slice(0, inner.start + 1), slice(inner.stop - 1, None)):
        axes.plot(grid[outer], values[outer], "--", color=EDGE)
    if function.masses[-1] > 0.0:
        behind = grid[-1] + (grid[-1] - grid[0]) / 20
        label = f"missing ({function.masses[-1]:,.0f} rows)"
        axes.plot([behind], [function.values[-1]], "o", color="#e6550d", label=label)
        axes.legend()
    axes.axhline(0.0, color="k", linewidth=0.5)
    if parts:
        edges = [*(part.start for part in parts), parts[-1].end]
        below.stairs([part.density for part in parts], edges, fill=True, color=THIN)
    below.set(xlabel=title_of(function), yticks=[], ylabel="rows" if parts else "")
    axes.set(ylabel=unit)
    axes.grid(alpha=0.3)
    return as_png(figure)


def _places(function: ColumnCurve) -> Any:
    """Return the points of a curve, those of days as dates."""
    if function.origin is None:
        return function.grid
    return places_of(function).astype("datetime64[s]")


def bars_of(function: LevelSteps, unit: str) -> bytes:
    """Draw a function of a category: its most frequent levels, rare and missing ones last."""
    shown = shown_levels(function, MOST_LEVELS)[::-1]
    figure = Figure(figsize=(8.0, 1.0 + 0.24 * max(4, len(shown))), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{one.name} ({one.rows:,.0f})" for one in shown]
    axes.barh(names, [one.adds for one in shown], color=[_colour(one) for one in shown])
    axes.axvline(0.0, color="k", linewidth=0.5)
    axes.set(xlabel=f"{unit}; rows of the sample behind the names", title=title_of(function))
    axes.grid(alpha=0.3, axis="x")
    return as_png(figure)


def _colour(level: Level) -> str:
    return THIN if level.name in (RARE, MISSING) else FACE


def surface_map(function: Surface, unit: str) -> bytes:
    """Draw what a pair adds to its columns alone, cells of few rows hatched."""
    shown = shown_map(function, MOST_CELLS)
    values, rows, columns = shown.values, shown.down, shown.across
    most = max(float(np.abs(np.where(shown.masses > 0.0, values, 0.0)).max(initial=0.0)), 1e-300)
    size = (3.0 + 0.35 * len(columns), 2.0 + 0.28 * len(rows))
    figure = Figure(figsize=np.clip(size, 4.0, 24.0).tolist(), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", origin="lower")
    for i, j in zip(*np.nonzero(shown.masses < FEW_ROWS), strict=True):
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="///", linewidth=0))
    axes.set_xticks(range(len(columns)), columns, rotation=90)
    axes.set_yticks(range(len(rows)), rows)
    title = f"{function.title}\nhatched: under {FEW_ROWS:.0f} rows of the sample"
    axes.set(xlabel=shown.titles[1], ylabel=shown.titles[0])
    axes.set_title(title, fontsize="medium")
    figure.colorbar(image, label=unit)
    return as_png(figure)
