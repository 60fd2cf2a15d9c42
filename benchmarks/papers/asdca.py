"""Figure 1 of Shalev-Shwartz and Zhang (2013), ASDCA, on data that we have, and what theta does.

    python -m benchmarks.papers.asdca --results asdca.jsonl [--sets reuters ...] [--theorem]

Smoothed hinge of width 1, lam = 1/n, rows of unit length, no intercept.  Methods are the project's
own, on rows in memory.  The figure visits every row once a pass, as the project does; the table
does so and draws batches independently, too, as the theory has it.  What is in `--results` already
is not run again; tables are printed, and the picture is written to docs/figures once all sets are
there.  `--theorem` sets both sides of Theorem 1 beside each other.  `python -m
benchmarks.papers.tables` makes the page's tables.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.data_sets import STUDIES, in_memory, training_rows
from benchmarks.papers.curves import FIGURES, Case, objective, say_missing
from fewpass.pipeline.planning.conditioning import zero_loss
from fewpass.solvers.batch.gradient_descent import Agd
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.asdca import X_START, Asdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_state import RUNNING
from fewpass.solvers.estimates.spectrum import SAMPLED_TOO_LOW
from fewpass.solvers.losses import Problem, SmoothedHinge
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, ProblemStats, Weights
from testing.blocks import block_of, stats_of
from testing.drawn_batches import DrawnAsdca, DrawnSdca, dual_objective
from testing.dual_runs import gen_dense
from testing.results import append
from testing.synthetic import text_rows

SYNTHETIC = "synthetic text"
SETS = ("reuters", "a9a, unit rows", SYNTHETIC)
THETAS = ("paper", "exact", "sigma")
BATCHES = (1, 10, 100, 1000, None)  # None: all rows
EXCESSES = (1e-3, 1e-6)
CONSTANTS = "constants"  # in place of a method
OPTIMAL = 1e-13  # gap
SHOWN = 1e-9  # of P(x) - P*, in the figure
PASSES = 300  # of the figure
MOST = 2600  # of the table
COLOURS = ("tab:blue", "tab:cyan", "tab:green", "tab:orange", "tab:red")


# -- problems --------------------------------------------------------------------------------------


def case_of(name: str, folder: Path) -> Case:
    """A set with its optimum, which SDCA certifies."""
    X, y = rows_of(name, folder)
    stats, block = stats_of(X, y), block_of(X, y)
    stats = stats._replace(sigma_square=SAMPLED_TOO_LOW * stats.sigma_square)
    problem = Problem(SmoothedHinge(), L2(1.0 / stats.n), 0.0, 1.0)
    return Case(problem, stats, block, minimum(problem, stats, block))


def minimum(problem: Problem, stats: ProblemStats, block: Block) -> float:
    """P*, as SDCA certifies it."""
    for moment in sweeps(Sdca(), problem, stats, block):
        found = Sdca().certificate(moment.state)
        if found and found.gap < OPTIMAL:
            return found.objective
    raise AssertionError("sweeps never end")


def rows_of(name: str, folder: Path) -> tuple[Any, np.ndarray]:
    if name == SYNTHETIC:
        return text_rows(8000, 10_000, 3, noise=0.05)
    word, _, scaled = name.partition(", ")
    study = next(s for s in STUDIES if s.name == word)
    study = dataclasses.replace(study, name=name, scale="unit-rows" if scaled else "none")
    half = in_memory(training_rows(study, folder), "logistic", study.positive)
    return half.X, half.y


# -- running ---------------------------------------------------------------------------------------


class Course(NamedTuple):
    """Passes made and how far above the minimum the newest weights are."""

    passes: list[float]
    excess: list[float]

    def first_below(self, excess: float) -> float | None:
        return next((p for p, e in zip(self.passes, self.excess, strict=True) if e <= excess), None)


def follow(case: Case, points: Iterator[tuple[float, np.ndarray]], most: float, end: float):
    """Look at a method's weights as they come, until it is done."""
    course = Course([], [])
    for passes, w in points:
        course.passes.append(passes)
        course.excess.append(objective(case, Weights(w, 0.0)) - case.lowest)
        if passes >= most or course.excess[-1] <= end:
            return course
    return course


