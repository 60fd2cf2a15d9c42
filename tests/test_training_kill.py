"""kill -9 at random moments of `fewpass train`, resumed each time: the same bits as a quiet run.

benchmarks/kills.py does the same with more kills.
"""

import pytest

from tests.killing import METHODS, Victim

KILLS = 4


@pytest.mark.timeout(600)
@pytest.mark.parametrize("method", METHODS)
def test_kills_change_no_bit(tmp_path, method):
    victim = Victim(tmp_path, method)
    quiet = victim.quiet()
    assert set(victim.finish_after(KILLS)) == {quiet}
