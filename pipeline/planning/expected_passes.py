"""Expected passes of every method until a tolerance is certified: by theory, and as measured.

With D the digits of the tolerance, and K as in conditioning.py for the mean L, a relative
certificate of 10^-D usually took

    sdca                    1 + D + 1.5 K D
    psdca                   1 + D + 0.7 (sqrt(min(K, 16)) + K / 4096) D     few columns: 0.45, 400
    psdca with l1           1 + D (1 + 0.6 sqrt(base / lam))                at most 5.5 D
    asdca                   1 + D / theta
    lbfgs                   4 + 0.5 kappa_f^(1/3) D
    agd                     1 + 1.1 kappa_f^(1/2) D
    newton                  4 + 0.7 D           squared loss 2; l1: 8 + 0.7 D and 4; K scores: 12

with kappa_f = L_f / mu, L_f the smoothness of the objective as a whole.  docs/evidence.jsonl has
the measurements, and the errors on single problems.  Theory is for f - f*, the best parameters
given.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from fewpass.pipeline.planning.conditioning import (
    condition_of_all,
    conditioning,
    digits,
    gap_of,
    share_of_start,
    slowness,
    usual_passes,
    zero_loss,
)
from fewpass.solvers.dual.duality import constant_column
from fewpass.solvers.estimates.smoothness import columns_are_few
from fewpass.solvers.estimates.spectrum import batch_factor
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ENOUGH_MERGES, MOST_MERGES, ProblemStats, Reduce, Solver
from fewpass.solvers.s2gd.theory import Curvature, plan_epochs

SDCA_PER_K = 1.5  # passes, times K and the digits
PER_ROOT, PER_ROOT_FEW = 0.7, 0.45  # times the root of K; where columns are few
MOST_K, MOST_K_FEW = 16.0, 400.0  # from here to about a thousand K tells nothing
FAR_K = 4096.0  # from here on psdca's r lam, at its largest, is too small a lam again
L1_ALONE, WITH_SQUARES = 5.5, 0.6  # of psdca for a digit with an l1 penalty
SOME_SLOWER = 1.25  # times the passes of one stream with few merges
PEGASOS_BOUND = 30.0  # Takac et al. 2013, Theorem 1
LBFGS_START, LBFGS_PER_DIGIT = 4.0, 0.5
AGD_PER_DIGIT = 1.1
NEWTON_START, NEWTON_START_L1, NEWTON_PER_DIGIT = 4.0, 8.0, 0.7
NEWTON_EXACT, NEWTON_EXACT_L1 = 2.0, 4.0  # squared loss
NEWTON_OF_SCORES = 12.0


class ExpectedPasses(NamedTuple):
    """Expected passes until a tolerance; None where unknown."""

    theory: float | None = None  # enough in expectation for f - f* <= tol, best parameters given
    usual: float | None = None  # usual number until the tolerance is certified
    reductions: float | None = None  # fraction of the passes that are reductions


def expected_passes(
    solver: Solver, problem: Problem, stats: ProblemStats, tol: float
) -> ExpectedPasses:
    """Return the expected passes until the certificate's `relative` is `tol`.

    Of a method without a rule, or without a certificate, only the reductions are known.
    """
    names = (kind.__name__ for kind in type(solver).__mro__)
    rule = next((RULES[name] for name in names if name in RULES), None)
    ahead = rule(solver, problem, stats, tol) if rule and tol < 1.0 else ExpectedPasses()
    if ahead.reductions is not None:
        return ahead
    sweeps = solver.program(1)
    reductions = sum(isinstance(sweep, Reduce) for sweep in sweeps)
    return ahead._replace(reductions=reductions / len(sweeps))


def of_gd(_solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """One gradient per pass: f - f* is multiplied by at most 1 - mu / L_f each time."""
    share = share_of_start(problem, stats, tol)
    if conditioning(problem, stats) is None or not share < 1.0:
        return ExpectedPasses()
    left = math.log1p(-1.0 / condition_of_all(problem, stats))
    return ExpectedPasses(theory=math.log(share) / left)


def of_agd(_solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """One gradient per pass: f - f* is at most 2 (1 - sqrt(mu / L_f))^t times the first."""
    share = share_of_start(problem, stats, tol)
    if conditioning(problem, stats) is None or not share < 1.0:
        return ExpectedPasses()
    root = math.sqrt(condition_of_all(problem, stats))
    return ExpectedPasses(
        math.log(0.5 * share) / math.log1p(-1.0 / root), 1.0 + AGD_PER_DIGIT * root * digits(tol)
    )


def of_lbfgs(_solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """One gradient per trial; there is no theory with explicit constants."""
    if conditioning(problem, stats) is None:
        return ExpectedPasses()
    per_digit = LBFGS_PER_DIGIT * condition_of_all(problem, stats) ** (1.0 / 3.0)
    return ExpectedPasses(usual=LBFGS_START + per_digit * digits(tol))


def of_newton(_solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """One pass per trial, digits doubling at the end."""
    if problem.loss.width > 1:
        return ExpectedPasses(usual=NEWTON_OF_SCORES)
    if not problem.loss.is_steep and conditioning(problem, stats) is None:
        return ExpectedPasses()
    growing = NEWTON_START + NEWTON_PER_DIGIT * digits(tol)
    return ExpectedPasses(usual=NEWTON_EXACT if problem.loss.is_quadratic else growing)


def of_working_set(
    _solver: Any, problem: Problem, _stats: ProblemStats, tol: float
) -> ExpectedPasses:
    """The same, and some until the working set is right."""
    growing = NEWTON_START_L1 + NEWTON_PER_DIGIT * digits(tol)
    return ExpectedPasses(usual=NEWTON_EXACT_L1 if problem.loss.is_quadratic else growing)


def of_sdca(solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """Dual ascent row by row; theory for the gap (Shalev-Shwartz and Zhang 2013, Theorem 2)."""
    condition = conditioning(problem, stats)
    if condition is None or solver.batch != "serial" or stats.streams > 1:
        return ExpectedPasses()
    worst = condition.kappa / stats.n
    return ExpectedPasses(
        theory=(1.0 + worst) * math.log(stats.n * (1.0 + worst) / gap_of(stats, tol)),
        usual=1.0 + digits(tol) * (1.0 + SDCA_PER_K * condition.slowness(stats.n)),
    )


def of_psdca(solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """Dual ascent whose conditioning is made better where it is bad; no theory covers it."""
    if not problem.penalty.is_smooth and solver.batch == "serial":
        return ExpectedPasses(usual=1.0 + digits(tol) * per_digit_with_l1(solver, problem, stats))
    condition = conditioning(problem, stats)
    if condition is None or solver.batch not in ("serial", "rounds"):
        return ExpectedPasses()
    K, few = condition.slowness(stats.n), columns_are_few(stats.n, stats.d)
    root, most = (PER_ROOT_FEW, MOST_K_FEW) if few else (PER_ROOT, MOST_K)
    per_digit = 1.0 + root * (math.sqrt(min(K, most)) + K / FAR_K)
    return ExpectedPasses(usual=1.0 + digits(tol) * per_digit * slower_in_streams(stats))


def per_digit_with_l1(solver: Any, problem: Problem, stats: ProblemStats) -> float:
    """Return passes to expect for a digit: fewer, the more of the steps' base is the penalty's."""
    own = solver.step_problem(problem, stats).lam / problem.lam if problem.lam else math.inf
    return min(L1_ALONE, 1.0 + WITH_SQUARES * math.sqrt(own))


def slower_in_streams(stats: ProblemStats) -> float:
    """Return how many times the passes of one stream several of them take, by their merges."""
    if stats.streams == 1 or stats.merges >= MOST_MERGES:
        return 1.0
    return float(SOME_SLOWER if stats.merges >= ENOUGH_MERGES else stats.streams ** (1.0 / 3.0))


def of_asdca(solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """Theory for the gap: m gap <= m (P - P*) + n (D* - D), Theorem 1."""
    theta = solver.foreseen_theta(problem, stats)
    if conditioning(problem, stats) is None or not theta:
        return ExpectedPasses()
    n, m = stats.n, solver.rows_per_batch(problem, stats)
    # of the gap's bound at zero weights, which are best where all targets are 0
    least = m * gap_of(stats, tol)
    most = math.log(max(n * zero_loss(problem, stats), least) / least)
    step = math.log1p(-min(theta * m / n, 1.0 - 1e-12))
    theory = None if isinstance(solver.theta, float) else -most / step * m / n
    return ExpectedPasses(theory, usual=1.0 + digits(tol) / theta)


def of_pegasos(solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """Theory: E f - f* <= (beta_b / b) 30 R^2 / (lam T) after T batches of b rows."""
    if stats.streams > 1:
        return ExpectedPasses()
    column = constant_column(problem, stats).value
    largest = (stats.max_square + column**2) * stats.max_weight
    beta = batch_factor(solver.batch_size, stats.sigma_square + column**2, largest)
    steps = PEGASOS_BOUND * largest * beta / (problem.lam * gap_of(stats, tol))  # times b
    return ExpectedPasses(theory=steps / stats.n)


def of_s2gd(solver: Any, problem: Problem, stats: ProblemStats, tol: float) -> ExpectedPasses:
    """Semi-stochastic epochs; in theory (Theorem 6) with one gradient per inner step."""
    condition, share = conditioning(problem, stats), share_of_start(problem, stats, tol)
    if condition is None:
        return ExpectedPasses()
    (h, inner), theory = solver.pace(problem, stats), None
    if condition.mu < condition.largest and share < 1.0:  # f - f* <= f(0) at the start
        of = Curvature(condition.largest, condition.mu)
        theory = plan_epochs(of, stats.n, share, solver.law, gradients=1).work / stats.n
    usual = usual_passes(slowness(h, condition.mu, stats.n), tol, inner, solver.subspace > 0)
    return ExpectedPasses(theory, usual, 1.0 / (1.0 + inner))


#: Of methods by the name of their class, or of one that it derives from.
RULES: dict[str, Callable[[Any, Problem, ProblemStats, float], ExpectedPasses]] = {
    "Gd": of_gd, "Agd": of_agd, "Lbfgs": of_lbfgs,
    "Newton": of_newton, "WorkingSetNewton": of_working_set,
    "Sdca": of_sdca, "Psdca": of_psdca, "Asdca": of_asdca, "Pegasos": of_pegasos, "S2gd": of_s2gd,
}  # fmt: skip
