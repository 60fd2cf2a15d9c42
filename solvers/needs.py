"""Requirements of a method, declared by its class; unsuitable problems are refused here."""

from __future__ import annotations

from typing import Literal, NamedTuple

from fewpass.solvers.losses import Loss, Problem
from fewpass.solvers.penalties import Penalty, strength
from fewpass.solvers.registry import (
    DUAL,
    L1,
    L1_RATIOS,
    L2,
    LOSS_OF_LABELS,
    LOSSES,
    METHODS,
    PENALTIES,
    SECOND_ORDER,
    SMALLER_DUAL,
    WIDE_METHODS,
    loss_class,
    method_class,
    penalty_class,
)


class Needs(NamedTuple):
    """Requirements of a method, and what it stores."""

    loss: Literal["any", "smooth"] = "any"
    """Losses that it supports."""
    only_loss: type[Loss] | None = None
    """The only loss that it supports."""
    penalty: Literal["smooth", "sizes", "strong", "any"] = "smooth"
    """Penalties that it supports: those with a gradient, also those of sizes (l1, elastic net,
    groups), all sums over columns with squares in them, or all such sums."""
    numbers_per_row: int = 0
    """Numbers that it stores per row."""
    one_stream: str = ""
    """Why it cannot use several streams, as a clause; empty if it can."""
    instead: str = SMALLER_DUAL
    """The method to suggest instead."""
    several_scores: bool = False
    """True where it is for losses of several scores, instead of for those of one."""
    most_columns: int | None = None
    """Most columns, for a method that stores a matrix of columns by columns."""
    steep: bool = False
    """True where it takes losses whose slope and curvature have no bound."""


def refuse_loss(kind: str, needs: Needs, problem: Problem) -> None:
    """Raise ValueError if a method does not take a problem's loss."""
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
    if needs.loss == "smooth" and not problem.loss.is_smooth and problem.loss.takes_numbers:
        raise ValueError(
            f"The {problem.loss.name} loss has a kink, and {kind} needs a smooth loss. Use "
            f"`solver={DUAL}`."
        )
    if needs.loss == "smooth" and not problem.loss.is_smooth:
        raise ValueError(
            f"The hinge has a kink, and {kind} needs a smooth loss. Use the smoothed hinge "
            "(`loss=smoothed_hinge` `smoothing=0.1`): its optimum is one of the hinge to half "
            "of the smoothing."
        )
    if problem.loss.is_steep and not needs.steep:
        word = problem.loss.name
        raise ValueError(
            f"The slope of the {word} loss has no bound, and {kind} needs one for its steps. Use "
            f"`solver={DUAL}` or `solver={SECOND_ORDER}`."
        )


def refuse_unfit(kind: str, needs: Needs, problem: Problem, d: int, streams: int) -> None:
    """Raise ValueError if a method does not suit a problem with d columns, or the streams."""
    refuse_loss(kind, needs, problem)
    refuse_penalty(kind, needs, problem)
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


def takes(needs: Needs, problem: Problem) -> bool:
    """Return whether a method takes a problem's loss and penalty, with any number of columns."""
    try:
        refuse_unfit("", needs._replace(most_columns=None), problem, 0, 1)
    except ValueError:
        return False
    return True


def takes_loss(needs: Needs, problem: Problem) -> bool:
    """Return whether a method takes a problem's loss, whatever the penalty."""
    try:
        refuse_loss("", needs, problem)
    except ValueError:
        return False
    return True


def takes_penalty(needs: Needs, penalty: Penalty) -> bool:
    """Return whether a method takes a penalty."""
    if penalty.is_smooth:
        return True
    if not penalty.by_column:
        return needs.penalty == "sizes"
    if needs.penalty in ("any", "sizes"):
        return needs.penalty == "any" or penalty.is_l1
    return needs.penalty == "strong" and bool(strength(penalty) > 0.0)


def refuse_penalty(kind: str, needs: Needs, problem: Problem) -> None:
    """Raise ValueError if a method does not take a problem's penalty; names those that do."""
    penalty = problem.penalty
    if takes_penalty(needs, penalty):
        return
    article = "an" if penalty.name[0] in "aeiol" else "a"
    if needs.penalty == "strong" and penalty.by_column and problem.loss.width == 1:
        raise ValueError(
            f"{kind} divides by what the penalty charges for squares, and l1 alone charges none. "
            f"Use `l1_ratio=0.99`, or `solver={DUAL}`."
        )
    wanted = {word: method_class(word).needs for word in (SECOND_ORDER, DUAL)}
    able = [
        word
        for word, other in wanted.items()
        if takes_loss(other, problem) and takes_penalty(other, penalty)
    ]
    if not able:
        other = L2 if penalty.by_column else L1
        of_classes = f"`loss={LOSS_OF_LABELS}`, a model for each class, or "
        raise ValueError(
            f"No method takes {problem.loss.name} with {article} {penalty.name} penalty. Use "
            f"{of_classes if problem.loss.width > 1 else ''}`penalty={other}`."
        )
    raise ValueError(
        f"{kind} does not take {article} {penalty.name} penalty; {' and '.join(able)} "
        f"{'do' if len(able) > 1 else 'does'}. Use `solver={able[0]}`, or `penalty={L2}`."
    )


def able_methods(loss: str, penalty: str) -> tuple[str, ...]:
    """Return the methods that take a loss with a penalty, all by name."""
    ratio = L1_RATIOS.get(penalty, 0.0)
    problem = Problem(loss_class(loss)(), penalty_class(penalty).of(1.0, ratio), 1.0, 0.01)
    width = problem.loss.width
    words = METHODS if width == 1 else WIDE_METHODS
    return tuple(word for word in words if takes(method_class(word, width).needs, problem))


def table_of_methods() -> list[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    """Return penalty, losses and methods, for every combination; equal losses in one row."""
    rows: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for penalty in PENALTIES:
        for loss in LOSSES:
            rows.setdefault((penalty, able_methods(loss, penalty)), []).append(loss)
    return [(penalty, tuple(losses), able) for (penalty, able), losses in rows.items()]
