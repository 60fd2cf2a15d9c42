"""How much the objective can curve: what the steps of methods for smooth losses go by."""

from __future__ import annotations

from fewpass.solvers.intercept import column_length
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats


def smoothness(problem: Problem, stats: ProblemStats, square: float) -> float:
    """L of the loss of a row with that ||x||^2, the constant column and lam counted in.

    With the largest eigenvalue of mean x x^T for `square`: L of the mean of the losses.
    """
    column = column_length(problem, stats) * problem.intercept
    return problem.loss.curvature * (square + column**2) + problem.lam


def refuse_long_step(h: float, lam: float) -> None:
    """Raise ValueError for a step that decay alone would take beyond 0."""
    if h * lam >= 1.0:
        raise ValueError(
            f"step = {h:g} times lam = {lam:g} is not below 1, so a step would flip the sign of "
            "the weights. Lower the step, or leave it out."
        )
