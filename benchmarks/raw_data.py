"""Passes to a certified gap on rows of very different length, as they are.

    python -m benchmarks.raw_data

Every set and loss at lam = 1/n and 10/n, from zero, until a gap, over max(1, F), of 1e-2, 1e-4 and
1e-6 is certified, at most 100 passes.  Rows lie in memory in one random order, in 64 chunks; every
pass deals them into 8 windows anew and permutes the rows of each.  A pass is n rows visited,
gradients too.  The intercept is a constant column of 1, charged like a weight.  One JSON line per
training goes to `--results`.

    python -m benchmarks.raw_data --open-points

`psdca` in other ways on the same problems: windows that are all rows or a 64th of them, rows in
single precision, and rows of a window visited twice or four times while they are in memory (all but
those whose dual variable did not move).  Counted are readings of the rows.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import diags

from benchmarks.data_sets import MORE_STUDIES, PIXELS, STUDIES, Half, in_memory, training_rows
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.drive import Orders, add_up, sweeps
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.gradient import GRADIENT, certificate
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, Certificate, ProblemStats, Solver, Weights
from fewpass.solvers.s2gd.s2gd import S2gdPlus
from testing.blocks import block_of, stats_of
from testing.results import Row, conclude, recorded, study_options
from testing.synthetic import word_counts

COUNTS = "word counts"
RAW = (COUNTS, "imdb", "w8a", "a9a", "ijcnn1", "kddcup99", "sector, class 1", "mnist 9")
CONTROL = ("reuters",)  # rows of unit length
LOSS_NAMES = ("logistic", "squared_hinge")
METHODS: dict[str, Solver] = {"psdca": Psdca(), "sdca": Sdca(), "s2gd+": S2gdPlus()}
ON_DEMAND: dict[str, Solver] = {
    "newton": Newton(),  # for few columns
    "psdca, columns alike": Psdca(columns="alike"),
    "psdca, columns apart": Psdca(columns="apart"),
}
LONG_ROWS = ", long rows"  # after a set's name: each row times a lognormal number
SIGMA = 1.5  # of its logarithm
TOLS = (1e-2, 1e-4, 1e-6)
CAP = 100  # passes
CHUNKS, WINDOWS = 64, 8
KEY = ("set", "loss", "lam", "method")


class Way(NamedTuple):
    """How psdca goes over the rows."""

    visits: int = 1  # of a window's rows per reading
    windows: int = WINDOWS
    dtype: str = "float64"  # of the rows


WAYS = {
    "psdca": Way(),
    "1 window": Way(windows=1),
    "64 windows": Way(windows=CHUNKS),
    "float32 rows": Way(dtype="float32"),
    "2 visits": Way(visits=2),
    "4 visits": Way(visits=4),
}


def main() -> None:
    """Measure and record."""
    options = study_options(__doc__, RAW + CONTROL)  # and "mnist 9, raw", "reuters, long rows", ..
    options.add_argument("--methods", nargs="*", default=list(METHODS))
    options.add_argument("--lams", nargs="*", type=float, default=[1.0, 10.0], help="times 1/n")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--open-points", action="store_true")
    chosen = options.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if chosen.open_points:
        rows = recorded(chosen.results, "psdca-ways", ways(chosen), json.dumps)
        conclude(chosen.results, "psdca-ways", compared(rows), ("numpy", "numba"))
        return
    rows = recorded(chosen.results, "raw-data", measured(chosen), json.dumps)
    conclude(chosen.results, "raw-data", found(rows), ("numpy", "numba"))


class Case(NamedTuple):
    """One problem in memory."""

    key: tuple[str, str, str]  # set, loss, lam
    problem: Problem
    stats: ProblemStats
    rows: Half


def cases(chosen: argparse.Namespace) -> Iterator[Case]:
    """Yield every problem."""
    for name in chosen.sets:
        rows = shuffled(rows_of(name, chosen), chosen.seed)
        stats = stats_of(*rows, chosen.seed)
        for times in chosen.lams:
            for loss in LOSS_NAMES:
                lam = times / stats.n
                problem = Problem(LOSSES[loss](), L2(lam), 1.0, lam)
                yield Case((name, loss, f"{times:g}/n"), problem, stats, rows)


def measured(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure every method on every problem."""
    for case in cases(chosen):
        stats, lam = case.stats, case.problem.lam
        for method in chosen.methods:
            yield {
                **dict(zip(KEY, (*case.key, method), strict=True)),
                "K": case.problem.loss.curvature * stats.mean_square / (lam * stats.n),
                "max_over_mean": stats.max_square / stats.mean_square,
                **trained((METHODS | ON_DEMAND)[method], case, Way()),
            }


def ways(chosen: argparse.Namespace) -> Iterator[Row]:
    """Measure psdca in other ways on every problem."""
    for case in cases(chosen):
        for name, way in WAYS.items():
            method = Psdca(shrink_rounds=way.visits - 1)
            key = dict(zip(KEY, (*case.key, name), strict=True))
            yield {**key, **trained(method, case, way)}


