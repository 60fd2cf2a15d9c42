"""deploy/ as text: schemas, programs that exist, metrics that exist; no container is run."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fewpass.flows import cli
from fewpass.flows.display.pass_lines import PassLines
from fewpass.pipeline.dashboard.metrics import METRICS
from fewpass.pipeline.tables.ingest.progress import IngestProgress
from testing.prefect_server import PROJECT

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
    probes = [services[name]["healthcheck"]["test"][1:3] for name in ("server", "scheduler")]
    assert probes == [["fewpass", "health"]] * 2
    named = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    assert named == set(re.findall(r"^(\w+)=", (DEPLOY / "example.env").read_text(), re.MULTILINE))
    assert cli.main(["health", "--help"]) == 0


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
    ingests = set(IngestProgress._fields) - {"rows_total", "bytes_total", "megabytes_per_second"}
    assert ingests <= named
