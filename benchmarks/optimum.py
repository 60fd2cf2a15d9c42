"""The minimum of the training objective, by Newton's method, proven by its gradient.

    F(w, b) = mean loss + lam/2 ||w||^2 + lam_b/2 b^2

The losses are written down here once more, in NumPy: what solvers are compared with is not theirs.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import linalg as splinalg
from scipy.special import expit

from benchmarks.data_sets import Half, Matrix, Vector
from fewpass.storage.dataset import Dataset

PRECISION = 1e-8  # of the optimum, relative, proven by its gradient
MOST_STEPS = 200  # Newton steps towards it
FEW_FEATURES = 1000  # up to here a Newton step is solved by factorising


class Linear(NamedTuple):
    """x -> w . x + b."""

    w: Vector
    b: float


class Aim(NamedTuple):
    """What is minimised over some rows."""

    loss: str
    lam: float
    lam_b: float = 0.0  # 0: the intercept costs nothing


def losses_of(loss: str, p: Vector, y: Vector) -> Vector:
    """phi(p, y) of every row."""
    with np.errstate(over="ignore", invalid="ignore"):
        if loss == "logistic":
            return np.logaddexp(0.0, -y * p)
        if loss == "squared_hinge":
            return 0.5 * np.maximum(0.0, 1.0 - y * p) ** 2
        return 0.5 * (p - y) ** 2


def slopes_of(loss: str, p: Vector, y: Vector) -> tuple[Vector, Vector]:
    """First and second derivative of phi in p."""
    if loss == "logistic":
        s = expit(-y * p)
        return -y * s, s * (1.0 - s)
    if loss == "squared_hinge":
        m = np.maximum(0.0, 1.0 - y * p)
        return -y * m, (m > 0.0).astype(np.float64)
    return p - y, np.ones_like(p)


def objective(at: Linear, rows: Half, aim: Aim) -> float:
    """F at some weights."""
    with np.errstate(over="ignore", invalid="ignore"):
        penalty = 0.5 * aim.lam * float(at.w @ at.w) + 0.5 * aim.lam_b * at.b**2
        return float(losses_of(aim.loss, rows.X @ at.w + at.b, rows.y).mean()) + penalty


def optimum(rows: Half, aim: Aim, precision: float = PRECISION) -> Linear:
    """Minimiser of F, at most `precision` of its minimum too high."""
    if aim.loss == "squared" and aim.lam_b == 0.0:
        return ridge(rows, aim.lam)
    return newton(rows, aim, precision)


def proven_gap(at: Linear, rows: Half, aim: Aim) -> float:
    """Bound on F's excess over its minimum, relative; `at` must have the best intercept.

    The minimum of F over b is lam-strongly convex in w, and its gradient is that of F there.
    """
    slope, _ = slopes_of(aim.loss, rows.X @ at.w + at.b, rows.y)
    gradient = rows.X.T @ slope / rows.X.shape[0] + aim.lam * at.w
    if abs(slope.mean() + aim.lam_b * at.b) > 1e-10:
        return np.inf
    return float(gradient @ gradient) / (2.0 * aim.lam) / objective(at, rows, aim)


def ridge(rows: Half, lam: float) -> Linear:
    """Least squares through the singular values of the centred rows, stable at any scale."""
    mean, level = rows.X.mean(axis=0), rows.y.mean()
    U, s, Vt = linalg.svd(rows.X - mean, full_matrices=False)
    w = Vt.T @ (s / (s * s + len(rows.y) * lam) * (U.T @ (rows.y - level)))
    return Linear(w, float(level - mean @ w))


def newton(rows: Half, aim: Aim, precision: float) -> Linear:
    """Newton steps, halved until they descend; b to the last bit after each."""
    X, y = rows
    loss, lam, lam_b = aim
    n, d = X.shape
    at = Linear(np.zeros(d), 0.0)
    for _ in range(MOST_STEPS):
        at = Linear(at.w, best_intercept(aim, X @ at.w, y, at.b))
        if proven_gap(at, rows, aim) <= precision:
            return at
        first, second = slopes_of(loss, X @ at.w + at.b, y)
        gradient = np.append(X.T @ first / n + lam * at.w, first.mean() + lam_b * at.b)
        curved = np.flatnonzero(second)
        near, weight = X[curved], second[curved] / n
        step = (direct if d <= FEW_FEATURES else truncated)(near, weight, aim, gradient)
        at = descended(at, step, float(gradient @ step), rows, aim)
    raise RuntimeError(f"the optimum of {loss} with lam {lam:g} cannot be proven")


def direct(X: Matrix, weight: Vector, aim: Aim, gradient: Vector) -> Vector:
    """Newton step by factorising the curvature matrix of (w, b)."""
    d = X.shape[1]
    scaled = sparse.diags_array(weight) @ X if sparse.issparse(X) else weight[:, None] * X
    product = X.T @ scaled
    corner = np.empty((d + 1, d + 1))
    corner[:d, :d] = product.toarray() if sparse.issparse(product) else product
    corner[:d, :d] += aim.lam * np.eye(d)
    corner[d, :d] = corner[:d, d] = X.T @ weight
    corner[d, d] = weight.sum() + aim.lam_b
    return linalg.solve(corner, -gradient, assume_a="pos")


def truncated(X: Matrix, weight: Vector, aim: Aim, gradient: Vector) -> Vector:
    """Newton step by conjugate gradients, the more exact the nearer the optimum."""
    d = X.shape[1]

    def curvature(v: Vector) -> Vector:
        q = weight * (X @ v[:d] + v[d])
        return np.append(X.T @ q + aim.lam * v[:d], q.sum() + aim.lam_b * v[d])

    matrix = splinalg.LinearOperator((d + 1, d + 1), curvature, dtype=np.float64)
    tolerance = min(0.1, float(np.linalg.norm(gradient)) ** 0.5)
    return splinalg.cg(matrix, -gradient, rtol=tolerance, maxiter=3000)[0]


def descended(at: Linear, step: Vector, slope: float, rows: Half, aim: Aim) -> Linear:
    """Go along `step` as far as Armijo's rule allows: 1, 1/2, 1/4, ... of it."""
    value = objective(at, rows, aim)
    share = 1.0
    while share > 1e-6:
        there = Linear(at.w + share * step[:-1], at.b + share * float(step[-1]))
        if objective(there, rows, aim) <= value + 1e-4 * share * slope + 1e-15:
            return there
        share /= 2.0
    return at


