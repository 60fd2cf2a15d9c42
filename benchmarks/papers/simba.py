"""Figure 1 of Hazan, Koren and Srebro (2011): test error against feature accesses.

    python -m benchmarks.papers.simba [--sets SET ...] [--seeds 10]

SIMBA, Pegasos (one row a step) and SDCA, each with the best of a few nu or lam in hindsight, as the
paper chooses them; rows of unit length, no intercept, the methods' own kernels on rows in memory.
An access is one value of the data read once.  Prints docs/papers/simba.md's tables and draws its
picture.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import normalize

from benchmarks.papers.batch_runs import LIBSVM, libsvm
from benchmarks.papers.curves import FIGURES
from fewpass.solvers.dual.pegasos import Pegasos, tail_mean
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_state import RUNNING
from fewpass.solvers.losses import Hinge, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.simba.lazy import SparseCopies, first_lazy_state, lazy_mean_of, lazy_slice
from fewpass.solvers.simba.simba import DenseCopies, Simba, dense_slice, first_state, mean_of
from fewpass.solvers.simba.soft_margin import SoftMargin
from testing import oracles
from testing.dual_runs import Data, data, unit_data
from testing.results import table

LOOK_EVERY = 1.2  # times as many accesses as at the look before
SETS = {"reuters": 20.0, "imdb": 5.0, "noisy": 1.0, "separable": 1.0}  # passes' worth of accesses
IMDB_ROWS = 5000  # of 25,000 training and 25,000 testing rows
NUS = (1e-3, 3e-3, 1e-2, 1e-1)
LAMS = (1e-5, 1e-4, 1e-3, 1e-2)
PARAMETERS = {"SIMBA": NUS, "Pegasos": LAMS, "SDCA": LAMS}
COLOURS = {"SIMBA": "tab:red", "Pegasos": "tab:blue", "SDCA": "tab:green"}
#: Dense sets: distance of most rows from the plane, share and distance of the others, wrong labels.
DENSE = {"noisy": (0.1, 0.05, 0.01, 0.02), "separable": (0.3, 0.01, 0.03, 0.0)}

Look = tuple[float, float]  # accesses, test error


class Study(NamedTuple):
    """One set: training rows, testing rows, and by row and by column."""

    name: str
    of: Data
    test: tuple[Any, np.ndarray]
    copies: DenseCopies | SparseCopies
    row_values: np.ndarray  # (n,) values of each row

    @property
    def values(self) -> int:
        return int(self.row_values.sum())

    def error(self, w: np.ndarray) -> float:
        Z, t = self.test
        return float(np.mean((Z @ w > 0.0) != (t > 0.0)))


def study_of(name: str) -> Study:
    """Read or make a set."""
    if name in DENSE:
        (X, y), test = (two_sides(3000, 2000, seed, *DENSE[name]) for seed in (0, 1))
        both = DenseCopies(np.ascontiguousarray(X), np.ascontiguousarray(X.T))
        return Study(name, data(X, y), test, both, np.full(len(y), X.shape[1]))
    (X, y), (Z, t) = libsvm(*LIBSVM[name])
    if name == "imdb":
        chosen = np.random.default_rng(0).permutation(len(y))[:IMDB_ROWS]
        X, y, Z, t = X[chosen], y[chosen], Z[chosen], t[chosen]
    of = unit_data(X, y)
    copies = SparseCopies(of.rows, oracles.sparse_rows(of.X.T.tocsr()))
    return Study(name, of, (normalize(Z), t), copies, np.diff(of.X.indptr))


def two_sides(
    n: int, d: int, seed: int, far: float, hard: float, near: float, wrong: float
) -> tuple[np.ndarray, np.ndarray]:
    """Unit rows on both sides of a plane, some of them near it, some labels wrong."""
    u = np.random.default_rng(99).standard_normal(d)
    u /= np.linalg.norm(u)
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    away = np.where(rng.random(n) < hard, near, far)
    along = rng.standard_normal((n, d))
    along -= np.outer(along @ u, u)
    X = np.outer(y * away, u) + np.sqrt(1.0 - away**2)[:, None] * normalize(along)
    return X, np.where(rng.random(n) < wrong, -y, y)


# -- methods --------------------------------------------------------------------------------------


def simba(study: Study, nu: float, seed: int, most: float) -> Iterator[tuple[float, np.ndarray]]:
    """Yield accesses and weights; adaptive rates, so that no end has to be set before."""
    y, (n, d) = study.of.y, study.of.X.shape
    of = SoftMargin(n, d, nu, study.of.stats.max_square**-0.5, biased=False, iterations=1 << 40)
    sparse = isinstance(study.copies, SparseCopies)
    state = first_lazy_state(of, y) if sparse else first_state(of)
    step, read = (lazy_slice, lazy_mean_of) if sparse else (dense_slice, mean_of)
    rng, steps = np.random.default_rng(seed), 1
    while state.accesses < most:
        state, _ = step(Simba(), of, study.copies, y, state, rng.random((steps, 2)))
        yield float(state.accesses), read(state).w
        steps = max(1, int((LOOK_EVERY - 1.0) * state.t))


def by_rows(
    study: Study, method: str, lam: float, seed: int, most: float
) -> Iterator[tuple[float, np.ndarray]]:
    """The same for a method that reads whole rows, in permutations."""
    problem, of, n = Problem(Hinge(), L2(lam), 0.0, lam), study.of, len(study.of.y)
    solver: Any = Pegasos() if method == "Pegasos" else Sdca()
    rng, kept, state = np.random.default_rng(seed), np.zeros(n), solver.init(problem, of.stats)
    (walk,) = solver.program(1)
    rows = accesses = 0
    order = rng.permutation(n)
    while accesses < most:
        stop = min(n, rows % n + max(1, int((LOOK_EVERY - 1.0) * rows)))
        part = order[rows % n : stop]
        block = oracles.block(of.rows, of.y, of.weight, part)._replace(row_state=kept)
        state = walk.step(problem, of.stats, state, block)
        rows, accesses = rows + len(part), accesses + int(study.row_values[part].sum())
        if stop == n:
            state, order = walk.join(problem, of.stats, [state]), rng.permutation(n)
        mean = tail_mean(state)[:-1] if method == "Pegasos" else state.W[:-1, RUNNING]
        yield float(accesses), mean


def curve(study: Study, method: str, parameter: float, seed: int, most: float) -> list[Look]:
    """Test error at every look; looking costs no accesses."""
    started = (
        simba(study, parameter, seed, most)
        if method == "SIMBA"
        else by_rows(study, method, parameter, seed, most)
    )
    return [(accesses, study.error(w)) for accesses, w in started if accesses <= most]


class Curves(NamedTuple):
    """One method, all its parameters."""

    budgets: np.ndarray  # (k,)
    errors: dict[float, np.ndarray]  # parameter -> (seeds, k), NaN before the first look

    @property
    def best(self) -> float:
        """The parameter with the lowest mean error anywhere."""
        return min(self.errors, key=lambda p: np.nanmin(self.errors[p].mean(axis=0)))

    def accesses_to(self, error: float) -> tuple[float, float] | None:
        """The fewest accesses to a mean error, with the parameter, chosen for this error."""
        found = []
        for parameter, errors in self.errors.items():
            reached = np.flatnonzero(errors.mean(axis=0) <= error)
            if len(reached):
                found.append((float(self.budgets[reached[0]]), parameter))
        return min(found) if found else None


def curves_of(study: Study, method: str, seeds: int, most: float) -> Curves:
    budgets = np.geomspace(most / 500.0, most, 48)
    errors = {
        p: np.array([at(curve(study, method, p, s, most), budgets) for s in range(seeds)])
        for p in PARAMETERS[method]
    }
    return Curves(budgets, errors)


def at(looks: list[Look], budgets: np.ndarray) -> np.ndarray:
    """Error of the last look within each budget."""
    accesses, errors = np.array(looks).T
    last = np.searchsorted(accesses, budgets, side="right") - 1
    return np.where(last >= 0, errors[last], np.nan)


# -- what is printed and drawn --------------------------------------------------------------------


def print_set(study: Study, found: dict[str, Curves], seconds: dict[str, float]) -> None:
    n, d = study.of.X.shape
    print(f"\n### {study.name}: {n:,} rows, {d:,} columns, {study.values:,} values\n")
    lowest = np.nanmin(found["Pegasos"].errors[found["Pegasos"].best].mean(axis=0))
    rows = []
    wanted = (2.0 * lowest, 1.25 * lowest, lowest) if lowest else (0.01, 0.001, 0.0)
    for error in wanted:
        cells = [f"{error:.4f}" + (" (Pegasos's best)" if error == lowest else "")]
        for method, curves in found.items():
            reached = curves.accesses_to(error + 1e-12)
            name = "nu" if method == "SIMBA" else "lam"
            cells.append(f"{reached[0] / 1e6:.3g} M ({name} {reached[1]:g})" if reached else "-")
        rows.append(cells)
    print(table(("test error", *found), rows, ("test error",)))
    rows = []
    for method, curves in found.items():
        errors = curves.errors[curves.best]
        k = int(np.nanargmin(errors.mean(axis=0)))
        spread = f"{errors[:, k].mean():.4f} +- {errors[:, k].std():.4f}"
        used = f"{curves.budgets[k] / 1e6:.3g} M"
        rows.append([method, f"{curves.best:g}", spread, used, f"{seconds[method]:.0f} s"])
    print("\n" + table(("method", "nu or lam", "lowest error", "after", "took"), rows, ("method",)))


def draw(found: dict[str, dict[str, Curves]], values: dict[str, int]) -> None:
    """A panel per set: mean and standard deviation over the repetitions."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(
        1, len(found), figsize=(3.8 * len(found), 3.6), layout="constrained", squeeze=False
    )
    for place, (name, methods) in zip(axes[0], found.items(), strict=True):
        for method, curves in methods.items():
            errors = curves.errors[curves.best]
            label = f"{method}, {'nu' if method == 'SIMBA' else 'lam'} = {curves.best:g}"
            place.errorbar(
                curves.budgets, errors.mean(axis=0), errors.std(axis=0), color=COLOURS[method],
                label=label, linewidth=1.2, elinewidth=0.6, capsize=1.5,
            )  # fmt: skip
        place.axvline(values[name], color="gray", linestyle=":", linewidth=1)
        place.set(
            xscale="log",
            yscale="linear" if name in DENSE else "log",
            title=name,
            xlabel="values read (dotted: one pass)",
        )
        place.grid(visible=True, alpha=0.3, which="both")
        place.legend(fontsize=8)
    axes[0][0].set_ylabel("test error")
    figure.savefig(FIGURES / "simba.png", dpi=110)
    plt.close(figure)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    options.add_argument("--seeds", type=int, default=10)
    chosen = options.parse_args()
    found: dict[str, dict[str, Curves]] = {}
    values = {}
    for name in chosen.sets:
        study, seconds = study_of(name), {}
        found[name], values[name] = {}, study.values
        for method in PARAMETERS:
            curve(study, method, PARAMETERS[method][1], 0, 2e-3 * study.values)  # compiles
            began = time.perf_counter()
            most = SETS[name] * study.values
            found[name][method] = curves_of(study, method, chosen.seeds, most)
            seconds[method] = time.perf_counter() - began
        print_set(study, found[name], seconds)
    if chosen.sets == list(SETS):
        draw(found, values)


if __name__ == "__main__":
    main()
