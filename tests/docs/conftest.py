"""Where pages are walked: an empty folder, after the demo alone."""

import pytest

from fewpass.pipeline.settings import ingest_plan
from testing.demo_folder import after_the_demo, copied


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A folder after the demo; of all tests of a process the same one."""
    return after_the_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture
def folder(demo, tmp_path, monkeypatch):
    """Where a page's commands run, on a demo of few rows in chunks that are as small."""
    monkeypatch.setattr(ingest_plan, "CHUNK_BYTES", 1 << 16)
    monkeypatch.chdir(copied(demo, tmp_path))
    return tmp_path