def best_intercept(aim: Aim, p: Vector, y: Vector, b: float) -> float:
    """Intercept that fits the scores p best."""
    for _ in range(50):
        first, second = slopes_of(aim.loss, p + b, y)
        b -= float((first.mean() + aim.lam_b * b) / (second.mean() + aim.lam_b))
    return b


def cached_optimum(
    dataset: Dataset, rows: Half, aim: Aim, folder: Path, precision: float = PRECISION
) -> Linear:
    """Optimum of these rows in any order, looked up by what they are."""
    content = sorted(zip(rows.X @ np.arange(1.0, rows.X.shape[1] + 1), rows.y, strict=True))
    text = f"{dataset.n_rows} {dataset.n_features} {aim.loss} {aim.lam!r} "
    if (aim.lam_b, precision) != (0.0, PRECISION):
        text += f"{aim.lam_b!r} {precision!r} "
    key = hashlib.sha256(text.encode() + np.array(content).tobytes()).hexdigest()[:24]
    note = folder / "optima" / f"{key}.npz"
    if not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        found = optimum(rows, aim, precision)
        part = note.with_suffix(".part.npz")
        np.savez(part, w=found.w, b=found.b)
        part.replace(note)
    with np.load(note) as arrays:
        return Linear(arrays["w"], float(arrays["b"]))
