"""From stored targets to the numbers that a loss takes: -1 and +1, or the targets themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import BadInput
from solvers.losses import Loss, Squared
from storage.manifest import Labels, Manifest, Values


class TargetRule(NamedTuple):
    """How stored targets are read; `values` maps codes to numbers where it is not empty."""

    positive: int  # code that counts as +1; -1: targets are numbers
    values: tuple[float, ...] = ()

    def read(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return y (n,) for stored targets (n,)."""
        if self.positive >= 0:
            return np.where(target == self.positive, 1.0, -1.0)
        if self.values:
            return np.asarray(self.values)[target.astype(np.int64)]
        return target

    def mean_square(self, targets: Labels | Values) -> float:
        """Return the mean of y^2 over the rows that `targets` describes."""
        if self.positive >= 0:
            return 1.0
        if isinstance(targets, Values):
            return targets.mean**2 + targets.variance
        return float(np.average(np.square(self.values), weights=targets.counts))


def target_rule(manifest: Manifest, loss: Loss, positive: str | None) -> TargetRule:
    """Return the rule for a loss on a data set; refuses what has no two sides."""
    targets = manifest.targets
    if not isinstance(targets, Labels):
        return TargetRule(-1)
    if isinstance(loss, Squared) and positive is None:
        return _as_numbers(targets)
    return TargetRule(_positive_code(targets, positive))


def _as_numbers(targets: Labels) -> TargetRule:
    try:
        return TargetRule(-1, tuple(float(label) for label in targets.labels))
    except ValueError:
        raise BadInput(
            f"The squared loss needs numbers, but the labels are {shown(targets)}. "
            "Use another loss, or name the label that counts as +1 with --positive."
        ) from None


def _positive_code(targets: Labels, positive: str | None) -> int:
    names = [label_text(label) for label in targets.labels]
    if positive is None:
        if len(names) == 2:
            return 1
        raise BadInput(
            f"The data set has {len(names)} labels ({shown(targets)}), and this method separates "
            "one from the rest. Name the one that counts as +1 with --positive LABEL."
        )
    wanted = _as_label(positive)
    if wanted not in names:
        raise BadInput(f'There is no label "{positive}"; the data set has {shown(targets)}.')
    return names.index(wanted)


def _as_label(text: str) -> str:
    try:
        return label_text(float(text))
    except ValueError:
        return text


def label_text(label: float | str) -> str:
    """Write a label as people do: 1 and not 1.0."""
    if isinstance(label, str):
        return label
    return str(int(label)) if float(label).is_integer() else repr(float(label))


def shown(targets: Labels) -> str:
    """Name the first few labels."""
    names = [label_text(label) for label in targets.labels]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
