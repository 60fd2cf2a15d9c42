"""What is foreseen of a training, and what comes of it, through the real command."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.flows import cli
from fewpass.pipeline.budget import Budget
from fewpass.pipeline.planning import default_memory
from fewpass.pipeline.planning.advice import warnings
from fewpass.pipeline.planning.clustering import (
    clustering,
    clustering_warning,
)
from fewpass.pipeline.planning.conditioning import (
    conditioning,
    slowness,
    slowness_for,
    usual_passes,
    zero_loss,
)
from fewpass.pipeline.planning.expected_passes import RULES, expected_passes
from fewpass.pipeline.planning.forecast import forecast, shares_of
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.rows.source_order import share_between
from fewpass.pipeline.rows.windows import plan_windows
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.batch.gradient_descent import Agd, Gd
from fewpass.solvers.batch.lbfgs import Lbfgs
from fewpass.solvers.dual.asdca import Asdca
from fewpass.solvers.dual.pegasos import Pegasos
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.estimates.smoothness import smoothness
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import ProblemStats
from fewpass.solvers.registry import KINKED_METHODS, METHODS, WIDE_METHODS
from fewpass.solvers.s2gd.s2gd import S2gd, S2gdPlus, Svrg
from fewpass.solvers.s2gd.theory import Curvature, plan_epochs
from fewpass.solvers.sgd.averaged_sgd import Asgd
from fewpass.storage.chunk_table import squares_between
from testing.datasets import make, random_table, write
from tests.conftest import ROUNDING

NO_DASK = ["--scheduler", "none"]
#: The forecast of passes is of a typical problem: measured ones are within that factor of it.
FACTOR = 3.0


def text_of_long_rows(path, n=1500, length=18.0):
    """LIBSVM text of rows of about that length, so that a raw run takes long."""
    table = random_table(n, 2000, layout="sparse", nnz=8, seed=3)
    values = table.data * length / math.sqrt(8.0)
    with path.open("w") as file:
        for i in range(n):
            row = range(table.indptr[i], table.indptr[i + 1])
            cells = " ".join(f"{table.indices[k] + 1}:{values[k]:.6g}" for k in row)
            file.write(f"{int(2 * table.target[i] - 1)} {cells}\n")


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return make(tmp_path_factory.mktemp("usual") / "d").folder.url


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return make(tmp_path_factory.mktemp("small") / "d", n=900, d=7, chunk_rows=100)


def advice_of(data, *, distributed=False, **asked):
    plan = TrainingPlan(dataset=data.folder.url, **asked)
    planner = Planner(plan, data, distributed=distributed)
    job = planner.job(plan.memory)
    return " ".join(warnings(planner, plan, job, forecast(plan, job)))


# -- numbers ----------------------------------------------------------------------------------------


def test_the_condition_is_that_of_the_rows(small, as_json):
    rows = np.concatenate([small.read_chunk(k).X for k in range(9)]).astype(float)
    squares, plan = (rows**2).sum(axis=1), ["train", "--plan", small.folder.url]
    told = as_json(*plan, "--intercept", "none", "--lam", "3/n")
    assert told["largest_smoothness"] == pytest.approx(squares.max() / 4 + 3 / 900, rel=1e-6)
    assert told["mean_smoothness"] == pytest.approx(squares.mean() / 4 + 3 / 900, rel=1e-6)
    assert told["kappa"] == pytest.approx(told["largest_smoothness"] * 300, rel=ROUNDING)
    assert told["mean_smoothness"] < as_json(*plan, "--lam", "3/n")["mean_smoothness"]
    assert as_json(*plan, "--loss", "hinge")["kappa"] is None


def test_theory_is_the_planners(small, as_json):
    def told(solver):
        asked = ["--solver", solver, "--tol", "1e-5"]
        return as_json("train", "--plan", small.folder.url, *asked)

    s2gd = told("s2gd")
    of = Curvature(s2gd["largest_smoothness"], s2gd["strong_convexity"])
    planner = Planner(TrainingPlan(dataset=small.folder.url, lam="1/n"), small)
    (constant,) = planner.problem.stats.constants
    planned = plan_epochs(of, 900, 1e-5 * constant / math.log(2.0), "geometric", gradients=1)
    assert s2gd["theory_passes"] == pytest.approx(planned.work / 900, rel=ROUNDING)
    assert told("svrg")["theory_passes"] > s2gd["theory_passes"]
    assert told("asgd")["theory_passes"] is None


@given(K=st.floats(1e-3, 1e4), log_tol=st.floats(-9.0, -0.1), inner=st.floats(0.5, 2.0))
def test_passes_grow_with_digits_and_with_the_condition(K, log_tol, inner):
    tol = 10.0**log_tol
    passes = usual_passes(K, tol, inner)
    assert 1.0 <= passes < usual_passes(2.0 * K, tol, inner)
    assert passes < usual_passes(K, 0.5 * tol, inner)
    if inner == 1.0:
        assert slowness_for(passes, tol) == pytest.approx(K, rel=1e-6)


def known_facts(n=10_000, streams=1, sigma_square=0.05):
    return ProblemStats(
        n, 100, SparseRows, 2.0, 8.0, 1.0, n // streams, shuffled=True, target_square=1.0,
        sigma_square=sigma_square, streams=streams, seed=0,
    )  # fmt: skip


def test_the_pace_is_the_default_step_and_about_a_pass():
    problem, stats = Problem(LOSSES["logistic"](), L2(1e-4), 1.0, 1e-6), known_facts()
    known = conditioning(problem, stats)
    for solver, low, high in ((S2gdPlus(), 1.0, 1.0), (Svrg(), 1.0, 1.001), (S2gd(), 1.0, 2.0)):
        pace = solver.pace(problem, stats)
        assert pace.h == pytest.approx(1.0 / (4.0 * known.mean), rel=ROUNDING)
        assert low <= pace.inner_passes <= high
    assert S2gdPlus(m=5000).pace(problem, stats).inner_passes == 0.5
    # Batches and streams share a step that grows less than they do.
    for solver, there in ((S2gdPlus(batch_size=4), stats), (S2gdPlus(), known_facts(streams=4))):
        assert 0.9 / (4.0 * known.mean) < solver.pace(problem, there).h < 1.0 / (4.0 * known.mean)


def test_a_tolerance_that_zero_weights_meet_takes_no_theory():
    problem = Problem(LOSSES["logistic"](), L2(1e-4), 1.0, 1e-6)
    assert expected_passes(S2gd(), problem, known_facts(), 0.9).theory is None
    assert zero_loss(problem, known_facts()) == pytest.approx(math.log(2.0))
    assert (
        expected_passes(S2gd(), problem._replace(loss=LOSSES["hinge"]()), known_facts(), 0.1).usual
        is None
    )


@given(memory=st.integers(100_000_000, 300_000_000), streams=st.integers(1, 4))
def test_memory_foreseen_is_within_the_budget(dense, memory, streams):
    plan = TrainingPlan(dataset=dense.folder.url, lam="1/n", memory=memory, streams=streams)
    planner = Planner(plan, dense)
    told = forecast(planner.named(memory), planner.job(memory))
    assert told.state_bytes + told.window_bytes + told.overhead_bytes <= memory
    assert 0 < told.window_rows <= dense.n_rows
    shares = shares_of(planner.named(memory), planner.job(memory), told)
    assert sum(share.bytes for share in shares) == memory
    assert all(share.bytes >= 0 for share in shares)


@pytest.fixture(scope="module")
def dense(tmp_path_factory):
    return make(tmp_path_factory.mktemp("dense") / "d", n=20_000, d=40, chunk_rows=500)


# -- prediction and outcome --------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[
        "phishing.svm.xz",
        pytest.param("reuters/reuters.trn.bz2", marks=pytest.mark.public_data),
    ],
)
def real(request, data_file, tmp_path_factory):
    place = tmp_path_factory.mktemp("real") / "d"
    assert cli.main(["ingest", str(data_file(request.param)), str(place), "-q"]) == 0
    return place


@pytest.mark.parametrize(
    ("solver", "loss"),
    [("s2gd+", "squared_hinge"), ("sdca", "logistic"), ("lbfgs", "logistic")],
)
def test_a_run_takes_about_what_was_foreseen(real, tmp_path, fewpass, as_json, solver, loss):
    asked = ["--solver", solver, "--loss", loss, "--tol", "1e-3"]
    told = as_json("train", "--plan", real, *asked)
    fewpass("train", real, tmp_path / "r", *asked, *NO_DASK, "-q")
    report = as_json("report", tmp_path / "r")
    assert report["forecast"].items() <= told.items()
    assert report["certificate"] <= 1e-3
    assert told["usual_passes"] / FACTOR < report["passes"] < told["usual_passes"] * FACTOR
    assert report["passes"] < (told["theory_passes"] or math.inf)
    assert told["resident"]
    assert report["bytes_read"] == told["bytes_read"] == told["bytes_per_pass"]
    _, side_by_side, _ = fewpass("report", tmp_path / "r")
    assert "actual" in side_by_side
    assert f"{report['passes']:.4g}" in side_by_side


@pytest.mark.parametrize(
    ("asked", "passes", "certifying", "read"),
    [
        (["--passes", 1], 1, 0, 1),
        (["--passes", 3, "--certify"], 3, 1, 1),
        (["--passes", 3, "--certify", "--memory", 96_100_000], 3, 1, 4),
        (["--passes", 2, "--tol", 1e-9, "--solver", "asgd"], 2, 2, 1),
    ],
)
def test_passes_of_a_one_pass_method_are_known(tmp_path, as_json, asked, passes, certifying, read):
    make(tmp_path / "d", layout="sparse")
    told = as_json("train", "--plan", tmp_path / "d", *asked)
    assert (told["passes"], told["certifying_passes"]) == (passes, certifying)
    trained = as_json("train", tmp_path / "d", tmp_path / "r", *asked, *NO_DASK)
    assert trained["passes"] == told["passes"]
    assert trained["bytes_read"] == told["bytes_read"] == read * told["bytes_per_pass"]
    assert told["resident"] == (read < passes + certifying)


def test_of_a_source_the_settings_alone_are_planned(tmp_path, fewpass, capsys):
    source = tmp_path / "rows.svm"
    source.write_text("1 1:2\n0 2:1\n")
    assert cli.main(["train", "--plan", str(source)]) == 2
    assert "A source of rows is read once" in capsys.readouterr().err
    assert "solver" in fewpass("train", "--plan", source, "--dry-run")[1]


# -- advice -----------------------------------------------------------------------------------------


def test_a_hard_problem_is_foreseen_with_its_cures(tmp_path, fewpass, as_json):
    """Rows as long as those of raw text counts: tens of thousands of passes in theory.

    At lam = 1/n a proximal centre is all the cure it takes.
    """
    text_of_long_rows(tmp_path / "long.svm")
    for scale in ("none", "unit-rows"):
        fewpass("ingest", tmp_path / "long.svm", tmp_path / scale, "--scale", scale, "-q")
    primal, usually = ["--solver", "s2gd+", "--tol", "1e-6"], ["--lam", "1/n"]
    usual = as_json("train", "--plan", tmp_path / "none", *primal, *usually)
    assert usual["usual_passes"] > 100
    assert usual["theory_passes"] > 10_000
    many = math.ceil(usual["usual_passes"])
    for passes, said in ((many, "which may be too few"), (2 * many, None)):
        told = as_json("train", "--plan", tmp_path / "none", *primal, *usually, "--passes", passes)[
            "advice"
        ]
        assert any(f"--passes allows {passes}, {said}" in one for one in told) == bool(said)
        assert said or not any("allows" in one for one in told)
    assert "--solver psdca usually takes" in " ".join(usual["advice"])
    asked = ["--lam", "1e-4/n", "--tol", "1e-6"]
    dual = ["--solver", "psdca"]
    raw, unit = (
        as_json("train", "--plan", tmp_path / k, *asked, *dual) for k in ("none", "unit-rows")
    )
    assert raw["usual_passes"] > 100
    assert unit["usual_passes"] < 30
    advice = " ".join(raw["advice"])
    assert "--passes allows 100" in advice
    promised = re.search(r"--scale unit-rows, (\S+) usually takes about (\d+) passes", advice)
    kept = as_json("train", "--plan", tmp_path / "unit-rows", *asked, "--solver", promised[1])
    assert kept["usual_passes"] == pytest.approx(int(promised[2]), abs=1.0)
    lam = next(word for word in advice.partition("With --lam ")[2].split())
    milder = as_json("train", "--plan", tmp_path / "none", *primal, "--lam", lam)
    assert milder["usual_passes"] == pytest.approx(30, rel=0.3)
    assert "hard" not in " ".join(unit["advice"] + milder["advice"])


@pytest.mark.parametrize(("place", "solver"), [((), "onepass"), (("--workers", 2), "asgd")])
def test_a_plan_for_workers_counts_on_the_memory_that_each_has(
    place, solver, tmp_path, as_json, monkeypatch
):
    """In this process several learners may take more than a plan's memory that nobody gave."""
    monkeypatch.setattr(default_memory, "usable_memory_bytes", lambda: 1 << 41)
    make(tmp_path / "set", n=90, d=90_000, chunk_rows=30, layout="sparse", nnz=4, seed=1)
    grid = ",".join(f"{2.0**-k:.4g}" for k in range(64))
    asked = ["--passes", 1, "--lam", grid, "--held-out", tmp_path / "set", *place]
    assert as_json("train", "--plan", tmp_path / "set", *asked)["solver"] == solver


