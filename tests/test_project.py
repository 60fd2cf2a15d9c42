"""The project itself: its import names, who imports whom, one version."""

import ast
import importlib
import tomllib
from importlib.metadata import packages_distributions, version
from pathlib import Path

import pytest

from flows import errors

PROJECT = Path(__file__).parents[1]
PACKAGES = ["flows", "pipeline", "solvers", "storage"]


@pytest.mark.parametrize("name", PACKAGES)
def test_import_names_are_ours_alone(name):
    found = importlib.import_module(name).__file__
    assert Path(found) == PROJECT / name / "__init__.py"
    assert set(packages_distributions().get(name, ["fewpass"])) == {"fewpass"}


def imported(path):
    """The top-level names that a file imports, and where."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        yield from ((name.partition(".")[0], f"{path}:{node.lineno}") for name in names)


@pytest.mark.parametrize(
    ("folder", "besides", "never"),
    [
        ("benchmarks", None, {"tests"}),
        ("tests", "tests/benchmarks", {"benchmarks"}),
        ("testing", None, {"tests", "benchmarks"}),
        *((package, None, {"tests", "benchmarks", "testing"}) for package in PACKAGES),
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


def modules():
    """Every module of the packages by its name, and its file."""
    for path in (path for package in PACKAGES for path in (PROJECT / package).rglob("*.py")):
        parts = path.relative_to(PROJECT).with_suffix("").parts
        yield ".".join(parts[: -1 if parts[-1] == "__init__" else None]), path


def imports_of(node, known):
    """The modules that code imports when it runs, inside functions, too; a checker's are left out."""
    if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    if isinstance(node, ast.Import):
        yield from (a.name for a in node.names if a.name in known)
    elif isinstance(node, ast.ImportFrom) and node.module:
        for name in node.names:
            whole = f"{node.module}.{name.name}"
            yield from (n for n in [whole if whole in known else node.module] if n in known)
    for child in ast.iter_child_nodes(node):
        yield from imports_of(child, known)


def room_of(name, path):
    """The folder of a module, or the module itself where it stands beside the rooms of a package."""
    folder = name if path.name == "__init__.py" else name.rpartition(".")[0]
    return folder if "." in folder else name


def in_circles(needs):
    """What is left when whatever needs nothing else is taken away, again and again."""
    while free := {name for name, its in needs.items() if not its & needs.keys()}:
        needs = {name: its for name, its in needs.items() if name not in free}
    return needs


def test_neither_modules_nor_rooms_import_each_other_in_a_circle():
    known = dict(modules())
    needs = {
        name: set(imports_of(ast.parse(path.read_text(encoding="utf-8")), known))
        for name, path in known.items()
    }
    assert sum(map(len, needs.values())) > len(needs)
    assert not in_circles(needs), "circles, and what imports these"
    room = {name: room_of(name, path) for name, path in known.items()}
    rooms = {one: set() for one in room.values()}
    for name, its in needs.items():
        rooms[room[name]] |= {room[other] for other in its} - {room[name]}
    assert "pipeline.training" in rooms
    assert "pipeline.api" in rooms
    assert not in_circles(rooms), "rooms in circles, and what imports these"


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
    for module, extra in errors.EXTRAS.items():
        library = {"sklearn": "scikit-learn"}.get(module, module.replace("_", "-"))
        assert any(line.startswith(library) for line in extras[extra])
        told = errors.sentence(ModuleNotFoundError("No module", name=module))
        assert f"fewpass[{extra}]" in told
        assert not [d for d in project["dependencies"] if d.startswith(library)]
