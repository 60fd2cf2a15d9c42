"""Binary trees in arrays: sums and maxima of leaves that change one at a time, for kernels.

Node 1 is the root, node v has the children 2 v and 2 v + 1, leaf i is node m + i with m a power of
two.  A parent is always made of its children anew, so a tree is a function of its leaves: nothing
drifts, and a tree built from the leaves has the bits of one kept up to date.
"""

from __future__ import annotations

from fewpass.solvers.kernels.dispatch import called_by_kernels
from fewpass.solvers.kernels.shapes import Vector

Tree = Vector  # (2 m,): its nodes, number 0 without a use


def leaves_for(n: int) -> int:
    """Return m, the power of two at or above n."""
    return 1 << max(0, n - 1).bit_length()


@called_by_kernels
def parent(left: float, right: float, largest: bool) -> float:
    """Return what a parent is made of: a sum, or a maximum."""
    return max(left, right) if largest else left + right


@called_by_kernels
def build(tree: Tree, largest: bool) -> None:
    """Make all parents of a tree of sums, or of maxima."""
    for v in range(tree.shape[0] // 2 - 1, 0, -1):
        tree[v] = parent(tree[2 * v], tree[2 * v + 1], largest)


@called_by_kernels
def put(tree: Tree, i: int, value: float, largest: bool) -> None:
    """Change a leaf of a tree of sums, or of maxima; above a parent that stays nothing changes."""
    v = tree.shape[0] // 2 + i
    tree[v] = value
    v >>= 1
    while v > 0:
        made = parent(tree[2 * v], tree[2 * v + 1], largest)
        if made == tree[v]:
            break
        tree[v] = made
        v >>= 1


@called_by_kernels
def find(sums: Tree, target: float) -> int:
    """Return the leaf at which running sums of leaves exceed the target, never one that is 0."""
    m, v = sums.shape[0] // 2, 1
    while v < m:
        v *= 2
        if sums[v + 1] > 0.0 and target >= sums[v]:
            target -= sums[v]
            v += 1
    return v - m


@called_by_kernels
def find_largest(tops: Tree) -> int:
    """Return the leaf with the largest value, of equals the first."""
    m, v = tops.shape[0] // 2, 1
    while v < m:
        v *= 2
        if tops[v] != tops[v // 2]:
            v += 1
    return v - m
