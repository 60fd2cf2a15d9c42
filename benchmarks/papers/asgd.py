"""Experiments 6.1 and 6.2 of Xu (2011), run with the project's own kernels.

    python -m benchmarks.papers.asgd [--seeds N] [--steps T]

prints the tables of docs/papers/asgd.md and draws docs/figures/asgd-6.1.png and asgd-6.2.png.

6.1 estimates a mean: theta <- theta - gamma_t A (theta - x_t) with A = diag(1, 1, 1, .02 x 97),
x_t ~ N(0, I).  One step moves all coordinates, which no single row does; but A is diagonal, so
the experiment is 100 runs of one weight each, with the squared loss on rows (sqrt(A_k)) with
targets sqrt(A_k) x_tk: the slope times the row is A_k (theta_k - x_tk).

6.2 is least squares with 100 features, written down as it stands.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.losses import Problem, Squared
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Block, ProblemStats
from fewpass.solvers.sgd.averaged_sgd import Asgd, Sgd
from fewpass.solvers.sgd.averaged_state import read_out

D = 100
BLOCK = 10_000
FIGURES = Path(__file__).parents[2] / "docs/figures"
#: No regulariser: the noise alone makes these problems well posed.
PROBLEM = Problem(Squared(), L2(0.0), intercept=0.0, lam_b=1.0)

EIGENVALUES = np.r_[np.ones(3), np.full(D - 3, 0.02)]
MEAN_METHODS = {
    "ASGD": Asgd(gamma0=1.0, a=0.02, c=2 / 3, average_from=0),
    "ASGD_BAD": Asgd(gamma0=1.0, a=1.0, c=1 / 2, average_from=0),
    "SGD": Sgd(gamma0=1.0, a=0.02, c=1.0),
}
#: Expected risks (exact moment recursion) at t = 1e3, 1e4, 1e5, 1e6.
MEAN_EXPECTED = {
    "ASGD": [2.111e-2, 6.812e-4, 5.196e-5, 4.996e-6],
    "ASGD_BAD": [4.359e-1, 2.799e-2, 3.841e-4, 8.324e-6],
    "SGD": [8.003e-2, 7.797e-3, 7.772e-4, 7.770e-5],
    "batch": [4.94e-3, 4.94e-4, 4.94e-5, 4.94e-6],
}

VARIANCES = np.linspace(0.01, 1.0, D)
GAMMA0 = 1.0 / VARIANCES.sum()
REGRESSION_METHODS = {
    "ASGD": Asgd(gamma0=GAMMA0, a=0.01, c=2 / 3, average_from=0),
    "SGD": Sgd(gamma0=GAMMA0, a=0.01, c=1.0),
    "ASGD_a1": Asgd(gamma0=GAMMA0, a=1.0, c=2 / 3, average_from=0),
}
#: Exact ratios to the batch solution's risk 100 / (t - 101) at the same t.
REGRESSION_EXPECTED = {
    "ASGD": [12.24, 3.52, 1.452, 1.074],
    "SGD": [8.31, 20.5, 24.9, 25.4],
    "ASGD_a1": [38.0, 38.0, 50.0, 83.0],
}


def stats(d: int, steps: int) -> ProblemStats:
    """No step size here asks the data for anything."""
    return ProblemStats(steps, d, DenseRows, 1.0, 1.0, 1.0, steps, True, 1.0, 1.0, 1, 0)


def stretches(marks: list[int]) -> list[tuple[int, bool]]:
    """Block lengths that end at every mark, and whether a mark is reached."""
    ends = sorted(set(marks) | set(range(BLOCK, marks[-1], BLOCK)))
    return [(end - start, end in marks) for start, end in zip([0, *ends], ends, strict=False)]


def visit(solver: Sgd, state, X, y):
    n = len(y)
    block = Block(DenseRows(X), y, np.ones(n), np.arange(n), np.empty(0))
    return solver.step(PROBLEM, stats(X.shape[1], n), state, block)


def mean_estimation(seed: int, marks: list[int]) -> dict[str, list[float]]:
    """Risks theta^T A theta of one seed of 6.1 at the marks, from theta_0 = (1, ..., 1)."""
    rng = np.random.default_rng(seed)
    states = {name: [s.init(PROBLEM, stats(1, 1)) for _ in range(D)]
              for name, s in MEAN_METHODS.items()}  # fmt: skip
    for run in states.values():
        for state in run:
            state.W[:, 0] = 1.0
    risks: dict[str, list[float]] = {name: [] for name in [*states, "batch"]}
    total, t = np.zeros(D), 0
    for n, marked in stretches(marks):
        x = rng.standard_normal((n, D))
        total, t = total + x.sum(axis=0), t + n
        x = np.ascontiguousarray(x.T)
        for k, A in enumerate(EIGENVALUES):
            X, y = np.full((n, 1), np.sqrt(A)), np.sqrt(A) * x[k]
            for name, solver in MEAN_METHODS.items():
                states[name][k] = visit(solver, states[name][k], X, y)
        if marked:
            for name, run in states.items():
                theta = np.array([read_out(state)[1].coef[0] for state in run])
                risks[name].append(float(EIGENVALUES @ theta**2))
            risks["batch"].append(float(EIGENVALUES @ (total / t) ** 2))
    return risks


def regression(seed: int, marks: list[int]) -> dict[str, list[float]]:
    """Risks of one seed of 6.2 at the marks, divided by the batch solution's 100 / (t - 101)."""
    rng = np.random.default_rng(seed)
    states = {name: s.init(PROBLEM, stats(D, 1)) for name, s in REGRESSION_METHODS.items()}
    ratios: dict[str, list[float]] = {name: [] for name in states}
    t = 0
    for n, marked in stretches(marks):
        X = rng.standard_normal((n, D)) * np.sqrt(VARIANCES)
        y, t = X.sum(axis=1) + rng.standard_normal(n), t + n
        for name, solver in REGRESSION_METHODS.items():
            states[name] = visit(solver, states[name], X, y)
            if marked:
                error = read_out(states[name])[1].coef - 1.0
                ratios[name].append(float(VARIANCES @ error**2) * (t - 101) / D)
    return ratios


