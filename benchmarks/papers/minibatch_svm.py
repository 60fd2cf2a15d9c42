"""Figures 1 and 2 of Takac, Bijral, Richtarik and Srebro (2013), on data that we have.

    python -m benchmarks.papers.minibatch_svm --results FILE [--only PART ...] [--sets SET ...]

Parts: figure-1 (steps to f - f* = 1e-3 against the batch size), fit (Theorem 2's form), figure-2
(primal, dual and test error against steps), order (passes of SDCA by the order of rows, through
storage and pipeline where they set it), certificate (Pegasos's own against the truth).  Hinge, rows
of unit length, no intercept; the methods are the project's own.  Tables are printed, pictures
written to docs/figures.  What figure-1 found is kept in FILE and not run again.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import dump_svmlight_file

from benchmarks.papers.batch_runs import (
    Ascent,
    Case,
    looks,
    real_case,
    start,
    steps_to,
    synthetic_case,
)
from benchmarks.papers.curves import FIGURES
from fewpass.pipeline.budget import PROGRAM_BYTES, Budget
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.job import bytes_of_states
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.windows import chunk_bytes
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.ingest.phases import ingest
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.dual.pegasos import Pegasos
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.losses import Hinge, Problem
from fewpass.solvers.penalties import L2
from fewpass.storage.dataset import Dataset
from testing.dual_runs import Data, Run, unit_data
from testing.results import Row, append, newest
from testing.synthetic import text_rows

EPS = 1e-3
SIZES = (1, 4, 16, 64, 256, 1024)
METHODS = ("naive", "safe", "aggressive", "Pegasos, mean", "Pegasos, last")
COLOURS = dict(
    zip(METHODS, ("tab:red", "tab:blue", "tab:green", "tab:orange", "tab:brown"),
        strict=True)
)  # fmt: skip
SYNTHETIC = ("text", "corr", "iid")
REAL = {"reuters": None, "w8a": None, "kddcup99": None, "imdb": 5000}  # rows taken, at random
PASSES, NAIVE_PASSES = 150, 60  # that a method may take ...
SMALL, SMALL_PASSES = 10_000, 600  # ... and with at most so many rows
#: Figure 2: set and batch size, the naive steps being in trouble.
EVOLUTIONS = {"kddcup99": 64, "imdb": 1024}
EVOLUTION_PASSES = 30
LEVELS = (1e-2, 1e-3, 1e-4)
NAMES = (*SYNTHETIC, *REAL)
QUICK = (*SYNTHETIC, "reuters", "w8a")
ALL = [(name,) for name in NAMES]


# -- Figure 1 --------------------------------------------------------------------------------------


def case_named(name: str) -> Case:
    return synthetic_case(name) if name in SYNTHETIC else real_case(name, REAL[name])


def row_of(name: str) -> Row:
    """Mean steps to EPS per method and batch size, None where a seed took too many."""
    case, counts = case_named(name), {}
    seeds = (7, 8, 9) if name in SYNTHETIC else (7,)
    for method in METHODS:
        most = SMALL_PASSES if case.n <= SMALL and name != "imdb" else PASSES
        most = NAIVE_PASSES if method == "naive" else most
        found = [
            float(np.mean([steps_to(case, method, b, seed, EPS, most) for seed in seeds]))
            for b in SIZES
        ]
        counts[method] = [c if math.isfinite(c) else None for c in found]
    return {
        "set": name, "n": case.n, "lam": case.problem.lam, "sigma_square": case.sigma_square,
        "counts": counts, "factors": [case.factor(b) / b for b in SIZES],
    }  # fmt: skip


def print_counts(row: Row) -> None:
    sizes = " | ".join(f"b = {b}" for b in SIZES)
    print(
        f"\n| {row['set']}: n = {row['n']:,}, lam = {row['lam']:.3g}, sigma^2 ="
        f" {row['sigma_square']:.4f} | {sizes} |\n|---|{'---:|' * len(SIZES)}"
    )
    for method, counts in row["counts"].items():
        cells = [f"{c:,.0f}" if c is not None else "-" for c in counts]
        print(f"| {method} | {' | '.join(cells)} |")
    print(f"| beta_b / b | {' | '.join(f'{f:.3f}' for f in row['factors'])} |", flush=True)


def draw_counts(path: Path, rows: list[Row]) -> None:
    """A panel per set: steps on the left, beta_b / b on the right."""
    plt = pyplot()
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.4), layout="constrained")
    for place, row in zip(axes.flat, rows, strict=False):
        for method, counts in row["counts"].items():
            steps = [math.nan if c is None else c for c in counts]
            place.loglog(SIZES, steps, "o-", color=COLOURS[method], label=method, markersize=3)
        other = place.twinx()
        other.loglog(SIZES, row["factors"], "k--", linewidth=1)
        other.tick_params(labelsize=7)
        place.set(title=f"{row['set']}, sigma^2 = {row['sigma_square']:.3g}", xlabel="batch size b")
        place.grid(visible=True, alpha=0.3)
    for place in axes[:, 0]:
        place.set_ylabel("steps to f - f* = 1e-3")
    for place in axes.flat[len(rows) :]:
        place.axis("off")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    dashed = plt.Line2D([], [], color="k", linestyle="--")
    axes.flat[-1].legend([*handles, dashed], [*labels, "beta_b / b (right)"], loc="center")
    save(figure, path)


def figure_1(chosen: Any) -> None:
    for name in chosen.sets:
        known = newest(chosen.results, ("set",), ALL) if chosen.results.exists() else []
        if not any(row["set"] == name for row in known):
            append(chosen.results, row_of(name))
    rows = newest(chosen.results, ("set",), ALL)
    print("\n### Steps to f - f* = 1e-3")
    for row in rows:
        print_counts(row)
    draw_counts(FIGURES / "minibatch-svm-1.png", rows)


def fit(_chosen: Any) -> None:
    """Least relative squares of T = A n/b + C beta_b/b to the safe steps' counts."""
    print("\n### T = A n/b + C beta_b/b\n")
    print("| set | A | C | fitted over measured, b = 1 to 1024 |\n|---|---:|---:|---|")
    sizes = [2**k for k in range(11)]
    for name in SYNTHETIC:
        case = synthetic_case(name)
        counts = [
            np.mean([steps_to(case, "safe", b, seed, EPS, 4 * SMALL_PASSES) for seed in (7, 8, 9)])
            for b in sizes
        ]
        T = np.array(counts)
        terms = np.array([[case.n / b, case.factor(b) / b] for b in sizes])
        A, C = np.linalg.lstsq(terms / T[:, None], np.ones(len(T)), rcond=None)[0]
        ratio = terms @ [A, C] / T
        print(
            f"| {name} | {A:.1f} | {C:,.0f} | {ratio.min():.2f} to {ratio.max():.2f} |", flush=True
        )


