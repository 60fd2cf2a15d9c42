"""SDCA that visits a window's moving rows again: the same optimum, in fewer passes and visits."""

import lzma

import numpy as np
import pytest
from sklearn.datasets import load_svmlight_file
from sklearn.preprocessing import normalize

from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_state import REFRESHED, RUNNING, START
from fewpass.solvers.dual.sdca_steps import StepInputs
from fewpass.solvers.dual.shrinking import (
    most_again,
    visit_moving_rows,
    visit_once_more,
)
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import copy_state
from testing import oracles
from testing.dual_runs import (
    Data,
    Run,
    data,
    dual_objective,
    gen_dense,
    primal_objective,
    weights_of,
)
from tests.conftest import ROUNDING
from tests.solvers.dual.test_sdca import KNOWN, rows


@pytest.mark.parametrize(("loss", "sparse"), [("hinge", False), ("logistic", True)])
@pytest.mark.parametrize(("streams", "merges"), [(1, 1), (4, 1), (3, 6)])
def test_rounds_keep_to_the_dual_and_the_certificate_is_the_gap(loss, streams, merges, sparse, rng):
    of = data(*rows(rng, n=200, loss=loss), sparse=sparse, streams=streams, merges=merges)
    problem, solver = Problem(LOSSES[loss](), L2(0.01), 0.0, 0.01), Sdca(shrink_rounds=5)
    run, lower = Run(solver, problem, of), -np.inf
    for k in range(18):  # beyond the 16th, which adds the weights up afresh
        a = run.dual_variables.copy()
        w, D = run.state.W[:-1, START].copy(), dual_objective(problem, of, a)
        np.testing.assert_allclose(w, weights_of(problem, of, a)[0], rtol=0.0, atol=1e-12)
        assert lower - ROUNDING <= D
        lower = max(lower, D)
        run.one_pass(cuts=3)
        if k > 0:
            found = solver.certificate(run.state)
            assert found.gap <= primal_objective(problem, of, w, 0.0) - D + 1e-12
            assert found.objective - found.gap <= lower + 1e-12
    assert run.state.visits > 18 * 200
    assert run.certified().gap < 5e-3


def test_rounds_are_the_formula_over_the_rows_that_moved(rng):
    of, problem = data(*rows(rng, n=50)), Problem(LOSSES["hinge"](), L2(0.05), 0.0, 0.05)
    ends = []
    for visit in (visit_once_more, visit_once_more.py_func):
        run = Run(Sdca(), problem, of)
        state, kept = copy_state(run.state), run.row_state[:, None]
        state = state._replace(passes=REFRESHED - 1)
        block = run.block(np.arange(50))
        run.solver.step_rows(problem, of.stats, state, block)
        before, fresh = kept.copy(), state.fresh.copy()
        some = block._replace(order=np.arange(0, 50, 3))
        given = StepInputs(problem, 0.0, 0.0, 1.0 / (0.05 * 50), refresh=1.0)
        how = state.W[:, RUNNING:], state.fresh, given
        ends.append(
            (visit(*how, 0.0, *some[:4], kept), kept.copy(), state.W.copy(), state.fresh.copy())
        )
        np.testing.assert_allclose(state.fresh[:-1], weights_of(problem, of, kept[:, 0])[0])
        assert not np.array_equal(fresh, state.fresh)
        still = np.delete(np.arange(50), some.order)
        assert np.array_equal(kept[still], before[still])
    for compiled, plain in zip(*ends, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-12, atol=1e-14)
    state, before = copy_state(state), kept[:, 0].copy()

    def again(order):
        return visit_once_more(*how, 0.0, *block._replace(order=order)[:4], kept)[0]

    block = block._replace(row_state=kept)
    assert visit_moving_rows(again, block, before, 9, 1, [0]) == 0  # nobody has moved
    before[[4, 8]] += 1.0
    assert visit_moving_rows(again, block, before, 1, 1, [0]) == 2


def test_visits_are_few_far_from_the_optimum_and_double_on_the_way():
    assert [most_again(passes) for passes in (0, 7, 8, 16, 10**6)] == [4, 4, 8, 16, 4 << 10]
    assert most_again(10**9) == most_again(10**6)


@pytest.mark.parametrize("loss", ["hinge", "smoothed_hinge"])
def test_known_optima_are_reached_and_proven(loss):
    of, (optimum, passes) = data(*gen_dense(400, 20, 2, double=True)), KNOWN[loss]
    run = Run(Sdca(shrink_rounds=30), Problem(LOSSES[loss](), L2(0.01), 0.0, 0.01), of)
    run.passes(passes // 3)
    assert run.certified().gap <= 1e-12
    assert run.certified().objective == pytest.approx(optimum, abs=1e-11)


@pytest.mark.parametrize(
    "name", ["a9a.xz", pytest.param("w8a/w8a.xz", marks=pytest.mark.public_data)]
)
def test_the_hinge_takes_half_of_the_passes_where_a_quarter_is_in_memory(data_file, name):
    with lzma.open(data_file(name)) as file:
        X, y = load_svmlight_file(file)
    X, n = normalize(X), len(y)
    lengths = np.sqrt(X.multiply(X).sum(axis=1).A1)[:, None]
    stats = oracles.stats(lengths, SparseRows)._replace(d=X.shape[1])
    of = Data(X, y, np.ones(n), oracles.sparse_rows(X), stats)
    problem, found = Problem(LOSSES["hinge"](), L2(1.0 / n), 0.0, 1.0 / n), {}
    for shrink_rounds in (0, 100):
        run, passes, gap = Run(Sdca(shrink_rounds=shrink_rounds), problem, of), 0, np.inf
        while gap > 1e-6:
            run.one_pass(cuts=4)
            passes, certified = passes + 1, run.solver.certificate(run.state)
            gap = certified.gap if certified else np.inf
        found[shrink_rounds] = (passes, run.state.visits)
    assert 2 * found[100][0] < found[0][0]
    assert 5 * found[100][1] < 3 * found[0][1]


def test_batches_are_not_visited_again():
    of = data(*gen_dense(10, 3, 0))
    with pytest.raises(ValueError, match=r"not in safe batches. Leave solver\.shrink_rounds out"):
        Sdca(batch="safe", shrink_rounds=3).init(
            Problem(LOSSES["hinge"](), L2(0.1), 0.0, 0.1), of.stats
        )
