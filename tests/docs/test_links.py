"""Pages: every link and every mention leads to a page, a figure or a heading that is there."""

import re
from pathlib import Path

import pytest

from tests.conftest import PROJECT

PAGES = sorted(
    page for folder in (".", "docs", "docs/papers", "docs/tutorials", "tests/data")
    for page in (PROJECT / folder).glob("*.md")
)  # fmt: skip
CODE = [
    *(path for name in ("flows", "pipeline", "solvers", "storage", "benchmarks", "tests")
      for path in (PROJECT / name).rglob("*.py")),
    PROJECT / "Makefile",
]  # fmt: skip


def headings(page):
    """The anchors of a page, as code forges make them of its headings."""
    found = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        place = page.parent / name if name else page
        assert place.exists(), target
        assert not anchor or anchor in headings(place), target
    for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|jsonl|png)", text):
        assert (PROJECT / name).exists(), name


def test_there_are_pages_and_links():
    """Else the test above could not fail."""
    assert len(PAGES) > 10
    assert sum(page.read_text(encoding="utf-8").count("](") for page in PAGES) > 50


def test_pages_that_code_names_are_there():
    named = {
        (name, path.relative_to(PROJECT))
        for path in CODE
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|jsonl)", path.read_text(encoding="utf-8"))
    }
    assert ("docs/extending.md", Path("solvers/registry.py")) in named
    assert not [pair for pair in named if not (PROJECT / pair[0]).exists()]
