"""Damaged objects: named, or healed (P5, P6)."""

import pytest

from tests.faults.trying import require_kept, subjects


@pytest.mark.timeout(900)
@subjects("damaged objects")
def test_promises_are_kept(shop, kind, subject):
    require_kept(shop, kind, subject)
