"""docs/commands.md is what the commands take."""

from tests.docs.commands_page import PAGE, page


def test_the_page_is_made_of_the_commands():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.commands_page"
