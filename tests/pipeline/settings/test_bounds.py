"""Numbers that nothing can be computed with are refused in every setting, before anything is done."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from pydantic import BaseModel

import fewpass
from fewpass.flows.cli import main
from fewpass.flows.orchestration.parameters import assigned, validated
from fewpass.flows.orchestration.requests import REQUESTS
from fewpass.pipeline.durations import parse_seconds
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.flat_settings import COLUMNS
from fewpass.pipeline.settings.ingest_plan import IngestPlan
from fewpass.pipeline.settings.method_kinds import every_class
from fewpass.pipeline.settings.refresh_plan import RefreshPlan
from fewpass.pipeline.settings.regularisation import Lam
from fewpass.pipeline.settings.source_options import SourceOptions
from fewpass.pipeline.settings.source_reading import SourceReading
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.pipeline.sizes import parse_bytes
from fewpass.solvers.bad_input import LARGEST, MOST_WHOLE, SMALLEST

REQUIRED = {
    TrainingPlan: {"dataset": "d"},
    IngestPlan: {"sources": ("a",), "dataset": "d"},
    SourceReading: {"sources": ("a",)},
    RefreshPlan: {"sources": ("a",), "store": "s"},
}
MODELS = (*REQUIRED, SourceOptions, Execution, *every_class())
#: None of these is a number that anything is to be computed with.
BEYOND = (
    math.inf, -math.inf, math.nan, 1e308, -1e308, 5e-324, 1e-320, 10**400, -(10**5000),
    "inf", "nan", "1e308", "1e400", "-1e400", "9" * 5000,
)  # fmt: skip


def numeric_fields(model):
    """Names of the fields that take numbers, alone, in a table, or among other things."""
    for name, field in model.model_json_schema()["properties"].items():
        arms = [field, *field.get("anyOf", []), *field.get("oneOf", [])]
        inside = [arm["additionalProperties"] for arm in arms if "additionalProperties" in arm]
        if any(
            arm.get("type") in ("number", "integer") for arm in arms + inside if arm is not True
        ):
            yield name


FIELDS = [(model, name) for model in MODELS for name in numeric_fields(model)]


def plain(said):
    """Whether a refusal is a sentence of ours."""
    return not any(
        word in said for word in ("Value error", "pydantic", "Traceback", "Input should")
    )


def test_there_are_fields_to_be_tried():
    assert len(FIELDS) > 60
    assert {(TrainingPlan, "lam"), (TrainingPlan, "tol"), (IngestPlan, "memory")} <= set(FIELDS)


@pytest.mark.parametrize(
    ("model", "name"), FIELDS, ids=[f"{model.__name__}.{name}" for model, name in FIELDS]
)
def test_every_number_of_every_model_has_bounds(model, name):
    texts = name in COLUMNS  # names of columns, or positions
    for value in BEYOND:
        if texts and isinstance(value, str):
            continue
        given = {"a": value} if name == "class_weight" else value
        with pytest.raises(BadInput) as refused:
            model(**REQUIRED.get(model, {}), **{name: given})
        assert plain(str(refused.value)), value
        assert len(str(refused.value)) < 400


@pytest.mark.parametrize(
    ("model", "name"), FIELDS, ids=[f"{model.__name__}.{name}" for model, name in FIELDS]
)
def test_true_is_no_number(model, name):
    with pytest.raises(BadInput, match=rf"^{name} is true[,.]") as refused:
        model(**REQUIRED.get(model, {}), **{name: True})
    assert plain(str(refused.value))


def test_what_is_within_bounds_comes_back_as_it_was_written():
    for value in (LARGEST, SMALLEST, 1e-12, 3):
        plan = TrainingPlan(dataset="d", loss="huber", lam=value, tol=value, smoothing=value)
        again = TrainingPlan.model_validate_json(plan.model_dump_json())
        assert (again.lam, again.tol, again.smoothing) == (Lam.of(value), value, value)
    assert TrainingPlan(dataset="d", seed=MOST_WHOLE).seed == MOST_WHOLE
    assert TrainingPlan(dataset="d", passes=1e3).passes == 1000


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: TrainingPlan(dataset="d", wrong=1), 'no setting "wrong"'),
        (lambda: TrainingPlan(dataset="d", tols=1), "Did you mean tol"),
        (lambda: TrainingPlan(), "dataset must be given"),
        (lambda: Execution(wokers=1), "Did you mean workers"),
        (lambda: Execution(workers=0), "workers is 0, but it should be greater than or equal to 1"),
        (lambda: TrainingPlan(dataset="d", passes=2.5), "passes is 2.5, but it should be a whole"),
        (lambda: TrainingPlan(dataset="d", passes=1 << 63), "should be at most"),
        (lambda: TrainingPlan(dataset="d", class_weight="a=0"), "the label a the weight"),
        (
            lambda: fewpass.ingest([], "d"),
            r"sources is \[\], but it should have at least 1 item\.$",
        ),
        (lambda: fewpass.refresh(sources=["a"], store="s", memory="1GB"), "`ingest` or `training`"),
        (lambda: SourceOptions(delimiter="ab"), 'delimiter is "ab", but it should have at most 1'),
    ],
)
def test_python_is_told_in_a_sentence(make, said):
    with pytest.raises(BadInput, match=said):
        make()


def test_values_of_secrets_are_not_told():
    with pytest.raises(BadInput) as refused:
        TrainingPlan(dataset=["https://me:secret@example.org/a"])
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("size", [math.inf, math.nan, -1, 1.5, True, None, [], "1e400MB", "-1GB",
                                  "infMB", "9" * 400 + "PB", 10**400, "MB", ""])  # fmt: skip
def test_what_is_no_amount_of_memory(size):
    with pytest.raises(ValueError, match="no amount of memory"):
        parse_bytes(size)


@pytest.mark.parametrize("span", ["soon", "inf", "1e400", "-1s", "9" * 400 + "h", "400000h"])
def test_what_is_no_duration(span):
    with pytest.raises(ValueError, match=r"no duration|longer than a year"):
        parse_seconds(span)


@pytest.mark.parametrize("lam", ["ten/n", "inf/n", "1e308/n", "1e-320", "1/n,nan", 10**400, "-0/n"])
def test_what_is_no_strength(lam):
    with pytest.raises(BadInput, match="lam is"):
        Lam.of(lam)


@pytest.mark.parametrize(
    "words",
    [
        ("--passes", "2.5"), ("--passes", "inf"), ("--tol", "inf"), ("--tol", "1e308"),
        ("--lam", "ten/n"), ("--class-weight", "spam=inf"), ("--memory", "1e400MB"),
        ("--set", "solver.gamma0=inf"), ("--set", "solver.gamma0=1e400"), ("--workers", "0"),
        ("--wait-workers", "inf"), ("--threads", "99999999"), ("--seed", "-1"),
        ("--snapshot-every", "nan"), ("--streams", "1e9"),
    ],
)  # fmt: skip
def test_the_command_refuses_before_it_looks_for_anything(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "absent", "run", *words]) == 2
    said = capsys.readouterr().err
    assert plain(said)
    assert "absent" not in said  # the setting was refused, not the data set
    assert not list(tmp_path.iterdir())


def test_a_file_of_settings_is_refused_as_options_are(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.toml").write_text("tol = inf\n")
    assert main(["train", "absent", "run", "--config", "plan.toml"]) == 2
    assert "--tol is inf, but it should be a finite number" in capsys.readouterr().err
    assert main(["train", "absent", "run", "--passes", "1e3", "--dry-run"]) == 0
    assert "passes = 1000\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train = 2026-01-01", "a table of settings was expected"),
        ("solver = 5", 'there is no method "5"'),
        ("\ufefflam = nan", "lam is nan"),  # behind the mark that some editors begin with
    ],
)
def test_a_file_with_something_else_in_a_place_is_refused(text, said, tmp_path, capsys):
    (tmp_path / "plan.toml").write_text(f"{text}\n", encoding="utf-8")
    assert main(["train", "absent", "run", "--config", str(tmp_path / "plan.toml")]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["lam=ten/n"], ["tol=inf"], ["memory=infMB"], ["where.workers=0"]]
)
def test_prefects_words_are_refused_before_a_server_is_asked(words):
    with pytest.raises(BadInput):
        assigned(REQUESTS["train"], ["dataset=d", "run=r", *words])


def test_prefects_parameters_are_refused_whole():
    with pytest.raises(BadInput, match=r"plan\.tol is inf"):
        validated(REQUESTS["train"], {"plan": {"dataset": "d", "tol": math.inf}, "run": "r"})
    with pytest.raises(BadInput, match="generation is"):
        validated(REQUESTS["publish"], {"store": "s", "generation": 10**30})
    found = validated(REQUESTS["train"], {"plan": {"dataset": "d"}, "run": "r"})
    assert (found["require_tol"], found["execution"]) == (False, Execution())


@pytest.mark.parametrize(
    "given",
    [
        {"tol": math.inf}, {"lam": math.nan}, {"lam": 1e308}, {"smoothing": 1e-320, "loss": "smoothed_hinge"},
        {"passes": 10**30}, {"memory": math.inf}, {"held_out": math.nan}, {"n_iter_no_change": 0},
        {"solver": {"kind": "sgd", "gamma0": math.inf}}, {"random_state": -1},
    ],
)  # fmt: skip
def test_estimators_refuse_in_fit(given):
    X, y = np.eye(4), [0, 1, 0, 1]
    with pytest.raises(ValueError) as refused:
        fewpass.LinearClassifier(**given).fit(X, y)
    assert plain(str(refused.value))


def test_models_of_settings_are_made_without_a_call_where_they_are_inside_others():
    plan = TrainingPlan.model_validate(json.loads('{"dataset": "d", "source": {"sources": ["a"]}}'))
    assert isinstance(plan.source, BaseModel)


def test_settings_are_refused_without_numba():
    code = (
        "import sys; from fewpass.pipeline.settings.training_plan import TrainingPlan\n"
        "try: TrainingPlan(dataset='d', tol=float('inf'))\n"
        "except ValueError: sys.exit('numba' in sys.modules)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
