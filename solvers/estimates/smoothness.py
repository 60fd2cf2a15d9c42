"""Smoothness of the objective, from which methods for smooth losses derive step sizes."""

from __future__ import annotations

from fewpass.solvers.intercept import column_length
from fewpass.solvers.losses import Problem
from fewpass.solvers.protocol import ProblemStats

FEW = 10  # times as many rows as columns, or more: columns are few


def columns_are_few(n: int, d: int) -> bool:
    """Say whether K, as a problem's smoothness gives it, foretells how slow dual ascent is."""
    return FEW * d < n


def smoothness(problem: Problem, stats: ProblemStats, square: float) -> float:
    """Return L of the loss of a row with ||x||^2 = `square`, including constant column and lam.

    With the largest eigenvalue of mean x x^T as `square`: L of the mean loss.
    """
    column = column_length(problem, stats) * problem.intercept
    return problem.loss.curvature * (square + column**2) + problem.lam


def refuse_long_step(h: float, lam: float) -> None:
    """Raise ValueError if lam h >= 1: the decay alone would flip the sign of the weights."""
    if h * lam >= 1.0:
        raise ValueError(
            f"step = {h:g} times lam = {lam:g} is not below 1, so a step would flip the sign of "
            "the weights. Lower the step, or leave it out."
        )
