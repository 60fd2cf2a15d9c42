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
    frequency = np.cumsum(share / share.sum())
    columns = np.searchsorted(frequency, rng.random((n, per_row))).clip(max=d - 1)
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


def text_rows(
    n: int, d: int, seed: int, *, topics: int = 30, words: int = 60, noise: float = 0.02
) -> tuple[csr_matrix, np.ndarray]:
    """Bags of words of unit length: a Zipf vocabulary, topics that mix it, a label per topic."""
    rng = np.random.default_rng(seed)
    base = (10.0 + np.arange(d)) ** -1.1
    base /= base.sum()
    mixtures = []
    for _ in range(topics):
        topic = base * np.exp(1.8 * rng.standard_normal(d))
        mixtures.append(np.cumsum(0.6 * topic / topic.sum() + 0.4 * base))
    signs = np.where(rng.random(topics) < 0.5, 1.0, -1.0)
    if abs(signs.sum()) == topics:
        signs[0] = -signs[0]
    columns, values, y = [], [], np.empty(n)
    for i in range(n):
        k = rng.integers(topics)
        length = max(5, int(rng.lognormal(np.log(words), 0.5)))
        drawn = np.searchsorted(mixtures[k], rng.random(length) * mixtures[k][-1]).clip(max=d - 1)
        word, times = np.unique(drawn, return_counts=True)
        columns.append(word)
        values.append(1.0 + np.log(times))
        y[i] = signs[k] if rng.random() > noise else -signs[k]
    indptr = np.cumsum([0, *(len(c) for c in columns)])
    X = csr_matrix((np.concatenate(values), np.concatenate(columns), indptr), shape=(n, d))
    rarity = np.log((1.0 + n) / (1.0 + (X > 0).sum(axis=0).A1))
    X = (X @ diags(rarity)).tocsr()
    norms = np.maximum(np.sqrt(X.multiply(X).sum(axis=1).A1), 1e-300)
    X = (diags(1.0 / norms) @ X).tocsr()
    X.eliminate_zeros()
    X.sort_indices()
    return X, y


def word_counts(
    n: int = 12_000, d: int = 20_000, seed: int = 1, *, classes: int = 20, words: int = 160
) -> tuple[csr_matrix, np.ndarray]:
    """Raw counts of words in texts of very different length, and the class of each text.

    Lengths are lognormal with sigma 1.1, words Zipf with a twist per class.
    """
    rng = np.random.default_rng(seed)
    base = 1.0 / (10.0 + np.arange(d))
    twisted = base * np.exp(1.5 * rng.standard_normal((classes, d)))
    shares = 0.07 * twisted / twisted.sum(axis=1, keepdims=True) + 0.93 * base / base.sum()
    reach = np.cumsum(shares, axis=1)
    label = rng.integers(classes, size=n)
    lengths = np.maximum(5, rng.lognormal(np.log(words), 1.1, n).astype(int))
    drawn = [
        np.searchsorted(reach[k], rng.random(length) * reach[k, -1])
        for k, length in zip(label, lengths, strict=True)
    ]
    owners, columns = np.repeat(np.arange(n), lengths), np.concatenate(drawn)
    X = csr_matrix((np.ones(len(owners)), (owners, columns)), shape=(n, d))  # equal places add up
    return X, label.astype(float)
