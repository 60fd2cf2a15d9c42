"""Strengths of the penalty for each part: the evidence of the targets, and held-out rows."""

import numpy as np
import pandas as pd
import pytest

from fewpass import LinearRegressor, TableEncoder, ingest
from fewpass.pipeline.tables.additive import smoothing
from fewpass.pipeline.tables.additive.form_sample import EncodedForm
from fewpass.pipeline.tables.additive.sample_fit import SampleTargets
from fewpass.pipeline.tables.additive.smoothing import strengths
from fewpass.pipeline.tables.encoding.schema import recipe_in
from fewpass.storage.dataset import Dataset
from fewpass.storage.table import SparseTable


def csr(X):
    n, d = X.shape
    return SparseTable(
        X.ravel(), np.tile(np.arange(d), n), np.arange(0, n * d + 1, d), np.zeros(n), None
    )


def parts_of(widths):
    ends = np.cumsum([0, *widths])
    return [slice(*both) for both in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


@pytest.mark.parametrize("labels", [False, True], ids=["numbers", "labels"])
def test_the_evidence_of_the_targets_is_largest_at_the_strengths(labels, monkeypatch):
    """By finite differences of Laplace's log evidence, written from its definition."""
    rng = np.random.default_rng(0)
    n, widths, lam = 400, [6, 8, 5], 3.0
    X = rng.normal(size=(n, sum(widths)))
    w = np.concatenate([rng.normal(size=6), 0.3 * rng.normal(size=8), 0.1 * rng.normal(size=5)])
    scores = X @ w
    y = np.sign(scores + rng.logistic(size=n)) if labels else scores + rng.normal(size=n)
    y = y if labels else (y - y.mean()) / y.std()
    monkeypatch.setattr(smoothing, "PER_OCTAVE", 2**20)
    monkeypatch.setattr(smoothing, "_recovered", freedom)
    monkeypatch.setattr("fewpass.pipeline.tables.additive.sample_fit.TOL", 1e-10)
    targets = SampleTargets(y, 2 if labels else 0)
    factors = strengths(csr(X), parts_of(widths), targets, lam, steps=40)
    own = np.log(lam / factors**2)
    _, h, w, loss = fitted(X, y, widths, own, labels)
    phi = 1.0 if labels else residual_variance(h, w, loss, X, widths, own)

    def evidence(at):
        """At other strengths, the curvature of losses as it is at the ones found."""
        charge = charges(widths, at)
        _, _, w, loss = fitted(X, y, widths, at, labels)
        determinant = np.linalg.slogdet(squares(X, h) + charge)[1]
        return 0.5 * (at @ widths - determinant) - (loss + 0.5 * w @ charge @ w) / phi

    steps = 1e-3 * np.eye(3)
    slopes = [(evidence(own + step) - evidence(own - step)) / 2e-3 for step in steps]
    np.testing.assert_allclose(slopes, 0.0, atol=5e-3)
    assert np.ptp(own) > 1.0  # parts differ, and so do strengths


def freedom(X, d, h, lam, _rng):
    """The mean over all random weights, from its definition: the diagonal of (H + A)^-1 H."""
    A = X.data.reshape(-1, d) - np.average(X.data.reshape(-1, d), axis=0, weights=h)
    H = A.T @ (A * h[:, None])
    return np.diag(np.linalg.solve(H + lam * np.eye(d), H))


def test_random_weights_tell_the_degrees_of_freedom():
    rng = np.random.default_rng(6)
    n, d, lam = 300, 12, 20.0
    X = csr(rng.normal(size=(n, d)) @ rng.normal(size=(d, d)))  # columns go together
    h = rng.uniform(0.05, 0.25, n)
    drawn = [smoothing._recovered(X, d, h, lam, rng) for _ in range(400)]
    error = np.std(drawn, axis=0) / 20.0
    assert (error < 0.05).all()
    assert (np.abs(np.mean(drawn, axis=0) - freedom(X, d, h, lam, rng)) < 4.0 * error + 1e-3).all()


def charges(widths, own):
    return np.diag(np.append(np.repeat(np.exp(own), widths), 1e-9))


def squares(X, h):
    A = np.column_stack([X, np.ones(len(X))])
    return A.T @ (A * h[:, None])


def fitted(X, y, widths, own, labels):
    """Return scores, curvatures, weights and the sum of losses at log strengths: by Newton."""
    charge, A = charges(widths, own), np.column_stack([X, np.ones(len(y))])
    w = np.zeros(A.shape[1])
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(y * (A @ w)))
        g, h = (y * p, p * (1.0 - p)) if labels else (y - A @ w, np.ones(len(y)))
        w += np.linalg.solve(squares(X, h) + charge, A.T @ g - charge @ w)
    z = A @ w
    loss = np.logaddexp(0.0, -y * z).sum() if labels else 0.5 * np.square(y - z).sum()
    return z, h, w, loss


