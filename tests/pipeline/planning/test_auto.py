"""`auto`: what it chooses, that it says so and keeps to it, and when it falls back."""

import json

import numpy as np
import pytest

from fewpass.flows import cli
from fewpass.pipeline.passes.threads import InProcess
from fewpass.pipeline.planning.auto import choose
from fewpass.pipeline.planning.falling_back import far_behind
from fewpass.pipeline.planning.method_choice import MethodChoice, MethodRequest
from fewpass.pipeline.planning.planner import Planner
from fewpass.pipeline.planning.rate import Mark, left_passes, noted, rate
from fewpass.pipeline.reporting.report import read_report
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.training.training_run import TrainingRun
from fewpass.solvers.batch.newton import Newton
from fewpass.solvers.dual.psdca import Psdca
from fewpass.solvers.kernels.rows import SparseRows
from fewpass.solvers.losses import LOSSES, Problem
from fewpass.solvers.penalties import L2
from fewpass.solvers.protocol import Certificate, ColumnMoments, Diverged, ProblemStats
from fewpass.solvers.s2gd.s2gd import S2gdPlus
from fewpass.storage.table import DenseTable
from testing.datasets import make, write
from testing.interruptions import cut_and_resumed

ALL = {"psdca", "s2gd+", "newton"}


def stats(n=10_000, square=1.0, streams=1, d=100):
    return ProblemStats(
        n=n, d=d, rows_kind=SparseRows, mean_square=square, max_square=square, max_weight=1.0,
        stream_rows=n // streams, shuffled=True, target_square=1.0, sigma_square=square,
        streams=streams, seed=0,
        columns=lambda: ColumnMoments(np.full(d, 0.1), np.full(d, 10.0 * square / d)),
    )  # fmt: skip


def problem(loss="logistic", lam=1e-4):
    return Problem(LOSSES[loss](), L2(lam), 1.0, 0.01 * lam)


@pytest.mark.parametrize(
    ("models", "n", "columns"), [(4, 10**6, 512), (5, 4 * 10**5, 512), (5, 4 * 10**5 + 1, 0)]
)
def test_streaming_newton_of_many_models_is_no_more_work_than_of_one(models, n, columns):
    plan = TrainingPlan(dataset="x")
    about = {"sorted_rows": False, "resident": True, "fits": lambda _method: True}
    (found,) = choose(MethodRequest(plan, problem(), stats(n), models=models, **about)).methods
    assert found.newton_columns == columns


TOL, FINE = {"tol": 1e-4}, {"tol": 1e-6}
FIT = {"fits": ALL}
KEPT = {"resident": True, "d": 501}


