"""docs/extending.md: its files, its lines and its commands, in a copy of the packages."""

import os
import re
import shlex
import shutil

import pytest

from testing.one_process import run_all
from tests.conftest import PROJECT

PAGE = (PROJECT / "docs/extending.md").read_text(encoding="utf-8")
PROGRAMS = PROJECT / "examples/extending"
#: A file there that the page says is a part of the package.
PART = re.compile(r"/examples/extending/(\w+\.py)\) goes to `([\w/]+\.py)`")
#: A block of code or of commands, and the last line of the text before it.
BLOCK = re.compile(r"([^\n]*)\n\n```(\w+)\n(.*?)```", re.DOTALL)


def place_programs(packages, work):
    """Copy the files that the page names into the package, the programs into the folder of work."""
    parts = dict(PART.findall(PAGE))
    assert len(parts) == 3
    for path in PROGRAMS.glob("*.py"):
        to = packages / "fewpass" / parts[path.name] if path.name in parts else work / path.name
        assert not to.exists(), to
        shutil.copy(path, to)


def place(text, code, packages):
    """Write a file where the text says, or the line into the dictionary that it names."""
    line = re.search(r"in `([\w/]+\.py)`, in `(\w+)`:$", text)
    if line:
        path, name = packages / "fewpass" / line[1], line[2]
        source = path.read_text()
        assert source.count(f"\n{name} = {{\n") == 1
        path.write_text(source.replace(f"\n{name} = {{\n", f"\n{name} = {{\n{code}"))
        return
    name = re.search(r"`([\w/]+\.py)`:$", text)[1]
    path = packages / "fewpass" / name
    assert not path.exists(), name
    path.write_text(code)


def commands_of(session):
    """The commands of a session, and what each prints."""
    for part in re.split(r"^\$ ", session, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        yield shlex.split(command), shown


@pytest.mark.timeout(900)
def test_what_the_page_shows_works(tmp_path):
    packages, work = tmp_path / "copy", tmp_path / "work"
    work.mkdir()
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PROJECT / "fewpass", packages / "fewpass", ignore=ignored)
    environment = os.environ | {
        "PYTHONPATH": str(packages)
    }  # whose kernels are kept, as others are
    blocks = BLOCK.findall(PAGE)
    assert sum(kind == "python" for _, kind, _ in blocks) == 7
    place_programs(packages, work)
    for text, kind, content in blocks:
        if kind == "python":
            place(text, content, packages)
    # All is there before the first command: what one section adds would have the kernels of the
    # sections before compiled anew.
    sessions = [content for _, kind, content in blocks if kind == "console"]
    commands, shown = zip(*(c for s in sessions for c in commands_of(s)), strict=True)
    for command, said, expected in zip(
        commands, run_all(commands, work, environment), shown, strict=True
    ):
        assert said.status == 0, f"{command}\n{said.err[-2000:]}"
        assert said.out == expected, command
