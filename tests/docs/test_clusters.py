"""docs/clusters.md: clusters of a batch system, by SSH, of Dask Gateway; Kubernetes by its schemas.

Their daemons are on this machine: `sbatch` is a script, the SSH server is asyncssh's, the backend
of the gateway starts processes.  What starts and reaches them is what does so elsewhere.
"""

import json
import os
import re
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from importlib.resources import files

import jsonschema
import kubernetes_validate
import pytest
import yaml

from fewpass.flows.cli import main
from fewpass.pipeline.clicks import write_clicks
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.passes.executor import PACKAGES, require_transport
from testing.prefect_server import free_port, patience, wait_for
from tests.conftest import PROJECT

PAGE = PROJECT / "docs/clusters.md"
TRAIN = ["--lam", "1e-3", "--passes", "2", "--json", "-q"]
PROGRAM = "#!/bin/sh\nexec '{}' -m distributed.cli.dask_{} \"$@\"\n"
SBATCH = '#!/bin/sh\nsetsid sh -c "$(cat "$1")" >> jobs.log 2>&1 &\necho "Submitted batch job $!"\n'
SCANCEL = '#!/bin/sh\nfor job in "$@"; do kill -- "-$job" "$job"; done 2>> jobs.log; true\n'
GATEWAY = """
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.SimpleAuthenticator.password = "secret"
c.DaskGateway.address = "127.0.0.1:{}"
c.Proxy.address = "127.0.0.1:{}"
c.Proxy.tcp_address = "127.0.0.1:{}"
c.UnsafeLocalBackend.clusters_directory = "{}"
c.UnsafeLocalBackend.inherited_environment = [
    "PATH", "PYTHONPATH", "HOME", "XDG_CACHE_HOME", "NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES",
]
c.UnsafeLocalBackend.sigterm_timeout = 1
c.ClusterConfig.worker_cores = 1
c.ClusterConfig.worker_memory = "2 G"
c.ClusterConfig.scheduler_cmd = "{}/dask-scheduler"
c.ClusterConfig.worker_cmd = "{}/dask-worker"
"""
pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with a data set, and with programs to be found first."""
    folder = tmp_path_factory.mktemp("clusters")
    write_clicks(folder / "clicks.svm", 300_000)
    assert main(["ingest", str(folder / "clicks.svm"), str(folder / "clicks"), "-q"]) == 0
    (folder / "bin").mkdir()
    programs = {
        f"dask-{word}": PROGRAM.format(sys.executable, word) for word in ("scheduler", "worker")
    }
    for name, text in (programs | {"sbatch": SBATCH, "scancel": SCANCEL}).items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return folder


@pytest.fixture
def here(work, monkeypatch):
    monkeypatch.chdir(work)
    monkeypatch.setenv("PATH", f"{work / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(PROJECT))
    return work


@pytest.fixture(scope="module")
def model(work):
    return trained(work, "here")


def trained(folder, run, *more):
    """Train by the command, in a process of its own; return the digest of the weights."""
    words = ["-m", "fewpass", "train", str(folder / "clicks"), str(folder / run), *TRAIN, *more]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["weights_sha256"]


def source(heading):
    """The page's Python below a heading."""
    return re.search(rf"## {heading}\n.*?```python\n(.*?)```", PAGE.read_text(), re.DOTALL)[1]


