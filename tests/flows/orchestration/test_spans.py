"""OpenTelemetry: Prefect's own spans of flows and tasks, a training's passes among them."""

import subprocess
import sys
from pathlib import Path

import pytest

from testing.datasets import make
from testing.prefect_server import PREFECT, PROJECT, words_for
from testing.receiver import receiver

INSTRUMENT = str(Path(sys.executable).with_name("opentelemetry-instrument"))
EVERY_PASS = [f"sdca: pass {k} of 3".encode() for k in (1, 2, 3)]


@pytest.fixture
def collector():
    """What is sent to an address that takes spans, as OTLP over HTTP; and the address."""
    with receiver() as (sent, address):
        yield sent, address


def test_every_pass_is_a_span(prefect_server, collector, tmp_path):
    """As docs/operations.md says: nothing but a command before the command, and the environment."""
    sent, address = collector
    environment = prefect_server.environment | {
        "OTEL_EXPORTER_OTLP_ENDPOINT": address, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
        "OTEL_SERVICE_NAME": "fewpass",
    }  # fmt: skip
    dataset = make(tmp_path / "set", n=2000).folder.url
    words = words_for(
        {"dataset": dataset, "run": tmp_path / "run", "solver": "sdca", "passes": 3,
         "scheduler": "none"}
    )  # fmt: skip
    done = subprocess.run(
        [INSTRUMENT, PREFECT, "run", "train", *(f"-p{word}" for word in words)],
        env=environment, cwd=PROJECT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    spans = b"".join(body for path, body in sent if path == "/v1/traces")
    for name in (
        *EVERY_PASS,
        b"prefect.run.type",
        b"fewpass",
        str(tmp_path / "run")[-20:].encode(),
    ):
        assert name in spans, name
