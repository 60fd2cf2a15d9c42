"""Documents that lie, and pipes: refused with a sentence (P7)."""

import pytest

from tests.faults.trying import require_kept, subjects


@pytest.mark.timeout(900)
@subjects("lying documents", "lying numbers", "lying arrays", "pipes")
def test_promises_are_kept(shop, kind, subject):
    require_kept(shop, kind, subject)
