"""`prefect run`: the flows through the real `prefect` program, as views of run folders."""

import base64
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import yaml

import fewpass
from fewpass.flows.orchestration.command import run_app, run_flow
from fewpass.flows.orchestration.server import run_for_make
from fewpass.pipeline.clicks import write_clicks
from fewpass.pipeline.drawing.charts import picture
from fewpass.pipeline.drawing.safe_text import as_markdown
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.models.refresh.store_events import Begun, Published
from fewpass.pipeline.models.refresh.store_log import write_event
from fewpass.pipeline.models.refresh.store_state import published, run_of
from fewpass.pipeline.reporting.learning import loss_chart
from fewpass.pipeline.reporting.model_card import CARD
from fewpass.pipeline.runs.run_folder import RunFolder
from fewpass.pipeline.runs.timeline import Timeline
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.matching_options import BY_NAME
from fewpass.pipeline.settings.training_plan import TrainingPlan
from fewpass.storage.folder import Folder
from testing.datasets import make
from testing.interruptions import trained
from testing.object_store import object_store
from testing.prefect_server import (
    PREFECT,
    PROJECT,
    clean_environment,
    free_port,
    wait_for,
    words_for,
)
from testing.receiver import receiver
from testing.refreshing import Nights

INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
#: Prefect is imported where it is needed: every process of the suite imports this file.
FLOWS = (
    "ingest", "train", "evaluate", "cross-validate", "predict", "refresh", "models", "publish",
    "append", "forget",
)  # fmt: skip


def entrypoint_of(flow):
    name = flow.replace("-", "_")
    return f"flows/orchestration/{name}.py:{name}"


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flows")
    for seed in (1, 2, 3, 4):
        write_clicks(folder / f"clicks{seed}.svm", 400_000, seed)
    return folder


def test_ingest_train_evaluate_predict(prefect_server, flow_runner, sources):
    folder, server, ran = sources, prefect_server, flow_runner.result
    made = ran(
        "ingest", sources=folder / "clicks1.svm", dataset=folder / "d-{date}", test_fraction=0.2
    )
    assert made["test_rows"] > 0
    data = Path(made["dataset"])
    assert re.fullmatch(r"d-\d{4}-\d\d-\d\d(T\d{4})?", data.name)
    assert data.is_dir()
    trained = ran(
        "train", dataset=data, run=folder / "run-{date}", passes=3, lam="1e-2",
        certify="true", scheduler="none",
    )  # fmt: skip
    assert trained["certificate"] > 0
    assert "{" not in trained["run"]
    assert Path(trained["run"]).is_dir()
    found = ran("evaluate", run=trained["run"], dataset=made["test_dataset"], scheduler="none")
    assert found["rows"] == made["test_rows"]
    assert found["lift_top"] == 0.1
    found = ran(
        "evaluate", run=trained["run"], dataset=made["test_dataset"], lift_at="0.5", threshold="0.01",
        scheduler="none",
    )  # fmt: skip
    assert found["lift_top"] == 0.5
    assert found["recall"] == 1.0
    status, _, said = flow_runner.run(
        "evaluate", run=trained["run"], dataset=made["test_dataset"], by="age"
    )
    assert (status, "`by=` reads" in said or "`by` reads" in said) == (2, True)
    asked = {"run": trained["run"], "inputs": folder / "clicks1.svm", "probability": "true",
             "n_features": made["features"]}  # fmt: skip
    scored = ran("predict", out=folder / "p-{date}.csv", **asked)
    assert scored["rows"] == made["rows"] + made["test_rows"]
    ended = {"flow_runs": {"state": {"type": {"any_": ["COMPLETED"]}}}, "sort": "END_TIME_DESC"}
    newest = server.ask("flow_runs/filter", ended | {"limit": 1})[0]
    assert newest["parameters"]["run"] == trained["run"]
    assert newest["parameters"]["out"] == scored["output"]
    assert ran("predict", out=scored["output"], **asked)["rows"] == scored["rows"]  # its own file
    with Path(scored["output"]).open("a") as file:
        file.write("a line of mine\n")
    status, _, said = flow_runner.run("predict", out=scored["output"], **asked)
    assert (status, "`overwrite=true`" in said) == (2, True)
    assert ran("predict", out=scored["output"], overwrite="true", **asked)["rows"] == scored["rows"]
    (folder / "link.csv").symlink_to(folder / "clicks1.svm")
    status, _, said = flow_runner.run(
        "predict", out=folder / "link.csv", overwrite="true", **asked
    )  # fmt: skip
    assert (status, "one of the inputs" in said) == (2, True)

    flow_run = server.run_of(trained["run"])
    place = "/".join(trained["run"].split("/")[-2:])
    assert re.fullmatch(rf"train {place}, \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d", flow_run["name"])
    assert flow_run["state"]["type"] == "COMPLETED"
    assert flow_run["parameters"]["run"] == trained["run"]  # what the date was, is on record
    expected = {*(f"auto: pass {k} of 3" for k in (1, 2, 3)), "report"}

    def tasks():  # the server hears of them by events, which may come after the flow's end
        asked = {"task_runs": {"flow_run_id": {"any_": [flow_run["id"]]}}}
        return {t["name"].partition("-")[0] for t in server.ask("task_runs/filter", asked)}

    wait_for(lambda: tasks() >= expected, 60, "all tasks on record")
    assert tasks() == expected
    shown = {key.rpartition("-")[2]: a for key, a in server.artifacts(flow_run).items()}
    assert {a["type"] for a in shown.values()} >= {"progress", "table", "image", "markdown"}
    assert shown["progress"]["data"] == 100.0
    objectives = [row["objective"] for row in json.loads(shown["convergence"]["data"])]
    assert f"{trained['objective']:.6g}" in objectives
    kind, _, image = shown["loss"]["data"].partition(",")
    assert kind == "data:image/svg+xml;base64"
    losses = Timeline.of(RunFolder(trained["run"])).losses
    assert base64.b64decode(image).decode() == picture(loss_chart(losses))
    card = shown["card"]["data"]
    assert trained["weights_sha256"] in card
    assert f"at most {trained['certificate']:.3g} above the optimum" in card
    manifest = json.loads((data / "manifest.json").read_text())
    assert manifest["fingerprint"] in card