def draw(path: Path, marks, curves, exact_marks, exact, title: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.5, 4.0), layout="constrained")
    for k, (name, values) in enumerate(curves.items()):
        axes.loglog(marks, values, color=f"C{k}", label=name)
        axes.loglog(exact_marks, exact[name], "o", color=f"C{k}", markerfacecolor="none")
    axes.axhline(1.0, color="grey", linewidth=0.8)
    axes.set(xlabel="rows seen, t", ylabel="risk / risk of the batch solution", title=title)
    axes.plot([], [], "o", color="grey", markerfacecolor="none", label="expected, exact")
    figure.legend(loc="outside right center")
    axes.grid(visible=True, which="major", alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def table(title: str, measured, expected, marks, powers) -> None:
    print(f"\n{title}\n{'t':>10}" + "".join(f"{t:>22.0e}" for t in powers))
    for name, values in measured.items():
        cells = []
        for t, exact in zip(powers, expected[name], strict=False):
            cells.append(f"{values[marks.index(t)]:>11.4g} ({exact:.4g})".rjust(22))
        print(f"{name:>10}" + "".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--steps", type=int, default=1_000_000)
    options = parser.parse_args()
    marks = sorted({round(10**p) for p in np.arange(2.5, np.log10(options.steps) + 0.01, 0.1)})
    powers = [t for t in (1000, 10_000, 100_000, 1_000_000) if t <= options.steps]
    marks = sorted(set(marks) | set(powers))

    runs = [mean_estimation(seed, marks) for seed in range(options.seeds)]
    risks = {name: np.mean([r[name] for r in runs], axis=0) for name in runs[0]}
    table("6.1  risk, mean of the seeds (expected)", risks, MEAN_EXPECTED, marks, powers)
    batch = EIGENVALUES.sum() / np.array(marks)
    exact = {n: np.array(v[: len(powers)]) * powers / EIGENVALUES.sum()
             for n, v in MEAN_EXPECTED.items()}  # fmt: skip
    FIGURES.mkdir(parents=True, exist_ok=True)
    draw(FIGURES / "asgd-6.1.png", marks, {n: v / batch for n, v in risks.items()},
         powers, exact, "6.1: a mean, step with A")  # fmt: skip

    runs = [regression(seed, marks) for seed in range(2 * options.seeds)]
    ratios = {name: np.mean([r[name] for r in runs], axis=0) for name in runs[0]}
    table("6.2  risk / batch (exact)", ratios, REGRESSION_EXPECTED, marks, powers)
    draw(FIGURES / "asgd-6.2.png", marks, ratios, powers,
         {n: v[: len(powers)] for n, v in REGRESSION_EXPECTED.items()},
         "6.2: least squares, 100 features")  # fmt: skip


if __name__ == "__main__":
    main()