def test_a_tolerance_for_a_one_pass_method_names_a_better_one(usual, as_json):
    asked = ["train", "--plan", usual, "--tol", "1e-4", "--lam", "1e-2"]
    asgd = ["--solver", "asgd"]
    (said,) = as_json(*asked, *asgd)["advice"]
    kind, number = re.search(r"--solver (\S+) usually takes about (\d+)", said).groups()
    assert as_json(*asked, "--solver", kind)["usual_passes"] == pytest.approx(int(number), abs=0.5)
    (said,) = as_json(*asked, *asgd, "--loss", "hinge")["advice"]
    assert "smoothed_hinge" in said
    assert "--solver psdca" in said
    assert as_json(*asked, "--loss", "hinge", "--solver", "psdca")["advice"] == []
    for met in ([], ["--passes", 3], ["--tol", "1e-6"]):
        assert as_json("train", "--plan", usual, *met)["advice"] == []
    (said,) = as_json(*asked, "--loss", "hinge", "--solver", "pegasos")["advice"]
    assert "--solver psdca proves" in said


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--tol 1e-9 --passes 3", "usually takes about"),
        ("--tol 1e-6 --passes 3 --solver asgd", "in 3 passes cannot be predicted. --solver"),
        ("--tol 1e-6 --passes 1", "cannot be predicted. With more --passes"),
        ("--tol 1e-6 --solver gd --lam 1e-6", "in 100 passes cannot be predicted. --solver"),
        (
            "--tol 1e-3 --solver asgd --loss hinge",
            "cannot certify 0.001: the hinge loss has a kink",
        ),
        ("--tol 1e-9 --solver pegasos --loss hinge", "--solver psdca proves 1e-09 sooner"),
    ],
)
def test_what_cannot_be_met_is_said_before_it_is_missed(usual, tmp_path, fewpass, asked, said):
    *_, told = fewpass("train", "--plan", usual, *asked.split())
    assert said in " ".join(told.split())
    if asked.endswith("--passes 3"):
        *_, told = fewpass("train", usual, tmp_path / "r", *asked.split(), *NO_DASK)
        before, _, after = told.partition("Running on")
        assert said in before
        assert "missed" in after


