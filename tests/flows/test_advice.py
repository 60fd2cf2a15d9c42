"""Advice can be typed as it stands, and what was swapped is told by what it is."""

import ast
import re
import shlex

import pytest

from fewpass.flows.beginning import beginning
from fewpass.flows.cli import main
from fewpass.flows.command_line import call_of
from fewpass.flows.flags import in_flags
from fewpass.flows.listed_commands import command_named, function_of
from testing.datasets import make
from testing.imports import PACKAGES
from tests.conftest import PROJECT
from tests.flows.test_flags import sentences
from tests.storage.test_kinds import made

BACKTICKED = re.compile(r"`(fewpass [^`]+)`")
STANDS_FOR = "1"  # a name, a path and a number, whichever is wanted


def modules():
    """Those that may advise a command: to look through the trees of all takes seconds."""
    found = sorted(path for name in PACKAGES for path in (PROJECT / name).rglob("*.py"))
    assert len(found) > 400
    texts = {path: path.read_text(encoding="utf-8") for path in found}
    return [path for path, text in texts.items() if "fewpass " in text or "command(" in text]


def called_commands():
    """Words of every `command(...)` whose first one stands there."""
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id == "command"
                and node.args
                and isinstance(node.args[0], ast.Constant)
            ):
                words = [arg for arg in node.args if not isinstance(arg, ast.Starred)]
                if len(words) == 1 < len(node.args):
                    continue  # what is run is shown, too: the demo's
                yield [a.value if isinstance(a, ast.Constant) else STANDS_FOR for a in words]


def written_commands():
    """Words of every command between backticks, in texts that are told."""
    for path in modules():
        for text in sentences(path):
            for found in BACKTICKED.findall(text):
                if len(shlex.split(found)) > 2:
                    yield shlex.split(found)[1:]


def require_call(tokens):
    """Read a command line, and call nothing; UsageError where it means nothing."""
    words = command_named(tokens)
    assert words, tokens
    call_of(words, function_of(words), tokens[len(words.split()) :])


def test_every_command_that_is_advised_is_one():
    told = [*called_commands(), *written_commands()]
    assert len(told) > 20
    verbs = set()
    for words in told:
        words = [STANDS_FOR if word.isupper() else word for word in words]
        require_call(words)
        verbs.add(words[0])
    assert {"train", "ingest", "resume", "inspect", "store"} <= verbs


def test_what_is_said_first_can_be_typed(tmp_path):
    lines = [line.strip() for line in beginning(tmp_path).splitlines()]
    told = [line for line in lines if re.match(r"fewpass [a-z]+ [A-Z]", line)]
    assert len(told) >= 5
    for line in told:
        require_call(shlex.split(line)[1:])


def test_a_folder_with_somebody_s_manifest_is_no_data_set(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "manifest.json").write_text("{}")
    assert "fewpass train app" not in beginning(tmp_path)
    make(tmp_path / "rows", 20, 3, 10)
    assert "fewpass train rows rows-model" in beginning(tmp_path)


@pytest.mark.parametrize("value", ["my data", "it's", "a;b", "x=$HOME"])
def test_a_value_in_a_sentence_is_one_word_of_a_command_line(value):
    said = in_flags(f"Name it (`like={value}`).")
    assert shlex.split(said[len("Name it (") : -2]) == ["--like", value]


SWAPPED = {
    ("ingest", "@", "out"): {"data set", "run", "store", "unfinished"},
    ("ingest", "t.csv", "out", "--like", "@"): {"run", "snapshot", "store", "folder", "file"},
    ("train", "@", "out"): {"run", "store", "unfinished"},
    ("train", "--plan", "@"): {"run", "store"},
    ("resume", "@"): {"data set", "snapshot", "store", "folder", "file"},
    ("evaluate", "@", "t.csv"): {"data set", "snapshot", "folder", "file"},
    ("predict", "@", "t.csv", "out.csv"): {"data set", "snapshot", "folder", "file"},
    ("report", "@"): {"data set", "snapshot", "store", "file"},
    ("explain", "@"): {"data set", "snapshot", "file"},
    ("export", "@", "out.onnx"): {"data set", "snapshot", "file"},
    ("inspect", "@"): {"store", "folder", "file", "unfinished"},
    ("column-copy", "@"): {"run", "snapshot", "store", "file"},
    ("store", "list", "@"): {"data set", "run", "folder", "file"},
    ("store", "publish", "@", "1"): {"data set", "run", "file"},
    ("dashboard", "@"): {"data set", "snapshot", "file"},
}
CALLED = {
    "data set": "is a data set", "run": "is a run", "snapshot": "is a snapshot of a run",
    "store": "is the store of a refresh", "unfinished": "is a data set whose ingest is not finished",
    "folder": "is a folder of other files", "file": "is a file",
}  # fmt: skip


@pytest.mark.parametrize("words", SWAPPED, ids=" ".join)
def test_what_is_swapped_is_told_by_what_it_is(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,label\n1,x\n2,y\n")
    for kind in SWAPPED[words]:
        place = tmp_path / f"a {kind}"
        if kind == "snapshot":
            place = place / "snapshots/000001.safetensors"
            place.parent.mkdir(parents=True)
        if kind in ("file", "snapshot"):
            place.write_text("a,label\n1,x\n2,y\n")
        else:
            made(place, kind)
        before = sorted(tmp_path.rglob("*"))
        assert main([word.replace("@", str(place)) for word in words]) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"{place} {CALLED[kind]}" in said, said
        assert "expected" in said
        assert sorted(tmp_path.rglob("*")) == before


def test_a_run_is_begun_in_nothing_of_another_kind(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("a,label\n" + "".join(f"{k},{k % 2}\n" for k in range(40)))
    made(tmp_path / "d", "data set")
    before = sorted((tmp_path / "d").rglob("*"))
    assert main(["train", "t.csv", "d", "--label", "label"]) == 2
    assert "a folder for a new run was expected" in " ".join(capsys.readouterr().err.split())
    assert sorted((tmp_path / "d").rglob("*")) == before


@pytest.mark.parametrize("address", ["hdfs://host/a.csv", "ftp://host/a.csv", "dbfs://a"])
def test_other_protocols_are_told_with_those_that_there_are(address, capsys):
    for words in (["ingest", address, "out"], ["train", address, "out"], ["inspect", address]):
        assert main(words) == 2
        said = " ".join(capsys.readouterr().err.split())
        assert f"{address.partition(':')[0]} is not supported; supported are paths" in said
