"""What a Prefect server refuses before it keeps anything: what `prefect run` refuses, too."""

import pytest

import fewpass
from fewpass.flows.orchestration.parameters import validated
from fewpass.flows.orchestration.requests import REQUESTS
from fewpass.pipeline.errors import BadInput
from fewpass.storage.addresses import BadAddress, require_no_secrets

TRAIN = {"plan": {"dataset": "d"}, "run": "r"}
INGEST = {"plan": {"sources": ["a"], "dataset": "d"}}
REFRESH = {"plan": {"sources": ["a"], "store": "s"}}
PREDICT = {"run": "r", "inputs": ["a"], "out": "o.csv"}
MINIMAL = {
    "ingest": INGEST, "train": TRAIN, "evaluate": {"run": "r", "dataset": "d"}, "predict": PREDICT,
    "refresh": REFRESH, "models": {"store": "s"}, "publish": {"store": "s", "generation": 3},
    "append": INGEST, "cross-validate": {"plan": {"dataset": "d"}}, "forget": {"plan": {"dataset": "d", "where": "id == 'x'"}},
}  # fmt: skip
#: Settings of the plan, or of the flow where there is none, that both take.
TAKEN = {
    "train": [
        {"lam": "10/n"}, {"lam": "1e-2, .5max", "penalty": "l1", "held_out": "t"}, {"lam": 0.5}, {"lam": "auto"}, {"lam": "path", "penalty": "l1", "held_out": "t"},
        {"solver": "sgd"}, {"solver": {"kind": "sgd", "gamma0": 1}}, {"memory": "1.5GiB"},
        {"memory": 10**9}, {"memory": "64 MB"}, {"held_out": "s3://b/x?.svm"},
        {"held_out": "file:///a?b=c"}, {"held_out": "abfs://user@host/x"},
    ],
    "refresh": [
        {"windows": [1, "all"]}, {"odd": None}, {"drift": "wait"}, {"settle": 0}, {"held_out": "d"}, {"gates": ["auc>=.8", "loss@a b <= before + 1e-2"]},
    ],
    "predict": [{"threshold": 0.5}, {"memory": "1k"}],
    "forget": [
        {"where": 'age < 18 and city == "north"'}, {"where": "id not in ids", "dry_run": True},
        {"where": "(id IN (1, 2)) or not day IS missing", "allow_none": True},
    ],
    "append": [{"again": True}, {"options": {"label": 0}}],
}  # fmt: skip
REFUSED = {
    "train": [
        {"passes": 0}, {"pases": 1}, {"lam": "abc"}, {"lam": -1}, {"lam": "-1"}, {"lam": "0/n"},
        {"lam": "1,"}, {"lam": 1e-300}, {"solver": "adam"}, {"solver": {"kind": "adam"}},
        {"solver": {"gamma0": 1}}, {"solver": {"kind": "sgd", "gama0": 1}}, {"loss": "foo"},
        {"memory": "many"}, {"memory": "1 XB"}, {"tol": 0}, {"dataset": "s3://u:p@b/x"},
        {"held_out": "https://h/x?token=3"}, {"held_out": "s3://key@b/x"}, {"classes": "x"},
    ],
    "ingest": [
        {"sources": []}, {"test_fraction": 1.5}, {"scale": "x"}, {"chunk_bytes": "x"},
        {"storage_options": {"key": "1"}}, {"sources": ["ftp+x://u:p/w@h/x"]},
    ],
    "refresh": [
        {"odd": -1}, {"windows": [0]}, {"after_turn": "x"}, {"ingest": {"dataset": "x"}}, {"training": {"start_from": "x"}},
        {"gates": ["aucc>=.8"]}, {"gates": ["auc>.8"]}, {"gates": ["auc<=befor"]},
    ],
    "predict": [{"threshold": 2}, {"threads": 0}, {"memory": "x"}, {"overwrite": "maybe"}],
    "publish": [{"generation": 0}, {"after": -1}, {"generation": 1.5}],
    "models": [{"stor": "s"}],
    "append": [{"sources": []}, {"memory": "x"}, {"storage_options": {"key": "1"}}],
    "forget": [
        {"where": ""}, {"threads": 0}, {"where": "visitor"}, {"where": "in FILE"}, {"where": "id = 3"},
        {"where": "id in https://h/x?token=3"},
    ],
    "cross-validate": [{"lam": "abc"}, {"passes": 0}],
    "evaluate": [{"matching": {"x": 1}}, {"execution": {"wait_workers": "soon"}}],
}  # fmt: skip


