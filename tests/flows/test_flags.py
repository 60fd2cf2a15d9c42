"""Below `fewpass.flows` nothing speaks of flags; the command line makes flags of the settings' names."""

import ast
import os
import re
import shlex
import subprocess

import pytest

from fewpass.flows.flags import in_flags
from tests.conftest import PROJECT


@pytest.mark.parametrize(
    ("sentence", "told"),
    [
        ("Count them as zeros (`missing=zero`).", "Count them as zeros (--missing zero)."),
        ("Leave `n_features` out.", "Leave --features out."),
        ("Say `by_position=true`.", "Say --by-position."),
        ("Ingest without `shuffle=false`.", "Ingest without --no-shuffle."),
        ("Use `solver.batch=aggressive`.", "Use --set solver.batch=aggressive."),
        ("Say `words=FILES`.", "Say --words FILES."),
        ("Explain some rows (`rows`).", "Explain some rows (--rows)."),
        ("Name it (`like=/data/my set`).", "Name it (--like '/data/my set')."),
        ("`fewpass resume RUN` and `no_setting=1` stay.", None),
    ],
)
def test_a_setting_becomes_an_option(sentence, told):
    assert in_flags(sentence) == (told or sentence)


@pytest.mark.parametrize(
    "name", ["user", "user id", "it's", "a\"b'c", "Größe", "-", "true", "a\x1b[1m\n\\é"]
)
def test_a_text_that_python_quotes_is_quoted_once(name):
    """What bash hands over is the name; a plain name has no quotes, and no escape is printed."""
    said = in_flags(f"Leave it out with `drop={name!r}`.")
    assert said.isprintable()
    found = subprocess.run(
        ["bash", "-c", f"printf %s {said[len('Leave it out with --drop ') : -1]}"],
        capture_output=True, check=True, env=os.environ | {"LC_ALL": "C.UTF-8"},
    )  # fmt: skip
    assert found.stdout.decode() == name
    assert ("'" in said) == (name != shlex.quote(name) or "'" in name)


FLAG = re.compile(r"(?:^|[\s(])(?<!var\()--[a-z]")


def sentences(path):
    """Text of a module that is no docstring."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value


def test_no_sentence_below_flows_has_a_flag():
    paths = [
        p
        for room in ("pipeline", "solvers", "storage")
        for p in (PROJECT / "fewpass" / room).rglob("*.py")
    ]
    assert len(paths) > 150
    maybe = [path for path in paths if re.search("--[a-z]", path.read_text(encoding="utf-8"))]
    found = [f"{path}: {text}" for path in maybe for text in sentences(path) if FLAG.search(text)]
    assert not found
