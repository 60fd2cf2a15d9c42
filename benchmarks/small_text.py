"""CPU seconds of many passes on small texts, to a certified gap, beside LIBLINEAR's dual.

    FEWPASS_DATA=/path python -m benchmarks.small_text [--sets tweets ...] [--losses hinge ...]

lam = 1/n, no intercept, rows as they lie, float64, one thread.  Ours is a whole
`LinearClassifier(loss=.., solver="psdca", tol=1e-4).fit`, with its checks of rows, and proves a gap
of 1e-4 of the objective.  LIBLINEAR's own package (-s 3, 1 and 7), its problem made before, gets
the loosest -e of 10, 3, 1, .3, .. that ends within 1e-4 of the optimum, which it does not know: the
largest D that ours proved at 1e-6 tells.  Both take turns in one process, and the least of the
turns counts.  A fit of more than `--limit` CPU seconds is ended.
"""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_svmlight_file
from threadpoolctl import threadpool_limits

from benchmarks.data_sets import public_data
from benchmarks.suite.certified_fits import Fit, FitPeer, FitTask, enough
from benchmarks.suite.linear_peers import quiet
from benchmarks.suite.workloads import load, prepare
from benchmarks.turns import Entrant, begun, contest_options, in_turns
from fewpass import LinearClassifier
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from testing.results import Row, conclude, recorded, rows_of_part

PART = "small-text"
SETS = {"tweets": None, "reuters": "reuters", "imdb": "imdb-raw"}  # workloads of the suite
ACCURACY, KNOWN = 1e-4, 1e-6
OURS, THEIRS = "fewpass", "LIBLINEAR"
NUMBER = {"hinge": (3, 1.0), "squared_hinge": (1, 0.5), "logistic": (7, 1.0)}  # -s; C lam n
LOOSEST = tuple(scale * 10.0**-k for k in range(-1, 5) for scale in (1.0, 0.3))


def rows_of(name: str, folder: Path) -> tuple[Any, np.ndarray]:
    """Return rows (n, d), and labels -1 and 1."""
    workload = SETS[name]
    if workload is None:
        with lzma.open(public_data(f"{name}/{name}.train.svm.xz")) as file:
            X, y = load_svmlight_file(file)
    else:
        X, y = load(prepare(workload, folder, quick=False))
    return X.astype(float), np.where(y > 0, 1.0, -1.0)


def fewpass_fit(of: FitTask) -> Fit:
    """Return our estimator's fit; its effort is the certified relative gap."""

    def fit(tol: float) -> np.ndarray:
        words = {"loss": of.problem.loss.name, "lam": of.problem.lam, "solver": "psdca"}
        model = LinearClassifier(**words, tol=tol, fit_intercept=False).fit(of.X, of.y)
        return np.asarray(model.coef_).ravel()

    return fit


def liblinear_dual(of: FitTask) -> Fit:
    """Return LIBLINEAR's dual of a loss; its effort is -e."""
    from liblinear.liblinear import parameter, problem
    from liblinear.liblinearutil import train

    rows, (number, scale) = problem(of.y, of.X), NUMBER[of.problem.loss.name]
    C = scale / (of.problem.lam * len(of.y))

    def fit(e: float) -> np.ndarray:
        model = train(rows, parameter(f"-s {number} -c {C:.17g} -B -1 -e {e:g} -q"))
        w = np.array(model.w[: of.X.shape[1]])
        return w if model.label[0] == 1 else -w

    return fit


PEERS = {OURS: FitPeer(fewpass_fit, ()), THEIRS: FitPeer(liblinear_dual, LOOSEST)}


def contest(name: str, loss: str, rows: tuple[Any, np.ndarray], given: Any) -> Iterator[Row]:
    """Yield a row for each of both."""
    X, y = rows
    of = FitTask(X, y, Problem(LOSSES[loss](), L2(1.0 / len(y)), 0.0, 1.0))
    with quiet():
        fits = {peer: contestant.prepare(of) for peer, contestant in PEERS.items()}
        least = of.objective(fits[OURS](KNOWN))
    most = least * (1.0 + ACCURACY)
    e, tried = enough(of, fits[THEIRS], LOOSEST, most, given.limit)
    arrived = tried is not None and tried.objective <= most
    entrants = {OURS: Entrant(fits[OURS], ACCURACY), THEIRS: Entrant(fits[THEIRS], e)}
    if tried is None:
        del entrants[THEIRS]
    for peer, (seconds, w) in in_turns(entrants, given.turns).items():
        yield {
            "set": name, "loss": loss, "peer": peer, "cpu_s": seconds,
            "effort": entrants[peer].effort,
            "above": of.objective(w) / least - 1.0, "arrived": peer == OURS or arrived,
        }  # fmt: skip


def told(row: Row) -> str:
    """Return a row as a line."""
    short = "" if row["arrived"] else ", not arrived"
    who = f"{row['set']} {row['loss']}, {row['peer']} ({row['effort']:g})"
    return f"{who}: {row['cpu_s']:.4f} CPU s{short}"


def findings(rows: list[Row]) -> list[str]:
    """One sentence for every set and loss: our seconds over theirs."""
    seconds = {(row["set"], row["loss"], row["peer"]): row for row in rows}
    found = []
    for name, loss, peer in seconds:
        theirs = seconds.get((name, loss, THEIRS))
        if peer == OURS and theirs:
            mine = seconds[name, loss, OURS]["cpu_s"]
            short = "" if theirs["arrived"] else f", which ends {theirs['above']:.1e} above"
            found.append(
                f"{name}, {loss}: {1e3 * mine:.1f} ms for LIBLINEAR's {1e3 * theirs['cpu_s']:.1f} "
                f"(-e {theirs['effort']:g}){short}, {mine / theirs['cpu_s']:.2f} times."
            )
    return found


def main() -> None:
    """Append two rows for every set and loss."""
    options = contest_options(__doc__, tuple(SETS))
    options.add_argument("--losses", nargs="+", choices=tuple(NUMBER), default=tuple(NUMBER))
    given = begun(options)
    with threadpool_limits(1):
        for name in given.sets:
            rows = rows_of(name, given.folder)
            for loss in given.losses:
                recorded(given.results, PART, contest(name, loss, rows, given), told)
    all_rows = rows_of_part(given.results, PART, ("set", "loss", "peer"))
    conclude(
        given.results, PART, findings(all_rows), ("liblinear-official", "scikit-learn", "numba")
    )


if __name__ == "__main__":
    main()
