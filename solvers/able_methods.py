"""Which methods take which loss with which penalty, by what their classes declare."""

from __future__ import annotations

from fewpass.solvers.losses import Problem
from fewpass.solvers.needs import takes
from fewpass.solvers.registry import (
    L1_RATIOS,
    LOSSES,
    METHODS,
    PENALTIES,
    WIDE_METHODS,
    loss_class,
    method_class,
    penalty_class,
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
