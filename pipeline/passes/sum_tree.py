"""The tree that adds up the parts of a reduction: binary, over leaves that the data set fixes.

Leaves come in order.  An aligned subtree (2^j leaves from a multiple of 2^j on, or those that are
left) adds up to the same bits wherever it is added up, and so do 2^j neighbouring subtrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fewpass.solvers.protocol import Part, add_parts, add_to_part


class SumTree:
    """Adds values two by two as they come, as in binary counting.

    Parameters
    ----------
    add
        Returns the sum of two values: parts, or handles on them.
    """

    def __init__(self, add: Callable[[Any, Any], Any]) -> None:
        self._add = add
        self._stack: list[tuple[int, Any]] = []  # subtrees that wait for their neighbour

    def __len__(self) -> int:
        """Return the number of values that wait."""
        return len(self._stack)

    def push(self, value: Any) -> None:
        """Take the next value."""
        size = 1
        while self._stack and self._stack[-1][0] == size:
            size, value = 2 * size, self._add(self._stack.pop()[1], value)
        self._stack.append((size, value))

    def total(self) -> Any:
        """Return the sum of all values; none is left."""
        total = self._stack.pop()[1]
        while self._stack:
            total = self._add(self._stack.pop()[1], total)
        return total


def added_up(parts: Iterable[Part], *, own: bool) -> Part:
    """Return the sum of parts in the order of the tree.

    Parameters
    ----------
    parts
        Sums of neighbouring leaves or subtrees.
    own
        Whether these parts are nobody else's: then sums are made in their memory.
    """
    tree = SumTree(_added)
    for part in parts:
        tree.push((own, part))
    total: Part = tree.total()[1]
    return total


def _added(left: tuple[bool, Part], right: tuple[bool, Part]) -> tuple[bool, Part]:
    """Add two parts, in the memory of the left one if that is our own."""
    own, part = left
    return True, (add_to_part if own else add_parts)(part, right[1])


def subtree_leaves(leaves: int, tasks: int) -> int:
    """Return the leaves of a task's subtree, a power of two, so that there are `tasks` tasks."""
    return 1 << max(0, (leaves // max(1, tasks)).bit_length() - 1)
