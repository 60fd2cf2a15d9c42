"""The whole job on an object store: sources, data sets, runs and predictions, no local file."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from testing.object_store import object_store

SECRET = "canary-19c4"
FEWPASS = str(Path(sys.executable).with_name("fewpass"))


@pytest.fixture
def s3():
    with object_store("warehouse", SECRET) as store:
        yield store


def test_credentials_come_from_the_environment_and_stay_there(s3, tmp_path):
    fs, _, environment = s3
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 4)).round(3)
    y = np.where(X.sum(axis=1) > 0, 1, -1)
    lines = [
        f"{label} " + " ".join(f"{j + 1}:{v}" for j, v in enumerate(row))
        for label, row in zip(y, X.tolist())
    ]
    fs.pipe_file("warehouse/rows.svm", ("\n".join(lines) + "\n").encode())

    said = ""

    def fewpass(*words):
        nonlocal said
        done = subprocess.run(
            [FEWPASS, *words, "--json"],
            capture_output=True, text=True, env=os.environ | environment, cwd=tmp_path, timeout=240,
        )  # fmt: skip
        said += done.stdout + done.stderr
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    place = "s3://warehouse"
    assert fewpass("ingest", f"{place}/rows.svm", f"{place}/set")["rows"] == 500
    trained = fewpass("train", f"{place}/set", f"{place}/run", "--certify", "--lam", "0.1")
    assert trained["certificate"] >= 0
    assert fewpass("resume", f"{place}/run")["weights_sha256"] == trained["weights_sha256"]
    assert fewpass("evaluate", f"{place}/run", f"{place}/set")["error"] < 0.1
    assert (
        fewpass("predict", f"{place}/run", f"{place}/rows.svm", f"{place}/out.csv")["rows"] == 500
    )
    assert fewpass("verify", f"{place}/set")
    assert list(tmp_path.iterdir()) == []

    fs.invalidate_cache()
    written = fs.find("warehouse")
    assert any(key.endswith("run/log.jsonl") for key in written)
    assert not [key for key in written if SECRET.encode() in fs.cat_file(key)]
    assert SECRET not in said
