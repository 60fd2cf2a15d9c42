"""How many passes a method is going to take: by theory, and as measured.

A step h at each of n rows follows the slow directions of the objective for a time h n, so what
decides for S2GD is

    K = 1 / (4 h mu n)        for h = 1 / (4 L):  K = L / (mu n)

To a relative certificate of 10^-D, epochs of one gradient and one pass of inner steps usually took

    passes = 2 + D + 2.4 sqrt(K) D          (3 + 2 D + 0.3 K D^2 without secants)

Dual coordinate ascent, with the same K for the mean L, took 1 + D + 1.5 K D, its accelerated form
1 + D / theta, L-BFGS 4 + 0.5 kappa_f^(1/3) D and accelerated gradient descent
1 + 1.1 kappa_f^(1/2) D, with kappa_f = L_f / mu, L_f the smoothness of the objective as a whole.
docs/forecasts.md tells on what that was measured, and how far single problems are off.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import NamedTuple

from solvers.agd import Agd
from solvers.asdca import Asdca
from solvers.duality import constant_column
from solvers.gd import Gd
from solvers.lbfgs import Lbfgs
from solvers.losses import Problem, Squared, value
from solvers.newton import Newton
from solvers.pegasos import Pegasos
from solvers.planner import Curvature, Law, plan_epochs
from solvers.protocol import Facts, Solver
from solvers.s2gd import S2gd, Svrg
from solvers.sdca import Sdca
from solvers.smoothness import smoothness
from solvers.spectrum import batch_factor

PER_DIGIT, PER_ROOT = 1.0, 2.4
PLAIN_PER_DIGIT, PLAIN_CURVED = 2.0, 0.3  # secants = 0
DUAL_PER_K = 1.5
AGD_PER_DIGIT = 1.1
LBFGS_START, LBFGS_PER_DIGIT = 4.0, 0.5
NEWTON_START, NEWTON_PER_DIGIT = 4.0, 0.7
PEGASOS_BOUND = 30.0  # Takac et al. 2013, Theorem 1


class Conditioning(NamedTuple):
    """What decides how hard a problem is."""

    largest: float  # every row's loss is that smooth, constant column and regularisation included
    mean: float  # the rows' smoothness on average
    mu: float  # strong convexity: lam

    @property
    def kappa(self) -> float:
        """The theory's condition number: the largest smoothness over mu."""
        return self.largest / self.mu


class Outlook(NamedTuple):
    """Passes until a tolerance; None where nothing can be said."""

    theory: float | None  # enough in expectation for f - f* <= tol, with the best parameters
    usual: float | None  # what a certificate of the tolerance usually takes
    gathers: float  # share of the passes that are gathers


def conditioning(problem: Problem, facts: Facts) -> Conditioning | None:
    """Work out L and mu from what ingest measured; None for a loss with a kink.

    The intercept's own lam_b is left out of mu: the data decide it, not its regularisation.
    """
    if math.isinf(problem.loss.curvature):
        return None
    largest = facts.max_square * facts.max_weight
    return Conditioning(
        largest=smoothness(problem, facts, largest),
        mean=smoothness(problem, facts, facts.mean_square),
        mu=problem.lam,
    )


