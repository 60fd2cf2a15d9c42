"""deploy/helm by Helm itself: python -m tests.docs.charts CHARTS

CHARTS is a folder with the charts of Prefect and Dask, unpacked (`helm pull --untar prefect/prefect-server` and so
on).  Helm checks the values by the charts' own schemas and fills their templates in; what comes of
it is looked at by the schemas of Kubernetes, and for what our image has: the programs that are
started, and its user.
"""

import re
import subprocess
import sys
from pathlib import Path

import kubernetes_validate
import yaml

from testing.prefect_server import PROJECT

DOCKERFILE = (PROJECT / "deploy/Dockerfile").read_text()
PROGRAMS = {"/usr/bin/tini", "prefect", "dask", *re.findall(r"> (/\S+)", DOCKERFILE)}


def manifests(charts, name):
    """What Helm makes of a chart and our values; an error where it refuses them."""
    values = PROJECT / f"deploy/helm/{name}.yaml"
    words = ["helm", "template", name, str(charts / name), "-n", "fewpass", "-f", str(values)]
    made = subprocess.run(words, capture_output=True, text=True, check=False)
    if made.returncode:
        sys.exit(made.stderr)
    return [one for one in yaml.safe_load_all(made.stdout) if one]


def faults(manifest):
    """What is wrong with a resource, in sentences."""
    try:
        kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        yield error.message
    pod = manifest.get("spec", {}).get("template", {}).get("spec", {})
    for container in pod.get("containers", ()):
        yield from _faults_of(container, pod.get("securityContext") or {})


def _faults_of(container, of_pod):
    if not container["image"].startswith("registry.example.com/fewpass:"):
        yield f"the image is {container['image']}"
    started = [*container.get("command", ()), *container.get("args", ())]
    named = [word for word in started if word.startswith("/") and word != "/tmp"]
    programs = [*named, next((word for word in started if word[0] not in "/-"), "")]
    own = {Path(name).name for name in PROGRAMS} | PROGRAMS
    yield from (f"the image has no {word}" for word in programs if word not in own)
    context = of_pod | (container.get("securityContext") or {})
    if (context.get("runAsUser"), context.get("runAsNonRoot")) != (1000, True):
        yield f"it runs as {context}"
    names = [one["name"] for one in container.get("env", ())]
    yield from (f"{name} is set twice" for name in {n for n in names if names.count(n) > 1})


def main():
    """Look at the three; exit with 1 where something is wrong."""
    charts, status = Path(sys.argv[1]).absolute(), 0
    for file in sorted((PROJECT / "deploy/helm").glob("*.yaml")):
        made = manifests(charts, file.stem)
        wrong = [
            f"{one['kind']} {one['metadata']['name']}: {f}" for one in made for f in faults(one)
        ]
        status |= bool(wrong)
        sys.stdout.write(f"{file.stem}: {len(made)} resources, {len(wrong)} faults\n")
        sys.stdout.writelines(f"  {line}\n" for line in wrong)
    return status


if __name__ == "__main__":
    sys.exit(main())
