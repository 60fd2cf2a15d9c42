"""Pictures of a run's log, as PNG bytes."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fewpass.pipeline.drawing.charts import MANY, smoothed
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.runs.timeline_points import useful
from fewpass.pipeline.runs.validation import ValidationPoint
from fewpass.pipeline.scoring.reliability import Reliability

MARKED = 60  # so many points of a curve can be told apart
MOST_BARS = 60
LEAST_SHARE = 0.002
COLOURS = (
    "#08519c", "#3182bd", "#9ecae1", "#31a354", "#bdbdbd", "#a1d99b", "#e6550d", "#fdae6b",
    "#756bb1", "#636363",
)  # fmt: skip


def loss_curve(timeline: Timeline, name: str) -> bytes:
    """Draw progressive loss and certified objectives against passes."""
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    style = "o-" if len(timeline.points) < MARKED else "-"
    recent = [(p.passes, p.since_last) for p in timeline.points if p.since_last is not None]
    whole = [(p.passes, p.average) for p in timeline.points if p.average is not None]
    recent = smoothed(recent) if len(recent) > MANY else recent
    for curve, label in ((recent, "recent rows"), (whole, "since the start")):
        if curve:
            axes.plot(*zip(*curve, strict=True), style, label=label)
    if proven := useful(timeline.certificates):
        objectives = [c.objective for c in proven]
        down = [min(c.objective, c.gap) for c in proven]  # no loss is below 0
        axes.errorbar([c.passes for c in proven], objectives, yerr=(down, [0.0] * len(down)),
                      fmt="k.", capsize=3,
                      label="objective; the optimum is on the line below it")  # fmt: skip
    axes.set(xlabel="pass", ylabel="loss", title=f"{name}: progressive loss")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend()
    return as_png(figure)


def convergence(timeline: Timeline, name: str, tol: float | None = None) -> bytes:
    """Draw against passes how far above the optimum a run was at most, and the tolerance.

    The lowest objective stands for the optimum in a second curve.
    """
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    proven = list(timeline.certificates)
    style = ".-" if len(proven) < MARKED else "-"
    at = [c.passes for c in proven]
    axes.semilogy(at, [c.gap for c in proven], style, label="at most (certified)")
    least = min(c.objective for c in proven)
    if above := [(c.passes, c.objective - least) for c in proven if c.objective > least]:
        axes.semilogy(*zip(*above, strict=True), style, label="above the lowest objective")
    goal = None if tol is None else proven[-1].gap_at(tol)
    if goal is not None:
        axes.axhline(goal, color="k", linestyle=":", label="tolerance")
    axes.set(xlabel="pass", ylabel="above the optimum", title=f"{name}: distance to the optimum")
    axes.grid(alpha=0.3)
    axes.legend()
    return as_png(figure)


def validation_curve(curve: Sequence[ValidationPoint], name: str) -> bytes:
    """Draw the loss of held-out rows against passes, the lowest point marked."""
    figure = Figure(figsize=(8.0, 4.5), layout="constrained")
    axes = figure.add_subplot()
    style = ".-" if len(curve) < MARKED else "-"
    axes.plot([p.passes for p in curve], [p.loss for p in curve], style, label="held-out rows")
    best = min(curve, key=lambda point: point.loss)
    axes.plot([best.passes], [best.loss], "ko", label="lowest: the model that is used")
    axes.set(xlabel="pass", ylabel="mean loss", title=f"{name}: held-out rows")
    axes.grid(alpha=0.3)
    axes.legend()
    return as_png(figure)


def reliability_diagram(diagram: Reliability, name: str, *, several: bool) -> bytes:
    """Draw how often probabilities came true, with 95 % intervals, and the rows of each."""
    figure = Figure(figsize=(5.5, 6.5), layout="constrained")
    axes, below = figure.subplots(2, sharex=True, height_ratios=(3, 1))
    at = [one.predicted for one in diagram.bins]
    share = np.array([one.observed for one in diagram.bins])
    down = share - [one.low for one in diagram.bins]
    up = np.array([one.high for one in diagram.bins]) - share
    axes.plot([0.0, 1.0], [0.0, 1.0], "k:", label="predicted = observed")
    axes.errorbar(
        at, share, yerr=np.maximum(0.0, (down, up)), fmt="o-", capsize=3, label="observed"
    )
    axes.set(
        ylabel="observed frequency",
        title=f"{name}\ncalibration error {diagram.calibration_error:.4f}, "
        f"Brier score {diagram.brier:.4f}\nlog loss {diagram.log_loss:.4f}",
    )
    axes.legend(loc="upper left")
    width = [one.upper - one.lower for one in diagram.bins]
    below.bar([one.lower for one in diagram.bins], [one.rows for one in diagram.bins], width,
              align="edge", edgecolor="white")  # fmt: skip
    whose = "most probable class" if several else "second class"
    below.set(xlabel=f"predicted probability of the {whose}", ylabel="rows", xlim=(0.0, 1.0))
    for each in (axes, below):
        each.grid(alpha=0.3)
    return as_png(figure)


def as_png(figure: Figure) -> bytes:
    """Return a figure as the bytes of a PNG file."""
    image = io.BytesIO()
    FigureCanvasAgg(figure)
    figure.savefig(image, format="png")
    return image.getvalue()