def residual_variance(h, w, loss, X, widths, own):
    charge = charges(widths, own)
    edf = len(w) - np.trace(charge @ np.linalg.inv(squares(X, h) + charge))
    return 2.0 * loss / (len(X) - edf)


def test_columns_of_noise_are_charged_most():
    rng = np.random.default_rng(1)
    n, widths = 2000, [5, 5, 5]
    X = rng.normal(size=(n, 15)).astype(np.float32)
    y = np.digitize(X[:, :5] @ np.ones(5) + 0.1 * X[:, 5:10] @ np.ones(5), [-1.0, 1.0]).astype(
        float
    )
    large, small, none = strengths(csr(X), parts_of(widths), SampleTargets(y, 3), 10.0)
    assert large > 2.0 * small > 2.0 * none


@pytest.fixture(scope="module")
def rows():
    """One curve that bends much, one that is straight, and three of noise."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(600, 5))
    y = np.sin(25.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=600)
    return pd.DataFrame({**{f"x{k}": X[:, k] for k in range(5)}, "y": y}).round(5)


def factors_in(recipe):
    return {part.name: part.factor for part in recipe.parts}


def test_a_table_has_strengths_that_help_rows_not_seen(rows, tmp_path, monkeypatch):
    rows[:400].to_csv(tmp_path / "rows.csv", index=False)
    made = ingest(tmp_path / "rows.csv", tmp_path / "set", label="y", encode="additive")
    recipe = recipe_in(Dataset.open(tmp_path / "set").schema)
    own = factors_in(recipe)
    assert own["x0 curve"] > 2.0 * max(own[f"x{k} curve"] for k in (2, 3, 4))
    assert any("strength of the penalty of its own" in note for note in made.notes)
    X, y = rows.drop(columns="y"), rows["y"]
    scores = []
    for most in (smoothing.MOST_VALUES, 0.0):
        monkeypatch.setattr(smoothing, "MOST_VALUES", most)
        encoder = TableEncoder(additive=True).fit(X[:400], y[:400])
        model = LinearRegressor(lam="auto", tol=1e-6).fit(encoder.transform(X[:400]), y[:400])
        scores.append(model.score(encoder.transform(X[400:]), y[400:]))
    assert {*factors_in(encoder.recipe_).values()} == {1.0}
    assert scores[0] > scores[1]


def test_strengths_that_held_out_rows_surely_lose_more_by_are_not_taken(rows, monkeypatch):
    monkeypatch.setattr(smoothing, "strengths", lambda X, widths, *_: np.full(len(widths), 2.0**-7))
    encoder = TableEncoder(additive=True).fit(rows.drop(columns="y"), rows["y"])
    assert {*factors_in(encoder.recipe_).values()} == {1.0}
    assert encoder.recipe_.additive.chosen.smoothing is None


@pytest.mark.parametrize("deviation", [0.0, 1.0])
def test_features_that_no_row_has_are_of_no_part(deviation):
    """A part may have none: its strength stays within bounds, also of targets without errors."""
    X = csr(np.random.default_rng(4).normal(size=(50, 3)))
    encoded = EncodedForm(X, np.array([0, 1, 4]), 6)
    widths = [encoded.own(0, 2), encoded.own(2, 4), encoded.own(4, 6)]
    found = strengths(
        X, widths, SampleTargets(deviation * np.random.default_rng(5).normal(size=50)), 1.0
    )
    assert (
        np.isfinite(found).all()
        and (found >= smoothing.LEAST).all()
        and (found <= smoothing.MOST).all()
    )


def test_rows_without_curvature_tell_of_no_weight():
    """So it is in floating point where a model is sure of every label."""
    rng = np.random.default_rng(7)
    found = smoothing._recovered(csr(rng.normal(size=(200, 3))), 3, np.zeros(200), 1.0, rng)
    np.testing.assert_allclose(found, 0.0, atol=1e-6)
