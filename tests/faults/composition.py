"""deploy/compose.yaml without Docker: python -m tests.faults.composition FOLDER --python PYTHON3.12

The image is made by the steps of deploy/Dockerfile (dockerfile.py), and its processes run in it as
the composition says: as its user, without capabilities, on a root that cannot be written, in a
network of their own.  Of the two images of others, PostgreSQL is this machine's, and moto stands in
for the object store.  What was seen is printed as a table.  Root, Debian, some ten minutes.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from testing.prefect_server import PROJECT, wait_for
from tests.faults.dockerfile import build, make_base
from tests.flows.orchestration.test_postgres import Postgres

COMPOSE = PROJECT / "deploy/compose.yaml"
DOCKERFILE = PROJECT / "deploy/Dockerfile"
WAITED_S = 180.0
ROWS = """
from pathlib import Path
import s3fs
from fewpass.pipeline.clicks import write_clicks
write_clicks(Path("/tmp/clicks.svm"), 4_000_000)
s3fs.S3FileSystem().put("/tmp/clicks.svm", "fewpass/inbox/clicks.svm")
"""


def settings():
    """The services of the composition, with the words of deploy/example.env in them."""
    words = re.findall(r"^(\w+)=(.*)$", (PROJECT / "deploy/example.env").read_text(), re.MULTILINE)
    text = COMPOSE.read_text()
    for name, value in words:
        text = re.sub(rf"\$\{{{name}(:\?[^}}]*)?\}}", value, text)
    return yaml.safe_load(text)["services"]


class Composition:
    """Services that run, by name, and what was seen of them."""

    def __init__(self, image, folder):
        self.image, self.folder, self.services = image, folder, settings()
        self.running = {}
        hosts = "".join(f"127.0.0.1 {name}\n" for name in self.services)
        (image.root / "etc/hosts").write_text(f"127.0.0.1 localhost\n{hosts}")

    def tell(self, what, seen):
        sys.stdout.write(f"| {what} | {seen} |\n")
        sys.stdout.flush()

    def process(self, name, words=None, log=None):
        """A process of a service: its own, or another one in it."""
        one = self.services[name]
        scratch = []
        for each in one["tmpfs"]:
            folder, _, rights = each.partition(":")
            scratch.append((folder, rights))
        words = [*self.image.entrypoint, *one["command"]] if words is None else words
        with (self.folder / f"{log or name}.log").open("ab") as out:
            return self.image.process(
                words, one["read_only"], scratch, one.get("environment"),
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                start_new_session=True,
            )  # fmt: skip

    def said(self, name, words):
        """What a command says that is run in a service; it must end well."""
        log = self.folder / "said.log"
        log.unlink(missing_ok=True)
        status = self.process(name, words, "said").wait(600)
        assert status == 0, (words, log.read_text()[-3000:])
        return log.read_text()

    def is_healthy(self, name):
        """Whether the probe of a service says so, and its process is alive."""
        assert self.running[name].poll() is None, self.log_of(name)[-3000:]
        words = self.services[name]["healthcheck"]["test"]  # of two replicas the first one's
        return self.process(name, words[1:], "probes").wait(60) == 0

    def log_of(self, name):
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def up(self):
        """Start the services in their order, as their conditions say."""
        for name in ("bucket", "server", "deploy", "scheduler", "worker", "dask-worker"):
            began = time.monotonic()
            copies = self.services[name].get("deploy", {}).get("replicas", 1)
            for k in range(copies):
                self.running[name if k == 0 else f"{name}-{k + 1}"] = self.process(name)
            if "healthcheck" in self.services[name]:
                wait_for(lambda name=name: self.is_healthy(name), WAITED_S, f"health of {name}")
                self.tell(f"`{name}`", f"healthy after {time.monotonic() - began:.0f} s")
            elif name in ("bucket", "deploy"):
                assert self.running[name].wait(WAITED_S) == 0, self.log_of(name)[-3000:]
                self.tell(f"`{name}`", f"ended with 0 after {time.monotonic() - began:.0f} s")
            else:
                self.tell(f"`{name}`", f"{copies} started")


def worked(night):
    """An ingest, a training on the cluster, one that is stopped, and what probes say of them."""
    night.said("worker", ["python", "-c", ROWS])
    run = ["prefect", "deployment", "run", "--watch"]
    began = time.monotonic()
    words = ["-p", "sources=s3://fewpass/inbox/clicks.svm", "-p", "dataset=s3://fewpass/data"]
    night.said("worker", [*run, "ingest/make-data", *words])
    night.tell(
        "`ingest/make-data` from the store into the store", f"{time.monotonic() - began:.0f} s"
    )
    began = time.monotonic()
    words = ["-p", 'plan={"dataset": "s3://fewpass/data", "passes": 2, "lam": "10/n"}', "-p"]
    there = ["-p", "scheduler=tcp://scheduler:8786"]
    night.said("worker", [*run, "train/train-model", *words, "run=s3://fewpass/first", *there])
    night.tell("`train/train-model` on the two Dask workers", f"{time.monotonic() - began:.0f} s")
    places = ["s3://fewpass/first", "s3://fewpass/data", "http://server:4200/api/health",
              "tcp://scheduler:8786"]  # fmt: skip
    night.said("worker", ["fewpass", "check", "--quick", *places])
    metrics = night.said("scheduler", ["python", "-c", METRICS])
    assert 'fewpass_passes{run="s3://fewpass/first"} 2' in metrics, metrics
    night.tell("`fewpass check --quick` of run, data set, server, scheduler; `/fewpass/metrics`",
               "all in order; the run is on it")  # fmt: skip


METRICS = """
import urllib.request
print(urllib.request.urlopen("http://127.0.0.1:8787/fewpass/metrics").read().decode())
"""


def not_compiled(night):
    """Whether the kernels of the image were enough."""
    missing = "Compiled kernels cannot be kept" in night.log_of("worker")
    night.tell("kernels that flows had to compile", "some" if missing else "none")


def stopped(night):
    """What `docker compose stop worker` does during a training."""
    plan = '{"dataset": "s3://fewpass/data", "passes": 400, "lam": "10/n"}'
    run = ["prefect", "deployment", "run", "train/train-model", "-p", f"plan={plan}", "-p"]
    night.said("worker", [*run, "run=s3://fewpass/long"])
    look = ["fewpass", "check", "--quick", "s3://fewpass/long"]
    wait_for(lambda: night.process("worker", look, "said").wait(60) == 0, 120, "a training")
    time.sleep(10)
    began = time.monotonic()
    first = Path(f"/proc/{night.running['worker'].pid}/task/{night.running['worker'].pid}/children")
    os.kill(int(first.read_text()), signal.SIGTERM)
    night.running["worker"].wait(120)
    night.tell(
        "SIGTERM to `worker` during a training", f"ended after {time.monotonic() - began:.0f} s"
    )
    facts = json.loads(
        night.said("scheduler", ["fewpass", "inspect", "s3://fewpass/long", "--json"])
    )
    assert facts["snapshots"], night.log_of("worker")[-3000:]
    night.tell("the same", f"snapshot {facts['snapshots'][-1]} is in the run")


def confined(night):
    """What a process of the image may do."""
    said = night.said("worker", ["python", "-c", RIGHTS])
    told = json.loads(said.splitlines()[-1])
    night.tell("uid, capabilities, writable of `/`, `/opt/cache`, `/tmp`, `~`",
               "{uid}, {capabilities}, {writable}".format(**told))  # fmt: skip


RIGHTS = """
import json, os, re
status = open("/proc/self/status").read()
print(json.dumps({"uid": os.getuid(), "capabilities": re.search(r"CapEff:\\s*(\\w+)", status)[1],
    "writable": [os.access(p, os.W_OK) for p in ("/", "/opt/cache", "/tmp", os.path.expanduser("~"))]}))
"""


def inside(folder, image):
    """Run the composition in this process's own network."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with contextlib.ExitStack() as started:
        place = started.enter_context(tempfile.TemporaryDirectory())
        postgres = Postgres(place, port=5432, user="prefect")
        started.callback(postgres.stop)
        postgres.make()
        moto = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "8333"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        started.callback(moto.kill)
        time.sleep(5)
        night = Composition(image, folder)
        sys.stdout.write("| what | seen |\n|---|---|\n")
        night.up()
        for step in (confined, worked, stopped, not_compiled):
            step(night)


def main():
    """Make the image; then go into a network of its own."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", required=True, help="a Python 3.12 to be copied")
    parser.add_argument("--inside", action="store_true")
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    base = make_base(folder / "base", given.python)
    image = build(DOCKERFILE.read_text(), folder, base)
    if given.inside:
        inside(folder, image)
    else:
        own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        again = [sys.executable, "-m", "tests.faults.composition", *sys.argv[1:], "--inside"]
        os.execvp(own[0], [*own, *again])


if __name__ == "__main__":
    main()
