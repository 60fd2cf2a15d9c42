"""The words of losses, penalties and methods stand in their classes and in the registry, nowhere else."""

import ast

import pytest

from fewpass.solvers.registry import KINKED_METHODS, LOSSES, METHODS, PENALTIES
from tests.conftest import PROJECT

REGISTRY = "solvers/registry.py"
WORDS = {*LOSSES, *METHODS, *PENALTIES}
HOMES = {
    place.partition(":")[0].removeprefix("fewpass.").replace(".", "/") + ".py"
    for words in (LOSSES, METHODS, KINKED_METHODS, PENALTIES)
    for place in words.values()
}


def words_in(path):
    """Constants that are the word of a loss or a method, and their lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and node.value in WORDS:
            yield node.value, node.lineno


def own_words(path):
    """Lines in which a class names itself: `name = ...`, `kind: Literal[...] = ...`, `def name`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            for line in node.body:
                targets = (
                    line.targets
                    if isinstance(line, ast.Assign)
                    else [getattr(line, "target", None)]
                )
                if isinstance(line, ast.FunctionDef) and line.name == "name":
                    yield from range(line.lineno, line.end_lineno + 1)
                if any(isinstance(t, ast.Name) and t.id in ("name", "kind") for t in targets):
                    yield line.lineno


@pytest.mark.parametrize("package", ["solvers", "storage", "pipeline", "flows"])
def test_no_other_module_names_a_loss_or_a_method(package):
    home = PROJECT / "fewpass"
    paths = list((home / package).rglob("*.py"))
    assert paths
    found = []
    for path in paths:
        place = str(path.relative_to(home))
        own = set(own_words(path)) if place in HOMES else set()
        if place != REGISTRY:
            found += [f"{place}:{line} {word}" for word, line in words_in(path) if line not in own]
    assert not found


def test_words_would_be_seen():
    home = PROJECT / "fewpass"
    assert {word for word, _ in words_in(home / REGISTRY)} == WORDS
    assert all(list(own_words(home / place)) for place in HOMES)
