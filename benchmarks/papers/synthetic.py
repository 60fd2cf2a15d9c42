"""The synthetic data that published numbers of the primal methods refer to.

The numbers depend on the order of the random draws.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_matrix, diags


def sparse_logistic(
    n: int = 20_000, d: int = 2000, density: float = 0.02, noise: float = 0.5, seed: int = 0
) -> tuple[csr_matrix, np.ndarray]:
    """Unit rows of about density d values, the k-th column as popular as 1/k; noisy linear labels.

    With the defaults, logistic loss and lam = 1/n: kappa = 5001, f* = 0.4221829267.
    """
    rng = np.random.default_rng(seed)
    per_row = max(1, int(density * d))
    share = 1.0 / np.arange(1.0, d + 1.0)
    popularity = np.cumsum(share / share.sum())
    columns = np.searchsorted(popularity, rng.random((n, per_row))).clip(max=d - 1)
    values, owners = rng.standard_normal(n * per_row), np.repeat(np.arange(n), per_row)
    X = csr_matrix((values, (owners, columns.ravel())), shape=(n, d))  # equal places add up
    norms = np.sqrt(X.multiply(X).sum(axis=1).A1)
    norms[norms == 0.0] = 1.0
    X = (diags(1.0 / norms) @ X).tocsr()
    score = X @ rng.standard_normal(d)
    noisy = score / score.std() + noise * rng.standard_normal(n)
    return X, np.where(noisy > 0.0, 1.0, -1.0)


def least_squares(n: int, d: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """S2GD's section 7.1: unit rows, column k scaled by 10^(-2.5 k / d), noise 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10.0 ** (-2.5 * np.arange(d) / d)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, X @ rng.standard_normal(d) + 0.1 * rng.standard_normal(n)
