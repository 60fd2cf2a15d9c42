"""docs/table-to-service.md, docs/serving.md, docs/exporting.md: every command and all Python."""

import contextlib
import re
import shlex
import shutil
import sys

import pytest

from fewpass.flows import cli
from testing.demo_folder import copied
from tests.conftest import PROJECT
from tests.docs.notebook_of_page import NOTEBOOK, PAGE, blocks, notebook


@pytest.fixture(scope="module")
def trained(demo, tmp_path_factory):
    """A folder after the demo, with the run that all these pages are about."""
    place = copied(demo, tmp_path_factory.mktemp("service"))
    first = next(content for kind, content in blocks(PAGE.read_text("utf-8")) if kind == "console")
    with contextlib.chdir(place):
        for command in first.split("\n")[:2]:
            assert cli.main(words_of(command)) == 0, command
    return place


@pytest.fixture
def place(trained, tmp_path, monkeypatch):
    """Where a page's commands run: such a folder of its own."""
    shutil.copytree(trained, tmp_path / "service")
    monkeypatch.chdir(tmp_path / "service")
    return tmp_path / "service"


def words_of(command):
    return shlex.split(command.removeprefix("$ fewpass "))


def walk(page, names):
    """Run commands and Python in the order of a page."""
    done = []
    for kind, content in blocks(page.read_text(encoding="utf-8")):
        for command in content.split("\n") if kind == "console" else ():
            assert cli.main(words_of(command)) == 0, command
        if kind == "python" and "sys.stdin" not in content:  # the scorer has a test of its own
            exec(compile(content, str(page), "exec"), names)
        done.append(kind)
    return done


@pytest.mark.filterwarnings("ignore:Using `httpx`")
def test_from_a_table_to_a_service(folder):
    """The page asserts that onnxruntime, DuckDB and the service say what `predict` says."""
    done = walk(PAGE, {"__name__": "page"})
    assert done.count("python") == 6
    assert done.count("console") == 5


@pytest.mark.filterwarnings("ignore:Using `httpx`")
def test_the_application_of_the_page_serves(place):
    from fastapi.testclient import TestClient

    names = {"__name__": "app"}
    walk(PROJECT / "docs/serving.md", names)
    client = TestClient(names["app"])
    row = names["row"]
    one = client.post("/predict", json=row).json()
    assert one == names["model"].predict_one(row) | {"version": names["model"].version}
    assert client.post("/predict-many", json=[row, row]).json() == [one["label"]] * 2
    assert client.get("/health").json()["columns"] == list(names["model"].columns)
    for path, body in (
        ("/predict", {"country": "Japan"}),
        ("/predict-many", [row | {"seen": "?x1"}]),
    ):
        refused = client.post(path, json=body)
        assert refused.status_code == 422
        assert re.search("no column 'seen'|Column 'seen'", refused.json()["detail"])


@pytest.mark.filterwarnings("ignore")  # of MLflow's own modules
def test_the_commands_of_the_page_on_exports(place):
    assert walk(PROJECT / "docs/exporting.md", {}).count("console") == 2
    made = {path.suffix for path in place.glob("visits.*")}
    assert made == {".onnx", ".sql", ".json", ".mlflow"}


def test_the_notebook_is_the_page():
    assert NOTEBOOK.read_text(encoding="utf-8") == notebook(), (
        f"{sys.executable} -m tests.docs.notebook_of_page"
    )
