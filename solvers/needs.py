"""Requirements of a method, declared by its class; unsuitable problems are refused here."""

from __future__ import annotations

from typing import Literal, NamedTuple

from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.registry import LOSS_OF_LABELS, SMALLER_DUAL, WIDE_METHODS


class Needs(NamedTuple):
    """Requirements of a method, and what it stores."""

    loss: Literal["any", "smooth"] = "any"
    """Losses that it supports."""
    only_loss: type[Loss] | None = None
    """The only loss that it supports."""
    numbers_per_row: int = 0
    """Numbers that it stores per row."""
    one_stream: str = ""
    """Why it cannot use several streams, as a clause; empty if it can."""
    instead: str = SMALLER_DUAL
    """The method to suggest instead."""
    several_scores: bool = False
    """Whether it is for losses of several scores, instead of for those of one."""
    most_columns: int | None = None
    """Most columns, for a method that stores a matrix of columns by columns."""


def refuse_unfit(kind: str, needs: Needs, problem: Problem, d: int, streams: int) -> None:
    """Raise ValueError if a method does not suit a problem with d columns, or the streams."""
    if needs.only_loss and not isinstance(problem.loss, needs.only_loss):
        word = needs.only_loss.name
        raise ValueError(
            f"{kind} is a method for the {word} alone: its steps and its certificate need that "
            f"loss's slopes. Use `loss={word}`, or `solver={needs.instead}` for other losses."
        )
    if (problem.loss.width > 1) is not needs.several_scores:
        taken = " or ".join(f"`solver={word}`" for word in WIDE_METHODS)
        raise ValueError(
            f"{kind} trains one score, and {problem.loss.name} is a loss of the scores of all "
            f"{problem.loss.width} classes at once. Use {taken}, or `loss={LOSS_OF_LABELS}` with "
            "`classes=ovr`, a model for each class."
        )
    if needs.loss == "smooth" and not problem.loss.is_smooth:
        raise ValueError(
            "The hinge has a kink, and this method needs a smooth loss. Use the smoothed hinge "
            "(`loss=smoothed_hinge` `smoothing=0.1`): its optimum is one of the hinge to half "
            "of the smoothing."
        )
    if needs.one_stream and streams > 1:
        raise ValueError(
            f"{kind}{needs.one_stream} and cannot walk {streams} streams. Use `streams=1`, or "
            f"`solver={needs.instead}`."
        )
    if needs.most_columns is not None and d > needs.most_columns:
        raise ValueError(
            f"{kind} keeps a matrix of columns by columns, and there are {d} columns, more than "
            f"{needs.most_columns}. Take {needs.instead}."
        )