def test_files_that_came_since_are_scored_once(prefect_server, flow_runner, tmp_path):
    """As the deployment predict-new-files asks for it; before there is a file, too."""
    rows = make(tmp_path / "set", n=600)
    text = (PROJECT / "prefect.yaml").read_text().replace("{{ $FEWPASS_STORE }}", str(tmp_path))
    known = {one["name"]: one for one in yaml.safe_load(text)["deployments"]}
    asked = {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in known["predict-new-files"]["parameters"].items()
    }
    flow_runner.result("train", dataset=rows.folder.url, run=asked["run"], scheduler="none")
    (tmp_path / "unscored").mkdir()

    def scored(*names):
        """After these files came: how a run ended, and when each file was scored."""
        for name in names:
            np.save(tmp_path / "unscored" / name, np.ones((20, rows.n_features), np.float32))
        made = flow_runner.result("predict", **asked)
        assert made["output"] == asked["out"]
        (run,) = prefect_server.ask("flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 1})
        when = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "scored").glob("*.parquet")}
        return run["state"]["name"], run["state"]["message"], when

    state, message, _ = scored()
    assert (state, "No file yet" in message) == ("Unchanged", True)
    state, message, two = scored("1.npy", "2.npy")
    assert (state, "40 rows scored" in message) == ("Completed", True)
    assert scored() == ("Unchanged", "No new file: 2 files scored before.", two)
    state, message, three = scored("3.npy")
    assert (state, "of 1 new file" in message) == ("Completed", True)
    assert (three.items() > two.items(), len(three)) == (True, 3)


def tried_here(server, flow, parameters, times=2):
    """Yield how each try of one flow run ends in this process, and its parameters by then."""
    from prefect import get_client
    from prefect.flow_engine import run_flow
    from prefect.states import Pending

    with server.asked_here(), get_client(sync_client=True) as client:
        run = client.create_flow_run(flow, parameters=parameters, state=Pending())
        for _ in range(times):
            given = client.read_flow_run(run.id)
            state = run_flow(flow, given, given.parameters, return_type="state")
            yield state, client.read_flow_run(run.id).parameters
            client.set_flow_run_state(run.id, Pending(), force=True)


def test_a_night_that_is_tried_again_has_its_schedule_still(prefect_server, tmp_path):
    """As train/nightly asks for it: the second start has the folder that the first has chosen."""
    from fewpass.flows.orchestration.train import train

    plan = {"dataset": make(tmp_path / "set", n=600).folder.url, "passes": 1, "lam": "1/n"}
    for night in ("2026-01-01", "2026-01-02"):
        trained(TrainingPlan(**plan), tmp_path / "runs" / night)
    asked = {"plan": plan | {"passes": 2}, "run": f"{tmp_path}/runs/{{date}}",
             "skip_unchanged": True, "keep_runs": 2}  # fmt: skip
    chosen = set()
    for state, parameters in tried_here(prefect_server, train, asked):
        chosen.add(parameters["run"])
        there = [*map(str, sorted((tmp_path / "runs").iterdir()))]
        assert (state.name, there) == ("Completed", [f"{tmp_path}/runs/2026-01-02", *chosen])