@pytest.mark.parametrize(
    ("asked", "why", "advised"),
    [
        ("--loss quantile", "the quantile loss has a kink", "certificate holds for it."),
        ("--loss poisson", "the slope of the loss has no bound", ""),
    ],
)
def test_what_has_no_smoothness_is_named(tmp_path, fewpass, asked, why, advised):
    table = random_table(200, 3, targets="values")
    write(tmp_path / "d", table._replace(target=abs(table.target)), 3, 60, targets="values")
    solver = "newton" if "poisson" in asked else "asgd"
    options = ["--tol", "1e-3", "--lam", "1/n", "--solver", solver, *asked.split()]
    _, *told = fewpass("train", "--plan", tmp_path / "d", *options)
    said = " ".join(" ".join(told).split())
    assert why in said
    assert advised in said
    assert "hinge" not in said


@pytest.mark.parametrize(
    ("asked", "distributed", "said"),
    [
        ({"streams": 2, "tol": 1e-3}, False, "streams of psdca are added up 3 times a pass"),
        ({"streams": 2, "tol": 1e-3, "solver": "sdca"}, True, "streams of sdca are added up 3"),
        ({"streams": 2, "tol": 1e-3, "solver": "asgd"}, True, ""),
        ({"passes": 1, "solver": "asgd"}, True, "Two passes of psdca (`solver=psdca`, `passes=2`)"),
        ({"passes": 1, "solver": "asgd", "streams": 2}, True, ""),
        ({"passes": 1, "solver": "asgd"}, False, ""),
    ],
)
def test_what_several_threads_or_workers_had_better_do(tmp_path, asked, distributed, said):
    data = make(tmp_path / "set", n=400, chunk_rows=20)
    asked = {"solver": "psdca", "lam": "10/n", "memory": "128MB"} | asked
    told = advice_of(data, distributed=distributed, **asked)
    assert said in told
    assert bool(said) == ("`streams`" in told or "workers" in told)


