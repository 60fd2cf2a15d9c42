"""The quadratic model of a Newton step with a group lasso, solved on a matrix of its columns.

    min over u:  r0 . (u - u0) + 1/2 (u - u0) . A (u - u0) + l1 sum_g sqrt(d_g) ||u_g||

u is a number per column of a working set, and the intercept, which l1 does not charge.  A group
moves to the minimum over it with h_g I in place of its part of A, which is below h_g I: h_g is the
largest sum of sizes in a row of that part.  Indicators of one column never meet in a row of
the data, so their part is diagonal.  Groups alone stand still where columns add up to the constant
one; on those that are not 0 the model is smooth, and Newton's steps go to its minimum there.

Source: Yuan and Lin 2006, for the step of a group; docs/methods.md, section 8.1.
"""

from __future__ import annotations

import math

import numpy as np

from fewpass.solvers.batch.column_model import MOST_FACES, MOST_ROUNDS, MOST_SWEEPS, NEARER
from fewpass.solvers.batch.column_model import direction_to_minimum as direction
from fewpass.solvers.gradient import SUFFICIENT_DECREASE
from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel
from fewpass.solvers.kernels.rows import DenseRows, add_vector, dot_vector
from fewpass.solvers.kernels.shapes import Matrix, PerColumn, Vector, WholeNumbers
from fewpass.solvers.penalties import GroupLasso, Penalty

MOST_SHORTENED = 30  # times that a step on the groups that are not 0 is halved
LARGE = 1000  # numbers that are not 0, from which on a factor is a part of a training's time
MOST_PRODUCTS = 3e10  # in factors of so many, of a step: what is left is left to the next pass


def minimised_by_groups(
    own: Penalty, A: Matrix, r: PerColumn, u0: PerColumn, share: float
) -> PerColumn:
    """Return the minimiser u (k + 1,); the same as `minimised` of column_model.py.

    Parameters
    ----------
    own
        The penalty of the model's columns.
    A, r, u0, share
        As there.
    """
    assert isinstance(own, GroupLasso), "the only penalty of groups"
    order = np.argsort(own.groups, kind="stable")
    starts = np.append(0, np.cumsum(own.sizes)).astype(np.int64)
    whole = np.append(order, len(order))
    grouped, slopes = np.ascontiguousarray(A[np.ix_(whole, whole)]), r[whole]
    u = descended(grouped, slopes, u0[whole], starts, own.l1 * own.roots, share)
    back = np.empty_like(u)
    back[whole], r[whole] = u, slopes
    return back


@kernel
def descended(
    A: Matrix, r: PerColumn, u0: PerColumn, starts: WholeNumbers, charges: Vector, share: float
) -> PerColumn:
    """Return the minimiser u: until the largest violation is `share` of that at u0.

    Group g has the numbers from starts[g] to starts[g + 1], and charges[g] for its norm.
    """
    u, heights, spent = u0.copy(), np.empty(charges.shape[0]), 0.0
    for g in range(charges.shape[0]):
        heights[g] = height(A, starts[g], starts[g + 1])
    enough = share * worst_group(A, u, r, starts, charges)
    for _round in range(MOST_ROUNDS):
        for g in range(charges.shape[0], -1, -1):  # the intercept first
            group_moved(A, u, r, starts, charges, heights, g)
        worst = groups_swept(A, u, r, starts, charges, heights, NEARER * enough)
        if worst > NEARER * enough:
            for _face in range(MOST_FACES):
                spent += products(u, starts)
                if spent > MOST_PRODUCTS or not stepped_on_support(A, u, r, starts, charges):
                    break
                if worst_group(A, u, r, starts, charges) <= NEARER * enough:
                    break
        if spent > MOST_PRODUCTS or worst_group(A, u, r, starts, charges) <= enough:
            break
    return u


@called_by_kernels
def products(u: PerColumn, starts: WholeNumbers) -> float:
    """Return the products of a factor of the groups that are not 0; none where these are few."""
    m = 0.0
    for g in range(starts.shape[0] - 1):
        if norm(u, starts[g], starts[g + 1]) > 0.0:
            m += starts[g + 1] - starts[g]
    return m**3 / 6.0 if m > LARGE else 0.0


@called_by_kernels
def height(A: Matrix, first: int, stop: int) -> float:
    """Return a number h with A <= h I on the numbers of a group."""
    largest = 0.0
    for i in range(first, stop):
        total = 0.0
        for j in range(first, stop):
            total += abs(A[i, j])
        largest = max(largest, total)
    return largest


@called_by_kernels
def groups_swept(
    A: Matrix, u: PerColumn, r: PerColumn, starts: WholeNumbers, charges: Vector, heights: Vector,
    enough: float,
) -> float:  # fmt: skip
    """Sweep over the groups that are not 0; return the last sweep's largest violation."""
    worst, last = 0.0, charges.shape[0]
    for _sweep in range(MOST_SWEEPS):
        worst = 0.0
        for g in range(last, -1, -1):
            if g == last or norm(u, starts[g], starts[g + 1]) > 0.0:
                worst = max(worst, group_violation(A, u, r, starts, charges, g))
                group_moved(A, u, r, starts, charges, heights, g)
        if worst <= enough:
            break
    return worst


@called_by_kernels
def norm(u: PerColumn, first: int, stop: int) -> float:
    """Return the norm of u[first:stop]."""
    square = 0.0
    for j in range(first, stop):
        square += u[j] * u[j]
    return math.sqrt(square)


