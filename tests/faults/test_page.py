"""The page of trust is made of the committed results."""

from tests.faults.campaign import RESULTS
from tests.faults.page import page, read
from tests.faults.promises import PROMISES


def test_the_page_has_every_promise_and_what_was_tried():
    about, rows = read(RESULTS)
    made = page()
    assert f"seed {about['seed']}" in made
    for promise in PROMISES:
        assert f"\n## {promise}\n" in made
        tried = sum(sum(row["how"].values()) for row in rows if row["promise"] == promise)
        assert promise == "P6" or f" {tried:,} |" in made


def test_every_promise_was_tried():
    _, rows = read(RESULTS)
    tried = {row["promise"] for row in rows if row["how"]}
    assert tried | {"P6"} == set(PROMISES)
    assert sum(row["certificates"] for row in rows) > 0
