"""Docstrings describe parameters that there are, and name files that there are; comments do, too."""

import ast
import re

import pytest

from testing.imports import PACKAGES
from tests.conftest import PROJECT

MODULES = [path for name in PACKAGES for path in sorted((PROJECT / name).rglob("*.py"))]
PARAMETERS = re.compile(r"^Parameters\n-+\n(.*?)(?=^\w[\w ]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"(?<![\w/.])[a-z]\w*(?:/\w+)*\.py\b")


def documented(text):
    """What has a docstring, and this."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (said := ast.get_docstring(node)):
            yield node, said


def described(said):
    """The parameters that a docstring describes."""
    for section in PARAMETERS.findall(said):
        heads = (line for line in section.splitlines() if line and not line.startswith(" "))
        for head in heads:
            yield from (name.strip(" *") for name in head.partition(":")[0].split(","))


def taken(node):
    """The parameters of a function or a class; None of a class that inherits them."""
    if isinstance(node, ast.ClassDef):
        made = [n for n in node.body if getattr(n, "name", "") == "__init__"]
        if made:
            return taken(made[0])
        if [ast.unparse(base) for base in node.bases] != ["NamedTuple"]:
            return None
        return {ast.unparse(n.target) for n in node.body if isinstance(n, ast.AnnAssign)}
    args = node.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return {arg.arg.lstrip("_") for arg in every if arg is not None}


def misnamed(text):
    """The parameters that docstrings describe and nothing takes."""
    for node, said in documented(text):
        known = taken(node)
        yield from (name for name in described(said) if known is not None and name not in known)


def lost(text):
    """The files that comments and docstrings name and nobody has."""
    lines = [line for line in text.splitlines() if '"' not in line.replace('"""', "")]
    files = [f"/{path.as_posix()}" for path in (*MODULES, *(PROJECT / "examples").glob("*.py"))]
    for name in FILE.findall("\n".join(lines)):
        if not any(file.endswith(f"/{name}") for file in files):
            yield name


@pytest.mark.parametrize("wrong", [misnamed, lost])
def test_what_is_named_is_there(wrong):
    found = {str(path): [*wrong(path.read_text(encoding="utf-8"))] for path in MODULES}
    assert not {path: names for path, names in found.items() if names}


def test_what_is_not_there_is_seen():
    said = '"""Do (solvers/protocol.py, no/such.py).\n\n    Parameters\n    ----------\n    {}, b\n    """'
    assert [*misnamed(f"def do(a, b):\n    {said.format('a')}\n")] == []
    assert [*misnamed(f"def do(a, b):\n    {said.format('c')}\n")] == ["c"]
    assert [*lost(said)] == ["no/such.py"]
