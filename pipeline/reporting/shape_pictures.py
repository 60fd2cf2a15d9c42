"""Pictures of the functions of an additive model, as PNG bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from fewpass.pipeline.reporting.model_shapes import ShapeImportance, axis_values, density_of
from fewpass.pipeline.reporting.pictures import as_png
from fewpass.pipeline.tables.encoding.additive_shapes import (
    ColumnCurve,
    Function,
    LevelSteps,
    Surface,
    title_of,
)

MOST_BARS, MOST_LEVELS = 20, 30
FEW_ROWS = 10.0  # of a cell, below which it is hatched
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
    """Draw a function of a number, the rows of the sample below, missing ones as a point."""
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes, below = figure.subplots(2, sharex=True, height_ratios=(5, 1))
    grid, values = function.grid, function.values[:-1]
    axes.plot(grid, values, color=EDGE)
    if function.masses[-1] > 0.0:
        behind = grid[-1] + 0.05 * (grid[-1] - grid[0] or 1.0)
        axes.plot([behind], [function.values[-1]], "o", color="#e6550d", label="missing")
        axes.legend()
    axes.axhline(0.0, color="k", linewidth=0.5)
    below.fill_between(*density_of(function), color=THIN, step="mid")
    below.set(xlabel=title_of(function), yticks=[], ylabel="rows")
    axes.set(ylabel=unit)
    axes.grid(alpha=0.3)
    return as_png(figure)


def bars_of(function: LevelSteps, unit: str) -> bytes:
    """Draw a function of a category, its most frequent levels."""
    order = np.argsort(-function.masses, kind="stable")[:MOST_LEVELS]
    order = order[function.masses[order] > 0.0][::-1]
    figure = Figure(figsize=(8.0, 1.0 + 0.24 * max(4, len(order))), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{function.names[k]} ({function.masses[k]:,.0f})" for k in order.tolist()]
    axes.barh(names, function.values[order], color=FACE)
    axes.axvline(0.0, color="k", linewidth=0.5)
    axes.set(xlabel=f"{unit}; rows of the sample behind the names", title=title_of(function))
    axes.grid(alpha=0.3, axis="x")
    return as_png(figure)


def surface_map(function: Surface, unit: str) -> bytes:
    """Draw what a pair adds to its columns alone, cells of few rows hatched."""
    one, other = function.table.of
    a, b = axis_values(function.table.a), axis_values(function.table.b)
    masses = function.masses[: len(a), : len(b)]
    down, across = np.flatnonzero(masses.sum(axis=1)), np.flatnonzero(masses.sum(axis=0))
    rows, columns = [a[k] for k in down.tolist()], [b[k] for k in across.tolist()]
    values, masses = function.values[np.ix_(down, across)], masses[np.ix_(down, across)]
    most = max(float(np.abs(np.where(masses > 0.0, values, 0.0)).max(initial=0.0)), 1e-300)
    size = (3.0 + 0.35 * len(columns), 2.0 + 0.28 * len(rows))
    figure = Figure(figsize=np.clip(size, 4.0, 24.0).tolist(), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(values, cmap="RdBu_r", vmin=-most, vmax=most, aspect="auto", origin="lower")
    for i, j in zip(*np.nonzero(masses < FEW_ROWS), strict=True):
        axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="///", linewidth=0))
    axes.set_xticks(range(len(columns)), list(map(_written, columns)), rotation=90)
    axes.set_yticks(range(len(rows)), list(map(_written, rows)))
    axes.set(xlabel=other.title, ylabel=one.title, title=f"{function.title}; hatched: few rows")
    figure.colorbar(image, label=unit)
    return as_png(figure)


def _written(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
