"""Plain NumPy references of the softmax loss: objective, optimum, dual objective, best step."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp, softmax, wrightomega, xlogy

from testing import oracles
from testing.dual_runs import data, nearer


def rows(n=60, d=7, K=5, seed=0, *, sparse=False, streams=1):
    """Rows of very different length, weighted, one of them empty, with the labels 0 to K - 1."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X = oracles.single(X * rng.lognormal(0.0, 0.7, n)[:, None])
    X[3] = 0.0
    scores = X @ rng.standard_normal((d, K)) + rng.gumbel(size=(n, K))
    y = scores.argmax(axis=1)
    y[:K] = np.arange(K)
    weight = rng.uniform(0.5, 1.5, n)
    return data(X, y.astype(float), weight / weight.mean(), sparse=sparse, streams=streams)


def one_hot(of, K):
    return np.eye(K)[of.y.astype(int)]


def objective(problem, of, coef, intercept):
    """f(W, b) with its gradients."""
    V = of.X @ coef.T + problem.intercept * intercept
    own = one_hot(of, len(coef))
    loss = np.mean(of.weight * (logsumexp(V, axis=1) - (V * own).sum(axis=1)))
    slopes = of.weight[:, None] * (softmax(V, axis=1) - own) / len(of.y)
    up = intercept - np.asarray(problem.level)
    charge = problem.lam * np.sum(coef**2) + problem.lam_b * np.sum(up**2)
    gradient = slopes.T @ of.X + problem.lam * coef
    at_b = problem.intercept * slopes.sum(axis=0) + problem.lam_b * up
    return loss + 0.5 * charge, gradient, at_b


def optimum(problem, of):
    """The least objective and its weights, to about 1e-13."""
    K, d = problem.loss.width, of.X.shape[1]

    def f(z):
        W = z.reshape(K, d + 1)
        value, g, g_b = objective(problem, of, W[:, :d], W[:, d])
        return value, np.column_stack([g, g_b]).ravel()

    how = {"maxiter": 20_000, "ftol": 0.0, "gtol": 1e-12, "maxcor": 40}
    end = minimize(f, np.zeros(K * (d + 1)), jac=True, method="L-BFGS-B", options=how)
    W = end.x.reshape(K, d + 1)
    return end.fun, W[:, :d], W[:, d]


def dual_objective(problem, of, a):
    """D(a), straight from the formula."""
    p = one_hot(of, a.shape[1]) - a
    S = (of.weight[:, None] * a).T @ of.X / len(of.y)
    S_b = problem.intercept * np.mean(of.weight[:, None] * a, axis=0)
    entropy = -np.mean(of.weight * xlogy(p, p).sum(axis=1))
    charged_b = np.sum(S_b**2) / (2.0 * problem.lam_b) if problem.intercept else 0.0
    return entropy - np.sum(S**2) / (2.0 * problem.lam) - charged_b


def best_p(p0, v, q):
    """argmax over the simplex of H(p) + v . p - (q/2) ||p - p0||^2, by bisection in mu.

    Where log p + q p = h, q p is the Wright omega function of h + log q.
    """

    def at(mu):
        h = v + q * p0 - mu
        return wrightomega(h + np.log(q)) / q if q > 0.0 else np.exp(np.minimum(h, 700.0))

    low, high = logsumexp(v + q * p0) - q - 1.0, logsumexp(v + q * p0) + 1.0
    for _ in range(60):
        mu = 0.5 * (low + high)
        low, high = (mu, high) if at(mu).sum() > 1.0 else (low, mu)
    return at(0.5 * (low + high))


def plain_psdca(problem, of, orders, first_r, above=0.5, most=64):
    """Psdca for softmax as docs/methods.md has it; yields what every pass proves, and its weights."""
    n, d = of.X.shape
    K = problem.loss.width
    Z = np.column_stack([of.X, np.full(n, problem.intercept)])
    lam = np.append(np.full(d, problem.lam), problem.lam_b)[:, None]
    usual = np.append(np.full(d, problem.lam), nearer(problem, of))[:, None]
    own = one_hot(of, K)
    p, (w, x, z) = own.copy(), np.zeros((3, d + 1, K))
    r, alpha = first_r, 1.0
    reg = first_r * usual
    P_before, gap_before, lowest, highest = np.inf, np.inf, np.inf, -np.inf
    for k, order in enumerate(orders, start=1):
        value = objective(problem, of, x[:d].T, x[d])[0]
        D = dual_objective(problem, of, own - p)
        yield value, D, x.copy()
        for i in order:
            q = of.weight[i] * (Z[i] ** 2 / reg[:, 0]).sum() / n
            new = best_p(p[i], Z[i] @ w, q)
            w += of.weight[i] / n * np.outer(Z[i], p[i] - new) / reg
            p[i] = new
        rose = k > 1 and P_before < value
        lowest, highest = min(lowest, value), max(highest, D)
        slow = k > 1 and lowest - highest > above * gap_before
        gap_before, P_before = lowest - highest, value if k > 1 else np.inf
        alpha, was = (1.0 if rose else alpha), r
        r = min(r + 1, most) if slow else r
        half = 0.5 * (1.0 / r - alpha**2)
        after = half + np.sqrt(half**2 + alpha**2)
        beta, alpha = alpha * (1.0 - alpha) / (alpha**2 + after), after
        ahead, sums = w + beta * (w - x), was * usual * w - (was * usual - lam) * z
        x, reg = w.copy(), r * usual
        w = (sums + (reg - lam) * ahead) / reg
        z = ahead
