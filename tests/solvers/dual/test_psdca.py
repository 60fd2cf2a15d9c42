"""SDCA with a proximal centre: against its own formulas in NumPy, other programs, and SDCA."""

import numpy as np
import pytest

from fewpass.solvers.dual.proximal import MANY, next_trial
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.dual.sdca_state import BACK, RUNNING, START, TRIED, Proximal
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.losses import LOSSES, Problem, conjugate, dual_step, value
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Mispaired, Weights
from testing import oracles
from testing.dual_runs import LAYOUTS, Run, data, gen_dense, nearer, primal_objective
from testing.synthetic import word_counts
from tests.conftest import ROUNDING

COLUMNS = [(0.0, 1.0), (1.0, 1.0), (1.0, 0.01)]  # of the intercept: value, charge over lam
LAM = 2e-3


def problem_of(loss, column=0.0, charge=1.0):
    return Problem(LOSSES[loss](), L2(LAM), column, charge * LAM)


def heavy(loss, n=60, d=7, seed=0, **how):
    """Rows of very different length, weighted, one of them empty; several streams meet often."""
    how.setdefault("merges", 4 if how.get("streams", 1) > 1 else 1)
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X = oracles.single(X * rng.lognormal(0.0, 1.0, n)[:, None] * rng.lognormal(0.0, 1.0, d))
    X[3] = 0.0
    y = X @ rng.standard_normal(d) + 2.0 * rng.standard_normal(n)
    y = y / y.std() if LOSSES[loss].takes_numbers else np.where(y > 0.5, 1.0, -1.0)
    weight = rng.uniform(0.5, 1.5, n)
    return data(X, y, weight / weight.mean(), **how)


def plain(problem, of, orders, apart=False, above=0.5, most=64):
    """The algorithm as docs/methods.md has it; yields a, and what is proven, after every pass.

    The intercept is a column, with a charge and a centre of its own: all that lam stands for are
    vectors.
    """
    h = np.ones(of.X.shape[1] + 1)
    if apart:
        column = (
            problem.intercept**2 * problem.lam / nearer(problem, of) if problem.intercept else 0
        )
        m = np.append((of.X**2).mean(axis=0), column)
        h = np.where(m > 0.0, m, 1.0) ** (2.0 / 3.0)
        h *= (m / h).sum() / m.sum()
    n, d = of.X.shape
    Z = np.column_stack([of.X, np.full(n, problem.intercept)])
    lam = np.append(np.full(d, problem.lam), problem.lam_b)
    usual = np.append(np.full(d, problem.lam), nearer(problem, of))
    side = np.ones(n) if problem.loss.takes_numbers else of.y
    a, w, x, z = np.zeros(n), *np.zeros((3, d + 1))
    curvature = 1.0 if problem.loss.name == "hinge" else problem.loss.curvature
    K = curvature * np.mean(of.weight * (of.X**2).sum(axis=1)) / (problem.lam * n)
    r = min(16, max(1, int(K / 2 if problem.loss.name == "hinge" else 2 * K))) if d < n / 10 else 1
    alpha, reg = 1.0, (1.0 + (r - 1.0) * h) * usual
    P_before, gap_before, lowest, highest = np.inf, np.inf, np.inf, -np.inf
    for k, order in enumerate(orders, start=1):
        v = (reg * w - (reg - lam) * z) / lam
        phi = [value(problem.loss, p, t) for p, t in zip(Z @ x, of.y, strict=True)]
        conjugates = [conjugate(problem.loss, s, t) for s, t in zip(a, of.y, strict=True)]
        P = np.mean(of.weight * phi) + 0.5 * lam @ x**2
        D = -np.mean(of.weight * conjugates) - 0.5 * lam @ v**2
        lowest, highest = min(lowest, P), max(highest, D)
        for i in order:
            c = of.weight[i]
            q = c * (Z[i] ** 2 / reg).sum() / n
            delta = dual_step(problem.loss, a[i], Z[i] @ w, of.y[i], q)
            a[i] += delta
            w = w + c * delta * side[i] * Z[i] / (reg * n)
        after, gap = w.copy(), lowest - highest
        if k > 2 and P_before < P:
            alpha, x = 1.0, after
        s = reg * w - (reg - lam) * z
        if k >= 2 and gap > above * gap_before:
            r = min(r + 1, most)
        reg = (1.0 + (r - 1.0) * h) * usual
        w = (s + (reg - lam) * z) / reg
        half = (alpha**2 - 1.0 / r) / 2.0
        ahead = np.sqrt(half**2 + alpha**2) - half
        z_next = after + alpha * (1.0 - alpha) / (alpha**2 + ahead) * (after - x)
        w = w + (reg - lam) / reg * (z_next - z)
        z, x, alpha, P_before, gap_before = z_next, after, ahead, P, gap
        yield a.copy(), r, lowest, highest