@pytest.mark.parametrize(
    ("y", "loss", "said"),
    [
        (np.random.default_rng(0).poisson(3.0, 400), None, True),
        (np.random.default_rng(0).poisson(3.0, 400), "squared", False),
        (np.random.default_rng(0).poisson(3.0, 400) + 0.5, None, False),
        (np.random.default_rng(0).poisson(3.0, 400) + 1900, None, False),
        (np.r_[0, np.random.default_rng(0).normal(50, 9, 399)].round(), None, False),
    ],
)
def test_targets_that_look_like_counts_are_named(tmp_path, y, loss, said):
    rows = random_table(400, 3)._replace(target=y.astype(np.float64))
    data = write(tmp_path / "set", rows, 3, 50, targets="values")
    told = advice_of(data, loss=loss, solver="psdca", lam="10/n")
    assert ("`loss=poisson`" in told) == said


def test_passes_that_add_up_gradients_need_none_to_certify_beside():
    problem, stats = Problem(LOSSES["logistic"](), L2(1e-4), 1.0, 1e-6), known_facts()
    for solver, share in ((Gd(), 1.0), (Lbfgs(), 1.0), (Asgd(), 0.0), (Sdca(), 0.0)):
        assert expected_passes(solver, problem, stats, 1e-3).reductions == share


