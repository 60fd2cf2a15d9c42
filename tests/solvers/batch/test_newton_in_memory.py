"""Newton's method for rows in memory: samples, a corrected H, and the proof it ends with."""

import numpy as np
import pytest

from fewpass.solvers.batch.newton_in_memory import corrected, minimise
from fewpass.solvers.kernels.rows import DenseRows
from fewpass.solvers.protocol import Weights
from testing import oracles
from testing.oracles import block, dense_rows, problem_of, rows_of, stats, stored

TOL = 1e-9


def least(kind, loss, intercept, n=700, d=6, scales=None, lam=1e-3, **known):
    """Return problem and rows, and where it ends."""
    X, y, weight = rows_of(n, d, loss, seed=1)
    X = oracles.single(X * (np.ones(d) if scales is None else scales))
    problem = problem_of(loss, lam, intercept)
    held = block(stored(kind, X), y, weight)
    found = minimise(problem, stats(X, kind, weight, y), held, TOL, 60, **known)
    return problem, (X, y, weight), found


@pytest.mark.parametrize(("loss", "kind"), oracles.SMOOTH_PAIRS)
@pytest.mark.parametrize("intercept", ["none", "free"])
@pytest.mark.parametrize("n", [60, 700])
def test_it_ends_where_it_says_and_proves_it(loss, kind, intercept, n):
    problem, rows, found = least(kind, loss, intercept, n, scales=10.0 ** np.arange(-2.0, 4.0, 1.0))
    true = oracles.objective(loss, problem, *rows, *found.weights)[0]
    assert found.certificate.objective == pytest.approx(true, rel=1e-10)
    assert found.certificate.relative <= TOL
    assert true - oracles.optimum(loss, problem, *rows) <= found.certificate.gap + 1e-12


def test_samples_are_read_before_all_rows_and_not_from_a_given_model():
    read = []
    _, _, found = least(
        DenseRows, "logistic", "free", after_reading=lambda *told: read.append(told)
    )
    passes, certified = zip(*read, strict=True)
    first = next(k for k, proof in enumerate(certified) if proof)
    assert first > 2
    assert passes[0] == 0.25
    assert passes[-1] == found.passes
    _, _, again = least(DenseRows, "logistic", "free", start=found.weights)
    assert again.passes == 1.0
    assert np.array_equal(again.weights.coef, found.weights.coef)


def test_a_start_that_is_far_off_is_come_back_from():
    far = Weights(np.full(6, 1e3), -1e3)
    _, _, found = least(DenseRows, "logistic", "free", start=far)
    assert found.certificate.relative <= TOL


def test_rows_that_a_plane_parts_take_no_more_passes_than_newtons_method():
    X = np.random.default_rng(0).standard_normal((700, 6))
    y = np.sign(X[:, 0])
    problem, measured = problem_of("logistic", 1e-9), stats(X, DenseRows, None, y)
    found = minimise(problem, measured, block(dense_rows(X), y), 1e-6, 60)
    assert found.certificate.relative <= 1e-6
    assert found.passes < 60


def test_samples_of_rows_with_a_period_stand_for_all():
    # Every fourth row is of another kind: rows 0, 4, 8, ... alone would mislead.
    X = np.random.default_rng(0).standard_normal((4000, 6))
    X[::4] *= -20.0
    y = np.sign(X[:, 0] + 0.1 * np.random.default_rng(1).standard_normal(4000))
    y[::4] *= -1.0
    problem, measured = problem_of("logistic", 1e-3), stats(X, DenseRows, None, y)
    found = minimise(problem, measured, block(dense_rows(X), y), 1e-4, 60)
    assert found.certificate.relative <= 1e-4
    assert found.passes < 12


def test_what_is_called_after_a_reading_may_end_it():
    def stop(*_):
        raise InterruptedError

    with pytest.raises(InterruptedError):
        least(DenseRows, "logistic", "free", after_reading=stop)


def test_a_corrected_matrix_maps_the_step_to_the_change():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((5, 5))
    H, s = A @ A.T + np.eye(5), rng.standard_normal(5)
    y = (H + np.eye(5)) @ s
    found = corrected(H, s, y)
    np.testing.assert_allclose(found @ s, y, rtol=1e-12)
    np.testing.assert_allclose(found, found.T, rtol=1e-12)
    assert np.linalg.eigvalsh(found).min() > 0.0
    assert corrected(H, s, -y) is None
