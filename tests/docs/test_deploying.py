"""deploy/ as text: schemas, programs that exist, metrics that exist; no container is run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from fewpass.flows import cli
from fewpass.flows.display.pass_lines import PassLines
from fewpass.flows.display.seldom_sentences import SENTENCES
from fewpass.pipeline.dashboard.metrics import METRICS
from fewpass.pipeline.tables.ingest.progress import IngestProgress
from testing.prefect_server import PROJECT, patience

DEPLOY = PROJECT / "deploy"
PAGE = (PROJECT / "docs/deploying.md").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
OURS = ("bucket", "server", "deploy", "worker", "scheduler", "dask-worker")
CHECKS = [
    line.strip() for line in PAGE.splitlines() if re.match(r"    (hadolint|check-j|promt)", line)
]


@pytest.mark.parametrize("line", CHECKS, ids=lambda line: " ".join(line.split()[:2]))
def test_what_the_page_says_was_checked(line):
    name, *words = line.partition("#")[0].split()
    program = shutil.which(name, path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None and "CI" not in os.environ:
        pytest.skip(f"{name} is not installed")
    assert program, f"{name} is not installed"
    done = subprocess.run(
        [program, *words], cwd=PROJECT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_copies_what_is_there_and_runs_as_nobody_special():
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [
        name
        for line in re.findall(r"^COPY (?!--)(.+)$", text, re.MULTILINE)
        for name in line.split()[:-1]
    ]
    allowed = {
        line[1:]
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().split()
        if line[0] == "!"
    }
    assert set(copied) == allowed
    assert all((PROJECT / name).exists() for name in copied)
    assert re.findall(r"^USER (\S+)$", text, re.MULTILINE) == ["1000:1000"]
    extras = re.search(r"\.\[(.*?)\]", text)[1].split(",")
    assert set(extras) <= set(
        re.findall(r"^(\w+) = \[", (PROJECT / "pyproject.toml").read_text(), re.MULTILINE)
    )


def test_the_image_has_what_charts_start_and_the_settings_of_the_checkout():
    text = (DEPLOY / "Dockerfile").read_text()
    made = set(re.findall(r"> (/\S+)", text))
    assert made == {
        "/opt/prefect/entrypoint.sh", "/usr/local/bin/dask-scheduler", "/usr/local/bin/dask-worker",
    }  # fmt: skip
    assert re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1] == json.dumps(
        ["/usr/bin/tini", "-g", "--", "/opt/prefect/entrypoint.sh"]
    )
    checkout = tomllib.loads((PROJECT / "pyproject.toml").read_text())["tool"]["prefect"]
    wanted = dict(as_variables("PREFECT", checkout))
    assert dict(re.findall(r"\b(PREFECT_\w+)=(\S+)", text)) == wanted


def as_variables(name, settings):
    """Settings of a table as variables of an environment."""
    for key, value in settings.items():
        inner = f"{name}_{key.upper()}"
        if isinstance(value, dict):
            yield from as_variables(inner, value)
        else:
            one = value[0] if isinstance(value, list) else value
            yield inner, str(one).lower() if isinstance(one, bool) else str(one)


CHILD = """
import signal, sys, time
def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a second one would end it before its snapshot
    time.sleep(1)
    open(sys.argv[1], "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, end)
print("ready", flush=True)
time.sleep(60)
"""
STARTS = """
import os, signal, subprocess, sys, time
heard = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN  # it stops itself by that
signal.signal(signal.SIGTERM, lambda *_: (child.kill(), os._exit(3 if heard else 4)))  # as a worker does
child = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]])
child.wait()
open(sys.argv[2] + "-again", "w").close()  # a worker that is not stopped begins what is due
time.sleep(60)
"""


def test_a_worker_that_is_stopped_ends_after_its_flows(tmp_path):
    words = ["-m", "fewpass.flows.orchestration.outlasting", sys.executable, "-c", STARTS, CHILD]
    whole = [sys.executable, *words, str(tmp_path / "snapshot")]
    with subprocess.Popen(
        whole, cwd=PROJECT, stdout=subprocess.PIPE, text=True, start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),  # as of `... &` in a script
    ) as group:  # fmt: skip
        assert group.stdout.readline() == "ready\n"
        os.killpg(group.pid, signal.SIGTERM)  # as tini -g does
        assert group.wait(patience(30)) == 3
    assert [*tmp_path.iterdir()] == [tmp_path / "snapshot"]


STRUCK = """
import os, signal, sys
from fewpass.flows.orchestration import outlasting
install, installed = signal.signal, []
def struck(number, handler):
    installed.append(number)
    if len(installed) == 3:  # the program runs, and nothing would stop it yet
        os.kill(os.getpid(), signal.SIGTERM)
    return install(number, handler)
signal.signal = struck
sys.exit(outlasting.outlast([sys.executable, "-c", "import time; time.sleep(600)"]))
"""


def test_a_stop_that_comes_while_the_worker_starts_is_not_lost():
    done = subprocess.run([sys.executable, "-c", STRUCK], cwd=PROJECT, timeout=patience(60))
    assert done.returncode == 128 + signal.SIGTERM


def test_every_process_of_the_composition_is_one():
    services = COMPOSE["services"]
    assert set(services) == {*OURS, "database", "objects"}
    for name in OURS:
        one = services[name]
        assert one["read_only"] and one["cap_drop"] == ["ALL"], name
        assert one["command"][0] in ("prefect", "dask", "python"), name
    assert services["dask-worker"]["deploy"]["replicas"] == 2
    assert [s for s in services if "ports" in services[s]] == ["server"]
    assert all(port.startswith("127.0.0.1:") for port in services["server"]["ports"])
    assert COMPOSE["networks"]["inside"] == {"internal": True}
    lasting = [name for name in OURS if name not in ("bucket", "deploy")]
    assert [services[name]["healthcheck"]["test"][1:4] for name in lasting] == [
        ["fewpass", "check", "--quick"]
    ] * 4
    named = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    assert named == set(re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text(), re.MULTILINE))
    assert cli.main(["check", "--help"]) == 0


def test_values_of_charts_are_yaml_and_run_no_process_as_root():
    for file in sorted((DEPLOY / "helm").glob("*.yaml")):
        values = yaml.safe_load(file.read_text())
        for part in ("server", "worker", "scheduler"):
            own = values.get(part)
            if own:
                context = own.get("podSecurityContext") or own["securityContext"]
                assert context["runAsNonRoot"], (file.name, part)


def test_alerts_name_metrics_that_there_are_and_the_page_names_them_all():
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    used = {name for rule in rules for name in re.findall(r"\bfewpass_\w+", rule["expr"])}
    assert used <= set(METRICS)
    assert re.findall(r"^\| `(Fewpass\w+)`", PAGE, re.MULTILINE) == [
        rule["alert"] for rule in rules
    ]
    tested = set(re.findall(r"alertname: (\w+)", (DEPLOY / "alerts.test.yaml").read_text()))
    assert tested == {rule["alert"] for rule in rules}


def test_the_page_names_every_field_of_a_line():
    rows = re.findall(r"^\| (`[\w`, ]+`) \| [\w, ]+ \|", PAGE, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(PassLines(3, None)._line(1).fields) <= named
    assert set(IngestProgress._fields) <= named
    events = re.search(r"^\| `event` \|.*$", PAGE, re.MULTILINE)[0]
    assert {"start", "resume", "pass", "ingest", *SENTENCES} == set(
        re.findall(r"`(\w+)`", events)[1:]
    )