def test_folds_of_several_lam(prefect_server, flow_runner, tmp_path):
    dataset = make(tmp_path / "set", n=600).folder.url
    found = flow_runner.result(
        "cross-validate", dataset=dataset, lam="1,.1", folds="3", scheduler="none"
    )
    assert [one["lam"] for one in found["results"]] == [1.0, 0.1]
    assert all(f["relative_gap"] <= 1e-3 for one in found["results"] for f in one["folds"])
    newest = {"sort": "START_TIME_DESC", "limit": 1}
    (flow_run,) = prefect_server.ask("flow_runs/filter", newest)
    shown = prefect_server.artifacts(flow_run)
    (table,) = (a["data"] for key, a in shown.items() if key.endswith("-folds"))
    assert [row["fold"] for row in json.loads(table)] == 2 * [*"012", "mean", "standard error"]


def test_a_method_of_reductions_alone_shows_how_it_converged(prefect_server, flow_runner, tmp_path):
    """Certificates, in a table and a picture, beside the losses inside its reductions."""
    dataset = make(tmp_path / "set", n=2000).folder.url
    trained = flow_runner.result(
        "train", dataset=dataset, run=tmp_path / "run", solver__kind="lbfgs", tol="1e-6",
        scheduler="none",
    )  # fmt: skip
    shown = prefect_server.artifacts(prefect_server.run_of(str(tmp_path / "run")))
    kinds = {re.sub(r".*-run-[0-9a-f]{8}-", "", key): a for key, a in shown.items()}
    assert set(kinds) == {"progress", "convergence", "above-optimum", "loss", "card"}
    rows = json.loads(kinds["convergence"]["data"])
    certified = [row for row in rows if row["objective"]]
    assert certified[-1]["objective"] == f"{trained['objective']:.6g}"
    assert [row["passes"] for row in certified] == list(range(1, len(certified) + 1))
    assert any(row["loss since start"] for row in rows)


def key_of(place, what):
    """The key of an artifact."""
    from fewpass.flows.orchestration.artifacts import artifact_key

    return artifact_key(str(place), what)


def shown_last(server, store):
    """The newest artifacts about a store, by what they show."""
    key = key_of(store, "")
    asked = {"artifacts": {"key": {"like_": key}}, "sort": "CREATED_DESC", "limit": 200}
    found = server.ask("artifacts/filter", asked)
    return {a["key"].removeprefix(key): a["data"] for a in reversed(found)}