@singledispatch
def outlook(solver: Solver, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """Tell how many passes `solver` takes until the gap over max(1, |objective|) is `tol`.

    Methods of few passes come to no certificate in any number of passes worth telling.
    """
    return Outlook(theory=None, usual=None, gathers=0.0)


@outlook.register
def _(solver: S2gd, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """Semi-stochastic epochs; theory knows the random laws, whose best parameters it takes."""
    known = conditioning(problem, facts)
    if known is None or not tol < 1.0:
        return Outlook(None, None, 0.5)
    h, inner_passes = solver.pace(problem, facts)
    return Outlook(
        theory=theory_passes(known, problem, facts, tol, law_of(solver)),
        usual=usual_passes(slowness(h, known.mu, facts.n), tol, inner_passes, solver.secants > 0),
        gathers=1.0 / (1.0 + inner_passes),
    )


@outlook.register
def _(solver: Sdca, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """Dual ascent row by row; theory for the gap (Shalev-Shwartz and Zhang 2013, Theorem 2)."""
    known, serial = conditioning(problem, facts), solver.batch == "serial" and facts.streams == 1
    if known is None or not serial or not tol < 1.0:
        return Outlook(None, None, 0.0)
    worst = known.kappa / facts.n
    return Outlook(
        theory=(1.0 + worst) * math.log(facts.n * (1.0 + worst) / tol),
        usual=1.0 + digits(tol) * (1.0 + DUAL_PER_K * known.mean / (known.mu * facts.n)),
        gathers=0.0,
    )


@outlook.register
def _(solver: Pegasos, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """Subgradient steps: E f - f* <= (beta_b / b) 30 R^2 / (lam T) after T batches of b rows."""
    if facts.streams > 1 or not tol < 1.0:
        return Outlook(None, None, 0.0)
    column = constant_column(problem, facts).value
    largest = (facts.max_square + column**2) * facts.max_weight
    beta = batch_factor(solver.batch_size, facts.sigma_square + column**2, largest)
    steps = PEGASOS_BOUND * largest * beta / (problem.lam * tol)  # times b
    return Outlook(theory=steps / facts.n, usual=None, gathers=0.0)


@outlook.register
def _(solver: Asdca, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """Dual ascent in batches; theory for the gap: m gap <= m (P - P*) + n (D* - D), Theorem 1."""
    theta = solver.foreseen_theta(problem, facts)
    if conditioning(problem, facts) is None or theta is None or not tol < 1.0:
        return Outlook(None, None, 0.0)
    n, m = facts.n, solver.rows_per_batch(problem, facts)
    most = math.log(n * zero_loss(problem, facts) / (m * tol))
    step = math.log1p(-min(theta * m / n, 1.0 - 1e-12))
    return Outlook(
        theory=None if isinstance(solver.theta, float) else max(0.0, -most / step * m / n),
        usual=1.0 + digits(tol) / theta,
        gathers=0.0,
    )


@outlook.register
def _(solver: Agd, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """One gradient a pass: f - f* is at most 2 (1 - sqrt(mu / L_f))^t of what it was."""
    share = tol / max(tol, zero_loss(problem, facts))
    if conditioning(problem, facts) is None or not share < 1.0:
        return Outlook(None, None, 1.0)
    root = math.sqrt(condition_of_all(problem, facts))
    return Outlook(
        theory=math.log(0.5 * share) / math.log1p(-1.0 / root),
        usual=1.0 + AGD_PER_DIGIT * root * digits(tol),
        gathers=1.0,
    )


@outlook.register
def _(solver: Gd, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """One gradient a pass: f - f* falls by mu / L_f each time."""
    share = tol / max(tol, zero_loss(problem, facts))
    if conditioning(problem, facts) is None or not share < 1.0:
        return Outlook(None, None, 1.0)
    left = math.log1p(-1.0 / condition_of_all(problem, facts))
    return Outlook(theory=math.log(share) / left, usual=None, gathers=1.0)


@outlook.register
def _(solver: Lbfgs, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """One gradient a trial; there is no theory with numbers in it."""
    if conditioning(problem, facts) is None or not tol < 1.0:
        return Outlook(None, None, 1.0)
    per_digit = LBFGS_PER_DIGIT * condition_of_all(problem, facts) ** (1.0 / 3.0)
    return Outlook(theory=None, usual=LBFGS_START + per_digit * digits(tol), gathers=1.0)


@outlook.register
def _(solver: Newton, problem: Problem, facts: Facts, tol: float) -> Outlook:
    """One pass a trial, digits doubling at the end; one more than two certifies a square."""
    if conditioning(problem, facts) is None or not tol < 1.0:
        return Outlook(None, None, 1.0)
    exact = isinstance(problem.loss, Squared)
    usual = 2.0 if exact else NEWTON_START + NEWTON_PER_DIGIT * digits(tol)
    return Outlook(theory=None, usual=usual, gathers=1.0)


def condition_of_all(problem: Problem, facts: Facts) -> float:
    """kappa_f: smoothness of the objective as a whole over mu, a little above 1 at least."""
    return max(1.0 + 1e-6, smoothness(problem, facts, facts.sigma_square) / problem.lam)


def law_of(solver: S2gd) -> Law:
    """Return the law with which theory covers the method."""
    return "uniform" if isinstance(solver, Svrg) or solver.nu == 0.0 else "geometric"


def theory_passes(
    known: Conditioning, problem: Problem, facts: Facts, tol: float, law: Law
) -> float | None:
    """Passes that Theorem 6 asks for at most, one gradient per inner step."""
    share = tol / max(tol, zero_loss(problem, facts))  # f - f* <= f(0) at the start
    if not known.mu < known.largest or not share < 1.0:
        return None
    of = Curvature(known.largest, known.mu)
    return plan_epochs(of, facts.n, share, law, gradients=1).work / facts.n


def zero_loss(problem: Problem, facts: Facts) -> float:
    """Objective of zero weights."""
    square = facts.target_square if isinstance(problem.loss, Squared) else 1.0
    return float(value(problem.loss, 0.0, math.sqrt(square)))


def digits(tol: float) -> float:
    """D of a tolerance."""
    return max(0.0, -math.log10(tol))


def slowness(h: float, mu: float, n: int) -> float:
    """K of a step h per row visited."""
    return 1.0 / (4.0 * h * mu * n)


def usual_passes(K: float, tol: float, inner_passes: float = 1.0, secants: bool = True) -> float:
    """Passes until the certificate, over max(1, |objective|), is at most `tol`.

    An epoch is a gradient and `inner_passes` passes of inner steps.
    """
    D, K = digits(tol), K / inner_passes
    if secants:
        epochs = (1.0 + PER_DIGIT * D + PER_ROOT * math.sqrt(K) * D) / 2.0
    else:
        epochs = (2.0 + PLAIN_PER_DIGIT * D + PLAIN_CURVED * K * D**2) / 2.0
    return 1.0 + epochs * (1.0 + inner_passes)


def slowness_for(passes: float, tol: float) -> float | None:
    """K at which `usual_passes` says that many with secants; None where none is small enough."""
    D = digits(tol)
    left = passes - 2.0 - PER_DIGIT * D
    return (left / (PER_ROOT * D)) ** 2 if left > 0.0 and D > 0.0 else None
