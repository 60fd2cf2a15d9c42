"""Pages: every link and every mention leads to a page, a figure or a heading that is there."""

import os
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from website.made_pages import MADE

MADE_PAGES = {PROJECT / "docs" / name: make for name, make in MADE.items()}
PAGES = sorted(
    [page for folder in (".", "docs", "docs/papers", "docs/tutorials", "tests/data")
     for page in (PROJECT / folder).glob("*.md")] + [*MADE_PAGES]
)  # fmt: skip
CODE = [
    *(path for name in ("flows", "pipeline", "solvers", "storage", "benchmarks", "tests")
      for path in (PROJECT / name).rglob("*.py")),
    PROJECT / "Makefile",
]  # fmt: skip


@cache
def text_of(page):
    """The text of a page, which the site may make."""
    return MADE_PAGES[page]() if page in MADE_PAGES else page.read_text(encoding="utf-8")


def is_there(path):
    return path.exists() or path in MADE_PAGES


def headings(page):
    """The anchors of a page, as code forges make them of its headings."""
    found = re.findall(r"^#+ (.+)$", text_of(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(PROJECT)))
def test_links_lead_somewhere(page):
    text = re.sub(r"```.*?```", "", text_of(page), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        place = Path(os.path.normpath(page.parent / name)) if name else page
        assert is_there(place), target
        assert not anchor or anchor in headings(place), target
    for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|jsonl|png)", text):
        assert is_there(PROJECT / name), name


def test_there_are_pages_and_links():
    """Else the test above could not fail."""
    assert len(PAGES) > 10
    assert sum(text_of(page).count("](") for page in PAGES) > 50


def test_pages_that_code_names_are_there():
    named = {
        (name, path.relative_to(PROJECT))
        for path in CODE
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|jsonl)", path.read_text(encoding="utf-8"))
    }
    assert ("docs/extending.md", Path("solvers/registry.py")) in named
    assert not [pair for pair in named if not is_there(PROJECT / pair[0])]
