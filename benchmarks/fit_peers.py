"""CPU seconds to a certified accuracy in memory: an l1 penalty and softmax beside other solvers.

    FEWPASS_DATA=/path python -m benchmarks.fit_peers [--sets SET ...] [--shares .1 .01]

Logistic loss and l1, a share of the least at which all weights are 0; multinomial logistic
regression, lam = 1/n.  No intercept, one thread.  Contestants and their efforts are those of
suite/certified_fits.py: ours proves a gap, relative to the objective; the others get the loosest of
their own tolerances, or the fewest iterations, that arrive there.  All take turns in one process,
once everything is compiled and converted; the least of the turns counts.  What is not installed is
left out (`pip install -r benchmarks/peers.txt`); a fit of more than `--limit` CPU seconds is ended,
and its contestant takes no part in smaller accuracies.  `--sets` without a name sums up what the
file of results has.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.suite.certified_fits import (
    EXACT,
    PEERS,
    FitPeer,
    FitTask,
    enough,
    l1_task,
    softmax_task,
)
from benchmarks.suite.linear_peers import quiet
from benchmarks.suite.programme import TOO_WIDE
from benchmarks.suite.workloads import prepare
from benchmarks.turns import Entrant, begun, contest_options, in_turns
from testing.results import Row, conclude, recorded, rows_of_part

PART = "fit-peers"
L1 = ("reuters", "a9a", "w8a", "imdb-raw")
SOFTMAX = {"sector": 10_000, "mnist": 10_000, "kddcup99": 20_000}  # rows, at most
SHARES = (0.1, 0.01)
ACCURACIES = (1e-2, 1e-4, 1e-6)
ALL_CLASSES = 1e-4  # accuracy
NEEDS = {"celer": "celer", "skglm": "skglm", "LIBLINEAR -s 6": "liblinear"}


def contestants(task: Row, beside: list[str]) -> dict[str, FitPeer]:
    """Return ours, then those asked for that are installed and keep no matrix too large."""
    ours = next(iter(PEERS[task["kind"]]))
    return {
        name: peer for name, peer in PEERS[task["kind"]].items()
        if (name == ours or not beside or name in beside)
        and (name not in NEEDS or find_spec(NEEDS[name])) and (task["set"], name) not in TOO_WIDE
    }  # fmt: skip


def tasks(name: str, given: Any) -> Iterator[tuple[Row, FitTask, list[float]]]:
    """Yield what is fitted to a set, and to which accuracies."""
    if name in SOFTMAX:
        of = softmax_task(name, SOFTMAX[name])
        yield {"kind": "softmax", "set": name, "share": None}, of, [ALL_CLASSES]
        return
    place: Path = prepare(name, given.folder, quick=False)
    for share in given.shares:
        about = {"kind": "l1", "set": name, "share": share}
        yield about, l1_task(str(place), share), given.accuracies


def contests(task: Row, of: FitTask, accuracies: list[float], given: Any) -> Iterator[Row]:
    """Yield a row for each accuracy and contestant."""
    peers = contestants(task, given.beside)
    ours = next(iter(peers))
    with quiet():
        fits = {peer: contestant.prepare(of) for peer, contestant in peers.items()}
        least = of.objective(fits[ours](EXACT[task["kind"]]))
    late: set[str] = set()
    for accuracy in accuracies:
        most, entrants = least * (1.0 + accuracy), dict[str, Entrant]()
        for peer, fit in fits.items():
            effort: Any = accuracy
            if peers[peer].ladder and peer not in late:
                effort, tried = enough(of, fit, peers[peer].ladder, most, given.limit)
                if tried is None or tried.objective > most:
                    late.add(peer)
            if peer not in late:
                entrants[peer] = Entrant(fit, effort)
        about = task | {"accuracy": accuracy}
        for peer in late:
            yield about | {"peer": peer, "cpu_s": None, "limit": given.limit}
        for peer, (seconds, w) in in_turns(entrants, given.turns).items():
            yield about | {
                "peer": peer, "cpu_s": seconds, "effort": entrants[peer].effort,
                "above": of.objective(w) / least - 1.0, "nonzeros": int(np.count_nonzero(w)),
            }  # fmt: skip


def told(row: Row) -> str:
    """Return a row as a line."""
    spent = f"more than {row['limit']}" if row["cpu_s"] is None else f"{row['cpu_s']:.4f}"
    share = f" {row['share']:g}" if row["share"] else ""
    return f"{row['set']}{share} to {row['accuracy']:g}, {row['peer']}: {spent} CPU s"


def findings(rows: list[Row]) -> list[str]:
    """Sentences on the ratios to every peer."""
    ours = {key(row): row["cpu_s"] for row in rows if row["peer"].startswith("fewpass")}
    found = []
    for peer in dict.fromkeys(row["peer"] for row in rows):
        mine = [row for row in rows if row["peer"] == peer]
        ratios = [row["cpu_s"] / ours[key(row)] for row in mine if row["cpu_s"]]
        if not ratios or peer.startswith("fewpass"):
            continue
        found.append(
            f"{peer} takes {min(ratios):.2f} to {max(ratios):.2f} times our CPU seconds, "
            f"{np.exp(np.mean(np.log(ratios))):.2f} times on (geometric) average of "
            f"{len(ratios)} contests of {len(mine)} that it ended."
        )
    return found


def key(row: Row) -> tuple[Any, ...]:
    """Return what tells contests apart."""
    return row["set"], row["share"], row["accuracy"]


def main() -> None:
    """Append a row for every contest and contestant."""
    options = contest_options(__doc__, (*L1, *SOFTMAX))
    options.add_argument("--shares", nargs="+", type=float, default=SHARES)
    options.add_argument("--accuracies", nargs="+", type=float, default=ACCURACIES)
    options.add_argument("--beside", nargs="*", default=[], help="some of the contestants")
    given = begun(options)
    with threadpool_limits(1):
        for name in given.sets:
            for task, of, accuracies in tasks(name, given):
                recorded(given.results, PART, contests(task, of, accuracies, given), told)
    rows = rows_of_part(given.results, PART, ("kind", "set", "share", "accuracy", "peer"))
    conclude(
        given.results, PART, findings(rows),
        ("celer", "skglm", "liblinear-official", "scikit-learn"),
    )  # fmt: skip


if __name__ == "__main__":
    main()