def asked(flow, changed):
    least = MINIMAL[flow]
    if "plan" not in least:
        return least | changed
    return least | {"plan": least["plan"] | changed}


@pytest.fixture(scope="module")
def faults():
    """What a server finds wrong with parameters, as Prefect itself looks."""
    from prefect.utilities.schema_tools.validation import validate

    from fewpass.flows.orchestration.parameter_forms import form_of

    forms = {name: form_of(request) for name, request in REQUESTS.items()}
    return lambda flow, values: validate(values, forms[flow], ignore_required=False)


def test_what_one_refuses_the_other_refuses(faults):
    for flow, least in MINIMAL.items():
        assert not faults(flow, least), flow
        assert faults(flow, least | {"foo": 1}), flow
        for changed in TAKEN.get(flow, ()):
            validated(REQUESTS[flow], asked(flow, changed))
            assert not faults(flow, asked(flow, changed)), changed
        for changed in REFUSED.get(flow, ()):
            with pytest.raises(ValueError):
                validated(REQUESTS[flow], asked(flow, changed))
            assert faults(flow, asked(flow, changed)), changed


def unfit(part, form):
    """Yield the defaults of a form's fields that the fields themselves refuse."""
    from jsonschema import Draft202012Validator

    for inner in part if isinstance(part, list) else part.values():
        if isinstance(inner, dict | list):
            yield from unfit(inner, form)
        if isinstance(inner, dict) and {"default", "title"} <= inner.keys():
            own = inner | {"definitions": form["definitions"]}
            if not Draft202012Validator(own).is_valid(inner["default"]):
                yield inner["title"], inner["default"]


def test_a_form_takes_its_own_defaults():
    """Prefect's page fills them in: the word `auto` for lam, and not how a plan holds it."""
    from fewpass.flows.orchestration.parameter_forms import form_of

    forms = {name: form_of(request) for name, request in REQUESTS.items()}
    assert not {name: found for name, form in forms.items() if (found := [*unfit(form, form)])}
    (lam,) = (
        f["properties"]["lam"]
        for f in forms["train"]["definitions"].values()
        if "lam" in f.get("properties", ())
    )
    assert lam["default"] == "auto"


def filled_in(form, part, given):
    """What Prefect's page sends: every default there is, also of the fields of a part."""
    made = dict(given)
    for name, field in part["properties"].items():
        whole = form["definitions"].get(field.get("$ref", "").rpartition("/")[2], {}) | field
        if "properties" in whole:
            made[name] = filled_in(form, whole, given.get(name, whole.get("default", {})))
        elif "default" in whole:
            made.setdefault(name, whole["default"])
    return made


@pytest.mark.parametrize("flow", MINIMAL)
def test_what_a_form_fills_in_changes_nothing(faults, flow):
    """A request of all defaults asks for what one asks for that says nothing."""
    from fewpass.flows.orchestration.parameter_forms import form_of

    form = form_of(REQUESTS[flow])
    sent = filled_in(form, form, MINIMAL[flow])
    assert sent != MINIMAL[flow] or flow == "models"
    assert not faults(flow, sent)
    own = validated(REQUESTS[flow], sent)
    assert own == validated(REQUESTS[flow], MINIMAL[flow])
    if flow == "train":
        assert not own["plan"].model_fields_set & {"tol", "passes", "memory", "streams"}