def test_a_rule_is_that_of_a_class():
    registered = (*METHODS.values(), *WIDE_METHODS.values(), *KINKED_METHODS.values())
    assert {*RULES} <= {place.partition(":")[2] for place in registered}


def test_each_method_has_its_theory():
    problem, stats = Problem(LOSSES["logistic"](), L2(1e-4), 1.0, 1e-6), known_facts()
    known = conditioning(problem, stats)
    kappa_f = smoothness(problem, stats, stats.sigma_square) / problem.lam
    steps = expected_passes(Gd(), problem, stats, 1e-5).theory
    assert (1.0 - 1.0 / kappa_f) ** steps * math.log(2.0) == pytest.approx(1e-5, rel=1e-6)
    n, kappa = stats.n, known.kappa
    dual = expected_passes(Sdca(), problem, stats, 1e-5)
    assert dual.theory == pytest.approx((1 + kappa / n) * math.log((n + kappa) / 1e-5))
    assert dual.usual < dual.theory
    assert expected_passes(Sdca(), problem, known_facts(streams=2), 1e-5).usual is None
    hinge = problem._replace(loss=LOSSES["hinge"](), intercept=0.0)
    square, spread = stats.max_square * stats.max_weight, stats.sigma_square
    for b in (1, 10):
        found = expected_passes(Pegasos(batch_size=b), hinge, stats, 1e-3).theory
        beta = 1.0 + (b - 1) * min(1.0, spread / square)
        assert found == pytest.approx(30.0 * square * beta / (hinge.lam * 1e-3 * n))
    fast = expected_passes(Agd(), problem, stats, 1e-5)
    left = 2.0 * (1.0 - kappa_f**-0.5) ** fast.theory * math.log(2.0)
    assert left == pytest.approx(1e-5, rel=1e-6)
    assert fast.usual < fast.theory < steps
    for m in (1, 100, n):
        solver = Asdca(batch_size=m)
        found, theta = (
            expected_passes(solver, problem, stats, 1e-5),
            solver.foreseen_theta(problem, stats),
        )
        left = (1.0 - min(theta * m / n, 1.0 - 1e-12)) ** (found.theory * n / m) * n / m
        assert left * math.log(2.0) == pytest.approx(1e-5, rel=1e-6)
        assert found.usual == pytest.approx(1.0 + 5.0 / theta)
    assert expected_passes(Asdca(theta=0.1), problem, stats, 1e-5).theory is None
    sorted_rows = stats._replace(shuffled=False)
    assert expected_passes(Asdca(batch_size=9), problem, sorted_rows, 1e-5).usual is None
    assert expected_passes(Lbfgs(), problem, stats, 1e-5).usual < steps


# -- sorted rows -------------------------------------------------------------------------------------


def sorted_set(url, by, *, shuffled=False, n=3000, chunk_rows=60):
    """A stored set whose rows are ordered by label, by norm or at random."""
    table = random_table(n, 10)
    keys = {
        "label": table.target,
        "norm": (table.X**2).sum(axis=1),
        "chance": np.random.default_rng(5).random(n),
    }
    order = np.argsort(keys[by], kind="stable")
    table = table._replace(X=table.X[order], target=table.target[order])
    return write(url, table, 10, chunk_rows, shuffled=shuffled)


