"""How much the objective can curve: what the steps of methods for smooth losses go by."""

from __future__ import annotations

from solvers.intercept import column_length
from solvers.losses import Hinge, Problem
from solvers.protocol import Facts


def refuse_kink(problem: Problem) -> None:
    """Raise ValueError for the plain hinge."""
    if isinstance(problem.loss, Hinge):
        raise ValueError(  # noqa: TRY004 - a setting, not a type
            "The hinge has a kink, and this method needs a smooth loss. Use the smoothed hinge "
            "(--loss smoothed_hinge --smoothing 0.1): its optimum is one of the hinge to half "
            "of the smoothing."
        )


def smoothness(problem: Problem, facts: Facts, square: float) -> float:
    """L of the loss of a row with that ||x||^2, the constant column and lam counted in.

    With the largest eigenvalue of mean x x^T for `square`: L of the mean of the losses.
    """
    column = column_length(problem, facts) * problem.intercept
    return problem.loss.curvature * (square + column**2) + problem.lam