@pytest.mark.parametrize("flow", MINIMAL)
def test_null_is_a_field_that_nobody_filled_in(faults, flow):
    """What the server takes so do we, and then the default holds."""
    least, means_none = MINIMAL[flow], {"tol", "odd"}
    names = REQUESTS[flow].model_fields.keys() - least.keys()
    every = [least | {name: None} for name in names]
    if "plan" in least:
        names = type(validated(REQUESTS[flow], least)["plan"]).model_fields.keys() - means_none
        names -= least["plan"].keys()
        every += [asked(flow, {name: None}) for name in names]
    for sent in every:
        if not faults(flow, sent):
            assert validated(REQUESTS[flow], sent) == validated(REQUESTS[flow], least), sent


def test_fields_of_a_form_say_their_order():
    """Postgres stores a form without one."""
    from fewpass.flows.orchestration.parameter_forms import form_of
    from fewpass.pipeline.settings.training_plan import TrainingPlan

    form = form_of(REQUESTS["train"])
    for fields, model in (
        (form["properties"], REQUESTS["train"]),
        (form["definitions"]["TrainingPlan"]["properties"], TrainingPlan),
    ):
        in_order = sorted(fields, key=lambda name: fields[name]["position"])
        assert in_order == list(model.model_fields)


def test_how_models_are_retrained_is_said_of_models_that_are():
    validated(REQUESTS["forget"], MINIMAL["forget"] | {"warm": True, "retrain": True})
    with pytest.raises(BadInput, match="Give retrain, too"):
        validated(REQUESTS["forget"], MINIMAL["forget"] | {"warm": True})
    with pytest.raises(ValueError, match="Give retrain, too"):
        fewpass.forget("d", "id == 'x'", warm=True)


@pytest.mark.parametrize(
    "address",
    [
        "/data/a:b@c", "s3://bucket/key", "s3://u:p@b", "https://u@h/x", "https://h:8080/x?.svm",
        "https://h/x#f", "gs://b/x?y=1", "abfs://fs@account/x", "abfs://a:b@account/x",
        "memory://a:b@c/x?d=1", "s3://u:p/w@h/x", "http://[::1]:80/x", "see https://h/x?t=1",
        "sftp://user@h/x", "s3://b/{date}", "../a b/?", "HTTPS://h/x", "s3://b:80/x",
    ],
)  # fmt: skip
def test_an_address_with_a_secret_never_reaches_the_database(faults, address):
    try:
        require_no_secrets(address)
        secret = False
    except BadAddress:
        secret = True
    assert bool(faults("models", {"store": address})) == secret


def test_every_deployment_of_the_file_is_taken(monkeypatch):
    import yaml

    from fewpass.flows.orchestration import deploying
    from testing.prefect_server import PROJECT

    given = yaml.safe_load((PROJECT / "prefect.yaml").read_text())
    monkeypatch.delenv("FEWPASS_STORE", raising=False)
    with pytest.raises(BadInput, match="names FEWPASS_"):
        deploying._filled_in(given)
    monkeypatch.setenv("FEWPASS_HOME", "/checkout")
    monkeypatch.setenv("FEWPASS_STORE", "/store")
    taken = [deploying._checked(one) for one in deploying._filled_in(given)["deployments"]]
    assert len({deploying._flow_of(one) for one in taken} & set(REQUESTS)) == len(REQUESTS)
    names = [one["name"] for one in taken]
    assert len(set(names)) == len(names)
    with pytest.raises(BadInput, match="job_variables"):
        deploying._checked(taken[0] | {"job_variables": {}})
    for name in ("work_pool.job_variables", "concurrency_limit.grace_period_seconds"):
        part, _, key = name.partition(".")
        with pytest.raises(BadInput, match=f'has "{name}"'):
            deploying._checked(taken[0] | {part: taken[0][part] | {key: 60}})
