"""The pods of deploy/helm without Kubernetes: python -m tests.faults.pods FOLDER CHARTS

Runs the containers that Helm's templates come to (tests/docs/charts.py) in the image that
`tests.faults.composition` made in FOLDER: their commands, variables, users and folders, on a root
that cannot be written; and asks their probes.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from testing.prefect_server import wait_for
from tests.docs.charts import manifests
from tests.faults.composition import DOCKERFILE
from tests.faults.dockerfile import build
from tests.flows.orchestration.test_postgres import Postgres

#: What the charts make names of, inside a cluster.
HOSTS = ("prefect-server.fewpass.svc.cluster.local", "dask-scheduler")
PROBES = {"prefect-server": "readinessProbe", "prefect-worker": "livenessProbe",
          "dask-scheduler": "readinessProbe"}  # fmt: skip


def variables(container, secrets):
    """The environment of a container."""
    return {
        one["name"]: one["value"] if "value" in one else secrets.get(
            one["valueFrom"]["secretKeyRef"]["key"], "x"
        )
        for one in container.get("env", ())
    }  # fmt: skip


def started(image, pod, secrets, log):
    """A container of a pod, running."""
    (container,) = pod["containers"]
    context = pod.get("securityContext", {}) | container.get("securityContext", {})
    image.user = f"{context['runAsUser']}:{context['runAsUser']}"
    scratch = [(one["mountPath"], "mode=1777") for one in container.get("volumeMounts", ())]
    for folder, _ in scratch:
        (image.root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)
    first = container.get("command") or image.entrypoint
    image.place = container.get("workingDir", image.place)
    with log.open("ab") as out:
        return image.process(
            [*first, *container["args"]], context.get("readOnlyRootFilesystem", False), scratch,
            variables(container, secrets), stdout=out, stderr=subprocess.STDOUT,
        )  # fmt: skip


def answers(container, name):
    """Whether its probe is content."""
    asked = container[PROBES[name]]["httpGet"]
    try:
        with urllib.request.urlopen(
            f"http://127.0.0.1:{asked['port']}{asked['path']}", timeout=5
        ) as answer:
            return answer.status == 200
    except OSError:
        return False


def main(folder, charts):
    """Run the pods, one after the other, in a network of their own."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with contextlib.ExitStack() as running:
        postgres = Postgres(running.enter_context(tempfile.TemporaryDirectory()))
        running.callback(postgres.stop)
        postgres.make()
        secrets = {"connection-string": postgres.url}
        for name in ("prefect-server", "dask", "prefect-worker"):
            for one in manifests(charts, name):
                if one["kind"] != "Deployment":
                    continue
                image = build(DOCKERFILE.read_text(), folder, folder / "base")
                hosts = "".join(f"127.0.0.1 {host}\n" for host in ("localhost", *HOSTS))
                (image.root / "etc/hosts").write_text(hosts)
                pod, own = one["spec"]["template"]["spec"], one["metadata"]["name"]
                log, began = folder / f"pod-{own}.log", time.monotonic()
                process = started(image, pod, secrets, log)
                running.callback(process.kill)
                if own in PROBES:
                    wait_for(lambda c=pod["containers"][0], n=own: answers(c, n), 120, own)
                else:
                    time.sleep(15)
                assert process.poll() is None, log.read_text()[-3000:]
                seen = "its probe is content" if own in PROBES else "it runs"
                sys.stdout.write(f"| `{own}` | {seen} after {time.monotonic() - began:.0f} s |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    if "--inside" in sys.argv:
        main(*(Path(word).absolute() for word in sys.argv[1:3]))
    else:
        own = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        os.execvp(
            own[0], [*own, sys.executable, "-m", "tests.faults.pods", *sys.argv[1:], "--inside"]
        )
