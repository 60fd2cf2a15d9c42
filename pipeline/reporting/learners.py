"""Whose weights a method that runs several learners handed on, in a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any


def learners_sentence(models: Sequence[dict[str, Any]]) -> str | None:
    """Say which learner the model is from, and by how much it was ahead; of several, how many.

    `models` has the fields of `fewpass.solvers.protocol.ChosenLearner`, a model after the other.
    """
    if not models:
        return None
    if len(models) > 1:
        counts = Counter(model["learner"] for model in models).most_common()
        each = [f"{learner} for {count} models" for learner, count in counts]
        if len(counts) == 1:
            each = [f"{counts[0][0]} for all {len(models)} models"]
        return f"{', '.join(each)}, by their progressive objectives"
    (one,) = models
    return (
        f"{one['learner']}, progressive objective {one['objective']:.6g}; "
        f"{one['runner_up']} {one['lead']:.2g} behind"
    )