def test_append_and_forget(prefect_server, flow_runner, tmp_path):
    lines = ["visitor,age,label", *(f"v{k % 40},{k % 60},{int(k % 60 > 25)}" for k in range(300))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    (tmp_path / "gone").write_text("v7\n")
    ran, place = flow_runner.result, tmp_path / "d"
    ran("ingest", sources=tmp_path / "rows.csv", dataset=place, keep="visitor", test_fraction=0.2)
    (tmp_path / "more.csv").write_text("\n".join(lines[:101]))
    more = ran("append", dataset=place, sources=tmp_path / "more.csv")
    assert more["rows"] + more["test_rows"] == 400
    ran("train", dataset=place, run=tmp_path / "run", scheduler="none")
    where = f"visitor in {tmp_path}/gone"
    looked = ran("forget", where=where, dataset=place, dry_run="true")
    gone = ran("forget", where=where, dataset=place, retrain="true")
    assert gone["forgotten"] + gone["test_forgotten"] == 11
    assert gone["rows"] + gone["test_rows"] == 389
    assert gone["retrained"] == [f"{tmp_path}/run-g3"]
    assert (looked["rows"], looked["forgotten"]) == (more["rows"], gone["forgotten"])
    assert "examples" not in looked  # kept cells are not the server's
    status, _, err = flow_runner.run("forget", where=where, dataset=place)
    assert status == 1
    assert "None of the 389 rows" in err
    runs = f"forget {'/'.join(place.parts[-2:])}, "
    _, told, failed = messages_of(prefect_server, runs)
    assert "None of the 389 rows" in failed
    for count in (gone["forgotten"], gone["test_forgotten"], gone["rows"], gone["test_rows"]):
        assert f"{count:,}" in told


def test_rows_that_are_asked_for_again_come_once_where_a_run_is_tried_again(
    prefect_server, tmp_path
):
    """Its process died, or its server, when the rows were there."""
    from fewpass.flows.orchestration.append import append

    lines = ["age,label", *(f"{k % 60},{int(k % 60 > 25)}" for k in range(300))]
    (tmp_path / "rows.csv").write_text("\n".join(lines))
    fewpass.ingest(tmp_path / "rows.csv", tmp_path / "d")
    plan = {"sources": [f"{tmp_path}/rows.csv"], "dataset": f"{tmp_path}/d", "again": True}
    ended = [
        (state.name, fewpass.Dataset(tmp_path / "d").shape[0])
        for state, _ in tried_here(prefect_server, append, {"plan": plan})
    ]
    assert ended == [("Completed", 600), ("Unchanged", 600)]


def messages_of(server, name):
    """The messages of the flow runs whose names begin so, in the order in which they began."""
    asked = {"flow_runs": {"name": {"like_": name}}, "sort": "START_TIME_ASC"}
    return [run["state"]["message"] or "" for run in server.ask("flow_runs/filter", asked)]


def states_of(server, name):
    """The states of the flow runs whose names begin so, in the order in which they began."""
    asked = {"flow_runs": {"name": {"like_": name}}, "sort": "START_TIME_ASC"}
    return [run["state"]["name"] for run in server.ask("flow_runs/filter", asked)]


def test_refresh_evaluates_learns_and_publishes(prefect_server, flow_runner, sources):
    folder, store = sources / "inbox", sources / "store"
    folder.mkdir()
    name = f"refresh {'/'.join(store.parts[-2:])}, "

    def refreshed(**settings):
        return flow_runner.result(
            "refresh", sources=folder / "*.svm", store=store, scheduler="none",
            training__lam="1e-2", settle=0, **settings,
        )  # fmt: skip

    assert "no new file" in refreshed()["message"]
    for k, night in enumerate(("first", "other", "third", "fourth")):  # of one world
        write_clicks(sources / f"{night}.svm", 400_000, 2, first=4096 * k)
    os.link(sources / "first.svm", folder / "first.svm")
    first = refreshed()
    assert (first["state"], first["generation"]) == ("published", 1)

    # A night whose labels are turned around is odd: the first model stays, and no row is lost.
    lines = (sources / "other.svm").read_text().splitlines()
    (folder / "second.svm").write_text("".join(f"{1 - int(line[0])}{line[1:]}\n" for line in lines))
    second = refreshed()
    assert (second["state"], second["model"]) == ("waits", first["model"])
    assert second["explained"] in (True, False)
    os.link(sources / "third.svm", folder / "third.svm")
    status, _, err = flow_runner.run(
        "refresh", sources=folder / "*.svm", store=store, scheduler="none", max_drift=1e-9,
        settle=0,
    )  # fmt: skip
    assert (status, "max_drift is 1e-09" in err, f"store abandon {store}" in err) == (
        2, True, True,
    ), err  # fmt: skip
    third = refreshed(gates="auc>=0.5")  # on what was refused
    assert (third["state"], third["nights"]) == ("published", [1, 3])
    assert "000002 is quarantined" in third["message"]
    assert [gate["passed"] for gate in third["gates"]] == [True]
    assert run_of(str(store), published(str(store))) == third["model"]
    os.link(sources / "fourth.svm", folder / "fourth.svm")
    fourth = refreshed(training__solver__kind="sdca", gates="auc>=0.999")
    assert (fourth["state"], fourth["model"]) == ("kept back", third["model"])
    assert refreshed()["generation"] is None

    assert states_of(prefect_server, name) == [
        "Unchanged", "Completed", "Waits", "Refused", "Completed", "KeptBack", "Unchanged",
    ]  # fmt: skip
    messages = messages_of(prefect_server, name)
    assert messages[2] == second["message"]

    back = flow_runner.result("publish", store=store, generation="000001", because="slow")
    assert (back["run"], back["why"]) == (first["model"], "slow")
    told = flow_runner.result("models", store=store)
    assert told["published"] == 1
    assert [g["state"] for g in told["generations"]] == [
        "published", "quarantined", "quarantined", "quarantined",
    ]  # fmt: skip
    events = [(one["generation"], one["what"]) for one in told["events"]]
    assert (3, "drift") in events
    assert [one for one in events if one[1] not in ("begun", "drift")] == [
        (1, "evaluated"), (1, "published"), (2, "evaluated"), (2, "settled"), (3, "evaluated"),
        (3, "published"), (4, "evaluated"), (4, "kept back"), (1, "published"),
    ]  # fmt: skip
    last = shown_last(prefect_server, store)
    assert set(last) >= {"decision", "drift", "history", "models", "published"}
    assert json.loads(last["drift"])[0].keys() >= {"column", "before", "now", "drift"}
    status, _, err = flow_runner.run("publish", store=store, generation=1)
    assert (status, "it is the one that is used" in err) == (2, True), err


def test_what_a_refresh_came_to_is_told_where_it_is_tried_again(prefect_server, tmp_path):
    """Its process died when the model was kept back, and old nights were removed, perhaps."""
    from fewpass.flows.orchestration.refresh import refresh

    nights = Nights(tmp_path)
    nights.night()
    nights.come()
    plan = {
        "sources": [*nights.plan.sources], "store": nights.plan.store, "settle": 0,
        "ingest": {"options": {"label": "y"}}, "training": {"lam": "1e-2", "tol": 1e-3},
        "gates": ["loss<=1e-9"],
    }  # fmt: skip
    first, again = (
        (state.name, state.message)
        for state, _ in tried_here(prefect_server, refresh, {"plan": plan})
    )
    assert first == again
    assert first[0] == "KeptBack"
    ((another, _),) = tried_here(prefect_server, refresh, {"plan": plan}, times=1)
    assert another.name == "Unchanged"


def test_a_publication_that_is_tried_again_has_been_done(tmp_path, monkeypatch):
    """Its process died before it could say so; asked for anew it is refused as there already."""
    from fewpass.flows.orchestration import publish, scheduled

    store = Folder(str(tmp_path / "store"))
    write_event(store, Begun(generation=1, files=(), night=1))
    made = write_event(store, Published(generation=1, run="run-all", nights=(1,)))
    for first, again in ((1, 2), (2, 1)):
        runtime = SimpleNamespace(
            task_run=SimpleNamespace(run_count=first), flow_run=SimpleNamespace(run_count=again)
        )
        monkeypatch.setattr(scheduled, "prefect", SimpleNamespace(runtime=runtime))
        assert publish.move.fn(store.url, 1, "", None).number == made.number
    runtime.flow_run.run_count = runtime.task_run.run_count = 1
    with pytest.raises(BadInput):
        publish.move.fn(store.url, 1, "", None)


def test_an_evaluation_is_of_one_model_where_another_is_published_meanwhile(tmp_path, monkeypatch):
    """The card with its figures, which lies in the run, too, is that of the model evaluated."""
    from fewpass.flows.orchestration import evaluate as module

    rows, store = make(tmp_path / "set", n=600).folder.url, Folder(str(tmp_path / "store"))
    runs = [RunFolder(f"{store.url}/generations/{k:06d}/run-all") for k in (1, 2)]

    def publish(number):
        trained(TrainingPlan(dataset=rows, lam="1/n"), runs[number - 1].url)
        write_event(store, Begun(generation=number, files=(), night=number))
        write_event(store, Published(generation=number, run="run-all", nights=(number,)))

    def looked_at(of, *_):
        assert of == (runs[0].url,)
        return SimpleNamespace(columns=(None,))

    task, plain = module.evaluate_model.fn, module.evaluate.fn.__wrapped__
    evaluated = lambda *of: (task(*of), publish(2))[0]  # noqa: E731
    publish(1)
    monkeypatch.setattr(
        module, "evaluate_model", mock.Mock(**{"with_options.return_value": evaluated})
    )
    monkeypatch.setattr(module, "look_closely", looked_at)
    for name in ("show_look", "show_table", "show_text"):
        monkeypatch.setattr(module, name, mock.Mock())
    monkeypatch.setattr("fewpass.flows.orchestration.artifacts.TELLER", mock.Mock())
    plain(store.url, rows, BY_NAME, (), None, None, Execution(scheduler="none"))
    assert run_of(store.url, published(store.url)) == runs[1].url
    assert [run.folder.exists(CARD) for run in runs] == [True, False]


def test_refresh_sets_aside_what_it_cannot_read(prefect_server, flow_runner, sources):
    folder, store = sources / "another inbox", sources / "another store"
    folder.mkdir()

    def refreshed(**settings):
        return flow_runner.run(
            "refresh", sources=folder / "*.svm", store=store, scheduler="none",
            training__lam="1e-2", settle=0, **settings,
        )  # fmt: skip

    (folder / "bad.svm").write_text("1 3:what\n")
    status, _, err = refreshed()
    assert (status, "was refused, and no generation" in err) == (2, True), err
    assert "Traceback" not in err
    os.link(sources / "clicks1.svm", folder / "good.svm")
    status, out, err = refreshed()
    assert status == 0, err
    first = json.loads(out)
    assert (first["published"], first["generation"]) == (True, 1)
    (bad,) = first["refused"]
    assert bad["file"] == str(folder / "bad.svm")
    told = flow_runner.result("models", store=store)
    assert told["refused"] == [bad]
    from fewpass.flows.orchestration.artifacts import artifact_key

    key = artifact_key(str(store), "refused")
    shown = prefect_server.ask("artifacts/filter", {"artifacts": {"key": {"any_": [key]}}})
    shown_reason = as_markdown(bad["reason"])
    assert {json.loads(table["data"])[0]["reason"] for table in shown} == {shown_reason}
    assert len(shown) >= 3  # of the two refreshes, and of the list

    os.link(sources / "clicks2.svm", folder / "later.svm")
    status, _, err = refreshed(held_out=sources / "nowhere")
    assert (status, "nowhere" in err) == (2, True), err
    given_up = json.loads(refreshed(abandon="true")[1])
    assert (given_up["generation"], given_up["files"]) == (2, [str(folder / "later.svm")])
    assert json.loads(refreshed()[1])["generation"] == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Usage"),
        (["traim"], "Did you mean train? There are ingest, append, forget, train"),
        (["train", "-p", "dataset=d"], "run must be given"),
        (["train", "-p", "dataset=d", "-p", "run=r", "-p", "lamb=1"], "Did you mean lam"),
        (
            ["train", "-p", "dataset=d", "-p", "run=r", "-p", "solver.gama0=1"],
            "mean solver.gamma0?",
        ),
        (["train", "-p", 'plan={"dataset": "d", "pases": 2}', "-p", "run=r"], "plan.pases"),
        (["train", "-p", "plan={passes: 2}", "-p", "run=r"], "no JSON object"),
        (["train", "-p", "dataset=d", "-p", "run=r", "-p", "passes=0"], "plan.passes"),
        (["train", "-p", "dataset=d", "-p", "run=r", "-p", "solver.kind=adam"], "solver"),
        (["train", "-p", "dataset=d", "-p", "run=r", "-p", "passes"], "Write -p NAME=VALUE"),
        (["refresh", "-p", "memory=1GB"], '"memory" may mean'),
        (["ingest", "-p", "storage_options.key=x"], "no parameter"),
    ],
)
def test_bad_requests_start_nothing(words, said, capsys):
    name, parameters = (words[0], tuple(words[2::2])) if words else (None, ())
    assert run_flow(name, parameters) == 2
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
    assert "Traceback" not in printed.err