@pytest.mark.parametrize(
    ("asked", "about", "methods", "why"),
    [
        ({}, {"fits": {"onepass"}}, ["onepass"], "no tolerance"),
        ({"passes": 5}, {"fits": {"onepass"}}, ["onepass"], "no tolerance"),
        ({"passes": 1, "tol": 1e-3}, {"fits": {"onepass"}}, ["onepass"], "one pass"),
        ({}, {"fits": {"onepass"}, "models": 64}, ["onepass"], "no tolerance"),
        ({}, {"fits": {"onepass"}, "models": 65}, ["asgd"], "is not taken for 65 models"),
        ({}, {"fits": set()}, ["asgd"], "does not fit into the memory"),
        (TOL, {}, ["psdca"], "psdca, usually about 6 passes to 0.0001"),
        (TOL, KEPT | {"lam": 1e-2}, ["s2gd+", "psdca"], "7 passes to 0.0001; psdca about"),
        (TOL, KEPT, ["psdca"], "psdca, usually about 6"),
        (TOL, KEPT | {"lam": 1e-2, "sorted_rows": True}, ["psdca"], "psdca, usually about"),
        (TOL, {"square": 100.0}, ["psdca"], "psdca, usually about 14"),
        (TOL, {"streams": 4}, ["psdca"], "psdca, usually about 9"),
        (TOL, {"lam": 1e-320}, ["psdca"], "too small to predict"),
        ({"tol": 5.0}, {}, ["psdca"], "psdca, usually about 1"),
        (TOL, {"loss": "hinge", "streams": 4}, ["psdca"], "with a kink"),
        (TOL, {"fits": set()}, ["asgd"], "into the memory"),
        (TOL, {"fits": {"sdca"}}, ["sdca"], "psdca does not fit into the memory"),
        (TOL, {"fits": {"sdca"}, "loss": "hinge"}, ["sdca"], "does not fit"),
        (FINE, FIT, ["newton", "psdca"], "newton, usually about 8 passes to 1e-06; psdca about 8"),
        (FINE, FIT | {"sorted_rows": True}, ["newton", "psdca"], "newton, usually about"),
        (TOL, FIT, ["psdca", "newton"], "about 6 passes to 0.0001; newton about 7"),
        (TOL, FIT | {"resident": True}, ["newton", "psdca"], "newton, usually about 7"),
        (TOL, FIT | {"square": 9.0}, ["newton", "psdca"], "newton, usually about 7"),
        (FINE, FIT | {"resident": True, "d": 120}, ["newton", "psdca"], "usually about 8"),
        (FINE, FIT | {"resident": True, "d": 500}, ["psdca", "newton"], "usually about 8"),
        (TOL, FIT | {"d": 501}, ["psdca"], "psdca, usually about"),
        (TOL, FIT | {"d": 1000, "square": 1e9}, ["newton", "psdca"], "newton"),
        (TOL, FIT | {"d": 1001, "square": 1e9}, ["psdca"], "psdca, usually about"),
        (TOL, FIT | {"loss": "hinge"}, ["psdca"], "with a kink"),
    ],
)
def test_what_is_chosen_and_why(asked, about, methods, why):
    usual = {"loss": "logistic", "lam": 1e-4, "sorted_rows": False, "resident": False,
             "fits": {"psdca", "s2gd+"}}  # fmt: skip
    about = usual | about
    fitting = about.pop("fits")
    plan, about_problem = TrainingPlan(dataset="d", **asked), (about.pop("loss"), about.pop("lam"))
    own = {name: about.pop(name, 1) for name in ("sorted_rows", "resident", "models")}
    chosen = choose(
        MethodRequest(
            plan, problem(*about_problem), stats(**about), lambda m: m.kind in fitting, **own
        )
    )
    assert [m.kind for m in chosen.methods] == methods
    assert why in chosen.reason
    assert (chosen.methods[0] == Psdca(shrink_rounds=100)) == ("kink" in why)


def test_progress_far_below_what_is_foreseen():
    """To 1e-6 PSDCA takes 9.1 passes here, half of them for 3 digits; S2GD+ takes 15.2."""
    both = MethodChoice(methods=(S2gdPlus(), Psdca()), reason="")

    def behind(before, now, methods=both, most=100):
        marks = (Mark(*before), Mark(*now))
        return far_behind(methods, problem(), stats(), 1e-6, marks, most)

    told = behind((29, 2.6), (33, 3.0))
    assert told.startswith("s2gd+ gained 0.1 digits a pass in the last three passes, too few for")
    assert "the 3 that are missing; psdca goes on from there." in told
    assert behind((29, 0.1), (33, 0.1)) is not None
    assert behind((26, 0.1), (29, 0.1)) is None  # too early to tell: gradients prove late
    assert behind((29, 2.0), (33, 5.0)) is None  # as foreseen
    assert behind((29, 5.6), (33, 5.9)) is None  # what is left is less than what the other takes
    assert behind((31, 2.6), (33, 2.6)) is None  # not three passes
    assert behind((29, 2.6), (33, 3.0), most=7) is None  # nor would the other come to its end
    unknown = MethodChoice(methods=(S2gdPlus(), Psdca(batch="safe")), reason="of an older version")
    assert behind((29, 2.9), (33, 3.0), unknown) is None