def windows_of(dataset, chunks):
    return plan_windows(
        dataset.manifest, budget=Budget.of(1 << 30), state_bytes=0, streams=1, seed=0
    )._replace(chunks_per_window=chunks)


@pytest.mark.parametrize("by", ["label", "norm", "chance"])
def test_the_share_between_chunks_is_that_of_an_analysis_of_variance(tmp_path, by):
    dataset = sorted_set(tmp_path / "d", by)
    found = clustering(dataset.manifest)
    for share, key in zip(found, ("label", "norm"), strict=True):
        tables = [dataset.read_chunk(k) for k in range(dataset.n_chunks)]
        values = [t.target if key == "label" else (t.X.astype(float) ** 2).sum(1) for t in tables]
        every = np.concatenate(values)
        between = sum(len(v) * (v.mean() - every.mean()) ** 2 for v in values)
        n, groups, total = len(every), len(values), ((every - every.mean()) ** 2).sum()
        exact = (n * between / total - groups) / (n - groups)
        assert share == (pytest.approx(exact, rel=1e-5) if by == key else 0.0)
    assert found.matters == (by != "chance")


def test_rows_in_chance_order_are_not_called_sorted(rng):
    for _ in range(200):
        rows = rng.integers(5, 500, rng.integers(2, 300))
        sums = [float((rng.random(n) < 0.1).sum()) for n in rows]
        squares = squares_between(rows, sums)
        assert share_between(len(rows), rows.sum(), squares, 0.09) == 0.0


def test_sorted_rows_are_warned_about_where_they_matter(tmp_path, monkeypatch):
    by_label = sorted_set(tmp_path / "label", "label")
    few, many, all_of_them = (windows_of(by_label, k) for k in (2, 20, 50))
    said = clustering_warning(by_label.manifest, few)
    assert "100% of the variance of their targets" in said
    assert "a window holds 4% of the rows" in said
    assert "`memory`" in said
    assert "--memory" not in clustering_warning(by_label.manifest, many)
    assert clustering_warning(by_label.manifest, all_of_them) is None
    for by, shuffled in (("chance", False), ("label", True)):
        fine = sorted_set(tmp_path / f"{by}-{shuffled}", by, shuffled=shuffled)
        assert clustering_warning(fine.manifest, few) is None


def test_plan_and_train_warn_about_sorted_rows(tmp_path, fewpass, as_json):
    lines = [f"{label} 1:{1 + k % 7} {2 + k % 50}:1\n" for label in (-1, 1) for k in range(20_000)]
    (tmp_path / "sorted.svm").write_text("".join(lines))
    ingest = ["ingest", tmp_path / "sorted.svm", tmp_path / "d", "--chunk-bytes", "100kB", "-q"]
    fewpass(*ingest, "--no-shuffle")
    small = ["--memory", "98MB"]  # a few chunks in a window
    (said,) = as_json("train", "--plan", tmp_path / "d", *small)["advice"]
    assert "stored sorted" in said
    *_, err = fewpass("train", tmp_path / "d", tmp_path / "r", *small, *NO_DASK)
    assert said in err
    fewpass(*ingest, "--overwrite")
    assert as_json("train", "--plan", tmp_path / "d", *small)["advice"] == []


def test_windows_of_one_chunk_are_told_of_where_they_cost_passes(tmp_path, as_json):
    """97MB leave a chunk to each of three windows: the same rows would meet in every pass."""
    make(tmp_path / "d", n=6000, d=20, chunk_rows=2000)
    asked = ["train", "--plan", tmp_path / "d", "--lam", "1e-2", "--tol", "1e-3", "--solver"]
    alone = ["--memory", "97MB"]
    assert as_json(*asked, "psdca", *alone)["window_rows"] == 2000
    (said,) = as_json(*asked, "psdca", *alone)["advice"]
    assert said.startswith("A window holds one chunk")
    assert "--chunk-bytes" in said
    assert as_json(*asked, "s2gd+", *alone)["advice"] == []
    assert as_json(*asked, "psdca")["advice"] == []


def test_slowness_is_kappa_over_rows():
    assert slowness(1.0 / (4.0 * 50.0), 0.01, 1000) == pytest.approx(5.0)