#: One after the other in one process; what is imported stays.
REFUSED = """\
train dataset=d run=r passes=no
train dataset=d run=r solver=adam
refresh memory=1GB
train dataset=d run=r solver.gama0=1"""


def test_refusals_import_nothing_heavy():
    """A list of modules, never a time: Prefect's own program has loaded what it needs by then."""
    script = (
        "import sys\nfrom fewpass.flows.orchestration.command import run_flow\n"
        "heavy = {'prefect', 'dask', 'distributed', 'zarr', 'numba', 'matplotlib', 'pyarrow'}\n"
        "for line in sys.argv[1].splitlines():\n"
        "    name, *words = line.split()\n"
        "    assert run_flow(name, tuple(words)) == 2, line\n"
        "    print(line, *heavy & set(sys.modules), sep=': ')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, REFUSED], capture_output=True, text=True, cwd=PROJECT,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == REFUSED.splitlines()


def test_a_mistyped_name_is_answered_with_the_words_that_are_used():
    from fewpass.flows.orchestration.parameters import _near, described
    from fewpass.flows.orchestration.requests import REQUESTS

    known = described(REQUESTS["train"])
    assert _near("solvr", known) == "solver"
    assert _near("solver.gama0", known) == "solver.gamma0"


@pytest.mark.parametrize("name", FLOWS)
def test_a_name_means_the_same_with_and_without_the_methods_settings(name):
    from fewpass.flows.orchestration.parameters import (
        _parameters_for,
        _resolved,
        described,
        short_name,
    )
    from fewpass.flows.orchestration.requests import REQUESTS

    known = described(REQUESTS[name], methods=())
    everything = described(REQUESTS[name])
    assert {n.path for n in known} <= {n.path for n in everything}
    for named in everything:
        for word in {named.path, short_name(named.path, everything), named.path.rpartition(".")[2]}:
            with contextlib.suppress(BadInput):  # of several meanings
                meant = _resolved(name, word, everything).path
                assert (
                    _resolved(name, word, _parameters_for(REQUESTS[name], [f"{word}=1"])).path
                    == meant
                )


def test_plans_are_taken_whole_and_one_by_one():
    from fewpass.flows.orchestration.parameters import assigned
    from fewpass.flows.orchestration.requests import TrainParameters

    apart = assigned(
        TrainParameters, ["dataset=d", "run=r", "solver.kind=sgd", "solver.gamma0=0.5", "passes=3"]
    )
    for words in (
        [
            'plan={"dataset": "d", "passes": 2, "solver": {"kind": "sgd", "gamma0": 0.5}}',
            "passes=3",
        ],
        ["dataset=d", 'solver={"kind": "sgd"}', "gamma0=0.5", "plan.passes=3"],
        ["dataset=d", "solver=sgd", "solver.gamma0=0.5", "passes=3"],
    ):
        assert assigned(TrainParameters, [*words, "run=r"]) == apart, words


def test_a_glob_that_begins_with_a_bracket_is_no_list():
    from fewpass.flows.orchestration.parameters import assigned
    from fewpass.flows.orchestration.requests import PredictParameters

    words = ["run=r", "out=o", "inputs=[ab]*.csv", 'inputs=["c.csv", "d.csv"]', "inputs=e.csv"]
    files = ("[ab]*.csv", "c.csv", "d.csv", "e.csv")
    assert assigned(PredictParameters, words)["inputs"] == files


QUOTED = "in\" stands alone. A parameter with blanks goes in quotes: -p 'where=id in 8000,8001'.\n"


def test_words_that_stand_alone_are_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        run_app(["forget", "-p", "dataset=d", "-p", "where=id", "in", "8000,8001"])
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out, printed.err) == (2, "", f'prefect run: "{QUOTED}')


