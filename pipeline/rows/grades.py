"""A test for labels that are grades: numbers that come more and more, then less and less often."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewpass.storage.manifest import Labels

MOST_GRADES = 20
#: Two deviations of a step between roots of counts; steps beyond it that tell of an order.
CHANCE, LEAST_STEPS = np.sqrt(2.0), 5


def are_grades(targets: Labels) -> bool:
    """Return whether labels are a few numbers that come as grades do."""
    labels, counts = targets.labels, targets.counts
    if len(labels) > MOST_GRADES or not isinstance(labels[0], float):
        return False
    return look_ordered([n for _, n in sorted(zip(labels, counts, strict=True))])


def look_ordered(often: Sequence[int]) -> bool:
    """Return whether labels come more and more, then less and less often, as grades do.

    `often`: how often each comes, by ascending labels.  Steps of roots within two deviations of
    chance are left out; of those of six labels without an order one in 23 rises and falls once.
    """
    steps = np.diff(np.sqrt(often))
    signs = np.sign(steps[np.abs(steps) > CHANCE])
    return len(signs) >= LEAST_STEPS and bool((np.diff(signs) <= 0.0).all())
