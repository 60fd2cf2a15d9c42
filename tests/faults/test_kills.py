"""Kills, interrupts and stops at any moment: the same bits in the end (P1, P2, P6)."""

import pytest

from tests.faults.trying import require_kept, subjects


@pytest.mark.timeout(900)
@subjects("kills at calls", "kills at moments")
def test_promises_are_kept(shop, kind, subject):
    require_kept(shop, kind, subject)
