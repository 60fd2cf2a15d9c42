"""Numbers that a loss takes, of stored targets: -1 and +1, or the targets themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from fewpass.pipeline.errors import BadInput
from fewpass.solvers.losses import Loss
from fewpass.storage.manifest import Labels, Manifest, Values

#: Weights of rows by label (1 where it is not named); or those that make all labels equal.
ClassWeight = Literal["balanced"] | dict[str, float] | None


class Targeted(Protocol):
    """A manifest, or a run's record of one."""

    @property
    def targets(self) -> Labels | Values:
        """Labels or numbers."""


class TargetRule(NamedTuple):
    """The way in which stored targets are read."""

    positive: int = -1  # code that counts as +1; -1: there is none
    values: tuple[float, ...] = ()  # the number that each code stands for, where codes are not it
    n_classes: int = 0  # above 2: y is the number of a row's class
    class_weight: tuple[float, ...] = ()  # of each code's rows; (): 1
    folds: Loss | None = None  # for which offsets are made part of targets and weights
    width: int = 1  # scores that a model makes of a row: all classes', or one
    fold_rows: tuple[int, ...] = ()  # rows of every fold (`folds_in`)

    def read(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return y (n,) for stored targets (n,)."""
        if self.positive >= 0:
            return np.where(target == self.positive, 1.0, -1.0)
        if self.values:
            return np.asarray(self.values)[target.astype(np.int64)]
        return target

    def weigh(self, target: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the weights by class of rows with stored targets (n,)."""
        if not self.class_weight:
            return np.ones(len(target))
        return np.asarray(self.class_weight)[target.astype(np.int64)]

    def mean(self, targets: Labels | Values) -> float:
        """Return the mean of y over the rows that `targets` describes; 0 for classes."""
        if self.positive >= 0 or self.n_classes:
            return 0.0
        if isinstance(targets, Values):
            return targets.mean
        return float(np.average(self.values, weights=targets.counts))

    def mean_square(self, targets: Labels | Values, level: float = 0.0) -> float:
        """Return the mean of (y - level)^2 over the rows of `targets`; 1 for classes."""
        if self.positive >= 0 or self.n_classes:
            return 1.0
        if isinstance(targets, Values):
            return (targets.mean - level) ** 2 + targets.variance
        return float(np.average(np.square(np.subtract(self.values, level)), weights=targets.counts))


def target_rule(
    data: Targeted, loss: Loss, positive: str | None, class_weight: ClassWeight = None
) -> TargetRule:
    """Return the rule for a loss on a data set.

    Labels are numbers for the squared loss unless one of them counts as +1; more than two of them
    are classes, each to be separated from the rest.

    Raises
    ------
    BadInput
        When labels are no numbers, are weighted and not in the data set, or are fewer than two;
        when targets are numbers where the loss needs labels, or one of them is named.
    """
    targets = data.targets
    if not isinstance(targets, Labels):
        rule = _of_numbers(loss, positive)
    elif loss.takes_numbers and positive is None:
        rule = _as_numbers(targets)
    elif len(targets.labels) < 2:
        raise BadInput(
            f"All rows have the label {shown(targets) or 'none'}; a classifier needs two. Ingest "
            "the data again, or use the loss squared."
        )
    elif loss.is_wide and positive is not None:
        raise BadInput(
            f"The loss {loss.name} tells all labels apart by one model, and `positive` names one "
            "of them. Leave one of the two out."
        )
    elif positive is None and (len(targets.labels) > 2 or loss.is_wide):
        rule = TargetRule(n_classes=len(targets.labels), width=loss.width)
    else:
        rule = TargetRule(_positive_code(targets, positive))
    _require_defined(rule, targets, loss)
    return rule if class_weight is None else _weighted(rule, targets, class_weight)


def folds_in(manifest: Manifest, chunk: int, n_folds: int) -> NDArray[np.int64]:
    """Return the fold of each row of a chunk, (rows,).

    Chunks are dealt to folds in turn; where they are fewer than folds, all rows are.
    """
    rows = manifest.rows_of(chunk)
    if manifest.n_chunks >= n_folds:
        return np.full(rows, chunk % n_folds)
    return (np.arange(rows) + sum(map(manifest.rows_of, range(chunk)))) % n_folds


def _require_defined(rule: TargetRule, targets: Labels | Values, loss: Loss) -> None:
    """Refuse targets that the loss is not defined for."""
    smallest = targets.minimum if isinstance(targets, Values) else min(rule.values, default=-1.0)
    if smallest < loss.least_target:
        raise BadInput(
            f"The smallest target is {smallest:g}, and the {loss.name} loss is for targets "
            f"{at_least(loss.least_target)}. Correct or leave out such rows, or choose another "
            "loss."
        )


def at_least(least: float) -> str:
    """Say in words that targets are at least this."""
    return f"of at least {least:g}" if least == 0.0 else f"above 0, from {least:.3g} on"


def _weighted(
    rule: TargetRule, targets: Labels | Values, class_weight: Literal["balanced"] | dict[str, float]
) -> TargetRule:
    """Scale the classes' weights so that a row counts once on average."""
    if not isinstance(targets, Labels) or not (rule.n_classes or rule.positive >= 0):
        raise BadInput(
            "Class weights need classes, but numbers are regressed on here. Leave `class_weight` "
            "out, or name the label that counts as +1 with `positive`."
        )
    counts = np.asarray(targets.heft, float)
    given = _balanced(rule, counts) if class_weight == "balanced" else _named(targets, class_weight)
    scale = counts.sum() / float(counts @ given)
    return rule._replace(class_weight=tuple((scale * given).tolist()))


def _balanced(rule: TargetRule, counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weights by which every class, or both sides, count the same in all."""
    if not rule.n_classes:
        side = np.arange(len(counts)) == rule.positive
        counts = np.where(side, counts[side].sum(), counts[~side].sum())
    return 1.0 / np.where(counts > 0.0, counts, 1.0)


def _named(targets: Labels, weights: dict[str, float]) -> NDArray[np.float64]:
    names = [label_text(label) for label in targets.labels]
    given = {as_label(name, names): weight for name, weight in weights.items()}
    if len(given) < len(weights):
        raise BadInput(
            f"`class_weight` names {', '.join(weights)}, of which two are the same label. Leave "
            "one out."
        )
    unknown = [name for name in given if name not in names]
    if unknown:
        raise BadInput(
            f'`class_weight` names "{unknown[0]}", but the data set has {shown(targets)}. '
            "Name one of these."
        )
    return np.array([given.get(name, 1.0) for name in names])


def _of_numbers(loss: Loss, positive: str | None) -> TargetRule:
    if not loss.takes_numbers:
        raise BadInput(
            f"The targets are numbers, and the {loss.name} loss needs labels. Ingest the rows with "
            "`task=classification`, or with the training set as `like`."
        )
    if positive is not None:
        raise BadInput(
            f'The targets are numbers, and `positive` names the label "{positive}". Leave it out, '
            "or ingest the rows with `task=classification`."
        )
    return TargetRule()


def _as_numbers(targets: Labels) -> TargetRule:
    try:
        return TargetRule(values=tuple(float(label) for label in targets.labels))
    except ValueError:
        raise BadInput(
            f"The squared loss needs numbers, but the labels are {shown(targets)}. "
            "Use another loss, or name the label that counts as +1 with `positive`."
        ) from None


def _positive_code(targets: Labels, positive: str | None) -> int:
    names = [label_text(label) for label in targets.labels]
    if positive is None:
        return 1
    wanted = as_label(positive, names)
    if wanted not in names:
        raise BadInput(f'There is no label "{positive}"; the data set has {shown(targets)}.')
    return names.index(wanted)


def as_label(text: str, labels: Sequence[str]) -> str:
    """Return the label that is meant: the text itself, or else its number, 1 for 1.0."""
    if text in labels:
        return text
    try:
        return label_text(float(text))
    except ValueError:
        return text


def label_text(label: float | str) -> str:
    """Write a label as people do: 1 and not 1.0."""
    if isinstance(label, str):
        return label
    return str(int(label)) if float(label).is_integer() else repr(float(label))


def similar_label(unknown: str, labels: Sequence[str]) -> str:
    """Name the label that an unknown one is spelled like, in small letters and without dots."""
    for label in labels:
        if _bare(label) == _bare(unknown):
            return (
                f'"{unknown}" and "{label}" differ by case, blanks or a dot at the end alone: '
                "write them alike. "
            )
        if _without_zeros(label) == _without_zeros(unknown):
            return f'"{unknown}" and "{label}" differ by zeros in front alone: write them alike. '
    return ""


def _without_zeros(label: str) -> str:
    """Return whole numbers without zeros in front."""
    return label.lstrip("0") or "0" if label.isdecimal() else label


def _bare(label: str) -> str:
    return label.casefold().strip().rstrip(".").rstrip()


def shown(targets: Labels) -> str:
    """Name the first few labels."""
    names = [label_text(label) for label in targets.labels]
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")


# -- the range of targets seen, which predicted numbers are clipped to ----------------------------

Bounds = tuple[float, float]


def range_with(seen: Bounds | None, targets: NDArray[np.float64]) -> Bounds:
    """Return the lowest and the highest of targets (n,) and of those seen before."""
    return union_of(seen, (float(targets.min()), float(targets.max())))


def union_of(one: Bounds | None, other: Bounds) -> Bounds:
    """Return the range of two."""
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def clip_range(seen: Bounds, reach: float = 1.0) -> Bounds:
    """Return what predictions are clipped to: 0 is the lower bound where no target is below it.

    Where lines go on to `reach` times the largest number of a column, so does the range.
    """
    low, high = seen
    beyond = (reach - 1.0) * (high - low)
    return 0.0 if low >= 0.0 else low - beyond, high + beyond


def range_of(data: Targeted, loss: Loss, positive: str | None) -> Bounds | None:
    """Return the range of the targets of a data set; None where no numbers are predicted."""
    if not loss.takes_numbers or positive is not None:
        return None
    targets = data.targets
    if isinstance(targets, Labels):
        numbers = [float(label) for label in targets.labels]
        return min(numbers), max(numbers)
    return targets.minimum, targets.maximum


def clipped(predictions: NDArray[np.float64], bounds: Bounds | None) -> NDArray[Any]:
    """Return predictions (n,) within bounds; as they are without."""
    return predictions if bounds is None else np.clip(predictions, *bounds)
