"""The whole job on an object store: sources, data sets, runs and predictions, no local file."""

import json
import os

import numpy as np
import pytest

from testing.object_store import object_store
from testing.one_process import run_all

SECRET = "canary-19c4"
COMMANDS = """\
ingest s3://warehouse/rows.svm s3://warehouse/set
train s3://warehouse/set s3://warehouse/run --certify --lam 0.1
resume s3://warehouse/run
evaluate s3://warehouse/run s3://warehouse/set
predict s3://warehouse/run s3://warehouse/rows.svm s3://warehouse/out.csv
check s3://warehouse/set"""


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

    commands = [["fewpass", *line.split(), "--json"] for line in COMMANDS.splitlines()]
    done = run_all(commands, tmp_path, os.environ | environment)
    assert [each.status for each in done] == [0] * len(done), done
    made, trained, resumed, evaluated, scored, checked = (json.loads(each.out) for each in done)
    assert (made["rows"], scored["rows"]) == (500, 500)
    assert trained["certificate"] >= 0
    assert resumed["weights_sha256"] == trained["weights_sha256"]
    assert evaluated["error"] < 0.1
    assert checked["ok"]
    assert list(tmp_path.iterdir()) == []

    fs.invalidate_cache()
    written = fs.find("warehouse")
    assert any(key.startswith("warehouse/run/log/") for key in written)
    assert not [key for key in written if SECRET.encode() in fs.cat_file(key)]
    assert not [each for each in done if SECRET in each.out + each.err]
