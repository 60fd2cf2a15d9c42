"""docs/design.md names files and folders that are there."""

import re

from testing.imports import PACKAGES
from tests.conftest import PROJECT

FOLDERS = (*PACKAGES, "benchmarks", "fewpass", "tests")
PLACES = [path.relative_to(PROJECT) for name in FOLDERS for path in (PROJECT / name).rglob("*")]
PATH = re.compile(r"`([\w/]+(?:/|\.py))[:`]")
NAME = re.compile(r"`([a-z_]+)`")


def missing(page):
    """The paths that a page names, and the modules that its section of folders does, without any."""
    ends = [f"/{path.as_posix()}{'/' * (not path.suffix)}" for path in PLACES]
    ends += [f"/{name}/" for name in FOLDERS]
    yield from (
        path for path in PATH.findall(page) if not any(end.endswith(f"/{path}") for end in ends)
    )
    stems = {path.stem for path in PLACES}
    folders = page.partition("## 6. Folders")[2].partition("\n## ")[0]
    yield from (name for name in NAME.findall(folders) if name not in stems)


def test_what_the_design_names_is_there():
    page = (PROJECT / "docs/design.md").read_text(encoding="utf-8")
    assert len(PATH.findall(page)) > 40
    assert not [*missing(page)]


def test_what_is_not_there_is_seen():
    said = "`solvers/protocol.py`, `no/such.py: x`, `nothing/`\n## 6. Folders\n`protocol`, `gone`\n## 7"
    assert [*missing(said)] == ["no/such.py", "nothing/", "gone"]
