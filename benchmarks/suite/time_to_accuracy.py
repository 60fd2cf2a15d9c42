"""CPU seconds until a linear model's objective is within 1e-2 ... 1e-6 of the optimum, relative.

Rows in memory, one thread, no intercept on any side.  Ours are the solvers as they are shipped, run
sweep by sweep (solvers/drive.py); drawing the order of the rows, their norms and every
sweep count.  How far the weights after a sweep are from the optimum is worked out afterwards; ours
are the weights that the next sweep begins with, and beside that stands when the certificate said
so.  Peers do not stop at a given suboptimality: each is fitted anew with more and more effort
(linear_peers.py), every fit is timed whole, and between two fits the logarithm of what is missing
is taken to fall evenly, as it is between two of our sweeps.  CPU seconds of the process: BLAS is
held to one thread.  The least of all turns counts; a turn goes through all contestants.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.suite.linear_peers import PEERS
from benchmarks.suite.workloads import labels, sparse_rows, training_orders
from fewpass.pipeline.planning.auto import FEW_COLUMNS, choose
from fewpass.pipeline.planning.method_choice import MethodRequest
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.estimates.spectrum import SAMPLED_TOO_LOW, sigma_square
from fewpass.solvers.kernels.dispatch import kernel
from fewpass.solvers.kernels.rows import norm2
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import ProblemStats, Solver
from fewpass.solvers.s2gd.s2gd import S2gdPlus
from testing.blocks import block_of

TARGETS = (1e-2, 1e-3, 1e-4, 1e-6)
EXACT = 1e-9  # of the optimum, relative: how well it is known
SAMPLE = 1000  # rows that sigma^2 is measured on, as in a training
OURS: dict[str, dict[str, Solver]] = {
    "logistic": {
        "psdca": Psdca(),
        "sdca": Sdca(),
        "s2gd+": S2gdPlus(),
        "lbfgs": Lbfgs(),
        "newton": Newton(),
    },
    "hinge": {"psdca": Psdca(shrink_rounds=100), "sdca": Sdca(shrink_rounds=100)},
}

Point = tuple[float, float]  # CPU seconds, and what is missing to the optimum by then, relative


class Trial(NamedTuple):
    """One problem; y is -1 or +1."""

    name: str
    X: Any  # (n, d) float32 array or CSR matrix
    y: np.ndarray
    loss: str
    lam: float

    @property
    def problem(self) -> Problem:
        return Problem(LOSSES[self.loss](), L2(self.lam), 0.0, 0.0)

    def objective(self, w: np.ndarray) -> float:
        z = self.y * (self.X @ w)
        phi = np.logaddexp(0.0, -z) if self.loss == "logistic" else np.maximum(0.0, 1.0 - z)
        return float(phi.mean() + 0.5 * self.lam * w @ w)


class Course(NamedTuple):
    """How one contestant came nearer to the optimum."""

    reached: list[Point]
    certified: list[Point]  # by what it proves itself; peers prove nothing


@threadpool_limits.wrap(limits=1)  # before the first sum: threads of BLAS spin on after each
def time_to_accuracy(
    trial: Trial,
    *,
    only: Iterable[str] | None = None,
    turns: int = 1,
    most_seconds: float = 6.0,
    best: float | None = None,
) -> list[dict[str, Any]]:
    """Return a row per contestant: {problem, loss, lam, contestant, chosen, seconds_to, ...}.

    `seconds_to` and `certified_in` map "1e-02" ... to CPU seconds, None where not reached within
    about `most_seconds` a turn; `chosen` marks the method that `--solver auto` takes.  `best` is
    the optimum, where it is known.
    """
    best = reference(trial) if best is None else best
    chosen = auto_choice(trial)
    entries: dict[str, Callable[[], Course]] = {}
    for name, solver in OURS[trial.loss].items():
        if isinstance(solver, Newton) and trial.X.shape[1] > FEW_COLUMNS:
            continue
        entries[f"fewpass {name}"] = lambda solver=solver: our_course(
            trial, solver, best, most_seconds
        )
    for name, peer in PEERS[trial.loss].items():
        entries[name] = peer_course(trial, peer, best, most_seconds)
    wanted = [n for n in entries if only is None or any(part in n for part in only)]
    courses: dict[str, list[Course]] = {name: [] for name in wanted}
    for _ in range(turns):
        for name in wanted:
            courses[name].append(entries[name]())
    return [
        {
            "problem": trial.name, "loss": trial.loss, "lam": trial.lam, "contestant": name,
            "chosen": name == f"fewpass {chosen}",
            "seconds_to": least([course.reached for course in courses[name]]),
            "certified_in": least([course.certified for course in courses[name]]),
            "rows": trial.X.shape[0], "optimum": best,
        }
        for name in wanted
    ]  # fmt: skip


def reference(trial: Trial) -> float:
    """The optimum, certified: the least objective of a long run, known to `EXACT`."""
    solver = Lbfgs(memory=50) if trial.loss == "logistic" else Sdca(shrink_rounds=100)
    problem, (stats, block) = trial.problem, measured(trial)
    deadline = time.process_time() + 60.0
    for moment in sweeps(solver, problem, stats, block, training_orders(stats.n)):
        found = solver.certificate(moment.state)
        if found is not None and found.gap <= EXACT * found.objective:
            break
        if time.process_time() > deadline:
            print(f"{trial.name} {trial.loss}: optimum known to {found.gap / found.objective:.1e}")
            break
    return found.objective - 0.5 * found.gap


@kernel
def norms(rows, out):
    for i in range(out.shape[0]):
        out[i] = norm2(rows, i)


def measured(trial: Trial):
    """What ingest and the start of a training measure, and the rows as the solvers see them."""
    block = block_of(trial.X, trial.y)
    squares, (n, d) = np.empty(len(trial.y)), trial.X.shape
    norms(block.rows, squares)
    spread, first = sigma_square(block.rows, block.weight, d, np.arange(min(n, SAMPLE))), block.rows
    stats = ProblemStats(
        n=n, d=d, rows_kind=type(first), mean_square=float(squares.mean()),
        max_square=float(squares.max()), max_weight=1.0, stream_rows=n, shuffled=True,
        target_square=1.0, sigma_square=min(SAMPLED_TOO_LOW * spread, float(squares.max())),
        streams=1, seed=0,
    )  # fmt: skip
    return stats, block


def auto_choice(trial: Trial) -> str:
    """The method that `--solver auto` takes to a certified 1e-6."""
    stats, _ = measured(trial)
    plan = TrainingPlan(dataset="-", loss=trial.loss, lam=trial.lam, intercept="none", tol=1e-6)
    found = choose(MethodRequest(plan, trial.problem, stats, lambda _: True, resident=True))
    return found.methods[0].kind


def our_course(trial: Trial, solver: Solver, best: float, most_seconds: float) -> Course:
    """One run of ours until it is certified to the last target."""
    began, looking, seen = time.process_time(), 0.0, []
    problem, (stats, block) = trial.problem, measured(trial)
    for moment in sweeps(solver, problem, stats, block, training_orders(stats.n)):
        seconds = time.process_time() - began - looking
        found = solver.certificate(moment.state)
        gap = math.inf if found is None else found.gap / found.objective
        seen.append((seconds, newest(solver, moment.state), gap))
        if gap <= TARGETS[-1] or seconds > most_seconds:
            break
        looking = time.process_time() - began - seconds
    reached = [(at, trial.objective(w) / best - 1.0) for at, w, _ in seen]
    return Course(reached, [(at, gap) for at, _, gap in seen])


def newest(solver: Solver, state: Any) -> np.ndarray:
    """The weights that the next sweep begins with, proven or not."""
    if hasattr(solver, "newest"):
        return solver.newest(state).coef.copy()
    return state.W[:-1, 0].copy()  # sdca, psdca: START


def peer_course(trial: Trial, peer, best: float, most_seconds: float) -> Callable[[], Course]:
    """Fits of a peer, one per effort, each more than the one before."""
    fit: list[Callable[[Any], np.ndarray]] = []

    def course() -> Course:
        if not fit:
            fit.append(peer.prepare(trial.X, trial.y, trial.lam))
        reached = []
        for effort in peer.ladder:
            began = time.process_time()
            w = fit[0](effort)
            seconds = time.process_time() - began
            reached.append((seconds, trial.objective(w) / best - 1.0))
            if reached[-1][1] <= TARGETS[-1] or seconds > most_seconds:
                break
        return Course(reached, [])

    return course


def least(courses: list[list[Point]]) -> dict[str, float | None]:
    """Seconds to every target, the least of several turns."""
    found = [{f"{t:.0e}": seconds_to(points, t) for t in TARGETS} for points in courses]
    every = {key: [s for one in found if (s := one[key]) is not None] for key in found[0]}
    return {key: min(values, default=None) for key, values in every.items()}


def seconds_to(points: list[Point], target: float) -> float | None:
    """Seconds by which a target is reached; the first point is not interpolated."""
    before: Point | None = None
    for seconds, missing in points:
        missing = max(missing, 1e-16)
        if missing <= target:
            if before is None or before[1] <= missing:
                return seconds
            share = math.log(before[1] / target) / math.log(before[1] / missing)
            return before[0] + share * (seconds - before[0])
        before = (seconds, missing)
    return None


def warm_up() -> None:
    """Compile every kernel, and let peers import what they need."""
    rng = np.random.default_rng(0)
    sets = {
        "D1": rng.standard_normal((2_000, 54), dtype=np.float32) / np.float32(np.sqrt(54)),
        "S1": sparse_rows(rng, 1_000, 2_000, 20),
    }
    for name, X in sets.items():
        y = labels(X @ rng.standard_normal(X.shape[1]), rng)
        for loss in OURS:
            for lam in (1e-4, 1e-3):  # steps that diverge take other kernels than those that do not
                time_to_accuracy(Trial(name, X, y, loss, lam), most_seconds=1.0)