def test_newton_goes_on_where_dual_ascent_of_a_steep_loss_does_not_arrive():
    """Nothing foretells its passes; a pass of Newton's method costs 112 of it here."""
    plan = TrainingPlan(dataset="d", tol=1e-3)
    steep, about = problem("poisson"), stats(20_000, d=2_500)
    chosen = choose(MethodRequest(plan, steep, about, lambda _: True, resident=True))
    assert [one.kind for one in chosen.methods] == ["psdca", "newton"]

    def behind(before, now, most=100):
        return far_behind(chosen, steep, about, 1e-3, (Mark(*before), Mark(*now)), most)

    assert "newton goes on from there" in behind((9, 0.0), (13, 0.0))
    assert behind((7, 0.0), (11, 0.0)) is None  # too early to tell
    assert behind((9, 0.5), (13, 0.7)) is None  # 46 more passes cost less than 6.1 of Newton's
    assert behind((9, 0.5), (13, 0.7), most=50) is not None  # but are more than may be made
    wide = stats(10**6, d=4_000)
    far = choose(MethodRequest(plan, steep, wide, lambda _: True, resident=True))
    assert [one.kind for one in far.methods] == ["psdca"]


def test_the_rate_is_that_of_the_last_three_passes():
    """Marks of any spacing; of those three passes ago and more the newest is kept."""
    marks = ()
    for passes, digits in [(1, 0.0), (2, 0.5), (2, 0.6), (3, 1.0), (5, 2.0), (6, 4.0)]:
        marks = noted(marks, Mark(passes, digits))
    assert marks == ((3, 1.0), (5, 2.0), (6, 4.0))
    assert rate(marks) == pytest.approx(1.0)
    assert left_passes(marks, 1e-6) == pytest.approx(2.0)
    assert left_passes(marks, 1e-3) == 0.0
    assert rate(marks[1:]) is None  # too early
    assert left_passes((Mark(1, 2.0), Mark(4, 2.0)), 1e-6) is None  # nothing gained
    assert len(noted((Mark(1.1, 0.0),), Mark(1.1 + 0.1 * 30, 1.0))) == 2  # of rounded sums
    assert rate((Mark(0.1, 0.0), Mark(0.1 + 0.2 + 2.8, 1.0))) is not None
    assert Mark.of(3, Certificate(0.5, 5e-4)).digits == pytest.approx(3.0)
    assert Mark.of(3, Certificate(5.0, 50.0)).digits == 0.0


def trained(plan, url):
    run = TrainingRun.start(plan, str(url), InProcess())
    return run, list(run)


def test_without_a_tolerance_it_is_one_pass_of_several_learners(tmp_path):
    dataset = make(tmp_path / "set", n=2000)
    auto, _ = trained(TrainingPlan(dataset=dataset.folder.url, lam="1/n"), tmp_path / "auto")
    onepass = TrainingPlan(dataset=dataset.folder.url, lam="1/n", solver={"kind": "onepass"})
    named, _ = trained(onepass, tmp_path / "onepass")
    assert auto.result.weights_sha256 == named.result.weights_sha256
    assert (auto.result.solver, auto.result.passes) == ("onepass", 1)
    record = auto.run.record()
    assert (record.plan.solver.kind, record.method()) == ("auto", "onepass")
    assert named.run.record().methods is None


@pytest.fixture
def wide(monkeypatch):
    """Every set counts as one of many columns: Newton's method would end these stories early."""
    monkeypatch.setattr("fewpass.pipeline.planning.auto.FEW_COLUMNS", 0)


@pytest.fixture
def changeable(wide, monkeypatch):
    """S2GD+ is taken for any set in memory, and evaluated soon."""
    monkeypatch.setattr("fewpass.pipeline.planning.auto.SHORT", np.inf)
    monkeypatch.setattr("fewpass.pipeline.planning.auto.CHEAPER", 0.0)
    monkeypatch.setattr("fewpass.pipeline.planning.falling_back.PATIENCE", 0.5)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """A hundredth of the rows is fifteen times as long: S2GD+ takes twice the passes foreseen."""
    rng = np.random.default_rng(0)
    X, truth = rng.standard_normal((4000, 20)), rng.standard_normal(20)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X[rng.random(4000) < 0.01] *= 15
    y = (X @ truth + 0.3 * rng.standard_normal(4000) > 0).astype(float)
    url = tmp_path_factory.mktemp("uneven") / "set"
    return write(url, DenseTable(X.astype(np.float32), y, None), 20, 100)


