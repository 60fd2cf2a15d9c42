"""docs/extending.md: its files, its lines and its commands, in a copy of the packages."""

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest

from tests.conftest import PROJECT

PACKAGES = ("flows", "pipeline", "solvers", "storage")
PAGE = (PROJECT / "docs/extending.md").read_text(encoding="utf-8")
#: A block of code or of commands, and the last line of the text before it.
BLOCK = re.compile(r"([^\n]*)\n\n```(\w+)\n(.*?)```", re.DOTALL)
FEWPASS = "from flows.cli import main; import sys; sys.exit(main())"


def place(text, code, packages, work):
    """Write a file where the text says, or the line into the dictionary that it names."""
    line = re.search(r"in `([\w/]+\.py)`, in `(\w+)`:$", text)
    if line:
        path, name = packages / line[1], line[2]
        source = path.read_text()
        assert source.count(f"\n{name} = {{\n") == 1
        path.write_text(source.replace(f"\n{name} = {{\n", f"\n{name} = {{\n{code}"))
        return
    name = re.search(r"`([\w/]+\.py)`:$", text)[1]
    root = packages if name.startswith(PACKAGES) else work
    assert not (root / name).exists(), name
    (root / name).write_text(code)


def run(session, work, environment):
    """Run the commands of a session; each prints what is shown under it, and nothing else."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        program, *arguments = shlex.split(command)
        asked = ["-c", FEWPASS, *arguments] if program == "fewpass" else arguments
        done = subprocess.run(
            [sys.executable, *asked], cwd=work, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{command}\n{done.stderr[-2000:]}"
        assert done.stdout == shown, command


@pytest.mark.timeout(900)
def test_what_the_page_shows_works(tmp_path):
    packages, work = tmp_path / "copy", tmp_path / "work"
    work.mkdir()
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(PROJECT / name, packages / name, ignore=ignored)
    environment = os.environ | {"PYTHONPATH": str(packages), "XDG_CACHE_HOME": str(tmp_path)}
    blocks = BLOCK.findall(PAGE)
    assert sum(kind == "python" for _, kind, _ in blocks) == 13
    for text, kind, content in blocks:
        if kind == "python":
            place(text, content, packages, work)
        else:
            run(content, work, environment)
