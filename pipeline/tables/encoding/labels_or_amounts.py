"""A test of whole numbers: labels, or amounts, by how often each of them comes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.bad_input import MOST_WHOLE

Vector = NDArray[np.float64]
#: How often each number comes, in each group of rows.
Counts = Mapping[float, Sequence[int]]

#: Different whole numbers that may be labels whatever they are; rows of each, on average, below
#: which they are only where they count labels from one of these numbers.
FEW_LABELS, ROWS_OF_FEW, FIRST_LABELS = 20, 3, (-1.0, 0.0, 1.0)
#: Rows of each number, on average, of more than a few that are labels.
ROWS_OF_LABEL = 10
#: Deviation of how often labels come, in means, up to which they come about equally often; squares
#: of steps between neighbours, in those of distances from the mean: 2 where they have no say.
MANY_ALIKE, ALIKE_NEIGHBOURS = 0.5, 1.0
#: So many numbers at a time are compared as well, and their ratio is to be that many deviations
#: below 2: sums are few.
TEN, AT_A_TIME, CERTAIN = 10, (5, 10), 3.0
#: Share of the roots that is at every tenth step, from which numbers are rounded, and from which
#: these are the steps; of others it is a tenth.
ROUNDED, NEXT_TO_ALL = 0.3, 0.9


def look_like_labels(numbers: Counts, n_rows: int, *, has_names: bool) -> bool:
    """Return whether whole numbers are few, or come again and again and are no amounts.

    Parameters
    ----------
    numbers
        All of them.
    n_rows
        Of all groups.
    has_names
        Whether some are written as no number is (007), which amounts are not.
    """
    if len(numbers) <= FEW_LABELS:
        return has_names or are_few_labels(np.sort([*numbers]), n_rows)
    come_again = n_rows >= ROWS_OF_LABEL * len(numbers)
    return come_again and (has_names or not look_like_amounts(numbers))


def are_few_labels(numbers: Vector, n_rows: int) -> bool:
    """Return whether different whole numbers (k,), ascending, of some rows are few, and labels.

    Numbers that hardly come again are amounts, unless they number something: 0, 1, 2, without gaps.
    Two are labels in any case.
    """
    k = len(numbers)
    if k <= 2 or k > FEW_LABELS or n_rows >= ROWS_OF_FEW * k:
        return k <= FEW_LABELS
    return numbers[0] in FIRST_LABELS and bool(numbers[-1] - numbers[0] == k - 1)


def look_like_amounts(numbers: Counts) -> bool:
    """Return whether some of many numbers are below zero, or neighbours come about as often.

    Counts of what happens, ages and years do: how often one comes says how often the next one
    does.  Of codes it says nothing, and labels that all come as often say nothing either.
    Neighbours are compared by roots, whose noise is the same however often numbers come, and also
    five by five and ten by ten: even or round numbers may come more often than those next to them,
    and so may scores of one test than those of another.  Where the steps are as uneven as those of
    sums of money, round ones tell by themselves.
    """
    ascending = sorted(numbers.items())
    if ascending[0][0] < 0.0:
        return True
    often = np.array([sum(times) for _, times in ascending], np.float64)
    varied = float(often.std()) > MANY_ALIKE * float(often.mean())
    roots = np.sqrt(often)
    if are_rounded(np.array([number for number, _ in ascending]), roots):
        return True
    if not varied or are_alike(roots):
        return varied
    return any(are_surely_alike(sums_of(roots, step)) for step in AT_A_TIME)


def are_alike(numbers: Vector, ratio: float = ALIKE_NEIGHBOURS) -> bool:
    """Return whether neighbours are more alike than others: by the ratio of von Neumann."""
    steps, deviations = np.diff(numbers), numbers - numbers.mean()
    return bool(steps @ steps < ratio * (deviations @ deviations))


def are_surely_alike(numbers: Vector) -> bool:
    """Say the same, by more than chance leaves: of k numbers the ratio deviates by 2 / sqrt(k)."""
    least = 2.0 - 2.0 * CERTAIN / np.sqrt(max(1, len(numbers)))
    return are_alike(numbers, min(ALIKE_NEIGHBOURS, float(least)))


def sums_of(numbers: Vector, step: int) -> Vector:
    """Return the sums of groups of consecutive numbers; an incomplete last group is left out."""
    sums: Vector = numbers[: len(numbers) // step * step].reshape(-1, step).sum(axis=1)
    return sums


def are_rounded(numbers: Vector, roots: Vector) -> bool:
    """Return whether whole numbers (k,) come more often at every tenth step, as sums of money.

    Codes that next to all end in a zero have longer steps: of these they are at no tenth one.
    """
    if numbers[-1] > MOST_WHOLE:
        return False
    step = TEN * int(np.gcd.reduce(numbers.astype(np.int64)))
    while (share := _share_at(step, numbers, roots)) >= NEXT_TO_ALL:
        step *= TEN
    return share >= ROUNDED


def _share_at(step: int, numbers: Vector, roots: Vector) -> float:
    """Return the share of roots at multiples of a step."""
    return float(roots[np.mod(numbers, step) == 0.0].sum() / roots.sum())
