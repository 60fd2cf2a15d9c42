"""SIMBA's steps for sparse data, in the time of the values touched (and logarithms).

A step multiplies every row's q, but all rows without a value in the column drawn, with the same
slack and, where there is a bias, the same label, by the same factor.  So rows are kept in four
groups g = 2 [has slack] + [y = 1], with one offset for all of a group:

    log q_i = r_i + O_g(i)

    for t = 1, ..., T:
        i     ~  exp(O_g) exp(r_i)                a tree of sums per group
        z     <- z + y_i x_i / R                  a tree of z_j^2; mean w = (S z - V) / t
        j     ~  z_j^2
        O_g   <- O_g + log f(2 [slack] + b y)     f(v) = 1 - eta v + eta^2 v^2, v clipped
        r_i   <- r_i + log f(v_i) - log f(2 [slack] + b y)      rows of column j alone
        while max_{no slack} log q > min_{slack} log q + tau eta:   trees of maxima
            the two rows change places

S is the sum of the scales 1/max(c_t, ||z||), V adds S x_i as of before each step.  With tau = 0 the
k rows of largest q have the slack, as in simba.py, at a price: among rows of nearly equal q some
k swap at every step.  tau = 16 makes that an eighth and leaves the margin as it was.
Offsets and r are put together again when they grow large.  What is left of the allowance after k
rows, less than two for one row, is not used.

Source: Hazan, Koren and Srebro 2011, section 4.1 hints at trees; the scheme is our own.
docs/methods.md, "SIMBA".
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fewpass.solvers.kernels.dispatch import called_by_kernels, kernel
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.kernels.shapes import PerColumn, PerRow, Vector, WholeNumbers
from fewpass.solvers.simba.simba import Drawn, Simba, Uniforms, log_factor
from fewpass.solvers.simba.soft_margin import Mean, SoftMargin
from fewpass.solvers.simba.trees import build, find, find_largest, leaves_for, put

FAR = 30.0  # logarithms: offsets beyond it are put into r
SLIP = 1e-12  # below it two logarithms are equal: rounding must not swap two rows for ever
SAMPLES = 64  # p is added up so often that it costs a step this share of n at most


class SparseCopies(NamedTuple):
    """The same values by row and by column."""

    rows: SparseRows  # n of them
    columns: SparseRows  # d of them, whose indices are rows


GROUPS = 4  # of rows, whose numbers they are told by

GroupPerRow = WholeNumbers  # (n,): 0 to 3
Offsets = Vector  # (4,): one for each group


class LazyState(NamedTuple):
    """Everything that changes but the trees, which follow from it."""

    r: NDArray[np.float64]  # (n,)
    group: NDArray[np.int64]  # (n,) 0 to 3
    offsets: NDArray[np.float64]  # (4,)
    z: NDArray[np.float64]  # (d,)
    V: NDArray[np.float64]  # (d,)
    p_sum: NDArray[np.float64]  # (n,) over every so many steps
    draws: NDArray[np.int64]  # (n,) how often each row was drawn
    S: float
    b_sum: float
    samples: int  # distributions in p_sum
    t: int
    accesses: int  # values read out of the data
    moves: int  # rows that got slack from another
    rebases: int
    nu: float
    before: int  # values read to find nu


def first_lazy_state(of: SoftMargin, y: NDArray[np.float64], before: int = 0) -> LazyState:
    """Return the state before the first step: the first k rows have the slack."""
    group = (y > 0.0).astype(np.int64) if of.biased else np.zeros(of.n, np.int64)
    group[: of.k] += 2
    return LazyState(
        r=np.zeros(of.n), group=group, offsets=np.zeros(GROUPS), z=np.zeros(of.d), V=np.zeros(of.d),
        p_sum=np.zeros(of.n), draws=np.zeros(of.n, np.int64), S=0.0, b_sum=0.0, samples=0, t=0,
        accesses=0, moves=0, rebases=0, nu=of.nu, before=before,
    )  # fmt: skip


def lazy_mean_of(state: LazyState) -> Mean:
    """Read out the means; p's over some of the steps, or how often rows were drawn."""
    p = state.p_sum / state.samples if state.samples else state.draws / state.t
    return Mean((state.S * state.z - state.V) / state.t, state.b_sum / state.t, p)