def rows_of(name: str, chosen: argparse.Namespace) -> Half:
    """Return a set's rows, one class against the rest."""
    if name.endswith(LONG_ROWS):
        rows = rows_of(name.removesuffix(LONG_ROWS), chosen)
        factors = np.random.default_rng(chosen.seed).lognormal(0.0, SIGMA, len(rows.y))
        return Half((diags(factors) @ rows.X).tocsr(), rows.y)
    if name == COUNTS:
        X, label = word_counts()
        return Half(X, np.where(label == 0.0, 1.0, -1.0))
    study = next(study for study in (*STUDIES, *MORE_STUDIES, PIXELS) if study.name == name)
    return in_memory(training_rows(study, chosen.folder), "logistic", study.positive)


def shuffled(rows: Half, seed: int) -> Half:
    """Return rows in one random order."""
    order = np.random.default_rng(seed).permutation(len(rows.y))
    return Half(rows.X[order], rows.y[order])


def dealt(n: int, seed: int, count: int) -> Orders:
    """Every turn deals the chunks into so many windows anew and permutes the rows of each."""
    chunks = np.array_split(np.arange(n), CHUNKS)

    def order(sweep: int, turn: int) -> list[NDArray[np.int64]]:
        rng = np.random.default_rng([seed, sweep, turn])
        windows = np.array_split(rng.permutation(CHUNKS), count)
        return [rng.permutation(np.concatenate([chunks[k] for k in window])) for window in windows]

    return order


def trained(method: Solver, case: Case, way: Way) -> Row:
    """Train; passes until each tolerance that was certified, and the last gap over max(1, F)."""
    left, passes, relative = list(TOLS), [], np.inf
    stats, (X, y) = case.stats, case.rows
    block, orders = block_of(X.astype(way.dtype), y), dealt(stats.n, stats.seed, way.windows)
    for after in sweeps(method, case.problem, stats, block, orders):
        if after.passes > CAP + 1e-9:
            break
        certified, state = method.certificate(after.state), after.state
        relative = of_one_or_more(certified) if certified else np.inf
        while left and relative <= left[0]:
            passes.append(round(after.passes))
            left.pop(0)
        if not left:
            break
    gradient = by_gradient(case.problem, method.weights(state), block)
    return {"passes": passes + [None] * len(left), "relative": relative, "by_gradient": gradient}


def by_gradient(problem: Problem, at: Weights, block: Block) -> float:
    """Return the gap over max(1, F) that the gradient proves of weights."""
    return of_one_or_more(certificate(problem, at, add_up(GRADIENT, problem, at, [block])))


def of_one_or_more(certified: Certificate) -> float:
    """Return the gap over max(1, F), which the pages of these measurements go by."""
    return certified.gap / max(1.0, certified.objective)


def compared(rows: list[Row]) -> list[str]:
    """Say how many readings every way takes beside the usual one, where both came to 1e-6."""
    usual = {row["set"] + row["loss"] + row["lam"]: row["passes"] for row in rows
             if row["method"] == "psdca"}  # fmt: skip
    said = []
    for name in list(WAYS)[1:]:
        pairs = [
            (row["passes"][-1], usual[row["set"] + row["loss"] + row["lam"]][-1])
            for row in rows if row["method"] == name
        ]  # fmt: skip
        ratios = [own / other for own, other in pairs if own and other]
        missed = sum(own is None for own, _ in pairs)
        more = f"; more than {CAP} on {missed}" if missed else ""
        said.append(
            f"{name}: {min(ratios):.2f} to {max(ratios):.2f} times the readings to {TOLS[-1]:g}, "
            f"{np.median(ratios):.2f} in the middle{more}."
        )
    return said


def found(rows: list[Row]) -> list[str]:
    """Say where psdca is not the first."""
    best: dict[tuple[str, ...], dict[str, list[float]]] = {}
    for row in rows:
        problem = row["set"], row["loss"], row["lam"]
        best.setdefault(problem, {})[row["method"]] = [p or np.inf for p in row["passes"]]
    said = []
    for k, tol in enumerate(TOLS):
        cells = [
            (p["psdca"][k], min(v[k] for v in p.values()))
            for p in best.values()
            if "psdca" in p and np.isfinite(min(v[k] for v in p.values()))
        ]
        first = sum(own <= least for own, least in cells)
        said.append(f"To {tol:g} psdca is first or level on {first} of {len(cells)}.")
    known = [row for row in rows if row["method"] == "psdca" and "by_gradient" in row]
    ratios = [row["by_gradient"] / row["relative"] for row in known]
    if ratios:
        low, middle, high = np.percentile(ratios, [0, 50, 100])
        said.append(
            f"At the last weights of psdca the gradient proves a gap {low:.2g} to {high:.0f} times "
            f"as large as its dual variables do, {middle:.0f} times in the middle."
        )
    return said


if __name__ == "__main__":
    main()