@called_by_kernels
def group_violation(
    A: Matrix, u: PerColumn, r: PerColumn, starts: WholeNumbers, charges: Vector, g: int
) -> float:
    """Return the norm of the least subgradient of a group; of the intercept its slope's size."""
    if g == charges.shape[0]:
        return abs(float(r[u.shape[0] - 1])) if A[u.shape[0] - 1, u.shape[0] - 1] > 0.0 else 0.0
    first, stop = starts[g], starts[g + 1]
    size = norm(u, first, stop)
    if size == 0.0:
        return max(norm(r, first, stop) - float(charges[g]), 0.0)
    square = 0.0
    for j in range(first, stop):
        square += (r[j] + charges[g] * u[j] / size) ** 2
    return math.sqrt(square)


@called_by_kernels
def worst_group(
    A: Matrix, u: PerColumn, r: PerColumn, starts: WholeNumbers, charges: Vector
) -> float:
    """Return the largest violation."""
    worst = 0.0
    for g in range(charges.shape[0] + 1):
        worst = max(worst, group_violation(A, u, r, starts, charges, g))
    return worst


@called_by_kernels
def group_moved(
    A: Matrix, u: PerColumn, r: PerColumn, starts: WholeNumbers, charges: Vector, heights: Vector,
    g: int,
) -> None:  # fmt: skip
    """Minimise over a group, with heights[g] I for its part of A; or over the intercept."""
    last = u.shape[0] - 1
    if g == charges.shape[0]:
        if A[last, last] > 0.0:
            changed(A, u, r, last, u[last] - r[last] / A[last, last])
        return
    first, stop, h = starts[g], starts[g + 1], heights[g]
    if h <= 0.0:
        return
    size = 0.0
    for j in range(first, stop):
        size += (u[j] - r[j] / h) ** 2
    size = math.sqrt(size)
    left = 1.0 - charges[g] / (h * size) if h * size > charges[g] else 0.0
    targets = np.empty(stop - first)
    for j in range(first, stop):
        targets[j - first] = left * (u[j] - r[j] / h)
    for j in range(first, stop):
        changed(A, u, r, j, targets[j - first])


@called_by_kernels
def changed(A: Matrix, u: PerColumn, r: PerColumn, j: int, new: float) -> None:
    """Set number j."""
    change = new - u[j]
    if change != 0.0:
        u[j] = new
        add_vector(DenseRows(A), j, change, r)


@called_by_kernels
def stepped_on_support(
    A: Matrix, u: PerColumn, r: PerColumn, starts: WholeNumbers, charges: Vector
) -> bool:
    """Take a Newton step over the groups that are not 0; say whether the model fell."""
    k, m = u.shape[0], 0
    chosen, slopes = np.empty(k, np.int64), np.empty(k)
    for g in range(charges.shape[0]):
        size = norm(u, starts[g], starts[g + 1])
        for j in range(starts[g], starts[g + 1]):
            if size > 0.0 and A[j, j] > 0.0:
                chosen[m], slopes[m] = j, r[j] + charges[g] * u[j] / size
                m += 1
    if A[k - 1, k - 1] > 0.0:
        chosen[m], slopes[m] = k - 1, r[k - 1]
        m += 1
    if m == 0:
        return False
    chosen, slopes = chosen[:m], slopes[:m]
    H = curved(A, u, starts, charges, chosen)
    step = direction(H, np.arange(m), slopes)
    return searched_along(A, u, r, starts, charges, chosen, step, slopes)


@called_by_kernels
def curved(
    A: Matrix, u: PerColumn, starts: WholeNumbers, charges: Vector, chosen: WholeNumbers
) -> Matrix:
    """Return the model's second derivatives (m, m), those of the norms included."""
    m, first = chosen.shape[0], 0
    H = np.empty((m, m))
    for i in range(m):
        for j in range(m):
            H[i, j] = A[chosen[i], chosen[j]]
    for g in range(charges.shape[0]):
        size, stop = norm(u, starts[g], starts[g + 1]), first
        while stop < m and chosen[stop] < starts[g + 1]:
            stop += 1
        for i in range(first, stop):
            H[i, i] += charges[g] / size
            for j in range(first, stop):
                H[i, j] -= charges[g] * u[chosen[i]] * u[chosen[j]] / size**3
        first = stop
    return H


@called_by_kernels
def searched_along(
    A: Matrix, u: PerColumn, r: PerColumn, starts: WholeNumbers, charges: Vector,
    chosen: WholeNumbers, step: Vector, slopes: Vector,
) -> bool:  # fmt: skip
    """Go along a step (m,) of the chosen numbers, halved until the model falls; say if it did."""
    k = u.shape[0]
    whole, image, slope, rise = np.zeros(k), np.zeros(k), 0.0, 0.0
    for i in range(chosen.shape[0]):
        whole[chosen[i]] = step[i]
        add_vector(DenseRows(A), chosen[i], step[i], image)
        slope += slopes[i] * step[i]
        rise += r[chosen[i]] * step[i]
    bend = dot_vector(DenseRows(image.reshape(1, k)), 0, whole)
    if not slope < 0.0:
        return False
    t = 1.0
    for _halving in range(MOST_SHORTENED):
        change = t * rise + 0.5 * t * t * bend
        for g in range(charges.shape[0]):
            before, after = norm(u, starts[g], starts[g + 1]), 0.0
            if before > 0.0:
                for j in range(starts[g], starts[g + 1]):
                    after += (u[j] + t * whole[j]) ** 2
                change += charges[g] * (math.sqrt(after) - before)
        if change <= SUFFICIENT_DECREASE * t * slope:
            for j in range(k):
                u[j] += t * whole[j]
                r[j] += t * image[j]
            return True
        t *= 0.5
    return False
