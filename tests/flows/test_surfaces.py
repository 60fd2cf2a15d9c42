"""A verb is one thing: the command, the function and the flow take the same settings, and mean the
same plan by them."""

import importlib
import inspect
from functools import partial

import pytest
from pydantic import BaseModel

import fewpass
from fewpass.flows.cli import main
from fewpass.flows.declared_options import arguments_of, options_of
from fewpass.flows.listed_commands import function_of
from fewpass.flows.options import FIXED
from fewpass.flows.orchestration.requests import REQUESTS
from fewpass.pipeline.models import forgotten_rows
from fewpass.pipeline.settings.change_plans import AppendPlan, ForgetPlan
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import settings
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.prediction_plan import (
    EvaluationPlan,
    ExplanationPlan,
    PredictionPlan,
)
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.tables.changing import appending
from fewpass.pipeline.tables.ingest import phases
from fewpass.pipeline.training.training_run import TrainingRun
from testing.datasets import make
from testing.interruptions import trained

#: What the keywords of a function are fields of.
KEYWORDS = {
    "ingest": IngestPlan, "append": AppendPlan, "forget": ForgetPlan, "train": TrainingPlan,
    "evaluate": EvaluationPlan, "cross-validate": CrossValidationPlan, "predict": PredictionPlan,
}  # fmt: skip
EXECUTION = {
    "scheduler", "workers", "wait_workers", "threads", "encrypt", "tls_ca", "tls_cert", "tls_key",
}  # fmt: skip
#: Names that a command has for something else.
CALLED = {
    "features": "n_features", "class": "class_label", "stop_early": "early_stopping", "source": "sources",
    "input": "inputs",
}  # fmt: skip
#: Of a terminal alone; `threads` are where it works for those that Dask may run.
SHOWN = {"config", "debug", "dry_run", "json", "log_format", "quiet", "verbose", "set"}
OF_COMMANDS = {
    "train": {"require_tol", "ingest_into", "plan"},
    "explain": {
        "by_column", "csv", "function", "held_out", "names", "html", "weights",
    },
    "evaluate": {"html", "importance", "overwrite", "reliability", "threads"},
}  # fmt: skip
OF_PYTHON = {"label_required", "storage_options", "on_event", "execution"}
OF_FLOWS = {
    "train": {"keep_runs", "require_tol", "skip_unchanged"},
}  # fmt: skip
#: Rows of files, which a server does not read without a data set; and what it says by itself.
NOT_IN_FLOWS = {
    "train": {*settings(TrainingPlan)} - {*TrainingPlan.model_fields} | {"sources", "on_event", "verbose"},
    "cross-validate": {"source"},
    "evaluate": {*SourceOptions.model_fields} - {"unknown_features", "by_position"} | {"memory"},
}  # fmt: skip


def names_in_python(verb):
    given = inspect.signature(getattr(fewpass, verb.replace("-", "_"))).parameters.values()
    own = {one.name for one in given if one.kind != one.VAR_KEYWORD}
    return own | {*settings(KEYWORDS.get(verb, ExplanationPlan))}


def names_of_command(verb):
    command = function_of(verb)
    names = {one.names[0].lstrip("-").replace("-", "_") for one in options_of(command)}
    names |= {place.name.rstrip(".").lower() for place in arguments_of(command)}
    return {CALLED.get(name, name) for name in names}


def names_of_flow(verb, model=None):
    names = set()
    for name, field in (model or REQUESTS[verb]).model_fields.items():
        kind = field.annotation
        if inspect.isclass(kind) and issubclass(kind, BaseModel) and kind is not Execution:
            names |= names_of_flow(verb, kind)
        else:
            names.add(name)
    return names - {"source"}


@pytest.mark.parametrize("verb", [*KEYWORDS, "explain"])
def test_a_command_takes_what_the_function_of_its_name_takes(verb):
    command, python = names_of_command(verb), names_in_python(verb)
    places = EXECUTION if "execution" in python else set()
    more = SHOWN | places | OF_COMMANDS.get(verb, set())
    assert command - python <= more, command - python - more
    fixed = {*FIXED} if verb in ("append", "evaluate", "explain", "predict") else set()
    missing = python - command - OF_PYTHON - fixed
    assert not command & fixed
    assert missing <= {"train": {"sources"}, "cross-validate": {"source"}}.get(verb, set()), missing


@pytest.mark.parametrize("verb", KEYWORDS)
def test_a_flow_takes_what_the_function_of_its_name_takes(verb):
    flow, python = names_of_flow(verb), names_in_python(verb)
    assert flow - python == OF_FLOWS.get(verb, set())
    assert python - flow <= NOT_IN_FLOWS.get(verb, set()), python - flow


# -- what they mean --------------------------------------------------------------------------------

INGESTS = {
    "label": "y", "weight": "w", "drop": ("a", "b"), "memory": "200MB", "test_fraction": 0.25,
    "test_by": "day", "test_group": "user", "encode": "additive", "seed": 3, "scale": "none",
    "task": "regression", "on_bad_row": "skip", "missing": "zero", "dtype": "float64",
    "delimiter": ";", "charset": "cp1252", "header": False, "null_values": ("NA", "none"),
    "column": {"a": "hash"}, "cross": ("a,b",), "hash_bits": 12, "layout": "sparse",
    "shuffle": False, "keep": ("id",), "n_features": 9, "format": "csv", "zero_based": True,
    "by_position": True, "knots": 7, "overwrite": True,
}  # fmt: skip
TRAININGS = {
    "loss": "hinge", "lam": "0.25", "tol": 1e-5, "passes": 7, "memory": "200MB", "seed": 3,
    "streams": 2, "penalty": "l1", "intercept": "none", "calibrate": "platt", "class_weight": "balanced",
    "certify": True, "snapshot_every": 5.0, "early_stopping": True, "held_out": "rows-test",
}  # fmt: skip
COMMANDS = {python: command for command, python in CALLED.items()}


