"""Table 3 and Figure 1 of Konecny and Richtarik (2013): what the theory promises, and what comes.

Figure 1: least squares with n = 100,000, d = 1,000 and kappa = 10,000; m and h solve problem (20).
The paper does not say how its rows were drawn.  Ours have unit length, columns of scales
10^(-2.5 k / d), and targets of a linear model with some noise.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from benchmarks.papers.curves import FIGURES
from benchmarks.papers.s2gd_parameters import Optimum, best_parameters
from fewpass.solvers.drive import sweeps
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import Problem, Squared
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, ProblemStats, Reduce
from fewpass.solvers.s2gd.s2gd import S2gd, Svrg
from fewpass.solvers.s2gd.theory import Curvature, plan_with_epochs
from testing.blocks import independent
from testing.published import TABLE_3

N, D = 100_000, 1_000
KAPPA = 1e4
NOISE = 0.1
PASSES = 40.0


def table_3() -> None:
    """Work over n, ours beside the printed one where they differ."""
    n, same, cells = 10**9, 0, 0
    print("| eps, kappa | j | nu = mu | nu = 0 |\n|---|---:|---:|---:|")
    for (eps, kappa), lines in TABLE_3.items():
        of = Curvature(1.0, 1.0 / kappa)
        for j, printed in lines.items():
            works = [plan_with_epochs(of, n, eps, j, law).work / n
                     for law in ("geometric", "uniform")]  # fmt: skip
            same += sum(agrees(w, p) for w, p in zip(works, printed, strict=True))
            cells += 2
            shown = " | ".join(f"{w:.5g} ({p})" for w, p in zip(works, printed, strict=True))
            print(f"| {eps:g}, {kappa:g} | {j} | {shown} |")
    print(f"\n{same} of {cells} cells agree with the print, digits cut off\n")


def agrees(work: float, printed: str) -> bool:
    """Whether the digits that are printed are ours; a power of ten stands for the magnitude."""
    if printed.startswith("10^"):
        return int(printed[3:]) == math.floor(math.log10(work))
    digits = len(printed.partition(".")[2])
    return f"{math.floor(work * 10**digits) / 10**digits:.{digits}f}" == printed


class LeastSquares(NamedTuple):
    """The problem of 7.1, and its minimum."""

    block: Block
    lam: float
    curvature: NDArray[np.float64]  # (d, d) second derivative
    minimiser: NDArray[np.float64]

    def excess(self, w: NDArray[np.float64]) -> float:
        """f - f*, to the last digit: f is quadratic."""
        away = w - self.minimiser
        return 0.5 * float(away @ (self.curvature @ away))


def least_squares(n: int, d: int, seed: int = 0) -> LeastSquares:
    """Rows of unit length; L = 1 + lam and mu = lam = L / kappa."""
    rng = np.random.default_rng(seed)
    scales = (10.0 ** (-2.5 * np.arange(d) / d)).astype(np.float32)
    X = rng.standard_normal((n, d), dtype=np.float32)
    X *= scales
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    y = X @ rng.standard_normal(d) + NOISE * rng.standard_normal(n)
    lam = 1.0 / (KAPPA - 1.0)
    curvature = lam * np.eye(d)
    gradient = np.zeros(d)
    for part in np.array_split(np.arange(n), 20):
        near = X[part].astype(np.float64)
        curvature += near.T @ near / n
        gradient += near.T @ y[part] / n
    block = Block(DenseRows(X), y, np.ones(n), np.arange(n), np.empty(0))
    return LeastSquares(block, lam, curvature, linalg.solve(curvature, gradient, assume_a="pos"))


def figure_1() -> None:
    """Theory and practice for nu = mu and nu = 0; excess after 40 passes, counted in two ways."""
    of = Curvature(1.0, 1.0 / KAPPA)
    problem = least_squares(N, D)
    lines = {}
    for law, kind, printed in (
        ("geometric", S2gd, Optimum(261_063, 1 / 11.4, 0.0, 0.0)),
        ("uniform", Svrg, Optimum(426_660, 1 / 12.7, 0.0, 0.0)),
    ):
        found = best_parameters(of, N, law)
        print(f"{law}: m {found.m:,} (printed {printed.m:,}), h 1/{1 / found.h:.2f} L "
              f"(printed 1/{1 / printed.h:.1f} L), c {found.c:.4f}")  # fmt: skip
        L = 1.0 + problem.lam
        nu = {"nu": problem.lam} if law == "geometric" else {}
        solver = kind(step=found.h / L, m=found.m, subspace=0, **nu)
        lines[law] = practice(problem, solver), found.c
        report(law, *lines[law])
    draw(lines)


def practice(problem: LeastSquares, solver: S2gd) -> NDArray[np.float64]:
    """(passes, passes with two gradients per inner step, f - f*), a row per epoch."""
    n, d = problem.block.rows.X.shape
    stats = ProblemStats(n, d, DenseRows, 1.0, 1.0, 1.0, n, True, 1.0, 1.0, 1, 0)
    least = Problem(Squared(), L2(problem.lam), intercept=0.0, lam_b=problem.lam)
    points, gradients = [(0.0, 0.0, problem.excess(np.zeros(d)))], 0
    for moment in sweeps(solver, least, stats, problem.block, independent(n)):
        if isinstance(moment.sweep, Reduce):
            gradients += 1
            continue
        twice = gradients + 2 * (moment.passes - gradients)
        points.append((moment.passes, twice, problem.excess(solver.newest(moment.state).coef)))
        if moment.passes >= 1.6 * PASSES:
            return np.array(points)
    raise AssertionError("a method goes on for ever")


def report(law: str, points: NDArray[np.float64], c: float) -> None:
    start = points[0, 2]
    for column, count in ((0, "one gradient"), (1, "two gradients")):
        last = points[points[:, column] <= PASSES][-1]
        print(f"{law}: relative excess {last[2] / start:.1e} after {last[column]:.1f} passes, "
              f"{count} per inner step")  # fmt: skip
    early = points[points[:, 2] > 1e-13 * start]
    rate = (early[-1, 2] / start) ** (1.0 / (len(early) - 1))
    print(f"{law}: an epoch leaves {rate:.3f}, the theory promises {c:.3f}")


def draw(lines: dict) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    for (law, (points, c)), colour in zip(lines.items(), ("tab:red", "tab:blue"), strict=True):
        label = "nu = mu" if law == "geometric" else "nu = 0"
        relative = points[:, 2] / points[0, 2]
        axes.semilogy(points[:, 0], relative, "-o", color=colour, markersize=3, label=label)
        promised = c ** np.arange(len(points))
        axes.semilogy(points[:, 0], promised, "--", color=colour, label=f"{label}, theory")
    axes.set(xlabel="passes over the data, one gradient per inner step", xlim=(0, 45),
             ylim=(1e-17, 2), ylabel="(f - f*) / (f(0) - f*)")  # fmt: skip
    axes.grid(visible=True, alpha=0.3)
    axes.legend()
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURES / "s2gd-1.png", dpi=120)
    plt.close(figure)
