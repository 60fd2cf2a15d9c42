"""The benchmark of nights: what does not hold is seen, and fails."""

import sys

import pytest

from benchmarks import nights


@pytest.mark.parametrize(("odd", "status"), [(4.0, 0), (None, 1)])
def test_a_broken_night_that_is_learnt_fails(monkeypatch, capsys, odd, status):
    words = ["nights", "--rows", "500", "--seeds", "1", "--streams", "broken"]
    monkeypatch.setattr(sys, "argv", words)
    monkeypatch.setattr(nights, "RULE", nights.RULE._replace(odd=odd))
    assert nights.main() == status
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + len(nights.lines_of("broken"))
    assert sum("**no**" in line for line in lines) == (0 if status == 0 else 4)
