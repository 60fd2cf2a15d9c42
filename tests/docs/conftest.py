"""Where pages are walked: an empty folder, after the demo alone."""

import pytest

from testing.demo_folder import after_the_demo, copied


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A folder after the demo; of all tests of a process the same one."""
    return after_the_demo(tmp_path_factory.mktemp("demo"))


@pytest.fixture
def folder(demo, tmp_path, monkeypatch):
    """Where a page's commands run."""
    monkeypatch.chdir(copied(demo, tmp_path))
    return tmp_path
