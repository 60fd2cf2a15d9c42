"""The parameters of an estimator as numbers and words of a plan."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fewpass.pipeline.settings.ingest_plan import ScalingKind
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.sizes import parse_bytes

SCALINGS: tuple[ScalingKind, ...] = ("none", "standard", "maxabs", "rms")
DEFAULT_MEMORY = 1 << 30
MOST_PASSES = 1000  # to a tolerance: passes over rows in memory cost little


def written_lam(lam: Any, n: float, *, several: bool) -> str:
    """Return lam as plans have it, for n rows; ValueError when it may not be `several` values."""
    own = _parsed(lam).resolved("/n", n)
    if own.has("max") and (several or len(own.factors) == 1):
        return str(own.written)
    return ",".join(map(repr, own.values(n) if several else [strength(lam, n)]))


def _parsed(lam: Any) -> Lam:
    several = not isinstance(lam, str) and hasattr(lam, "__len__") and np.ndim(lam) > 0
    return Lam.of(",".join(map(str, lam)) if several else lam)


def is_auto(lam: Any) -> bool:
    """Return whether held-out rows are to choose lam."""
    return _parsed(lam).is_auto


def strength(lam: Any, n: float) -> float:
    """Return lam as a number; ValueError when it is none, or several."""
    values = _parsed(lam).values(n)
    if len(values) > 1:
        raise ValueError(
            f"lam is {lam!r}, several values, and nothing to choose by. Give one, or held_out=0.1."
        )
    return values[0]


def share_of(held_out: Any, early_stopping: Any = False, validation_fraction: Any = 0.1) -> float:
    """Return the share of rows to hold out, 0 for none; ValueError when it is no share.

    Where a training may stop early, `validation_fraction` is it unless `held_out` is given.
    """
    name, share = "held_out", held_out
    if share is None and early_stopping:
        name, share = "validation_fraction", validation_fraction
    if share is None:
        return 0.0
    if not isinstance(share, int | float | np.floating) or not 0.0 < share < 1.0:
        raise ValueError(f"{name} is {share!r}. Give a share of the rows, such as 0.1.")
    return float(share)


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
