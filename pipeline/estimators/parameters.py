"""What the parameters of an estimator mean."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from pipeline.settings.ingest_plan import ScalingKind
from pipeline.settings.regularisation import Lam
from pipeline.sizes import parse_bytes

SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "maxabs")
DEFAULT_MEMORY = 1 << 30
MOST_PASSES = 1000  # to a tolerance: passes over rows in memory cost little


def strength(lam: Any, n: float) -> float:
    """Return lam as a number; ValueError when it is none, or several."""
    factors = Lam.of(lam).factors
    if len(factors) > 1:
        raise ValueError(
            f"lam is {lam!r}, several values. Give one, or choose among them with GridSearchCV."
        )
    ((number, divided),) = factors
    return number / n if divided else number


def seed_of(random_state: Any) -> int:
    """Return the seed that a random_state means: 0 for None, so that equal fits are equal."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def scaling_of(scale: Any) -> ScalingKind:
    """Return the kind of scaling; ValueError when it is none for estimators."""
    for kind in SCALINGS:
        if scale == kind:
            return kind
    raise ValueError(f"scale is {scale!r}. Choose one of {', '.join(SCALINGS)}.")


def budget_of(memory: Any) -> int:
    """Return the bytes that stored rows may take in memory; ValueError when it is no size."""
    return DEFAULT_MEMORY if memory is None else parse_bytes(memory)