def test_a_server_that_does_not_answer_is_named(capsys, monkeypatch):
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from fewpass.flows.orchestration.deploying import main
    from fewpass.flows.orchestration.silent_runs import examine_server

    monkeypatch.setenv("FEWPASS_HOME", str(PROJECT))
    monkeypatch.setenv("FEWPASS_STORE", "/store")
    with temporary_settings({PREFECT_API_URL: f"http://127.0.0.1:{free_port()}/api"}):
        with pytest.raises(ConnectionError, match="No Prefect server answers at http"):
            examine_server(free=True)
        assert run_for_make(main) == run_flow("models", ("store=nowhere",), help_=False) == 1
    assert capsys.readouterr().err.count("Start it, or set PREFECT_API_URL.\n") == 2


def test_help_lists_every_parameter_with_its_default():
    from fewpass.flows.orchestration.command import listed_parameters
    from fewpass.flows.orchestration.requests import REQUESTS

    for name in FLOWS:
        text = listed_parameters(REQUESTS[name])
        assert "required" in text
        assert "PydanticUndefined" not in text
        assert "storage_options" not in text  # which no flow takes
    assert "\n  ingest.dataset" not in listed_parameters(REQUESTS["refresh"])  # found by itself
    text = listed_parameters(REQUESTS["train"])
    for line in ("solver.kind  (auto, sgd, asgd, ", "  seed  (number; default 0)\n",
                 "  passes  (number)\n", "  dataset  (text; required)\n"):  # fmt: skip
        assert line in text
    assert "pegasos: Rows that share a step [default: 1]. s2gd, s2gd+, svrg: Rows per inner" in text


