"""`make notify`: what goes wrong is written to somebody, here to a receiver on this machine."""

import contextlib
import json
import re
import subprocess
import sys
import time
import urllib.error
from fnmatch import fnmatchcase
from unittest import mock

import pytest
import yaml

import fewpass
from fewpass.pipeline.settings.cross_validation_plan import CrossValidationPlan
from fewpass.pipeline.settings.execution import Execution
from fewpass.pipeline.settings.prediction_plan import PredictionPlan
from fewpass.pipeline.settings.training_plan import TrainingPlan
from testing.datasets import make
from testing.prefect_server import PROJECT, wait_for
from testing.receiver import receiver

#: A flow that is alive and gets no further.
STALLS = """
import threading
from prefect import flow
from fewpass.flows.orchestration.watching import StallWatch, tell_prefect

@flow(name="train", flow_run_name="stuck")
def stuck():
    told = threading.Event()
    def tell(silence):
        tell_prefect(silence)
        told.set()
    with StallWatch(tell, floor_s=1.0, every_s=0.1) as watch:
        for _ in range(5):
            watch.progressed()
        assert told.wait(60)

stuck()
"""


@pytest.fixture
def received():
    """What tells the texts that were posted to a receiver, and its address."""
    with receiver() as (posted, address):
        yield lambda: [json.loads(body)["text"] for _, body in posted], f"{address}/secret-path"


@pytest.fixture
def notify(prefect_server, monkeypatch, capsys):
    """`make notify` of what its environment and its command line say; what it prints."""
    from fewpass.flows.orchestration.notifications import ADDRESS, main  # which imports Prefect

    def made(*words, url=""):
        monkeypatch.setattr(sys, "argv", ["notifications", *words])
        monkeypatch.setenv(ADDRESS, url)
        with prefect_server.asked_here():
            assert main() == 0
        return capsys.readouterr().out

    return made


def left_alone(server):
    """Have the server say that our pool has no worker."""
    with contextlib.suppress(urllib.error.HTTPError):  # it is there
        server.ask("work_pools/", {"name": "fewpass", "type": "process"})
    for one in server.ask("work_pools/fewpass/workers/filter", {}):
        server.ask(f"work_pools/fewpass/workers/{one['name']}", method="DELETE")
    for paused in (True, False):
        server.ask("work_pools/fewpass", {"is_paused": paused}, "PATCH")


@pytest.mark.timeout(600)
def test_whoever_is_to_know_is_written_to(prefect_server, flow_runner, notify, received, tmp_path):
    texts, url = received
    made = notify(url=url)
    assert notify("custom-webhook/fewpass") == made  # by its name, no second ones
    known = prefect_server.ask("automations/filter", {})
    ours = [a["name"] for a in known if a["name"].startswith("fewpass-tell-")]
    assert sorted(ours) == sorted(made.split())
    assert b"secret-path" not in b"".join(
        path.read_bytes() for path in prefect_server.home.rglob("*") if path.is_file()
    )

    dataset = make(tmp_path / "set", n=2000).folder.url
    broken = make(tmp_path / "broken", n=2000)
    victim = max((tmp_path / "broken").rglob("c.*"), key=lambda p: p.stat().st_size)
    victim.write_bytes(b"x" * victim.stat().st_size)
    flow_runner.result("train", dataset=dataset, run=tmp_path / "fine", scheduler="none")
    for name, data, status, why in (
        ("refused", str(tmp_path / "no"), 2, "fewpass ingest"),
        ("failed", broken.folder.url, 1, str(victim)),
    ):
        asked = {"dataset": data, "run": tmp_path / name, "scheduler": "none"}
        ended, out, err = flow_runner.run("train", **asked)
        assert (ended, out, why in err) == (status, "", True)
    flow_runner.result(
        "train", dataset=dataset, run=tmp_path / "missed", solver__kind="gd", tol="1e-9", passes=3,
        scheduler="none",
    )  # fmt: skip
    crashed = prefect_server.run_of("/fine")
    for message in ("gone", "gone again"):  # as a worker and an automation say, or of a second try
        prefect_server.ask(
            f"flow_runs/{crashed['id']}/set_state",
            {"state": {"type": "CRASHED", "message": message}, "force": True},
        )
    kept = prefect_server.run_of("/missed")
    assert (kept["state"]["type"], kept["state"]["name"]) == ("COMPLETED", "ToleranceMissed")
    prefect_server.ask(
        f"flow_runs/{kept['id']}/set_state",
        {"state": {"type": "COMPLETED", "name": "KeptBack", "message": "worse"}, "force": True},
    )
    left_alone(prefect_server)
    subprocess.run(
        [sys.executable, "-c", STALLS], env=prefect_server.environment, cwd=PROJECT, check=True,
        capture_output=True, timeout=120,
    )  # fmt: skip

    expected = {
        r"/refused, .* was refused\n.*fewpass ingest",
        rf"/failed, .* failed\n.*{re.escape(str(victim))}",
        r"/missed, .* missed its tolerance\nTolerance 1e-09 missed",
        r"/fine, .* crashed\ngone",
        r"/missed, .* published no model\nworse",
        r"^fewpass has no worker\nWhat is due waits .* --pool fewpass\nhttp.*/work-pool",
        r"stuck is stalled\nno progress for",
    }

    def of_this_test():  # the server has runs of other tests, too
        own = (tmp_path.name, "stuck is", "fewpass has")
        return [text for text in texts() if any(word in text for word in own)]

    wait_for(lambda: len(of_this_test()) >= len(expected), 60, "a text for each")
    time.sleep(1)  # for one too many
    assert len(of_this_test()) == len(expected), "\n\n".join(of_this_test())
    for pattern in expected:
        assert any(re.search(pattern, text, re.DOTALL) for text in of_this_test()), pattern
    states = {r["name"].split(",")[0].rpartition("/")[2]: r["state"] for r in prefect_server.ask(
        "flow_runs/filter", {"sort": "START_TIME_DESC", "limit": 10}
    )}  # fmt: skip
    assert (states["refused"]["type"], states["refused"]["name"]) == ("FAILED", "Refused")


