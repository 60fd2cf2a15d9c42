"""docs/table-to-service.md, docs/serving.md, docs/exporting.md: every command and all Python."""

import re
import shlex
import sys

import pytest

from fewpass.flows import cli
from testing.demo_folder import copied
from tests.conftest import PROJECT
from tests.docs.notebook_of_page import NOTEBOOK, PAGE, blocks, notebook


@pytest.fixture(scope="module")
def place(demo, tmp_path_factory):
    """A folder after the demo alone, for all pages: a later one takes the run of the first."""
    return copied(demo, tmp_path_factory.mktemp("service"))


def walk(page, names):
    """Run commands and Python in the order of a page."""
    done = []
    for kind, content in blocks(page.read_text(encoding="utf-8")):
        for command in content.split("\n") if kind == "console" else ():
            assert cli.main(shlex.split(command.removeprefix("$ "))[1:]) == 0, command
        if kind == "python" and "sys.stdin" not in content:  # the scorer has a test of its own
            exec(compile(content, str(page), "exec"), names)
        done.append(kind)
    return done


@pytest.mark.filterwarnings("ignore:Using `httpx`")
def test_from_a_table_to_a_service(place, monkeypatch):
    """The page asserts that onnxruntime, DuckDB and the service say what `predict` says."""
    monkeypatch.chdir(place)
    done = walk(PAGE, {"__name__": "page"})
    assert done.count("python") == 6
    assert done.count("console") == 5


@pytest.mark.filterwarnings("ignore:Using `httpx`")
def test_the_application_of_the_page_serves(place, monkeypatch):
    from fastapi.testclient import TestClient

    monkeypatch.chdir(place)  # where the test before has left a run
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
def test_the_commands_of_the_page_on_exports(place, monkeypatch):
    import mlflow

    monkeypatch.chdir(place)
    before = mlflow.get_tracking_uri()
    try:
        assert walk(PROJECT / "docs/exporting.md", {}).count("console") == 2
    finally:
        mlflow.set_tracking_uri(before)
    made = {path.suffix for path in place.glob("visits.*")}
    assert made - {".csv"} == {".onnx", ".sql", ".json", ".mlflow"}


def test_the_notebook_is_the_page():
    assert NOTEBOOK.read_text(encoding="utf-8") == notebook(), (
        f"{sys.executable} -m tests.docs.notebook_of_page"
    )