def words_of(name, value):
    """Return a setting as words of a command line."""
    option = f"--{COMMANDS.get(name, name).replace('_', '-')}"
    if isinstance(value, bool):
        return [option if value else option.replace("--", "--no-", 1)]
    if isinstance(value, dict):
        value = tuple(f"{key}={one}" for key, one in value.items())
    several = value if isinstance(value, tuple) else (value,)
    return [word for one in several for word in (option, str(one))]


class Caught(BaseException):
    """What was asked for; nothing is done."""


def plan_caught(call):
    with pytest.raises(Caught) as caught:
        call()
    return caught.value.args[0]


def plans_of(monkeypatch, target, name, verb, places, settings_):
    """Return the plans that the function, the command and the flow make of the same settings."""

    def catch(plan, *_, **__):
        raise Caught(plan)

    with monkeypatch.context() as patch:
        patch.setattr(target, name, catch)
        python = plan_caught(lambda: getattr(fewpass, verb)(*places, **settings_))
        line = [verb, *places, *(word for one in settings_.items() for word in words_of(*one))]
        command = plan_caught(lambda: main(line))
    asked = python.model_dump(mode="json", exclude_unset=True)
    own = {"run": places[1]} if verb == "train" else {}
    return python, command, REQUESTS[verb].model_validate(own | {"plan": asked}).plan


def assert_all_mean(plans):
    python, *others = (plan.model_dump(mode="json") for plan in plans)
    for other in others:
        assert other == python


@pytest.mark.parametrize("name", INGESTS)
def test_a_setting_of_an_ingest_means_one_plan(tmp_path, monkeypatch, name):
    places = (str(tmp_path / "rows.csv"), str(tmp_path / "set"))
    more = {"test_fraction": 0.25} if name.startswith("test_") else {}
    more |= {"encode": "additive"} if name == "knots" else {}
    given = more | {name: INGESTS[name]}
    assert_all_mean(plans_of(monkeypatch, phases, "ingest", "ingest", places, given))


@pytest.mark.parametrize("name", TRAININGS)
def test_a_setting_of_a_training_means_one_plan(tmp_path, monkeypatch, name):
    places = (make(tmp_path / "set", n=200).folder.url, str(tmp_path / "run"))
    more = {"held_out": "rows-test"} if name in ("calibrate", "early_stopping") else {}
    given = more | {name: TRAININGS[name]}
    assert_all_mean(plans_of(monkeypatch, TrainingRun, "start", "train", places, given))


CHANGES = {
    "ingest": ("ingest_in_stages", {"sources": ("rows.csv",), "dataset": "set"}),
    "append": ("add_rows", {"sources": ("rows.csv",), "dataset": "set"}),
    "forget": ("delete_rows", {"dataset": "set", "where": "id == 1"}),
}


@pytest.mark.parametrize("verb", CHANGES)
def test_a_flows_threads_are_those_of_its_execution_or_its_plans_own(verb, monkeypatch):
    """As in Python, where they were those of a forgetting only if the plan had them."""
    work, settings_ = CHANGES[verb]

    def catch(plan, *_, **__):
        raise Caught(plan)

    catch.with_options = lambda **_: catch
    module = importlib.import_module(f"fewpass.flows.orchestration.{verb}")
    monkeypatch.setattr(module, work, catch)
    monkeypatch.setattr(phases, "ingest", catch)
    monkeypatch.setattr(appending, "append", catch)
    monkeypatch.setattr(forgotten_rows, "forgotten_everywhere", catch)
    for own, meant in ((None, 1), (3, 3)):
        more, place = settings_ | {"threads": own}, Execution(threads=1)
        asked = dict(REQUESTS[verb].model_validate({"plan": more, "execution": place}))
        flow = inspect.unwrap(getattr(module, verb).fn)
        assert plan_caught(partial(flow, **asked)).threads == meant
        assert (
            plan_caught(partial(getattr(fewpass, verb), **more, execution=place)).threads == meant
        )


def test_all_three_train_the_same_model(tmp_path, capsys):
    """The flow trains the plan that is compared above, by the same engine."""
    dataset = make(tmp_path / "set", n=400).folder.url
    result = fewpass.train(dataset, tmp_path / "python", lam=0.01, tol=1e-4, verbose=0)
    assert (
        main(["train", dataset, str(tmp_path / "command"), "--lam", "0.01", "--tol", "1e-4"]) == 0
    )
    request = {
        "run": str(tmp_path / "flow"),
        "plan": {"dataset": dataset, "lam": 0.01, "tol": 1e-4},
    }
    plan = REQUESTS["train"].model_validate(request).plan
    run = trained(plan, request["run"])
    models = [
        fewpass.load_model(tmp_path / name).weights.coef for name in ("python", "command", "flow")
    ]
    assert all((one == models[0]).all() for one in models)
    assert run.result.weights_sha256 == result.weights_sha256
