"""What a method reaches after so many passes, on rows in memory, and the picture of it."""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fewpass.solvers.drive import Orders, sweeps
from fewpass.solvers.gradient import add_gradient, certificate, no_gradient
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import Block, Diverged, ProblemStats, Reduce, Solver, Weights

FIGURES = Path(__file__).parents[2] / "docs/figures"
LOWEST = 1e-15  # what a picture shows of f - f*


class Case(NamedTuple):
    """A problem on rows in memory."""

    problem: Problem
    stats: ProblemStats
    block: Block
    lowest: float  # the minimum


class Curve(NamedTuple):
    """How far above the minimum a method is, pass by pass."""

    passes: list[float]
    excess: list[float]
    seconds: float  # of the method alone

    def after(self, passes: float) -> float:
        """Excess at the last point that lies not beyond so many passes."""
        known = [e for p, e in zip(self.passes, self.excess, strict=True) if p <= passes + 1e-9]
        return known[-1]


def curve(case: Case, solver: Any, passes: float, orders: Orders | None = None) -> Curve:
    """Run a method for so many passes; one that diverges ends where it does.

    Where epochs have inner loops, points are the ends of these; the objective there is not paid
    for by the method, and its time not counted.
    """
    problem, stats, block, lowest = case
    found = Curve([0.0], [objective(case, Weights(np.zeros(stats.d), 0.0)) - lowest], 0.0)
    moments = sweeps(solver, problem, stats, block, orders)
    began, spent = time.perf_counter(), 0.0
    try:
        for moment in moments:
            spent += time.perf_counter() - began
            if is_end_of_epoch(solver, moment.sweep):
                found.passes.append(moment.passes)
                found.excess.append(
                    objective(case, newest(solver, moment.sweep, moment.state)) - lowest
                )
                if moment.passes >= passes or not math.isfinite(found.excess[-1]):
                    break
            began = time.perf_counter()
    except Diverged:
        found.passes.append(passes)
        found.excess.append(math.inf)
    return found._replace(seconds=spent)


def is_end_of_epoch(solver: Solver, sweep: Any) -> bool:
    """Whether new weights are worth a look: after a walk, or a reduction if there is no walk."""
    alone = all(isinstance(each, Reduce) for each in solver.program(1))
    return alone or not isinstance(sweep, Reduce)


def newest(solver: Any, sweep: Any, state: Any) -> Weights:
    """The weights that a walk came to, certified or not; a reduction's own otherwise."""
    read = (
        solver.weights if isinstance(sweep, Reduce) else getattr(solver, "newest", solver.weights)
    )
    at: Weights = read(state)
    return at


def objective(case: Case, at: Weights) -> float:
    """Mean loss plus regularisation."""
    part = add_gradient(case.problem, at, case.block, no_gradient(at))
    return certificate(case.problem, at, part).objective


def best(curves: dict[Any, Curve], passes: float) -> Any:
    """Which of several settings is lowest in the end."""
    reached = {key: curve.after(passes) for key, curve in curves.items()}
    return min(reached, key=lambda key: reached[key] if reached[key] == reached[key] else math.inf)


def say_missing(picture: str, missing: list[str]) -> None:
    """Say that a picture is left as it is, and for lack of what."""
    sys.stdout.write(f"\n{picture} stays as it is: it also shows {', '.join(missing)}.\n")


def draw(
    path: Path, panels: dict[str, dict[str, Curve]], colours: dict[str, str], passes: float
) -> None:
    """A panel per set, a line per method; the last panel holds the legend."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6.2), layout="constrained", sharex=True)
    for place, (name, curves) in zip(axes.flat, panels.items(), strict=False):
        for method, found in curves.items():
            shown = [max(e, LOWEST) if math.isfinite(e) else math.nan for e in found.excess]
            place.semilogy(found.passes, shown, color=colours[method], label=method, linewidth=1.3)
        top = max(found.excess[0] for found in curves.values())
        place.set(title=name, xlim=(0, passes), ylim=(LOWEST, 3 * top))
        place.grid(visible=True, alpha=0.3)
    for place in axes[1]:
        place.set_xlabel("passes over the data")
    for place in axes[:, 0]:
        place.set_ylabel("f - f*")
    last = axes.flat[len(panels)]
    last.axis("off")
    last.legend(*axes.flat[0].get_legend_handles_labels(), loc="center", fontsize=10)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