def test_a_crash_is_told_as_one_that_is_tried_again_or_as_the_last():
    from fewpass.flows.orchestration.notifications import GIVEN_UP, TRIED
    from fewpass.flows.orchestration.requests import REQUESTS

    automations = yaml.safe_load((PROJECT / "automation.yaml").read_text())["automations"]
    retry = next(one["trigger"] for one in automations if "retry" in one["name"])
    counts = retry["match"]["prefect.run-count"]
    for count in map(str, range(200)):
        told = [any(fnmatchcase(count, p) for p in patterns) for patterns in (TRIED, GIVEN_UP)]
        assert told == [count in ("0", *counts), count not in ("0", *counts)]
    assert {*retry["match_related"][0]["prefect.resource.name"]} == {*REQUESTS}


def test_nowhere_and_to_nobody_is_refused(monkeypatch, capsys):
    from fewpass.flows.orchestration.notifications import main  # which imports Prefect

    monkeypatch.delenv("FEWPASS_WEBHOOK", raising=False)
    monkeypatch.setattr(sys, "argv", ["notifications"])
    assert main() == 2
    assert "FEWPASS_WEBHOOK=" in capsys.readouterr().err


def test_a_silence_is_told_once_and_again_after_progress():
    from fewpass.flows.orchestration.watching import StallWatch  # which imports Prefect

    told, now, looks = [], [0.0], []

    def clock():
        looks.append(now[0])
        return now[0]

    with StallWatch(told.append, floor_s=0.5, every_s=0.001, clock=clock) as watch:
        for _ in range(4):
            watch.progressed()
        for moment, times in ((0.4, 0), (0.6, 1), (99.0, 1)):
            now[0] = moment
            wait_for(lambda: looks[-3:] == [now[0]] * 3, 60, "looks at the clock")
            assert len(told) == times
        watch.progressed()
        now[0] = 100.0
        wait_for(lambda: len(told) == 2, 60, "the second one")
    assert all(silence.is_stalled for silence in told)


def test_progress_while_a_silence_is_told_of_begins_another(monkeypatch):
    from fewpass.flows.orchestration import watching  # which imports Prefect

    told, now, silence = [], [0.0], watching.silence
    watch = watching.StallWatch(told.append, floor_s=0.5, every_s=0.001, clock=lambda: now[0])

    def observed(*given):
        found = silence(*given)
        if found is not None and found.is_stalled and not told:
            watch.progressed()
        return found

    monkeypatch.setattr(watching, "silence", observed)
    with watch:
        for _ in range(4):
            watch.progressed()
        for moment in (1.0, 2.0):
            now[0] = moment
            wait_for(lambda moment=moment: len(told) == moment, 60, "a silence")
    assert all(silence.is_stalled for silence in told) and len(told) == 2


@pytest.mark.parametrize(
    "task", ["score rows", "evaluate", "evaluate files", "for a gate", "explain"]
)
def test_rows_that_a_model_is_evaluated_on_are_progress(tmp_path, monkeypatch, task):
    from fewpass.flows.orchestration import artifacts, refresh  # which import Prefect
    from fewpass.flows.orchestration.evaluate import evaluate_model

    rows, run, seen = make(tmp_path / "set", n=400).folder.url, str(tmp_path / "run"), []
    fewpass.train(rows, run, lam="1/n", passes=1)
    file, here = tmp_path / "rows.svm", Execution(scheduler="none")
    file.write_text("".join(f"{(-1) ** k} 1:{k}\n" for k in range(400)))
    monkeypatch.setattr(artifacts.StallWatch, "progressed", lambda _: seen.append(1))
    monkeypatch.setattr(artifacts, "TELLER", mock.Mock())
    work, plan = refresh.RefreshWork(here), TrainingPlan(dataset=rows, lam="1/n", tol=1e-2)
    made = {
        "score rows": lambda: refresh.score_rows.fn(work, {"all": run}, rows),
        "evaluate": lambda: evaluate_model.fn(run, rows, here, {}),
        "evaluate files": lambda: evaluate_model.fn(run, str(file), here, {}),
        "for a gate": lambda: refresh.evaluate_for_gate.fn(work, run, rows, None),
        "explain": lambda: refresh.explain_night.fn(work, plan),
    }[task]
    assert made()
    assert seen


def test_scored_rows_and_passes_of_folds_are_progress(tmp_path, monkeypatch):
    from fewpass.flows.orchestration import artifacts  # which imports Prefect
    from fewpass.flows.orchestration.cross_validate import evaluate_folds
    from fewpass.flows.orchestration.predict import score

    rows, run, seen = make(tmp_path / "set", n=400).folder.url, str(tmp_path / "run"), []
    fewpass.train(rows, run, passes=1)
    monkeypatch.setattr(artifacts.StallWatch, "progressed", lambda _: seen.append(1))
    monkeypatch.setattr(artifacts, "TELLER", mock.Mock())
    scored = score.fn(run, (rows,), str(tmp_path / "scores.csv"), PredictionPlan())
    assert (scored.rows, bool(seen)) == (400, True)
    seen.clear()
    plan = CrossValidationPlan(dataset=rows, folds=2, lam="1/n", passes=1)
    assert len(evaluate_folds.fn(plan, Execution(scheduler="none"))) == 1
    assert len(seen) > 1