def walked(case: Case, solver: Any) -> Iterator[tuple[float, np.ndarray]]:
    """The newest weights of one of the project's methods, pass by pass."""
    for moment in sweeps(solver, case.problem, case.stats, case.block):
        state = moment.state
        if isinstance(solver, Agd):
            yield moment.passes, state.v.coef
        else:
            yield moment.passes, state.W[:-1, X_START if isinstance(solver, Asdca) else RUNNING]


def drawn(case: Case, m: int | None, theta: str) -> Iterator[tuple[float, np.ndarray]]:
    """The same with batches drawn independently, ten times a pass or batch by batch."""
    problem, stats, block, _ = case
    run: Any = DrawnSdca(problem, stats, block)
    if m is not None:
        share = Asdca(batch_size=m, theta=theta).foreseen_theta(problem, stats)
        assert share is not None, "rows in memory are as good as shuffled"
        run = DrawnAsdca(problem, stats, block, m, share)
    count = max(1, stats.n // 10 // (m or 1))
    visited = 0
    while True:
        run.step(count)
        visited += count * (m or 1)
        yield visited / stats.n, run.x


def measure(case: Case, name: str) -> Iterator[dict[str, Any]]:
    """Everything that the page tells of a set, a line each."""
    for method, solver in (("SDCA", Sdca()), ("AGD", Agd())):
        yield line(name, method, None, "", follow(case, walked(case, solver), MOST, SHOWN))
    for m in BATCHES:
        for theta in THETAS:
            fast = Asdca(batch_size=m or case.stats.n, theta=theta)
            most = PASSES if name != SYNTHETIC else MOST
            yield line(name, "ASDCA", m, theta, follow(case, walked(case, fast), most, SHOWN))
    if name == SYNTHETIC:
        found = follow(case, drawn(case, None, ""), MOST, EXCESSES[-1])
        yield line(name, "SDCA, drawn", None, "", found)
        for m in BATCHES:
            for theta in THETAS:
                points = drawn(case, m or case.stats.n, theta)
                found = follow(case, points, MOST, EXCESSES[-1])
                yield line(name, "ASDCA, drawn", m, theta, found)


def line(name: str, method: str, m: int | None, theta: str, course: Course) -> dict[str, Any]:
    return {"set": name, "method": method, "m": m, "theta": theta, **course._asdict()}


def constants(name: str, case: Case) -> dict[str, Any]:
    """What the page tells of a set, besides its courses; its last line."""
    stats = case.stats
    spread = stats.sigma_square / SAMPLED_TOO_LOW / stats.max_square
    thetas = [
        Asdca(batch_size=m or stats.n, theta="sigma").foreseen_theta(case.problem, stats)
        for m in BATCHES
    ]
    return {
        "set": name, "method": CONSTANTS, "n": stats.n, "d": stats.d, "S": spread,
        "m": Asdca().rows_per_batch(case.problem, stats), "thetas": thetas,
    }  # fmt: skip


# -- the theorem -----------------------------------------------------------------------------------


def print_theorem() -> None:
    """Left over right side of Theorem 1 after about two times n / (m theta) batches."""
    n, seeds = 1000, 5
    X, y = gen_dense(n, 40, 5)
    for k in (0.1, 1.0, 10.0, 100.0):
        problem = Problem(SmoothedHinge(), L2(k / n), 0.0, k / n)
        stats, block = stats_of(X, y), block_of(X, y)
        case = Case(problem, stats, block, minimum(problem, stats, block))
        for theta in THETAS:
            cells = []
            for m in (1, 10, 100, 1000):
                share = Asdca(batch_size=m, theta=theta).foreseen_theta(problem, stats)
                assert share is not None, "rows in memory are as good as shuffled"
                steps = min(math.ceil(2.0 * n / (m * share)), 200 * n // m)
                at_zero = m * (zero_loss(problem, stats) - case.lowest) + n * case.lowest
                runs = [DrawnAsdca(problem, stats, block, m, share, s) for s in range(seeds)]
                left = np.mean([left_side(case, run, steps) for run in runs])
                cells.append(f"{left / ((1.0 - share * m / n) ** steps * at_zero):.2g}")
            print(f"| {k:g} | {theta} | {' | '.join(cells)} |")


def left_side(case: Case, run: DrawnAsdca, steps: int) -> float:
    """m (P(x) - P*) + n (D* - D(a)) after so many batches."""
    run.step(steps)
    excess = objective(case, Weights(run.x, 0.0)) - case.lowest
    lack = case.lowest - dual_objective(case.problem, case.block, run.a, run.w)
    return run.m * excess + case.stats.n * lack


# -- telling ---------------------------------------------------------------------------------------


class Results:
    """Lines by set, method, m and theta."""

    def __init__(self, path: Path) -> None:
        rows = [json.loads(x) for x in path.read_text().splitlines()] if path.exists() else []
        self.courses = {
            (r["set"], r["method"], r["m"], r["theta"]): Course(r["passes"], r["excess"])
            for r in rows if r["method"] != CONSTANTS
        }  # fmt: skip
        self.whole = {r["set"] for r in rows if r["method"] == CONSTANTS}

    def has(self, name: str) -> bool:
        """Whether all of a set is here."""
        return name in self.whole

    def cell(self, name: str, method: str, m: int | None = None, theta: str = "") -> str:
        """Passes to both excesses."""
        course = self.courses[name, method, m, theta]
        found = [course.first_below(e) for e in EXCESSES]
        return " / ".join("-" if p is None else f"{p:.1f}".removesuffix(".0") for p in found)


def print_table(results: Results, name: str, kind: str = "") -> None:
    """Passes per m and theta."""
    heads = [str(m) if m else "n" for m in BATCHES]
    print(f"\n| {name}{kind} | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for theta in THETAS:
        cells = [results.cell(name, f"ASDCA{kind}", m, theta) for m in BATCHES]
        print(f"| {theta} | {' | '.join(cells)} |")
    print(f"\nSDCA {results.cell(name, f'SDCA{kind}')}; AGD {results.cell(name, 'AGD')}")


def draw(path: Path, results: Results) -> None:
    """A panel per set and theta, a line per m."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(2, 3, figsize=(11, 6.4), layout="constrained", sharey=True)
    for across, theta in zip(axes, ("sigma", "paper"), strict=True):
        for place, name in zip(across, SETS, strict=True):
            lines = [(f"ASDCA, m = {m or 'n'}", ("ASDCA", m, theta)) for m in BATCHES]
            styles = [
                *({"color": c} for c in COLOURS),
                *({"color": "black", "ls": s} for s in "-:"),
            ]
            lines += [("SDCA", ("SDCA", None, "")), ("AGD", ("AGD", None, ""))]
            for (label, key), style in zip(lines, styles, strict=True):
                found = results.courses[name, *key]
                shown = [max(e, SHOWN) if math.isfinite(e) else math.nan for e in found.excess]
                place.loglog(found.passes, shown, label=label, linewidth=1.3, **style)
            place.set(title=f"{name}, theta: {theta}", xlim=(1, PASSES), ylim=(SHOWN, 1))
            place.grid(visible=True, alpha=0.3)
    for place in axes[1]:
        place.set_xlabel("passes over the data")
    for place in axes[:, 0]:
        place.set_ylabel("P(x) - P*")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=7)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--results", type=Path, required=True, help="file of JSON lines")
    options.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options.add_argument("--theorem", action="store_true", help="Theorem 1, too")
    options.add_argument(
        "--folder", type=Path, default=Path(tempfile.gettempdir()) / "fewpass-real"
    )
    chosen = options.parse_args()
    if chosen.theorem:
        print_theorem()
    for name in chosen.sets:
        if not Results(chosen.results).has(name):  # whole: one may have been cut short
            case = case_of(name, chosen.folder)
            for row in measure(case, name):
                append(chosen.results, row)
            append(chosen.results, constants(name, case))
    results = Results(chosen.results)
    for name in chosen.sets:
        print_table(results, name)
    if SYNTHETIC in chosen.sets:
        print_table(results, SYNTHETIC, ", drawn")
    if missing := [name for name in SETS if not results.has(name)]:
        say_missing("asdca.png", missing)
    else:
        draw(FIGURES / "asdca.png", results)


if __name__ == "__main__":
    main()
