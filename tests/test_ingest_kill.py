"""An ingest killed at any moment: nothing to open, and the same plan again gives the same bytes."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from pipeline.ingest import buckets
from pipeline.ingest.phases import ingest
from pipeline.ingest.plan import IngestPlan
from storage.dataset import Dataset
from storage.folder import NotADataset
from storage.writer import DatasetWriter

N_KILLS = 20
SHARE = 2e-3  # of 1 GiB: a dozen buckets for 20 MB of rows

# Imports everything once; then every line it reads is a plan for a new process, whose id it prints.
STARTER = f"""
import os, sys
from pipeline.ingest import buckets
from pipeline.ingest.phases import ingest
from pipeline.ingest.plan import IngestPlan
from pipeline.sources import libsvm_kernel
buckets.PLANNED, buckets.LARGEST = {SHARE}, {2 * SHARE}
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        ingest(IngestPlan.model_validate_json(line), threads=2)
        os._exit(0)
    print(child, flush=True)
    status = os.waitpid(child, 0)[1]
    print(os.waitstatus_to_exitcode(status), flush=True)
"""


@pytest.fixture
def start():
    """A function that starts an ingest in a process of its own."""
    command = [sys.executable, "-c", STARTER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "ready\n"

        def ingest_elsewhere(plan, kill_after=None):
            """Exit status of the ingest, which is killed after so many seconds."""
            run.stdin.write(plan.model_dump_json() + "\n")
            run.stdin.flush()
            child = int(run.stdout.readline())
            if kill_after is not None:
                time.sleep(kill_after)
                with contextlib.suppress(ProcessLookupError):  # it has finished
                    os.kill(child, signal.SIGKILL)
            return int(run.stdout.readline())

        yield ingest_elsewhere
        run.stdin.close()
        run.wait(10)


def test_killed_at_20_random_moments(tmp_path, start, monkeypatch):
    source = write_rows(tmp_path / "rows.svm", 40_000)
    monkeypatch.setattr(buckets, "PLANNED", SHARE)
    monkeypatch.setattr(buckets, "LARGEST", 2 * SHARE)

    def plan(name):
        settings = {"test_fraction": 0.2, "scale": "maxabs", "chunk_bytes": "1MB"}
        return IngestPlan(sources=(source,), dataset=str(tmp_path / name), **settings)

    start(plan("warm"))  # compiles what is not compiled yet
    quiet_s = np.inf  # the shorter of two: kills that come too late would be none
    for name in ("quiet", "quiet again"):
        started = time.perf_counter()
        assert start(plan(name)) == 0
        quiet_s = min(quiet_s, time.perf_counter() - started)
    expected = fingerprints(tmp_path / "quiet")
    random, killed, resumed = np.random.default_rng(0), 0, 0
    for k, moment in enumerate(random.permutation(N_KILLS)):
        place = tmp_path / f"set-{k // 2}"  # each is killed twice
        status = start(plan(place.name), quiet_s * (moment + random.random()) / N_KILLS)
        assert status in (0, -signal.SIGKILL)
        killed += status != 0
        resumed += (place / ".ingest" / "dealt.json").exists()
        if not (place / "manifest.json").exists():
            with pytest.raises(NotADataset, match="interrupted"):
                Dataset.open(str(place))
        if k % 2:
            require_finished(ingest(plan(place.name)), expected)
    assert killed >= N_KILLS // 2
    assert resumed >= 2


def require_finished(result, expected):
    assert (result.fingerprint, result.test_fingerprint) == expected
    for url in (result.dataset, result.test_dataset):
        dataset = Dataset.open(url)
        assert [*dataset.verify()] == []
        assert not list(dataset.folder.local_path().rglob("*.partial"))
        assert not (dataset.folder.local_path() / ".ingest").exists()


def fingerprints(place):
    return tuple(Dataset.open(str(url)).manifest.fingerprint for url in (place, f"{place}-test"))


def write_rows(path, n):
    random = np.random.default_rng(0)
    columns = np.sort(random.integers(1, 6000, (n, 60)), axis=1)
    values = random.integers(1, 1000, (n, 60))
    with path.open("w") as file:
        for label, row, numbers in zip(
            random.integers(0, 2, n), columns.tolist(), values.tolist(), strict=True
        ):
            entries = dict(zip(row, numbers, strict=True))
            file.write(f"{label} " + " ".join(f"{j}:{x}" for j, x in entries.items()) + "\n")
    return str(path)


def test_a_crash_between_the_two_manifests(tmp_path, monkeypatch):
    """The test set is committed first; a crash there must not lose or repeat it."""
    source = write_rows(tmp_path / "rows.svm", 300)
    plan = IngestPlan(sources=(source,), dataset=str(tmp_path / "set"), test_fraction=0.3)
    quiet = ingest(plan.model_copy(update={"dataset": str(tmp_path / "quiet")}))
    commit, times = DatasetWriter.commit, []

    def crash(self, *arguments, **settings):
        times.append(1)
        if len(times) == 2:
            raise KeyboardInterrupt
        return commit(self, *arguments, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(DatasetWriter, "commit", crash)
        with pytest.raises(KeyboardInterrupt):
            ingest(plan)
    assert Dataset.open(f"{tmp_path}/set-test").manifest.fingerprint == quiet.test_fingerprint
    with pytest.raises(NotADataset):
        Dataset.open(str(tmp_path / "set"))
    assert ingest(plan).fingerprint == quiet.fingerprint
    state = json.loads((tmp_path / "set" / "ingest.json").read_text())
    assert state["plan"]["test_fraction"] == 0.3
