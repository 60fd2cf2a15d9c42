"""Numbers far from all others."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Numbers that tell what is usual: of fewer none is an outlier.
FEWEST = 1000
#: Ranges of the middle 99 % that the extremes are apart from it, where values must be clipped.
_FAR = 10.0


def has_outliers(numbers: Any) -> bool:
    """Return whether some numbers (n,) are far from the middle 99 % of all; of few, none is."""
    if numbers.size < FEWEST:
        return False
    low, high = np.quantile(numbers, (0.005, 0.995))
    beyond = max(float(numbers.max() - high), float(low - numbers.min()))
    return bool(high > low) and beyond > _FAR * float(high - low)
