"""Calls that fail and power that goes: told where, and healed (P3, P4, P6)."""

import pytest

from tests.faults.trying import require_kept, subjects


@pytest.mark.timeout(900)
@subjects("failing calls", "power cuts")
def test_promises_are_kept(shop, kind, subject):
    require_kept(shop, kind, subject)