@pytest.mark.parametrize(("loss", "sparse"), LAYOUTS)
@pytest.mark.parametrize(("column", "charge"), COLUMNS)
@pytest.mark.parametrize("columns", ["alike", "apart"])
def test_it_is_the_algorithm_as_written(loss, column, charge, sparse, columns):
    """Beyond the 16th pass, which adds the weights up afresh; columns are few where one is added."""
    d = 5 if column else 7
    problem, of = problem_of(loss, column, charge), heavy(loss, d=d, sparse=sparse)
    run, rng = Run(Psdca(columns=columns), problem, of), np.random.default_rng(1)
    orders = [rng.permutation(len(of.y)) for _ in range(20)]
    for k, (a, r, P, D) in enumerate(plain(problem, of, orders, columns == "apart")):
        run.one_pass(cuts=3, order=orders[k])
        np.testing.assert_allclose(run.dual_variables, a, rtol=1e-7, atol=1e-8)
        assert run.state.proximal.r == r
        assert run.state.proximal.lowest == pytest.approx(P, rel=1e-9)
        assert run.state.proximal.highest == pytest.approx(D, rel=1e-9, abs=1e-12)
        found = run.solver.certificate(run.state)
        assert (found is None) == (k == 0)
        if found and problem_at_zero(problem, of) > P and D > 1e-12:  # not those of zero weights
            assert found.gap == pytest.approx(P - D, abs=1e-9)
            w, b = run.weights
            assert found.objective == pytest.approx(primal_objective(problem, of, w, b), rel=1e-12)
    assert run.state.proximal.r > 3, "it never grew: the test shows nothing"


def problem_at_zero(problem, of):
    return primal_objective(problem, of, np.zeros(of.X.shape[1]), 0.0)


@pytest.mark.parametrize("solver", [Psdca(grow_to=1), Psdca(grow_above=1.0)])
@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize(("column", "charge"), COLUMNS)
def test_where_the_centre_weighs_nothing_its_steps_are_those_of_sdca(
    solver, streams, column, charge
):
    for loss in ("hinge", "logistic"):
        problem, of = problem_of(loss, column, charge), heavy(loss, sparse=True, streams=streams)
        runs = [Run(method, problem, of).passes(18) for method in (solver, Sdca())]
        assert np.array_equal(runs[0].row_state, runs[1].row_state)


#: Ways to step; in streams and in rounds moves are shortened, and what is owed along V counts.
WAYS = {
    "alone": (Psdca(), {}),
    "in streams": (Psdca(), {"streams": 3}),
    "columns apart": (Psdca(columns="apart"), {}),
    "in streams that meet often": (Psdca(), {"streams": 4, "merges": 8}),
    "in rounds": (Psdca(batch="rounds", batch_size=8), {}),
}


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic", "squared"])
@pytest.mark.parametrize("way", WAYS)
def test_the_certificate_bounds_the_true_gap(loss, way):
    """The optimum is sought by somebody else, and reached."""
    sparse, (solver, how) = oracles.ROWS_OF[loss] is SparseRows, WAYS[way]
    problem, of = problem_of(loss, 1.0, 0.01), heavy(loss, sparse=sparse, **how)
    if loss == "hinge":  # no gradient finds it; a dual method's own bound does
        exact = Run(Sdca(shrink_rounds=100), problem, of._replace(stats=one_stream(of)))
        lowest = exact.passes(400).certified().objective
        lowest -= exact.solver.certificate(exact.state).gap
    else:
        lowest = oracles.optimum(loss, problem, of.X, of.y, of.weight)
    run, owed = Run(solver, problem, of), 0.0
    for _ in range(150):
        run.one_pass(cuts=3)
        owed = max(owed, abs(run.state.proximal.rounds.owed))
        found = run.solver.certificate(run.state)
        assert found is None or found.objective - lowest <= found.gap + 1e-9
    assert owed > 1e-3 or way in ("alone", "columns apart")
    assert found.objective == pytest.approx(primal_objective(problem, of, *run.weights), rel=1e-12)
    found = run.certified()
    assert -1e-12 <= found.objective - lowest <= found.gap + 1e-12
    assert found.gap < 1e-3
    assert run.state.proximal.r > 1


def one_stream(of):
    return of.stats._replace(streams=1, merges=1)


