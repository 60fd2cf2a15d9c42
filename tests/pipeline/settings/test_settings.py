"""Settings stand once: plans are light to import, and the command line is read from them."""

import json
import subprocess
import sys
from dataclasses import fields
from types import SimpleNamespace

import pytest

from fewpass.flows import options
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.rows.targets import target_rule
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import every_setting, flat, plan_of, settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.method_kinds import KINDS
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.solvers.described import described_fields
from fewpass.solvers.dual.sdca import Sdca
from fewpass.solvers.losses import LOSSES
from fewpass.solvers.losses.logistic import Logistic
from fewpass.solvers.registry import METHODS, method_class
from fewpass.storage.manifest import Labels

HEAVY = {"numba", "numpy", "scipy", "dask", "distributed", "zarr", "fsspec", "pyarrow", "prefect"}


def test_what_help_needs_imports_nothing_heavy():
    plans = ", ".join(f"fewpass.pipeline.settings.{name}_plan" for name in ("training", "ingest"))
    code = f"import json, sys, {plans}, fewpass.flows.cli; print(json.dumps([*sys.modules]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(json.loads(done.stdout))


@pytest.mark.parametrize(
    ("group", "models", "elsewhere"),
    [
        (
            options.TrainingOptions,
            (TrainingPlan, SourceReading, SourceOptions, Execution),
            {"dataset", "source", "sources", "options", "label_required"},
        ),
        (
            options.IngestOptions,
            (IngestPlan, SourceOptions),
            {"sources", "dataset", "options", "storage_options", "label_required", "threads"},
        ),
        (options.Reading, (SourceOptions,), {"label_required", *options.FIXED}),
        (options.Where, (Execution,), set()),
    ],
)
def test_every_setting_is_an_option_with_the_help_of_its_model(group, models, elsewhere):
    own = {"set", "ingest_into"} if group is options.TrainingOptions else set()
    held = {field.name for field in fields(group)} - own
    assert held == {name for model in models for name in model.model_fields} - elsewhere
    assert all(field.description for model in models for field in described_fields(model).values())


@pytest.mark.parametrize("plan", [IngestPlan, TrainingPlan, RefreshPlan, Execution, SourceOptions])
def test_flat_names_have_one_place(plan):
    """Two settings of one name would be one word for two things; a refresh's plans have paths."""
    names = [setting.name for setting in every_setting(plan)]
    assert plan is RefreshPlan or len(names) == len(set(names))
    for setting in every_setting(plan):
        assert setting.home.model_fields[setting.name] is setting.field


def test_a_plan_of_flat_words_is_the_nested_plan_and_flat_again():
    words = {"dataset": "d", "sources": ("a.csv",), "label": "y", "scale": "maxabs", "lam": "10/n"}
    plan = plan_of(TrainingPlan, words)
    options = {"label": "y"}
    source = {"sources": ("a.csv",), "scale": "maxabs", "options": options}
    assert plan == TrainingPlan.model_validate({"dataset": "d", "lam": "10/n", "source": source})
    assert plan_of(TrainingPlan, flat(plan)) == plan
    whole = plan_of(
        IngestPlan, {"sources": ("a",), "dataset": "d", "options": options, "drop": "x"}
    )
    assert (whole.options.label, whole.options.drop) == ("y", ("x",))
    stored = plan_of(TrainingPlan, {"dataset": "d"})
    assert not settings(SourceReading).keys() & flat(stored).keys()


@pytest.mark.parametrize(
    ("plan", "word", "meant"),
    [
        (TrainingPlan, "lable", "label"),
        (TrainingPlan, "epochs", "passes"),
        (TrainingPlan, "Max-Iter", "passes"),
        (TrainingPlan, "snap", "snapshot_every"),
        (IngestPlan, "test_size", "test_fraction"),
        (IngestPlan, "labels", "label"),
        (IngestPlan, "perplexity", None),
    ],
)
def test_an_unknown_word_is_refused_with_the_nearest_name(plan, word, meant):
    with pytest.raises(BadInput) as refused:
        plan_of(plan, {"dataset": "d", "sources": ("a",), word: 1})
    told = f" Did you mean {meant}?" if meant else ""
    assert str(refused.value) == f'There is no setting "{word}".{told}'


def test_the_registry_knows_each_class_by_its_own_word():
    assert {word: kind.name for word, kind in LOSSES.items()} == {word: word for word in LOSSES}
    assert {kind: method_class(kind)().kind for kind in METHODS} == {k: k for k in METHODS}


def test_a_plan_is_the_same_after_a_round_trip_with_any_method():
    for kind in KINDS:
        plan = TrainingPlan(dataset="set", solver=kind, lam="10/n")
        assert TrainingPlan.model_validate_json(plan.model_dump_json()) == plan
        assert TrainingPlan.model_validate(plan.model_dump()) == plan
        assert plan.solver.kind == kind
    assert '"lam":"10/n"' in plan.model_dump_json()
    methods = TrainingPlan.model_json_schema()["properties"]["solver"]
    assert len(json.dumps(methods).split("$ref")) == len(KINDS) + 1


@pytest.mark.parametrize(
    ("solver", "said"),
    [
        ("asgf", "Did you mean asgd"),
        ({"gamma0": 1.0}, "there is no method"),
        ({"kind": "asgd", "gama0": 1.0}, 'no setting "solver.gama0". Did you mean gamma0'),
        ({"kind": "sdca", "shrink_rounds": -1}, "shrink_rounds is -1, but it should be greater"),
        (3, "a method is settings"),
    ],
)
def test_a_method_that_is_none_is_refused_with_what_there_is(solver, said):
    with pytest.raises(BadInput, match=said):
        TrainingPlan(dataset="set", solver=solver)