@contextmanager
def cluster_of(heading, end="cluster.close()", before="", **names):
    """The address of a cluster that the page's Python starts, in a process of its own.

    dask-jobqueue takes Ctrl-C over, and dask-gateway complains of closed loops when it is deleted.
    """
    lines = [before, *(f"{name} = {value!r}" for name, value in names.items())]
    program = "\n".join([*lines, source(heading), "input()", end])
    owner = subprocess.Popen(
        [sys.executable, "-u", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        yield owner.stdout.readline().strip()
    finally:
        owner.communicate("\n", timeout=patience(60))


def test_a_batch_system(here, model):
    loopback = {
        "scheduler-options": {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"},
        "worker-extra-args": ["--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0"],
        "local-directory": str(here),
    }
    settings = {f"jobqueue.slurm.{key}": value for key, value in loopback.items()}
    before = f"import dask, dask_jobqueue\ndask.config.set({settings!r})"
    with cluster_of("A batch system", before=before) as address:
        assert trained(here, "by-jobs", "--scheduler", address) == model


@contextmanager
def ssh_server(folder):
    """How to reach a server that runs what it is told, here."""
    words = [sys.executable, "-m", "testing.ssh_server", str(folder)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        port = int(server.stdout.readline())
        key = str(folder / "key")
        yield {"port": port, "client_keys": [key], "known_hosts": None, "username": "me"}
    finally:
        server.terminate()
        server.communicate()


def test_machines_with_ssh(here, model):
    with (
        ssh_server(here) as reached,
        cluster_of("Machines with SSH", CONNECT=reached, PYTHON=sys.executable) as address,
    ):
        assert trained(here, "by-ssh", "--scheduler", address) == model


def answers(address):
    """Whether the proxy knows its way to the server by now."""
    try:
        return urllib.request.urlopen(address, timeout=5).status == 200
    except OSError:
        return False


@contextmanager
def gateway_server(folder):
    ports = [free_port() for _ in range(3)]
    made = [folder / "gateway-clusters", folder / "bin", folder / "bin"]
    made[0].mkdir()
    (folder / "gateway.py").write_text(GATEWAY.format(*ports, *made))
    with (folder / "gateway.log").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "dask_gateway_server", "-f", str(folder / "gateway.py")],
            stdout=log, stderr=log, cwd=folder, start_new_session=True,
        )  # fmt: skip
    try:
        wait_for(lambda: answers(f"http://127.0.0.1:{ports[1]}/api/health"), 60, "a gateway")
        yield {"ADDRESS": f"http://127.0.0.1:{ports[1]}", "PROXY": f"tls://127.0.0.1:{ports[2]}"}
    finally:
        server.terminate()
        server.wait(30)


def test_dask_gateway(here, model, monkeypatch):
    for name, file in re.findall(r"(DASK\w+)=(\S+)", PAGE.read_text()):
        monkeypatch.setenv(name, str(here / file))
    with (
        gateway_server(here) as reached,
        cluster_of("Dask Gateway", "cluster.shutdown()", PASSWORD="secret", **reached) as address,
    ):
        assert trained(here, "by-gateway", "--scheduler", address) == model


def test_a_transport_whose_package_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(PACKAGES, "gateway", "no-such-package")
    with pytest.raises(BadInput, match="pip install no-such-package"):
        require_transport("gateway://127.0.0.1:8786/name")
    require_transport("tcp://127.0.0.1:8786")


def definitions():
    """The operator's schemas of its resources; pods are looked at apart."""
    text = (files("dask_kubernetes.operator") / "customresources/templates.yaml").read_text()
    found = yaml.safe_load(text)
    text = re.sub(r"python://dask_kubernetes/[^#]*(?=#)", "", json.dumps(found))
    found = json.loads(re.sub(r"python://k8s_crd_resolver/[^#]*#[^\"]*", "#/pod", text))
    return found | {"pod": {"type": "object"}}


def test_the_resource_for_kubernetes_is_valid():
    resource = yaml.safe_load((PROJECT / "deploy/dask-kubernetes.yaml").read_text())
    whole = definitions()
    schema = whole | {"$ref": "#/definitions/dask.k8s.api.v1.DaskCluster"}
    jsonschema.Draft202012Validator(schema).validate(resource)
    for part in ("scheduler", "worker"):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": part},
            "spec": resource["spec"][part]["spec"],
        }
        kubernetes_validate.validate(pod, kubernetes_validate.latest_version(), strict=True)
    with pytest.raises(jsonschema.ValidationError):
        broken = resource | {"spec": {"worker": {"replicas": "many"}}}
        jsonschema.Draft202012Validator(schema).validate(broken)