# -- Figure 2 --------------------------------------------------------------------------------------


class Evolution(NamedTuple):
    """What a method was at after some steps."""

    steps: list[int]
    primal: list[float]
    dual: list[float]  # f* - D
    error: list[float]


def evolution(case: Case, method: str, b: int) -> Evolution:
    found, run = Evolution([], [], [], []), start(case, method, b, 7)
    series: tuple[list, ...] = found
    for done in looks(run, EVOLUTION_PASSES * case.n // b):
        w = run.weights
        for field, value in zip(
            series, (done, case.excess(w), run.dual_excess, case.error(w)), strict=True
        ):
            field.append(value)
    return found


def figure_2(_chosen: Any) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(EVOLUTIONS), figsize=(5.5 * len(EVOLUTIONS), 7), layout="constrained"
    )
    print(f"\n### After {EVOLUTION_PASSES} passes: f - f*, f* - D, test error\n")
    print("| set, b | method | f - f* | f* - D | test error |\n|---|---|---:|---:|---:|")
    for (above, below), (name, b) in zip(axes.T, EVOLUTIONS.items(), strict=True):
        case = case_named(name)
        for method in METHODS[:-1]:
            found = evolution(case, method, b)
            dual = found.dual[-1]
            told = f"{dual:.1e}" if math.isfinite(dual) else "-"
            last = (found.primal[-1], told, found.error[-1])
            print("| {}, {} | {} | {:.1e} | {} | {:.4f} |".format(name, b, method, *last))
            above.loglog(found.steps, found.primal, color=COLOURS[method], label=method)
            above.loglog(found.steps, found.dual, "--", color=COLOURS[method], linewidth=1)
            below.semilogx(found.steps, found.error, color=COLOURS[method])
        above.set(title=f"{name}, b = {b}", ylabel="f - f* (solid), f* - D (dashed)")
        above.set_ylim(1e-6, 30)
        lowest = min(found.error)
        below.set(xlabel="steps", ylabel="test error", ylim=(0, max(0.05, 4 * lowest)))
        above.legend(fontsize=8)
        for place in (above, below):
            place.grid(visible=True, alpha=0.3)
    save(figure, FIGURES / "minibatch-svm-2.png")


