"""The primal methods against numbers of S2GD's paper and of an independent implementation.

    python -m benchmarks.papers.acceptance_primal [--only PART ...]

Parts: parameters (S2GD's section 7.1, f by exact least squares), synthetic (sparse logistic and
squared hinge, suboptimality after some passes), certificate (how far above the truth it is), order
(ijcnn1 and a9a: rows drawn independently, permuted, in shuffled and in sorted storage).
Passes count rows visited, reductions included: one per inner step, as the rows' slopes are kept.
"""

from __future__ import annotations

import bz2
import lzma
from itertools import takewhile

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from benchmarks.data_sets import STUDIES, public_data
from benchmarks.papers.paper_parts import run_parts
from benchmarks.papers.s2gd_parameters import best_parameters
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.drive import permutations, sweeps
from fewpass.solvers.gradient import add_gradient, certificate, no_gradient
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Reduce, Weights
from fewpass.solvers.s2gd.inner_length import mean_inner_length
from fewpass.solvers.s2gd.s2gd import S2gd, S2gdPlus
from fewpass.solvers.s2gd.theory import Curvature
from fewpass.solvers.sag import Sag, SagPlus
from fewpass.solvers.sgd.averaged_sgd import Asgd, Sgd
from testing.blocks import block_of, independent, stats_of
from testing.synthetic import least_squares, sparse_logistic

MARKS = (5, 8, 12, 20)


class FixedLength(S2gd):
    """S2GD from zero weights whose inner loops are all n steps long, as the published runs' are."""

    def _draw_length(self, _problem, stats, _state) -> int:
        return stats.n


def loss_of(problem, block, at: Weights) -> float:
    whole = block._replace(order=np.arange(len(block.y)), row_state=np.empty(0))
    return certificate(problem, at, add_gradient(problem, at, whole, no_gradient(at))).objective


def optimum(problem, X, y) -> float:
    """To the last digit: L-BFGS until rounding."""
    least, stale = np.inf, 0
    for moment in sweeps(Lbfgs(memory=20), problem, stats_of(X, y), block_of(X, y)):
        found = moment.state.bounds.objective
        stale, least = 0 if found < least else stale + 1, min(least, found)
        if stale > 40 or moment.passes > 3000:
            break
    return least


def excess_after(solver, problem, X, y, best, marks, orders=None) -> list[float]:
    """f - f* of the newest weights at the last sweep that ends within each number of passes."""
    block, newest = block_of(X, y), getattr(solver, "newest", solver.weights)
    found: dict[float, float] = {}
    moments = sweeps(solver, problem, stats_of(X, y), block, orders)
    for moment in takewhile(lambda m: m.passes <= marks[-1] + 1e-9, moments):
        excess = loss_of(problem, block, newest(moment.state)) - best
        found |= {mark: excess for mark in marks if moment.passes <= mark + 1e-9}
        if np.isnan(excess):
            break
    return [found.get(mark, np.nan) for mark in marks]


def row(name: str, measured, published="") -> None:
    print(f"| {name} | {cells(measured)} | {published} |", flush=True)


def cells(measured) -> str:
    return " / ".join(f"{v:.1e}" for v in measured)


def parameters() -> None:
    n, d, lam = 100_000, 20, 1e-4
    print("\n### Section 7.1: least squares, n = 1e5, kappa = 1e4\n")
    print("| | measured | expected |\n|---|---|---|")
    problem, of = Problem(LOSSES["squared"](), L2(lam), 0.0, 1.0), Curvature(1.0, lam)
    chosen = {law: best_parameters(of, n, law) for law in ("geometric", "uniform")}
    published = {"geometric": "261,063, 1/11.4, 0.35", "uniform": "426,660, 1/12.7, 0.54"}
    for law, found in chosen.items():
        h = f"{found.m:,}, 1/{1 / found.h:.2f}, {found.c:.4f}"
        print(f"| m, h, c; nu = {'mu' if law == 'geometric' else '0'} | {h} | {published[law]} |")
    xi = mean_inner_length(261_063, lam, 1 / 11.4)
    print(f"| mean inner length of the printed pair | {xi:,.1f} | |")
    for law, nu in (("geometric", None), ("uniform", 0.0)):
        for seed in range(3):
            X, y = least_squares(n, d, seed)
            H = X.T @ X / n + lam * np.eye(d)
            best = np.linalg.solve(H, X.T @ y / n)
            solver = S2gd(m=chosen[law].m, step=chosen[law].h, nu=nu, subspace=0)
            known, reached = stats_of(X, y, seed), {}
            for moment in sweeps(solver, problem, known, block_of(X, y), independent(n, seed)):
                error = solver.newest(moment.state).coef - best
                reductions = moment.state.epoch
                twice = 2 * moment.passes - reductions  # two gradients per inner step
                excess = (error @ H @ error) / (best @ H @ best)
                for mark, passes in ((40, moment.passes), (-40, twice)):
                    if passes <= 40:
                        reached[mark] = excess
                if moment.passes > 40:
                    break
            name = f"nu = {'mu' if nu is None else '0'}, seed {seed}: 40 passes, slopes kept / not"
            limit = "<= 5e-16 / 8e-15 .. 5e-10" if nu is None else "1e-15 after 34-42 / 59-73"
            row(name, [reached[40], reached[-40]], limit)


