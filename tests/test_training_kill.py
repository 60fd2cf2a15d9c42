"""kill -9 at random moments of `fewpass train`, resumed each time: the same bits as a quiet run."""

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.datasets import make

FEWPASS = str(Path(sys.executable).with_name("fewpass"))
KILLS = 20


def train_command(dataset, run, scheduler):
    return [
        FEWPASS, "train", dataset, str(run), "--passes", "25", "--memory", "97MB", "--json",
        "--solver", "asgd", "--set", "solver.average_from=0.5", "--certify",
        "--config", str(Path(dataset).with_name("often.toml")), *scheduler,
    ]  # fmt: skip


def finish(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.timeout(900)
def test_twenty_kills_change_no_bit(tmp_path):
    dataset = make(tmp_path / "set", n=30000, d=50, chunk_rows=300, layout="sparse").folder.url
    (tmp_path / "often.toml").write_text("snapshot_every = 0.05\n")
    command = train_command(dataset, tmp_path / "quiet", ["--scheduler", "none"])
    finish(command)  # compiles
    began = time.perf_counter()
    finish(train_command(dataset, tmp_path / "again", ["--scheduler", "none"]))
    whole = time.perf_counter() - began
    quiet = finish(command)

    random.seed(0)
    run, runs, kills = tmp_path / "run", 1, 0
    while kills < KILLS:  # a run that came to its end is followed by a new one
        process = subprocess.Popen(
            train_command(dataset, run, [] if kills % 4 == 3 else ["--scheduler", "none"]),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(random.uniform(0.3, 1.0) * whole)
        process.send_signal(signal.SIGKILL)
        said = process.communicate()[1]
        assert process.returncode in (-signal.SIGKILL, 0), said
        kills += process.returncode != 0
        if process.returncode == 0:
            assert outcome(run) == quiet["weights_sha256"]
            run, runs = tmp_path / f"run{runs}", runs + 1
    resumed = finish([FEWPASS, "resume", str(run), "--json", "--scheduler", "none"])
    assert resumed["weights_sha256"] == quiet["weights_sha256"]
    assert resumed["objective"] == quiet["objective"]
    assert resumed["rows_seen"] == quiet["rows_seen"]


def outcome(run):
    lines = (run / "log.jsonl").read_text().splitlines()
    return json.loads(lines[-1])["weights_sha256"]
