"""Psdca for the softmax loss: against its formulas in NumPy, an independent optimum, and itself."""

import bz2
import lzma
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from fewpass.solvers.drive import sweeps
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.wide_psdca import WidePsdca, first_r
from fewpass.solvers.losses import Logistic, Problem, SoftmaxLoss
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Mispaired, Weights
from fewpass.solvers.registry import fit_for
from testing import softmax_oracles as oracle
from testing.blocks import block_of, stats_of
from testing.dual_runs import Run

K = 5
COLUMNS = [(0.0, 1.0), (1.0, 0.01)]  # of the intercept: value, charge over lam


def problem_of(lam=2e-3, column=1.0, charge=0.01):
    return Problem(SoftmaxLoss(K), L2(lam), column, charge * lam)


def duals_of(run):
    kept = run.row_state.reshape(len(run.of.y), -1, K)
    return np.einsum("m,nmk->nk", run.state.shares, kept)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("column", "charge"), COLUMNS)
def test_every_pass_is_what_the_formulas_say(sparse, column, charge):
    problem, of = problem_of(column=column, charge=charge), oracle.rows(sparse=sparse)
    orders = [np.random.default_rng(k).permutation(len(of.y)) for k in range(6)]
    run = Run(WidePsdca(width=K), problem, of)
    best = None
    for order, (P, D, _) in zip(
        orders, oracle.plain_psdca(problem, of, orders, first_r(problem, of.stats)), strict=True
    ):
        run.one_pass(order=order, cuts=3)
        proximal = run.state.proximal
        assert proximal.objective == pytest.approx(P, rel=1e-6) or proximal.objective > 1e300
        best = D if best is None else max(best, D)
        assert proximal.highest == pytest.approx(best, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("streams", [1, 3])
def test_the_certificate_encloses_the_optimum_in_every_pass(streams):
    problem, of = problem_of(), oracle.rows(n=120, seed=1, streams=streams)
    optimum, coef, _ = oracle.optimum(problem, of)
    run = Run(WidePsdca(width=K), problem, of)
    for _ in range(40):
        run.one_pass()
        proven = run.solver.certificate(run.state)
        if proven:
            at = run.weights
            P = oracle.objective(problem, of, at.coef, at.intercept)[0]
            assert proven.objective == pytest.approx(P, rel=1e-12)
            assert proven.objective - proven.gap <= optimum + 1e-10
            assert optimum <= P + 1e-10
    assert proven.gap < 1e-6
    np.testing.assert_allclose(run.weights.coef, coef, atol=1e-3)
    assert run.weights.coef.sum(axis=0) == pytest.approx(np.zeros(of.X.shape[1]), abs=1e-9)


def test_the_dual_objective_never_falls():
    problem, of = problem_of(lam=0.5, column=0.0), oracle.rows(seed=2)
    assert first_r(problem, of.stats) == 1
    run, D = Run(WidePsdca(width=K, grow_to=1), problem, of), []
    for _ in range(8):
        run.one_pass()
        D.append(oracle.dual_objective(problem, of, duals_of(run)))
    assert all(before <= after + 1e-12 for before, after in pairwise(D))


def test_python_computes_what_kernels_do(monkeypatch):
    from fewpass.solvers.dual import wide_psdca

    problem, of = problem_of(), oracle.rows(n=20)
    compiled = Run(WidePsdca(width=K), problem, of).passes(3)
    monkeypatch.setattr(wide_psdca, "visit_wide_rows", wide_psdca.visit_wide_rows.py_func)
    plain = Run(WidePsdca(width=K), problem, of).passes(3)
    np.testing.assert_allclose(plain.state.W, compiled.state.W, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(plain.row_state, compiled.row_state, rtol=1e-8, atol=1e-11)


def test_weights_that_are_not_of_the_dual_variables_are_refused():
    problem, of = problem_of(), oracle.rows()
    run = Run(WidePsdca(width=K), problem, of).passes(2)
    run.state = run.solver.adopted(run.state, midway=False)
    run.one_pass()  # proven, and found right
    run.state = run.solver.adopted(run.state, midway=False)
    run.row_state[7, 2] -= 0.1
    with pytest.raises(Mispaired):
        run.one_pass()


def test_dual_variables_and_weights_stay_together_for_long():
    problem, of = problem_of(), oracle.rows()
    run = Run(WidePsdca(width=K), problem, of).passes(33)
    run.state = run.solver.adopted(run.state, midway=False)
    run.passes(2)
    a = duals_of(run)
    np.testing.assert_allclose(a.sum(axis=1), 0.0, atol=1e-14)
    assert (oracle.one_hot(of, K) - a).min() >= 0.0


@pytest.mark.parametrize("streams", [1, 2])
def test_a_start_at_the_optimum_ends_at_once(streams):
    problem, of = problem_of(), oracle.rows(n=120, seed=1, streams=streams)
    optimum, coef, intercept = oracle.optimum(problem, of)
    run = Run(WidePsdca(width=K), problem, of)
    run.state = run.solver.start_at(problem, of.stats, Weights(coef, intercept), 0)
    begin = run.solver.warm_start_pass
    at, everything = begin.at(run.state), run.block(np.arange(len(of.y)))
    total = begin.sum.add(problem, at, everything, begin.sum.zero(at))
    run.state = begin.absorb(problem, of.stats, run.state, total, 0)
    proven = run.solver.certificate(run.state)
    assert proven.objective == pytest.approx(optimum, rel=1e-12)
    assert 0.0 <= proven.gap < 1e-7
    run.passes(3)
    assert run.solver.certificate(run.state).gap < 1e-7
    run.state = run.solver.adopted(run.state, midway=False)
    run.one_pass()  # the dual variables that were written go with the weights


def test_what_is_not_for_several_scores_is_refused_by_name():
    of, problem = oracle.rows(), problem_of()
    for solver in (Sdca(), Psdca()):
        with pytest.raises(ValueError, match=r"softmax.*psdca.*asgd.*classes=ovr"):
            solver.init(problem, of.stats)
    for wrong in ({"batch": "safe"}, {"shrink_rounds": 3}, {"columns": "apart"}):
        solver = fit_for(Psdca(**wrong), K, smooth=True)
        with pytest.raises(ValueError, match=f"{next(iter(wrong))}.*one score.*softmax has 5"):
            solver.init(problem, of.stats)
    assert fit_for(Psdca(), 1, smooth=True) == Psdca()
    with pytest.raises(ValueError, match="scores of all"):
        WidePsdca(width=K).init(problem._replace(loss=Logistic()), of.stats)


def test_how_hard_the_centre_pulls_at_first():
    of = oracle.rows()
    square = of.stats.mean_square
    for lam, expected in ((10.0, 1), (square / (2 * 7.5 * len(of.y)), 7), (1e-9, 16)):
        assert first_r(problem_of(lam=lam), of.stats) == expected


def passes_to(X, y, tol):
    """Passes of psdca with lam = 1/n until gap / max(1, F) is tol; the certificate and weights."""
    classes, codes = np.unique(y, return_inverse=True)
    order, n = np.random.default_rng(1).permutation(len(codes)), len(codes)
    X, codes = X[order], codes[order].astype(float)
    problem = Problem(SoftmaxLoss(len(classes)), L2(1.0 / n), 1.0, 0.01 / n)
    solver = WidePsdca(width=len(classes))
    for passes, after in enumerate(
        sweeps(solver, problem, stats_of(X, codes), block_of(X, codes)), 1
    ):
        proven = solver.certificate(after.state)
        if proven and proven.gap <= tol * max(1.0, proven.objective):
            return passes, proven, solver.weights(after.state)
        assert passes < 60
    raise AssertionError("sweeps do not end")


@pytest.mark.public_data
def test_sector_and_mnist_as_measured(data_file):
    """docs/methods.md, section 7.12; 30 % more passes are allowed for."""
    with bz2.open(data_file("sector/sector.scale.bz2")) as file:
        X, y = load_svmlight_file(file)
    passes, proven, at = passes_to(X.tocsr(), y, 1e-6)
    assert passes <= 10
    assert proven.objective == pytest.approx(3.048995, abs=2e-6)
    with bz2.open(data_file("sector/sector.t.scale.bz2")) as file:
        X, labels = load_svmlight_file(file, n_features=X.shape[1])
    guessed = np.unique(y)[(X @ at.coef.T + at.intercept).argmax(axis=1)]
    assert (guessed != labels).mean() == pytest.approx(0.1235, abs=1e-3)

    pixels = lzma.decompress(data_file("mnist/train-images-idx3-ubyte.xz").read_bytes())[16:]
    labels = lzma.decompress(data_file("mnist/train-labels-idx1-ubyte.xz").read_bytes())[8:]
    X = csr_matrix(np.frombuffer(pixels, np.uint8).reshape(60_000, -1) / 255.0)
    passes, proven, _ = passes_to(X, np.frombuffer(labels, np.uint8), 1e-4)
    assert passes <= 21
    assert proven.objective <= 0.23217
