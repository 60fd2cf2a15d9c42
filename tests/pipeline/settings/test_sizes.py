"""Amounts as text: a count and its noun agree."""

import pytest

from fewpass.pipeline.sizes import counted, format_passes


@pytest.mark.parametrize(("given", "written"), [
    (counted(0, "row"), "0 rows"), (counted(1, "row"), "1 row"), (counted(1000, "row"), "1,000 rows"),
    (counted(1, "class", "classes"), "1 class"), (counted(2, "class", "classes"), "2 classes"),
    (format_passes(1.2), "1 pass"), (format_passes(1.2, ".4g"), "1.2 passes"),
    (format_passes(1.0, ".4g"), "1 pass"), (format_passes(0.97, ".4g"), "0.97 passes"),
])  # fmt: skip
def test_a_count_and_its_noun_agree(given, written):
    assert given == written