def lazy_slice(
    solver: Simba,
    of: SoftMargin,
    data: SparseCopies,
    y: NDArray[np.float64],
    state: LazyState,
    u: NDArray[np.float64],
) -> tuple[LazyState, NDArray[np.int64]]:
    """Make len(u) steps in place; return the state and the rows and columns drawn (steps, 2)."""
    drawn = np.empty((len(u), 2), np.int64)
    every = max(1, of.n // SAMPLES)
    adaptive = solver.rates == "adaptive"
    forest = Forest.empty(of)
    moved = lazy_steps(state, data, y, of, solver.hysteresis, adaptive, every, forest, u, drawn)
    return state._replace(**moved._asdict()), drawn


class LazySums(NamedTuple):
    """The numbers of a state that its steps change; its arrays change in place."""

    S: float
    b_sum: float
    samples: int
    t: int
    accesses: int
    moves: int
    rebases: int


class Forest(NamedTuple):
    """The trees of one slice of steps."""

    sums: NDArray[np.float64]  # (4, 2 m) of exp(r), a tree per group
    tops: NDArray[np.float64]  # (4, 2 m) largest r without slack, largest -r with it
    squares: NDArray[np.float64]  # (2 m',) of z_j^2

    @classmethod
    def empty(cls, of: SoftMargin) -> Forest:
        """Return trees without a member."""
        m = 2 * leaves_for(of.n)
        return cls(np.zeros((4, m)), np.full((4, m), -np.inf), np.zeros(2 * leaves_for(of.d)))


@kernel
def lazy_steps(
    state: LazyState, data: SparseCopies, y: PerRow, of: SoftMargin, tau: float, adaptive: bool,
    every: int, forest: Forest, u: Uniforms, drawn: Drawn,
) -> LazySums:  # fmt: skip
    """The module's page."""
    rows, columns = data.rows, data.columns
    r, group, O, z, V = state.r, state.group, state.offsets, state.z, state.V
    S, b_sum, samples, t = state.S, state.b_sum, state.samples, state.t
    accesses, moves, rebases = state.accesses, state.moves, state.rebases
    n, squares, factor = of.n, forest.squares, np.empty(4)
    plant(forest, r, group, z)
    for s in range(u.shape[0]):
        t += 1
        now = t if adaptive else of.iterations
        eta, c = math.sqrt(math.log(n) / now), math.sqrt(2.0 * now)

        i = draw_row(forest, O, u[s, 0])
        b = side(forest, O) if of.biased else 0.0
        if t % every == 0:
            add_distribution(forest, O, r, group, state.p_sum)
            samples += 1

        for e in range(rows.indptr[i], rows.indptr[i + 1]):
            j = rows.indices[e]
            x = y[i] * of.unit * rows.data[e]
            V[j] += S * x
            z[j] += x
            put(squares, j, z[j] * z[j], False)
        accesses += rows.indptr[i + 1] - rows.indptr[i]
        square = squares[1]
        size = 1.0 / max(c, math.sqrt(square))  # w = size z
        S += size

        for g in range(4):
            factor[g] = log_factor(without(g, b), eta)
        drawn[s, 0], drawn[s, 1] = i, -1
        if square > 0.0:
            j = find(squares, u[s, 1] * square)
            drawn[s, 1] = j
            ratio = of.unit * size * square / z[j]  # ||w||^2 / (R w_j)
            for e in range(columns.indptr[j], columns.indptr[j + 1]):
                i2 = columns.indices[e]
                g = group[i2]
                v = y[i2] * ratio * columns.data[e] + without(g, b)
                r[i2] += log_factor(v, eta) - factor[g]
                seat(forest, i2, g, r[i2])
            accesses += columns.indptr[j + 1] - columns.indptr[j]
        for g in range(4):
            O[g] += factor[g]

        moves += exchange(forest, O, r, group, tau * eta)
        if is_far(forest, O):
            rebase(forest, O, r, group)
            plant(forest, r, group, z)
            rebases += 1
        b_sum += b
        state.draws[i] += 1
    return LazySums(S, b_sum, samples, t, accesses, moves, rebases)


@called_by_kernels
def without(g: int, b: float) -> float:
    """v of a row of group g that has no value in the column: its slack and b y."""
    return 2.0 * (g // 2) + b * (2.0 * (g % 2) - 1.0)


@called_by_kernels
def plant(forest: Forest, r: PerRow, group: GroupPerRow, z: PerColumn) -> None:
    """Build all trees from their leaves."""
    sums, tops, squares = forest
    m = sums.shape[1] // 2
    sums[:], tops[:], squares[:] = 0.0, -np.inf, 0.0
    for i in range(r.shape[0]):
        g = group[i]
        sums[g, m + i] = math.exp(r[i])
        tops[g, m + i] = r[i] if g < 2 else -r[i]
    for g in range(4):
        build(sums[g], False)
        build(tops[g], True)
    for j in range(z.shape[0]):
        squares[squares.shape[0] // 2 + j] = z[j] * z[j]
    build(squares, False)


@called_by_kernels
def seat(forest: Forest, i: int, g: int, value: float) -> None:
    """Give row i of group g another r."""
    put(forest.sums[g], i, math.exp(value), False)
    put(forest.tops[g], i, value if g < 2 else -value, True)


@called_by_kernels
def draw_row(forest: Forest, O: Offsets, u: float) -> int:
    """Draw a group, then a row of it; u is uniform in [0, 1)."""
    total, chosen = 0.0, 0
    for g in range(4):
        total += math.exp(O[g]) * forest.sums[g, 1]
    target, passed = u * total, 0.0
    for g in range(4):
        weight = math.exp(O[g]) * forest.sums[g, 1]
        if weight > 0.0 and target >= passed:
            chosen = g
            before = passed
        passed += weight
    return find(forest.sums[chosen], (target - before) * math.exp(-O[chosen]))


@called_by_kernels
def side(forest: Forest, O: Offsets) -> float:
    """Return the sign of sum p_i y_i."""
    sums = forest.sums
    plus = math.exp(O[1]) * sums[1, 1] + math.exp(O[3]) * sums[3, 1]
    return np.sign(  # type: ignore[no-any-return]
        plus - (math.exp(O[0]) * sums[0, 1] + math.exp(O[2]) * sums[2, 1])
    )


@called_by_kernels
def exchange(forest: Forest, O: Offsets, r: PerRow, group: GroupPerRow, tau: float) -> int:
    """Let rows without slack take it from rows whose q is less by tau; return how many did."""
    moves = 0
    for _ in range(r.shape[0]):
        tops = forest.tops
        low = 0 if tops[0, 1] + O[0] >= tops[1, 1] + O[1] else 1
        high = 2 if tops[2, 1] - O[2] >= tops[3, 1] - O[3] else 3
        if not tops[low, 1] + O[low] + tops[high, 1] - O[high] > tau + SLIP:
            break
        move(forest, O, r, group, find_largest(tops[low]), low + 2)
        move(forest, O, r, group, find_largest(tops[high]), high - 2)
        moves += 1
    return moves


@called_by_kernels
def move(forest: Forest, O: Offsets, r: PerRow, group: GroupPerRow, i: int, to: int) -> None:
    """Put row i into another group, its q the same."""
    g = group[i]
    put(forest.sums[g], i, 0.0, False)
    put(forest.tops[g], i, -np.inf, True)
    r[i] += O[g] - O[to]
    group[i] = to
    seat(forest, i, to, r[i])


@called_by_kernels
def is_far(forest: Forest, O: Offsets) -> bool:
    """Return whether offsets or the weight of all rows have drifted."""
    total = 0.0
    for g in range(4):
        if abs(O[g]) > FAR:
            return True
        total += math.exp(O[g]) * forest.sums[g, 1]
    return not math.exp(-FAR) < total / forest.sums.shape[1] < math.exp(FAR)


@called_by_kernels
def rebase(forest: Forest, O: Offsets, r: PerRow, group: GroupPerRow) -> None:
    """Put the offsets into r and make the largest r 0."""
    top = -np.inf
    for i in range(r.shape[0]):
        r[i] += O[group[i]]
        top = max(top, r[i])
    r -= top
    O[:] = 0.0


@called_by_kernels
def add_distribution(
    forest: Forest, O: Offsets, r: PerRow, group: GroupPerRow, p_sum: PerRow
) -> None:
    """Add the p of this moment."""
    total = 0.0
    for g in range(4):
        total += math.exp(O[g]) * forest.sums[g, 1]
    for i in range(r.shape[0]):
        p_sum[i] += math.exp(r[i] + O[group[i]]) / total
