"""The project itself: its import names, who imports whom, one version."""

import ast
import subprocess
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

import fewpass
from fewpass.flows import refusals
from testing.imports import (
    PACKAGES,
    arrows_up,
    floors,
    going_round,
    graph,
    graph_of_rooms,
    in_circles,
)

PROJECT = Path(__file__).parents[1]


def test_one_import_name_is_ours_alone():
    """A user's own `pipeline.py` hides nothing of ours, and nothing of ours hides it."""
    assert Path(fewpass.__file__) == PROJECT / "fewpass/__init__.py"
    installed = {name for name, by in packages_distributions().items() if "fewpass" in by}
    assert {name for name in installed if not name.startswith("__editable__")} == {"fewpass"}


@cache
def imported(path):
    """The top-level names that a file imports, and where."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        found += [(name.partition(".")[0], f"{path}:{node.lineno}") for name in names]
    return found


@pytest.mark.parametrize(
    ("folder", "besides", "never"),
    [
        ("benchmarks", None, {"tests"}),
        ("tests", "tests/benchmarks", {"benchmarks"}),
        ("testing", None, {"tests", "benchmarks"}),
        *((name, None, {"tests", "benchmarks", "testing"}) for name in ("fewpass", *PACKAGES)),
    ],
)
def test_what_is_tested_knows_no_tests_and_these_no_benchmarks(folder, besides, never):
    files = [
        path
        for path in (PROJECT / folder).rglob("*.py")
        if besides is None or not path.is_relative_to(PROJECT / besides)
    ]
    assert files
    assert not [where for path in files for name, where in imported(path) if name in never]


@pytest.mark.parametrize(
    "folder", ["benchmarks", "examples", "tests", "testing", "fewpass", *PACKAGES]
)
def test_the_folders_at_the_top_are_imported_as_parts_of_fewpass(folder):
    """`import pipeline` works in a checkout, and would be a second copy of every class."""
    files = list((PROJECT / folder).rglob("*.py"))
    assert files
    assert not [where for path in files for name, where in imported(path) if name in PACKAGES]


def test_fewpass_has_links_to_the_folders_at_the_top():
    for name in PACKAGES:
        assert (PROJECT / "fewpass" / name).is_symlink()
        assert (PROJECT / "fewpass" / name).resolve() == PROJECT / name
        module = import_module(f"fewpass.{name}")
        assert Path(module.__file__) == PROJECT / "fewpass" / name / "__init__.py"


def test_fewpass_is_found_beside_a_clone_of_that_name(tmp_path):
    """A folder called `fewpass` in the working directory is no package, and hides none."""
    (tmp_path / "fewpass").mkdir()
    code = "import fewpass; print(fewpass.ingest.__module__)"
    found = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout == "fewpass.pipeline.api.making_data_sets\n"


def test_neither_modules_nor_rooms_import_each_other_in_a_circle():
    needs = graph(PROJECT)
    assert sum(map(len, needs.values())) > len(needs)
    assert not in_circles(needs), "circles, and what imports these"
    rooms = graph_of_rooms(PROJECT, needs)
    assert "fewpass.pipeline.training" in rooms
    assert "fewpass.pipeline.api" in rooms
    assert not in_circles(rooms), "rooms in circles, and what imports these"
    assert arrows_up(needs) == 0


def test_circles_floors_and_arrows_are_seen_where_there_are_some():
    needs = {
        "storage.a": {"storage.b"}, "storage.b": {"storage.c"}, "storage.c": {"storage.b"},
        "solvers.x": {"storage.a"}, "flows.y": {"storage.a"},
    }  # fmt: skip
    assert going_round(needs) == {"storage.b", "storage.c"}
    assert (floors(needs, "storage"), arrows_up(needs)) == (2, 1)


def test_there_is_one_version():
    """In pyproject.toml, and what cites it says the same."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = (PROJECT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {project['version']}\n" in cited
    assert version("fewpass") == project["version"]
    assert cited.count("  - type: article") == 5


def test_what_may_be_missing_is_said_with_its_extra():
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for module, extra in refusals.EXTRAS.items():
        library = {"sklearn": "scikit-learn"}.get(module, module.replace("_", "-"))
        assert any(line.startswith(library) for line in extras[extra])
        told = refusals.sentence(ModuleNotFoundError("No module", name=module))
        assert f"fewpass[{extra}]" in told
        assert not [d for d in project["dependencies"] if d.startswith(library)]