@pytest.mark.parametrize("way", WAYS)
def test_the_weights_are_those_of_the_dual_variables_and_the_centre(way):
    """What they are wrong by is gone after the 32nd pass, which adds them up afresh."""
    (solver, how), problem = WAYS[way], problem_of("logistic", 1.0, 0.01)
    of = heavy("logistic", **how)
    run = Run(solver, problem, of)
    for k in range(40):
        state, a = run.one_pass().state, run.dual_variables
        r, z = state.proximal.r, state.proximal.z
        reg = 1.0 + (r - 1) * (state.proximal.h[:-1] if way == "columns apart" else 1.0)
        s = of.X.T @ (of.weight * a * of.y) / len(a)
        expected = s / (reg * LAM) + (reg - 1.0) / reg * z[:-1]
        wrong = np.abs(state.W[:-1, RUNNING] - expected).max()
        assert (wrong > 1e-10) == (20 < k < 31)
        if k == 20:
            state.W[:-1, RUNNING] += 3e-8 / r
        unit = state.centre.unit
        assert state.proximal.dual_v == pytest.approx(unit * np.mean(of.weight * a * of.y) / LAM)
    assert r > 1


@pytest.mark.parametrize("way", ["in streams that meet often", "in rounds"])
def test_a_pass_is_evaluated_by_weights_without_what_is_owed(way):
    """The centre goes on from w - owed V; where r grows, too, as far as rows have it along V."""
    (solver, how), problem = WAYS[way], problem_of("logistic")
    run, owed, grown = Run(solver, problem, heavy("logistic", **how)), 0.0, 0
    for _ in range(40):
        r, z = run.state.proximal.r, run.state.proximal.z.copy()
        state = run.one_pass(cuts=3).state
        after, V = state.proximal, state.proximal.rounds.V
        found = state.W[:, RUNNING] - after.rounds.owed * V
        expected = state.W[:, START] + (1.0 - 1.0 / after.r) * (after.z - z)
        if after.r > r:
            found, expected, grown = V @ found, V @ expected, grown + 1
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
        owed = max(owed, abs(after.rounds.owed))
    assert owed > 1e-3 and grown > 0


def test_few_columns_begin_with_a_centre_that_weighs():
    """By K, at most 16; where there is a kink by a quarter of that; of many columns K says nothing."""
    few, many = heavy("logistic", d=5), heavy("logistic", d=6)
    K = few.stats.mean_square / (4.0 * LAM * 60)
    assert K / 2.0 > 1.0 and 2.0 * K > 16.0
    for of, lam, loss, most, expected in (
        (few, LAM, "logistic", 64, 16),
        (few, LAM, "logistic", 3, 3),
        (few, LAM * K / 2.5, "logistic", 64, 5),
        (few, LAM * 4.0 * K / 10.0, "hinge", 64, 5),
        (few, LAM * K * 9.0, "logistic", 64, 1),
        (many, LAM, "logistic", 64, 1),
    ):
        problem = Problem(LOSSES[loss](), L2(lam * (1.0 - 1e-9)), 0.0, lam)
        assert Psdca(grow_to=most).init(problem, of.stats).proximal.r == expected


@pytest.mark.parametrize("loss", ["logistic", "squared", "poisson", "hinge"])
@pytest.mark.parametrize(("streams", "columns"), [(1, "alike"), (3, "alike"), (1, "apart")])
def test_a_start_from_weights_goes_with_its_dual_variables(loss, streams, columns):
    """Whatever r begins with; and from the optimum it does not go away."""
    of = heavy(loss, d=5, streams=streams)
    if loss == "poisson":
        of.y[:] = np.random.default_rng(0).poisson(3.0, len(of.y))
    problem = problem_of(loss, 1.0, 0.01)
    good = Run(Psdca(columns=columns), problem, of).passes(300)
    near = 1e-3 if loss in ("logistic", "poisson") else np.inf  # slopes prove little of the others
    for at, most in ((good.weights, near), (Weights(np.full(5, 0.1), 1.0), np.inf)):
        run = Run(Psdca(columns=columns), problem, of)
        run.state = run.solver.start_at(problem, of.stats, at, 0)
        reduce = run.solver.warm_start_pass
        point = reduce.at(run.state)
        total = reduce.sum.add(problem, point, run.block(np.arange(60)), reduce.sum.zero(point))
        run.state = reduce.absorb(problem, of.stats, run.state, total, 0)
        run.state = run.solver.adopted(run.state, midway=False)
        for _ in range(3):
            found = run.solver.certificate(run.one_pass().state)
            assert found.objective - good.certified().objective <= found.gap + 1e-12
        assert found.gap <= most
        assert run.state.proximal.r > 1


