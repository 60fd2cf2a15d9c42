"""What models are compared by: the cost of the metric that was asked for, else their mean loss."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def criterion_of(loss: T, cost: T | None) -> T:
    """Return what models are compared by, the lower the better; no cost: the loss is the metric."""
    return loss if cost is None else cost
