"""Detection of sorted sources by how much shuffle buffers differ.

A source is read once, in its order; only rows of one buffer are permuted.  Where the means of the
targets differ between groups by more than chance, the source is sorted, by label or by time.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from pydantic import Field

Count = Annotated[int, Field(ge=0, le=1 << 62)]
CLUSTERED = 0.05  # share of the variance that lies between groups
DEVIATIONS = 5.0  # of what a random order leaves between them


def share_between(groups: int, rows: int, squares: float, variance: float) -> float:
    """Return the part of a variance that lies between groups of rows; 0 where chance explains it.

    `squares` are the sum of squares between groups.  What rows within a group differ by is their
    sum of squares over the rows less one of each group, so small groups seem no more alike.
    Under a random order the sum of squares between K groups, over the variance, has mean K - 1 and
    variance about 2 (K - 1).
    """
    if variance <= 0.0 or groups < 2:
        return 0.0
    between = squares / variance
    chance = groups - 1 + DEVIATIONS * math.sqrt(2.0 * (groups - 1))
    if between <= chance or rows <= groups:
        return 0.0
    return max(0.0, (between - groups) / float(rows - groups))


class GroupSums(NamedTuple):
    """Sums over groups of rows, from which the share of the variance between them follows."""

    groups: Count = 0
    rows: Count = 0
    total: float = 0.0  # of y
    squares: float = 0.0  # of y^2
    between: float = 0.0  # sum over groups of (sum of y)^2 / rows

    def add(self, rows: int, total: float, squares: float) -> GroupSums:
        """Count one more group in."""
        if not rows:
            return self
        return GroupSums(
            self.groups + 1, self.rows + rows, self.total + total, self.squares + squares,
            self.between + total * total / rows,
        )  # fmt: skip

    @property
    def share(self) -> float:
        """Share of the variance of y that lies between groups; 0 where chance explains it."""
        if not self.varies:
            return 0.0
        mean = self.total / self.rows
        squares = self.between - self.rows * mean * mean
        return share_between(self.groups, self.rows, squares, self._variance)

    @property
    def _variance(self) -> float:
        mean = self.total / max(self.rows, 1)
        return self.squares / max(self.rows, 1) - mean * mean

    @property
    def varies(self) -> bool:
        """Return whether not all targets are the same."""
        return self._variance > 1e-12 * (self.squares / max(self.rows, 1))

    @property
    def sorted(self) -> bool:
        """Return whether groups differ enough to matter."""
        return self.share > CLUSTERED


class LossDrift(NamedTuple):
    """Mean losses of buffers before rows were learnt from: they rise where rows get harder."""

    loss: float = 0.0  # sum so far
    n_monitored: Count = 0  # rows that it is of

    def rises(self, loss: float, n_monitored: int) -> bool:
        """Say whether a buffer's mean loss is far above that of all before, by more than chance.

        Losses of single rows are taken to vary by as much as their mean.  A method that began again
        has fewer rows monitored than before, which says nothing.
        """
        if self.n_monitored <= 0 or n_monitored <= 0:
            return False
        chance = 1.0 + DEVIATIONS / math.sqrt(n_monitored)
        return loss / n_monitored > max(RISEN, chance) * self.loss / self.n_monitored


RISEN = 1.25


def advice(memory: str) -> str:
    """Say what helps where a buffer does not mix what is sorted."""
    return (
        f"Give more than {memory} of memory, shuffle the source, or train on a data set: an "
        "ingest puts all rows in random order (`ingest_into`)."
    )


def sorted_sentence(group_sums: GroupSums, memory: str) -> str:
    """Say that buffers differ in their targets, and what helps."""
    return (
        f"The source is sorted: {group_sums.share:.0%} of the variance of its targets lies between "
        f"{group_sums.groups} buffers, so that late rows count for more than early ones. "
        f"{advice(memory)}"
    )


def drift_sentence(before: float, now: float, memory: str) -> str:
    """Say that rows became harder, and what helps."""
    return (
        f"Rows became harder: their loss before they were learnt from rose from {before:.4g} to "
        f"{now:.4g}, as in a source sorted by time. {advice(memory)}"
    )