# -- the order of rows -----------------------------------------------------------------------------

Order = Callable[[np.random.Generator, int], np.ndarray]


def permuted(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.permutation(n)


def fixed_chunks(_rng: np.random.Generator, n: int) -> np.ndarray:
    """64 chunks as they lie, rows permuted inside, anew in every pass."""
    return np.concatenate([_rng.permutation(chunk) for chunk in np.array_split(np.arange(n), 64)])


def passes_of_draws(of: Data) -> list[float]:
    """Passes, n rows drawn independently each, to the levels of the newest gap."""
    lam = 1.0 / len(of.y)
    case = Case("text", of, hinge(lam), 0.0, 0.0, None)  # the minimum cancels in the gap
    run, gaps = Ascent(case, "naive", 1, 0), list[float]()
    while len(gaps) < 60 and (not gaps or gaps[-1] > LEVELS[-1]):
        run.advance(case.n)
        gaps.append(case.excess(run.weights) + run.dual_excess)
    return first_below(gaps)


def passes_in_memory(of: Data, order: Order) -> list[float]:
    """Passes to the levels of the newest gap, which a reading of its own tells."""
    lam = 1.0 / len(of.y)
    run, gaps = Run(Sdca(), hinge(lam), of), list[float]()
    while len(gaps) < 60 and (not gaps or gaps[-1] > LEVELS[-1]):
        run.one_pass(order=order(run.rng, len(of.y)))
        fresh = run.state._replace(best=run.state.best._replace(certified=False))
        certify_pass = run.solver.certify_pass
        at = certify_pass.at(fresh)
        block = run.block(np.arange(len(of.y)))
        total = certify_pass.sum.add(run.problem, at, block, certify_pass.sum.zero(at))
        gaps.append(certify_pass.absorb(run.problem, of.stats, fresh, total, 0).best.gap)
    return first_below(gaps)


def first_below(gaps: list[float]) -> list[float]:
    """The first pass, from 1, whose gap is at a level or below, for each level."""
    return [next((k for k, g in enumerate(gaps, 1) if g <= eps), math.inf) for eps in LEVELS]


def passes_through_pipeline(dataset: Dataset, chunks: int) -> list[float]:
    """The same with windows of so many chunks; a pass certifies the one before."""
    plan = TrainingPlan(
        dataset=dataset.folder.url, solver=Sdca(), loss="hinge", lam="1/n", intercept="none",
        passes=60, tol=LEVELS[-1], memory=1 << 30,
    )  # fmt: skip
    job = Planner(plan, dataset).job(plan.memory)
    windows = Budget.windows * (chunks + 0.5) * chunk_bytes(dataset.manifest, job.row_state_size)
    states = bytes_of_states(plan.solver, job.problem, job.stats, job.stats.streams)
    plan = plan.model_copy(update={"memory": int(PROGRAM_BYTES + states + windows)})
    assert Planner(plan, dataset).job(plan.memory).windows.chunks_per_window == chunks
    with tempfile.TemporaryDirectory() as place:
        run = TrainingRun.start(plan, f"{place}/run", InProcess())
        gaps = [e.facts.gap for e in run if e.kind == "certificate"]
    return first_below(gaps)


def stored(folder: Path, X: Any, y: np.ndarray, *, shuffle: bool) -> Dataset:
    """The rows in 64 chunks, as they come or shuffled."""
    dump_svmlight_file(X, y, str(folder / "rows.svm"), zero_based=False)
    place = str(folder / f"set-{shuffle}")
    size = max(1 << 14, (folder / "rows.svm").stat().st_size // 64)
    plan = IngestPlan(
        sources=(str(folder / "rows.svm"),), dataset=place, shuffle=shuffle, chunk_bytes=size
    )
    ingest(plan)
    return Dataset.open(place)


def order(_chosen: Any) -> None:
    X, y = text_rows(12_000, 15_000, 7, noise=0.05)
    by_label = np.argsort(y, kind="stable")
    of, sorted_rows = unit_data(X, y), unit_data(X[by_label], y[by_label])
    print("\n### Passes of SDCA to a gap of 1e-2 / 1e-3 / 1e-4, 12,000 rows of text, lam = 1/n\n")
    print("| order | rows | passes |\n|---|---|---|")
    print_order("drawn independently", "in memory", passes_of_draws(of))
    print_order("permutation of all", "in memory", passes_in_memory(of, permuted))
    with tempfile.TemporaryDirectory() as place:
        for rows, data_set in (
            ("shuffled", stored(Path(place), X, y, shuffle=True)),
            ("sorted by label", stored(Path(place), X[by_label], y[by_label], shuffle=False)),
        ):
            print_order("64 chunks, one at a time", f"stored, {rows}", by_chunks(data_set, 1))
            print_order("mixed, 8 of 64 at a time", f"stored, {rows}", by_chunks(data_set, 8))
    for rows, which in (("as they came", of), ("sorted by label", sorted_rows)):
        found = passes_in_memory(which, fixed_chunks)
        print_order("64 chunks in a fixed order", f"in memory, {rows}", found)


def by_chunks(dataset: Dataset, chunks: int) -> list[float]:
    """Passes through the pipeline, of a set that has 64 chunks."""
    assert dataset.n_chunks in (63, 64, 65), dataset.n_chunks
    return passes_through_pipeline(dataset, chunks)


def print_order(name: str, rows: str, passes: list[float]) -> None:
    cells = " / ".join(f"{p:.0f}" if math.isfinite(p) else "> 60" for p in passes)
    print(f"| {name} | {rows} | {cells} |", flush=True)


# -- Pegasos's certificate -------------------------------------------------------------------------


def certificate(_chosen: Any) -> None:
    print("\n### Pegasos: true excess and certified gap after 1 / 3 / 10 / 30 / 100 passes\n")
    print("| set | lam n | f - f* | certified | ratio |\n|---|---:|---|---|---|")
    for name in ("reuters", "w8a", "ijcnn1"):
        case = real_case(name)
        for times in (1, 10, 100):
            problem = hinge(times / case.n)
            lowest = Run(Sdca(), problem, case.of).passes(100).certified()
            best, pairs = lowest.objective - 0.5 * lowest.gap, []
            run = Run(Pegasos(), problem, case.of)
            for passes in range(1, 101):
                run.one_pass()
                if passes in (1, 3, 10, 30, 100):
                    found = run.certified()
                    pairs.append((found.objective - best, found.gap))
            excess, gap = zip(*pairs, strict=True)
            ratio = " / ".join(f"{g / e:.1f}" for e, g in pairs)
            print(f"| {name} | {times} | {cells(excess)} | {cells(gap)} | {ratio} |", flush=True)


def cells(values: Iterator[float]) -> str:
    return " / ".join(f"{v:.1e}" for v in values)


def hinge(lam: float) -> Any:
    return Problem(Hinge(), L2(lam), 0.0, lam)


# -- pictures --------------------------------------------------------------------------------------


def pyplot() -> Any:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    return plt


def save(figure: Any, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=100)
    pyplot().close(figure)


PARTS = {
    "figure-1": figure_1, "fit": fit, "figure-2": figure_2, "order": order,
    "certificate": certificate,
}  # fmt: skip


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    options.add_argument("--results", type=Path, required=True, help="file of JSON lines")
    options.add_argument("--sets", nargs="*", choices=NAMES, default=QUICK, help="of figure-1")
    chosen = options.parse_args()
    for name in chosen.only:
        PARTS[name](chosen)


if __name__ == "__main__":
    main()