PLAIN = {"subspace": 0}  # as the papers have it
SYNTHETIC = {
    "S2GD, t = n, 1/(4 L)": FixedLength(step="largest", **PLAIN),
    "S2GD, t = n, 1/(10 L)": FixedLength(step="conservative", **PLAIN),
    "S2GD, nu = lam, m = n, 1/(10 L)": S2gd(m=20_000, step="conservative", **PLAIN),
    "SVRG, m = n, 1/(10 L)": S2gd(m=20_000, nu=0.0, step="conservative", **PLAIN),
    "S2GD+, 1/(4 L)": S2gdPlus(step="largest", **PLAIN),
    "S2GD as it comes": S2gd(),
    "SAG, 1/(16 L)": Sag(step="safe"),
    "SAG, 1/(4 L)": Sag(step="quarter"),
    "SAG+, 1/(16 L)": SagPlus(step="safe"),
    "SAG+, 1/(4 L)": SagPlus(step="quarter"),
    "L-BFGS": Lbfgs(),
    "SGD, constant step 1/(8 L)": Sgd(gamma0=0.5, c=0.0),
}
PUBLISHED = {
    "S2GD, t = n, 1/(4 L)": "1.9e-3 / 1.2e-5 / 6.5e-8 / 4.3e-12",
    "S2GD, t = n, 1/(10 L)": "4.1e-3 / 3.4e-4 / 3.6e-5 / 5.6e-7",
    "S2GD, nu = lam, m = n, 1/(10 L)": "4.9e-3 / 1.1e-3 / 4.2e-4 / 1.9e-5",
    "SVRG, m = n, 1/(10 L)": "7.4e-3 / 9.8e-4 / 1.5e-4 / 4.1e-6",
    "SAG, 1/(16 L)": "2.1e-3 / 1.9e-4 / 9.5e-6 / 4.0e-8",
    "SAG, 1/(4 L)": "6.4e-4 / 3.9e-5 / 5.1e-7 / 1.7e-10",
    "L-BFGS": "1.0e-1 / 4.1e-2 / 8.9e-3 / 3.6e-4",
    "SGD, constant step 1/(8 L)": "1.6e-2 / 1.5e-2 / 2.7e-2 / 1.3e-2",
}


def synthetic() -> None:
    X, y = sparse_logistic()
    n = len(y)
    problem = Problem(LOSSES["logistic"](), L2(1.0 / n), 0.0, 1.0)
    best = optimum(problem, X, y)
    print(f"\n### Sparse logistic, n = 20,000, kappa = 5001: f* = {best:.12f} (0.4221829267)\n")
    print(f"| f - f* after {MARKS} passes | rows drawn independently | permuted | expected |")
    print("|---|---|---|---|")
    for name, solver in SYNTHETIC.items():
        permuted = excess_after(solver, problem, X, y, best, MARKS, permutations(n))
        drawn, other = permuted, "-"  # SAG draws for itself
        if not isinstance(solver, Sag):
            drawn = excess_after(solver, problem, X, y, best, MARKS, independent(n))
            other = cells(permuted)
        row(name, drawn, f"{other} | {PUBLISHED.get(name, '')}")
    print("\n| f - f* | measured | expected |\n|---|---|---|")
    asgd = Asgd(gamma0=4.0, average_from=0.1)
    row("ASGD, 1/L, after 1 / 2 / 5", excess_after(asgd, problem, X, y, best, (1, 2, 5)),
        "7.8e-3 / 2.3e-3 / 5.5e-4")  # fmt: skip
    for kind, published in ((Sag, "7.6e-2"), (SagPlus, "3.8e-2")):
        name = f"{kind().kind}, 1/(16 L), first pass"
        row(name, excess_after(kind(step="safe"), problem, X, y, best, (1,)), published)
    hinge = Problem(LOSSES["squared_hinge"](), L2(1.0 / n), 0.0, 1.0)
    best = optimum(hinge, X, y)
    solver = FixedLength(step="largest", subspace=0)
    found = excess_after(solver, hinge, X, y, best, (12, 20), independent(n))
    row("squared hinge, S2GD, t = n, 1/(4 L), after 12 / 20", found, "7e-5 / 2e-6")


