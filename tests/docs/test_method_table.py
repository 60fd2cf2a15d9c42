"""The table of docs/methods.md of what takes which loss and penalty is what the classes declare."""

from tests.docs.method_table import PAGE, page


def test_the_page_has_the_table_of_the_classes():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.docs.method_table"