@pytest.mark.parametrize("loss", [None, "squared", "huber"])
def test_a_number_of_another_loss_is_refused(loss):
    with pytest.raises(BadInput, match=r"quantile = 0\.9 is of .*Add `loss=quantile`"):
        TrainingPlan(dataset="set", loss=loss, quantile=0.9)
    assert TrainingPlan(dataset="set", loss="quantile", quantile=0.9).quantile == 0.9


def test_the_patience_of_a_training_that_does_not_stop_early_is_refused():
    with pytest.raises(BadInput, match=r"n_iter_no_change = 9 is .*Add `early_stopping=true`"):
        TrainingPlan(dataset="set", held_out="rows", n_iter_no_change=9)
    asked = {"held_out": "rows", "n_iter_no_change": 9, "early_stopping": True}
    assert TrainingPlan(dataset="set", **asked).n_iter_no_change == 9


def test_a_label_has_one_weight():
    with pytest.raises(BadInput, match="a label twice"):
        TrainingPlan(dataset="set", class_weight="a=2,b=1,a=3")
    targets = SimpleNamespace(targets=Labels(labels=(0.0, 1.0), counts=(3, 4)))
    with pytest.raises(BadInput, match=r"1, 1\.0, of which two are the same label"):
        target_rule(targets, Logistic(), None, {"1": 2.0, "1.0": 3.0})


def test_lam_is_numbers_or_shares_of_a_row():
    assert Lam.of(0.5).values(10) == (0.5,)
    assert Lam.of("5/n, 0.1").values(10) == (0.5, 0.1)
    assert str(Lam.of("5/n")) == "5/n"
    for wrong in ("", "0", "-1/n", "1/m", "nan", "inf", "1,,2", None, True, [1.0], "1/n,1/n"):
        with pytest.raises(BadInput, match="lam is"):
            Lam.of(wrong)


@pytest.mark.parametrize(
    ("solver", "loss", "rounds"),
    [
        ("sdca", "hinge", 100), ({"kind": "psdca"}, "hinge", 100), (Sdca(), "hinge", 100),
        ("sdca", "logistic", 0), ({"kind": "sdca", "shrink_rounds": 0}, "hinge", 0),
        ({"kind": "sdca", "batch": "safe"}, "hinge", 0), (Sdca(shrink_rounds=3), "hinge", 3),
    ],
)  # fmt: skip
def test_a_method_by_its_name_alone_has_what_suits_the_loss(solver, loss, rounds):
    plan = TrainingPlan.model_validate({"dataset": "x", "solver": solver, "loss": loss})
    assert plan.solver.shrink_rounds == rounds
    assert TrainingPlan.model_validate(plan.model_dump()) == plan


@pytest.mark.parametrize(
    "solver, loss, passes, tol",
    [
        ("pegasos", "hinge", 30, None),  # one is far from the optimum, and so are ten
        ("asgd", "hinge", 1, None),
        ("auto", None, 1, None),
        ("sdca", "hinge", 100, 1e-3),
    ],
)
def test_how_long_a_method_runs_if_nobody_says(solver, loss, passes, tol):
    plan = TrainingPlan(dataset="d", solver=solver, loss=loss)
    assert (plan.passes, plan.tol) == (passes, tol)
    assert TrainingPlan(dataset="d", solver=solver, loss=loss, passes=2).passes == 2


def test_a_share_is_no_data_set():
    with pytest.raises(ValueError, match=r"`test_fraction=0.2` of an ingest"):
        TrainingPlan(dataset="data", held_out="0.2")


def test_lam_may_be_a_share_of_the_largest():
    lam = Lam.of("0.5max,.1max,1/n")
    with pytest.raises(BadInput, match="pass over all rows"):
        lam.values(10)
    assert lam.resolved("max", 2.0).values(10) == (1.0, 0.2, 0.1)
    assert Lam.of(".1max").resolved("max", 2.0).written == 0.2
    assert lam.resolved("max", 2.0).resolved("/n", 10) == Lam.of("1.0,0.2,0.1")
    for wrong in ("max", "-.1max", ".1 min", "1/max", "1maxx"):
        with pytest.raises(BadInput, match="lam is"):
            Lam.of(wrong)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"penalty": "l1", "l1_ratio": 0.5}, "l1_ratio = 0.5 is the share of elasticnet"),
        ({"lam": ".1max"}, r"with an l2 penalty none does.*penalty=l1"),
        ({"lam": ".1max", "l1_ratio": 0.0}, "none does"),
        ({"l1_ratio": 1.5}, "l1_ratio is 1.5, but it should be less than or equal to 1"),
        ({"penalty": "lasso"}, "penalty is .*l1"),
    ],
)
def test_penalties_that_do_not_go_together(words, said):
    with pytest.raises(BadInput, match=said):
        TrainingPlan(dataset="set", **words)


def test_a_penalty_with_zeros_asks_for_a_tolerance():
    assert TrainingPlan(dataset="set").tol is None
    assert TrainingPlan(dataset="set", penalty="l1").tol is not None
    shares = [TrainingPlan(dataset="set", **words).l1_share for words in (
        {}, {"penalty": "l1"}, {"penalty": "elasticnet"}, {"l1_ratio": 0.9},
    )]  # fmt: skip
    assert shares == [0.0, 1.0, 0.5, 0.9]
