"""The page of the Python API: everything that is offered is on it, with a docstring."""

import fewpass
from website.api_page import GROUPS, page


def test_everything_that_is_offered_is_on_the_page_and_has_a_docstring():
    assert sorted(name for group in GROUPS.values() for name in group) == fewpass.__all__
    for name in fewpass.__all__:
        assert len(getattr(fewpass, name).__doc__) > 20, name
    made = page()
    assert not [name for name in fewpass.__all__ if f"\n## {name}\n" not in made]