def test_the_real_program_knows_the_command_in_any_folder(tmp_path):
    """In an environment whose packages have what lies beside them, as a wheel brings it."""
    venv.create(tmp_path / "own")
    (packages,) = (tmp_path / "own").glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + f"\n{PROJECT}\n")
    python = str(tmp_path / "own/bin/python")

    def ran(*words):
        return subprocess.run(
            [python, *words], env=clean_environment(tmp_path / "home"), cwd=tmp_path,
            capture_output=True, text=True, timeout=280,
        )  # fmt: skip

    beside = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["setuptools"]
    (line,) = beside["data-files"]["../.."]
    assert ran(PREFECT, "run", "train", "--help").returncode != 0
    shutil.copy(PROJECT / line, packages)
    done = ran(PREFECT, "run", "train", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: prefect run train -p KEY=VALUE")
    assert "dataset  (text; required)" in done.stdout
    asked = "import os; print(os.environ.get('PREFECT_PLUGINS_ENABLED'))"
    assert ran("-c", asked, "run").stdout == "None\n"  # nothing else that Python runs is touched


def require_json_lines(said, place):
    """Every line of a training of two passes is an object, and none of Dask's own is there."""
    lines = [json.loads(line) for line in said.splitlines()]
    assert not [line for line in lines if line["logger"].startswith("distributed")]
    *_, last = [line for line in lines if line.get("event") == "pass"]
    assert (last["passes"], last["of"], last["run"]) == (2.0, 2, place)
    assert last["level"] == "info"
    assert last["flow_run_name"].startswith("train ")
    assert "{" not in last["message"]


def test_lines_are_json_passes_are_spans_and_secrets_are_found_nowhere(prefect_server, tmp_path):
    """On Dask, behind what docs/operations.md says for spans: not in one of them, not in the run,
    not in the artifacts, not in a line, not in a file of Prefect's.
    """
    secret = "canary-70f3"
    dataset = make(tmp_path / "set", n=2000).folder.url
    asked = {"dataset": "s3://canary/set", "run": "s3://canary/run", "passes": 2, "lam": "1/n",
             "scheduler": "local"}  # fmt: skip
    words = [INSTRUMENT, PREFECT, "run", "train", *(f"-p{word}" for word in words_for(asked))]
    with object_store("canary", secret) as (fs, _, told), receiver() as (sent, address):
        fs.put(dataset, "canary/set", recursive=True)
        environment = prefect_server.environment | told | {
            "FEWPASS_LOG_FORMAT": "json",
            "OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
            "OTEL_SERVICE_NAME": "fewpass",
        }  # fmt: skip
        done = subprocess.run(
            words, env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=240
        )
        assert done.returncode == 0, done.stderr
        require_json_lines(done.stderr, "s3://canary/run")
        fs.invalidate_cache()
        written = {key: fs.cat_file(key) for key in fs.find("canary/run")}
    assert "canary/run/report/model-card.md" in written
    files = [path for path in prefect_server.home.rglob("*") if path.is_file()]
    assert any(path.name == "prefect.db" for path in files)
    said = list(written.values()) + [path.read_bytes() for path in files]
    said += [done.stdout.encode(), done.stderr.encode(), *(body for _, body in sent)]
    assert any(b"s3://canary/run" in text for text in said)
    assert not any(secret.encode() in text for text in said)
    spans = b"".join(body for path, body in sent if path == "/v1/traces")
    for name in (
        b"auto: pass 1 of 2", b"auto: pass 2 of 2", b"prefect.run.type", b"fewpass", b"canary/run",
    ):  # fmt: skip
        assert name in spans, name


def test_flows_are_found_by_their_text_and_take_what_can_be_asked():
    """`prefect deploy` reads the files that prefect.yaml names before it imports them."""
    import inspect

    from prefect.flows import load_flow_arguments_from_entrypoint, load_flow_from_entrypoint

    from fewpass.flows.orchestration.requests import REQUESTS
    from fewpass.pipeline.settings.prediction_plan import PredictionPlan

    entrypoints = set(re.findall(r"entrypoint: (\S+)", (PROJECT / "prefect.yaml").read_text()))
    assert len(entrypoints) == len(FLOWS)
    for entrypoint in {*entrypoints, *map(entrypoint_of, FLOWS)}:
        assert load_flow_arguments_from_entrypoint(entrypoint)["name"] in REQUESTS
        flow = load_flow_from_entrypoint(entrypoint, use_placeholder_flow=False)
        asked = REQUESTS[flow.name].model_fields
        taken = {*inspect.signature(inspect.unwrap(flow.fn)).parameters}
        if flow.name == "predict":  # whose plan is made of all that is left
            taken = taken - {"plan"} | {*PredictionPlan.model_fields}
        assert taken == {*asked}
        required_first = sorted(asked, key=lambda name: not asked[name].is_required())
        assert list(flow.parameters.properties) == required_first


def test_old_artifacts_of_ours_go_and_those_of_others_stay(prefect_server, as_json):
    own, other = "clean-test-0123abcd-card", "clean-test"
    for k in range(3):
        for key in (own, other):
            prefect_server.ask("artifacts/", {"key": key, "type": "markdown", "data": str(k)})

    def left():
        asked = {"artifacts": {"key": {"like_": "clean-test"}}, "sort": "CREATED_DESC"}
        return [(one["key"], one["data"]) for one in prefect_server.ask("artifacts/filter", asked)]

    def cleaned(*more):
        words = ("store", "clean", "store", "--keep-artifacts", "1", *more)
        with prefect_server.asked_here():
            return [one for one in as_json(*words)["removed"] if one["address"] == own]

    before = left()
    (looked,) = cleaned("--dry-run")
    assert (looked["objects"], left()) == (2, before)
    assert cleaned() == [looked]
    assert sorted(left()) == sorted([(own, "2"), *(one for one in before if one[0] == other)])
    assert cleaned() == []


def test_artifacts_that_flows_make_meanwhile_cost_no_newest_version(monkeypatch):
    """They push what was on one page of the list onto the next one."""
    from fewpass.flows.orchestration import old_artifacts

    key = "clean-test-0123abcd-card"
    there = [SimpleNamespace(id=k, key=key if k < 3 else f"{k}-0123abcd-card") for k in (3, 2, 1)]
    client, pages, gone = mock.MagicMock(), iter([[*there[:2]], [*there[1:]], []]), []
    client.__enter__.return_value = client
    client.read_artifacts.side_effect = lambda **_: next(pages)
    client.delete_artifact.side_effect = gone.append
    monkeypatch.setattr(old_artifacts, "AT_ONCE", 2)
    monkeypatch.setattr(old_artifacts, "get_client", lambda **_: client)
    monkeypatch.setattr(old_artifacts, "answering", contextlib.nullcontext)
    (removed,) = old_artifacts.remove_old_artifacts(1)
    assert (removed.objects, gone) == (1, [1])
