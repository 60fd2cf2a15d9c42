"""docs/trust.md is made of the committed results alone."""

from tests.faults.campaign import RESULTS
from tests.faults.page import PAGE, page, read
from tests.faults.promises import PROMISES


def test_the_page_is_made_of_the_results():
    about, rows = read(RESULTS)
    assert page(about, rows) == PAGE.read_text()


def test_every_promise_was_tried():
    _, rows = read(RESULTS)
    tried = {row["promise"] for row in rows if row["how"]}
    assert tried | {"P6"} == set(PROMISES)
    assert sum(row["certificates"] for row in rows) > 0
