"""Links, addresses, secrets, ports (P8, P9, P10)."""

import pytest

from tests.faults.trying import require_kept, subjects


@pytest.mark.timeout(900)
@subjects("links", "addresses", "secrets", "ports")
def test_promises_are_kept(shop, kind, subject):
    require_kept(shop, kind, subject)