@pytest.mark.usefixtures("changeable")
def test_it_falls_back_says_so_and_has_the_same_bits_resumed_anywhere(tmp_path, uneven):
    """Cut before, at and after the change of methods; what was chosen stands in the record."""
    plan = TrainingPlan(
        dataset=uneven.folder.url, lam="1/n", tol=1e-6, memory="97MB", snapshot_every=1e-9
    )
    quiet, events = trained(plan, tmp_path / "quiet")
    ((at, switch),) = [(k, e.facts) for k, e in enumerate(events) if e.kind == "switch"]
    assert switch.method == quiet.result.solver == "psdca"
    assert "too few" in switch.why
    single = plan.model_copy(update={"solver": S2gdPlus(), "snapshot_every": 60.0})
    assert quiet.result.passes < trained(single, tmp_path / "alone")[0].result.passes
    assert quiet.result.certificate <= 1e-6
    report = read_report(quiet.run).report
    assert report.solver == "s2gd+, then psdca"
    assert "s2gd+, usually about" in report.chosen
    for stop in (at // 2, at - 1, at, at + 1, at + 2, at + 9):
        resumed = cut_and_resumed(plan, str(tmp_path / f"cut{stop}"), stop + 1)
        assert resumed.weights_sha256 == quiet.result.weights_sha256, stop
        assert resumed.passes == quiet.result.passes


@pytest.mark.usefixtures("changeable")
def test_a_run_keeps_what_was_chosen_when_it_began(tmp_path, monkeypatch):
    """A later version may choose otherwise."""
    dataset = make(tmp_path / "set", n=2000)
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", tol=1e-3, snapshot_every=1e-9)
    quiet, _ = trained(plan, tmp_path / "quiet")
    next(iter(TrainingRun.start(plan, str(tmp_path / "run"), InProcess())))
    other = MethodChoice(methods=quiet.methods.methods[::-1], reason="a new rule")
    monkeypatch.setattr("fewpass.pipeline.planning.planner.choose", lambda *_, **__: other)
    run, _ = trained(plan, tmp_path / "run")
    assert run.result.weights_sha256 == quiet.result.weights_sha256


@pytest.mark.usefixtures("changeable")
def test_what_does_not_fit_into_memory_is_not_chosen(tmp_path):
    dataset = make(tmp_path / "set", n=400, d=20_000, chunk_rows=100, layout="sparse")
    plan = TrainingPlan(dataset=dataset.folder.url, lam="1/n", tol=1e-3)
    small, ample = (Planner(plan, dataset).choice(memory) for memory in (102_000_000, 1 << 30))
    assert [m.kind for m in small.methods] == ["psdca"]
    assert len(ample.methods) == 2


@pytest.mark.usefixtures("wide")
def test_the_command_says_what_and_why(tmp_path, capsys):
    make(tmp_path / "d", n=1000)
    asked = [str(tmp_path / "d"), "--tol", "1e-4"]
    assert cli.main(["train", "--plan", *asked, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chosen"].startswith(f"{told['solver']}, usually about")
    assert cli.main(["train", *asked[:1], str(tmp_path / "run"), *asked[1:]]) == 0
    assert f"Chosen: {told['chosen']}." in " ".join(capsys.readouterr().err.split())
    assert RunFolder(str(tmp_path / "run")).record().methods.reason == told["chosen"]


def test_where_newton_has_no_room_for_the_weights_dual_ascent_goes_on_from_them(
    tmp_path, monkeypatch
):
    for name, number in (("MOST_SET", 5), ("LEAST_SET", 5), ("ALL_COLUMNS", 0)):
        monkeypatch.setattr(f"fewpass.solvers.batch.working_set.{name}", number)
    dataset = make(tmp_path / "set", n=1500)
    plan = TrainingPlan(
        dataset=dataset.folder.url, penalty="elasticnet", l1_ratio=0.9, lam=1e-3, tol=1e-3
    )
    run = TrainingRun.start(plan, str(tmp_path / "run"), InProcess())
    events = list(run)
    assert [m.kind for m in run.run.record().methods.methods] == ["newton", "psdca"]
    (switch,) = [event.facts for event in events if event.kind == "switch"]
    assert switch.method == "psdca"
    assert "5 weights are not 0" in switch.why
    assert run.result.converged
    with pytest.raises(Diverged, match="psdca"):
        named = plan.model_copy(update={"solver": Newton()})
        list(TrainingRun.start(named, str(tmp_path / "alone"), InProcess()))
