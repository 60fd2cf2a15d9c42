"""The quadratic model of a Newton step with an l1 penalty, solved on a matrix of its columns.

    min over u:  r0 . (u - u0) + 1/2 (u - u0) . A (u - u0) + l1 sum_j |u_j|,   u's last left out

u is a number per column of a working set, and the intercept, which l1 does not charge.  Coordinate
descent finds which numbers are 0; on the others Cholesky's factorisation solves the model at once,
as far as the first change of a sign.  The second is what columns need that add up to the constant
one (the indicators of a word): there coordinate descent alone stands still.
A sweep costs the square of the number of columns, and nothing to do with rows.
docs/methods.md, section 8.1.
"""

from __future__ import annotations

import math

import numpy as np

from fewpass.solvers.batch.cholesky import solved
from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel
from fewpass.solvers.kernels.rows import DenseRows, add_vector, dot_vector
from fewpass.solvers.kernels.shapes import Matrix, PerColumn, WholeNumbers

MOST_ROUNDS = 40  # of sweeps and a solution on the support
MOST_SWEEPS = 50  # of a round, over the numbers that are not 0
MOST_FACES = 30  # solutions of a round, each with fewer numbers that are not 0
NEARER = 0.3  # of the violation asked for, before a round ends
RIDGE = 1e-12  # relative, on the diagonal of the support's matrix: columns may depend on each other


@kernel
def minimised(A: Matrix, r: PerColumn, u0: PerColumn, l1: float, share: float) -> PerColumn:
    """Return the minimiser u: until the largest violation is `share` of that at u0.

    A (k, k) is symmetric, both triangles filled; r (k,) is the gradient at u0 without l1, and at u
    afterwards.
    """
    u = u0.copy()
    enough = share * worst_of(A, u, r, l1)
    for _round in range(MOST_ROUNDS):
        for j in range(u.shape[0] - 1, -1, -1):  # the intercept first
            minimise_over(A, u, r, l1, j)
        worst = swept(A, u, r, l1, NEARER * enough)
        if worst > NEARER * enough:
            for _face in range(MOST_FACES):
                if not solved_on_support(A, u, r, l1):
                    break
        if worst_of(A, u, r, l1) <= enough:
            break
    return u


@called_by_kernels
def swept(A: Matrix, u: PerColumn, r: PerColumn, l1: float, enough: float) -> float:
    """Sweep over the numbers that are not 0; return the last sweep's largest violation."""
    worst = 0.0
    for _sweep in range(MOST_SWEEPS):
        worst = 0.0
        for j in range(u.shape[0] - 1, -1, -1):
            if u[j] != 0.0 or j == u.shape[0] - 1:
                worst = max(worst, violation(A, u, r, l1, j))
                minimise_over(A, u, r, l1, j)
        if worst <= enough:
            break
    return worst


@called_by_kernels
def violation(A: Matrix, u: PerColumn, r: PerColumn, l1: float, j: int) -> float:
    """Return the size of the least subgradient of number j; 0 where the model has no curvature."""
    if A[j, j] <= 0.0:
        return 0.0
    if j == u.shape[0] - 1:
        return abs(float(r[j]))
    if u[j] != 0.0:
        return abs(float(r[j]) + math.copysign(l1, u[j]))
    return max(abs(float(r[j])) - l1, 0.0)


@called_by_kernels
def worst_of(A: Matrix, u: PerColumn, r: PerColumn, l1: float) -> float:
    """Return the largest violation."""
    worst = 0.0
    for j in range(u.shape[0]):
        worst = max(worst, violation(A, u, r, l1, j))
    return worst


@called_by_kernels
def minimise_over(A: Matrix, u: PerColumn, r: PerColumn, l1: float, j: int) -> None:
    """Minimise over number j."""
    curvature = A[j, j]
    if curvature <= 0.0:
        return
    new = u[j] * curvature - r[j]
    if j < u.shape[0] - 1:
        new = max(new - l1, 0.0) + min(new + l1, 0.0)
    change = new / curvature - u[j]
    if change != 0.0:
        u[j] += change
        if new == 0.0:
            u[j] = 0.0
        add_vector(DenseRows(A), j, change, r)


@called_by_kernels
def solved_on_support(A: Matrix, u: PerColumn, r: PerColumn, l1: float) -> bool:
    """Go to the minimum over the numbers that are not 0, or to where the first becomes 0.

    Says whether one became 0.  The step's length minimises the model along it, so that no rounding
    of the factor makes the model larger.
    """
    last = u.shape[0] - 1
    chosen, g = support(A, u, r, l1)
    step = direction_to_minimum(A, chosen, g)
    whole, image, slope = np.zeros(last + 1), np.zeros(last + 1), 0.0
    for i in range(chosen.shape[0]):
        whole[chosen[i]] = step[i]
        add_vector(DenseRows(A), chosen[i], step[i], image)
        slope += g[i] * step[i]
    bend = dot_vector(DenseRows(image.reshape(1, last + 1)), 0, whole)
    if not (slope < 0.0 and bend > 0.0):
        return False
    t, zero = -slope / bend, -1
    for j in range(last):
        if u[j] * whole[j] < 0.0 and -u[j] / whole[j] <= t:
            t, zero = -u[j] / whole[j], j
    for j in range(last + 1):
        u[j] += t * whole[j]
        r[j] += t * image[j]
    if zero >= 0:
        u[zero] = 0.0
    return zero >= 0


@called_by_kernels
def support(A: Matrix, u: PerColumn, r: PerColumn, l1: float) -> tuple[WholeNumbers, PerColumn]:
    """Return the numbers that are not 0, and the intercept; and the gradient there, with l1."""
    last, m = u.shape[0] - 1, 0
    chosen, g = np.empty(last + 1, np.int64), np.empty(last + 1)
    for j in range(last + 1):
        if A[j, j] > 0.0 and (u[j] != 0.0 or j == last):
            chosen[m] = j
            g[m] = r[j] if j == last else r[j] + math.copysign(l1, u[j])
            m += 1
    return chosen[:m], g[:m]


@called_by_kernels
def direction_to_minimum(A: Matrix, chosen: WholeNumbers, g: PerColumn) -> PerColumn:
    """Return -A^-1 g over the chosen numbers, with a ridge."""
    m = chosen.shape[0]
    H = np.empty((m, m))
    for i in range(m):
        for j in range(i + 1):
            H[i, j] = A[chosen[i], chosen[j]]
        H[i, i] += RIDGE * H[i, i]
    return -solved(H, g)