def test_columns_are_pulled_apart_where_that_is_tried_and_brings_more():
    """Words that are counted."""
    X, label = word_counts(700, MANY + 1, words=60)
    of = data(X.toarray(), np.where(label < 10, 1.0, -1.0), sparse=True)
    problem = Problem(LOSSES["squared_hinge"](), L2(1.0 / 700), 0.0, 1.0 / 700)
    runs = {how: Run(Psdca(columns=how), problem, of) for how in ("auto", "alike")}
    gaps = {how: run.passes(25).certified().gap for how, run in runs.items()}
    assert gaps["auto"] < gaps["alike"]
    assert runs["auto"].state.proximal.trial.stage == TRIED
    assert not len(Psdca().init(problem, heavy("logistic").stats).proximal.h), "columns are few"
    with pytest.raises(ValueError, match="columns are pulled alike"):
        Psdca(columns="apart", batch="safe").init(problem, of.stats)
    with pytest.raises(ValueError, match="Several streams pull all columns alike"):
        Psdca(columns="apart").init(problem, of.stats._replace(streams=2))
    with pytest.raises(ValueError, match="nothing is known of these"):
        Psdca(columns="apart").init(problem, of.stats._replace(columns=None))


@pytest.mark.parametrize(("left", "r", "ends"), [(0.12, 9, TRIED), (0.13, 2, BACK)])
def test_columns_go_back_where_three_passes_bring_less_than_three_did_before(left, r, ends):
    def passed(proximal, gap, r):
        return next_trial(proximal, proximal._replace(lowest=1.0 + gap, highest=1.0, r=r))

    proximal = Proximal(h=np.ones(3))
    for gap in (8.0, 4.0, 2.0, 1.0):  # an eighth is left
        proximal = passed(proximal, gap, 2)
        assert not proximal.per_column
    proximal = passed(proximal, 0.5, 3)
    assert (proximal.per_column, proximal.r, proximal.trial.left) == (True, 2, 0.125)
    for gap in (0.49, 0.48, 0.5 * left):
        assert proximal.per_column
        proximal = passed(proximal, gap, 9)
    assert (proximal.trial.stage, proximal.r) == (ends, r)
    for k in range(9):
        proximal = passed(proximal, 1e-3 * 0.4**k, 20)
    assert proximal.per_column == (ends == TRIED)


def test_as_many_passes_bring_more_than_those_of_sdca_where_lam_is_small():
    X, y = gen_dense(400, 20, 2, double=True)
    of, problem = data(X, y), Problem(LOSSES["squared_hinge"](), L2(1e-5), 1.0, 1e-7)
    gaps = [Run(m, problem, of).passes(100).certified().gap for m in (Psdca(), Sdca())]
    assert gaps[0] < gaps[1]


@pytest.mark.parametrize("kind", ["safe", "aggressive"])
def test_batches_of_one_row_are_the_serial_steps(kind):
    problem, of = problem_of("logistic", 1.0, 0.01), heavy("logistic", sparse=True)
    serial = Run(Psdca(), problem, of).passes(12)
    batches = Run(Psdca(batch=kind, batch_size=1), problem, of).passes(12)
    np.testing.assert_allclose(batches.dual_variables, serial.dual_variables, atol=1e-9)


def test_batches_and_rows_visited_again_come_to_the_same():
    problem, of = problem_of("smoothed_hinge", 1.0, 0.01), heavy("smoothed_hinge", n=200)
    hows = ({}, {"batch": "safe"}, {"batch": "aggressive"}, {"shrink_rounds": 5})
    found = [Run(Psdca(**how), problem, of).passes(200).certified() for how in hows]
    for one in found:
        assert abs(one.objective - found[0].objective) <= one.gap + found[0].gap + ROUNDING
        assert one.gap < 1e-3


def test_numbers_of_another_time_are_refused():
    problem, of = problem_of("logistic"), heavy("logistic")
    run = Run(Psdca(), problem, of).passes(10)
    assert run.state.proximal.r > 1
    resumed = run.solver.adopted(run.state, midway=False)
    before = resumed.W.copy()
    run.state = resumed
    run.one_pass()  # they go together: nothing is said, and nothing else happens
    assert not run.state.fresh.any()
    assert not np.array_equal(run.state.W, before)
    run.state = run.solver.adopted(run.state, midway=False)
    run.row_state[5] += 1e-6
    with pytest.raises(Mispaired, match="certificate would be wrong by"):
        run.one_pass()


def test_no_gap_is_above_the_objective():
    """At a tiny lam a pass proves less of counts than is known: that no loss is below 0."""
    of = heavy("poisson")
    of = of._replace(y=np.round(np.abs(of.y)))
    problem = Problem(LOSSES["poisson"](), L2(1e-9), 1.0, 1e-11)
    run, least = Run(Psdca(), problem, of), []
    for _ in range(4):
        found = run.solver.certificate(run.one_pass().state)
        if found is not None:
            assert 0.0 <= found.gap <= found.objective
            least.append(found.objective - run.state.best.gap)
    assert min(least) < 0.0