def tightness() -> None:
    print("\n### Certificate over true excess (first reduce, then every third)\n")
    print("| | measured | expected |\n|---|---|---|")
    X, y = sparse_logistic()
    for loss in ("logistic", "squared_hinge"):
        problem = Problem(LOSSES[loss](), L2(1.0 / len(y)), 0.0, 1.0)
        best, ratios = optimum(problem, X, y), []
        moments = sweeps(S2gd(subspace=0), problem, stats_of(X, y), block_of(X, y))
        for moment in takewhile(lambda m: m.passes < 60, moments):
            state, solver = moment.state, S2gd()
            true = state.bounds.objective - best
            if isinstance(moment.sweep, Reduce) and true > 1e-10:
                ratios.append(solver.certificate(state).gap / true)
        shown = ", ".join(f"{r:.1f}" for r in ratios[::3])
        print(f"| {loss} | {shown} | 17-80 at first, 1.4-3 later |")


def order() -> None:
    print("\n### Storage and order: S2GD, t = n, 1/(4 L), logistic, lam = 1/n, f - f*\n")
    print("| set, storage, order | after 1 / 2 / 4 / 8 epochs | expected |\n|---|---|---|")
    published = {
        ("ijcnn1", "independent"): "1.9e-2 / 3.6e-4 / 3.2e-7 / 4e-14",
        ("ijcnn1", "permutations"): "2.4e-2 / 6.1e-4 / 2.5e-7 / 7e-14",
        ("ijcnn1", "stored, shuffled"): "- / - / 1.8e-7 / 1e-12",
        ("ijcnn1", "stored, sorted by label"): "1.0 / .58 / .21 / 6.7e-2",
        ("a9a", "independent"): "- / - / - / 1.3e-5",
        ("a9a", "permutations"): "- / - / - / 1.5e-5",
        ("a9a", "stored, shuffled"): "- / - / - / 1.4e-5",
        ("a9a", "stored, sorted by label"): "- / - / - / 5.3e-4",
    }
    for name in ("ijcnn1", "a9a"):
        X, y = read(name)
        n = len(y)
        problem = Problem(LOSSES["logistic"](), L2(1.0 / n), 0.0, 1.0)
        best = optimum(problem, X, y)
        shuffled, by_label = np.random.default_rng(0).permutation(n), np.argsort(y, kind="stable")
        orders = {
            "independent": independent(n),
            "permutations": permutations(n),
            "stored, shuffled": lambda sweep, turn, rows=shuffled: rows,
            "stored, sorted by label": lambda sweep, turn, rows=by_label: rows,
        }
        for how, of in orders.items():
            # The published runs go on where f rises: the safeguard is what is left out here.
            solver = Unguarded(step="largest", subspace=0)
            found = excess_after(solver, problem, X, y, best, (2, 4, 8, 16), of)
            row(f"{name}, {how}", found, published[name, how])
        guarded = FixedLength(step="largest", subspace=0)
        found = excess_after(
            guarded, problem, X, y, best, (2, 4, 8, 16), orders["stored, sorted by label"]
        )
        row(f"{name}, the same with the safeguard", found)


class Unguarded(FixedLength):
    """Goes on when f rises."""

    def absorb(self, problem, stats, state, total, sweep):
        bounds = state.bounds._replace(objective=np.inf)
        return super().absorb(problem, stats, state._replace(bounds=bounds), total, sweep)


def read(name: str) -> tuple[csr_matrix, np.ndarray]:
    study = next(study for study in STUDIES if study.name == name)
    path = public_data(study.train)
    with lzma.open(path) if path.suffix == ".xz" else bz2.open(path) as file:
        X, y = load_svmlight_file(file)
    return csr_matrix(X), np.where(y > 0, 1.0, -1.0)


PARTS = {
    "parameters": parameters, "synthetic": synthetic, "certificate": tightness, "order": order,
}  # fmt: skip


if __name__ == "__main__":
    run_parts(PARTS, __doc__)
