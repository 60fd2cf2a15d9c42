"""Pages that are made with the site, of docstrings, of commands, and of docs/*.jsonl."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks import additive_page, evidence
from benchmarks.suite.page import RESULTS, newest
from benchmarks.suite.page import page as performance
from tests.faults import page as trust
from website import api_page, commands_page

#: What makes each page, by its name on the site.
MADE: dict[str, Callable[[], str]] = {
    "api.md": api_page.page,
    "commands.md": commands_page.page,
    "evidence.md": evidence.page,
    "additive-measured.md": additive_page.page,
    "performance.md": lambda: performance(newest(RESULTS, quick=False)),
    "trust.md": trust.page,
}
