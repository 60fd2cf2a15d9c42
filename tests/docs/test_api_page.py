"""docs/api.md is what the docstrings say."""

import fewpass
from tests.docs.api_page import GROUPS, PAGE, page


def test_the_page_is_made_of_the_docstrings():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.api_page"


def test_everything_that_is_offered_is_on_the_page_and_has_a_docstring():
    assert sorted(name for group in GROUPS.values() for name in group) == fewpass.__all__
    for name in fewpass.__all__:
        assert len(getattr(fewpass, name).__doc__) > 20, name
