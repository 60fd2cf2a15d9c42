"""The budget of memory: shares are what they say, and the page prints them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fewpass.pipeline.budget import PROGRAM_BYTES, Budget, MemoryShare
from fewpass.pipeline.errors import BadInput
from fewpass.pipeline.sizes import parse_bytes
from tests.docs.budget_table import PAGE, page

SHARES = {name: one for name, one in vars(Budget).items() if isinstance(one, MemoryShare)}


def test_the_page_has_every_share():
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m tests.docs.budget_table"


@pytest.mark.parametrize("name", SHARES)
@given(size=st.integers(1, 1 << 40))
def test_the_budget_that_is_named_would_do_and_none_smaller(name, size):
    small = Budget.of(200_000_000)
    enough = SHARES[name].with_this(small, size)
    assert getattr(Budget.of(enough), name) >= size > getattr(Budget.of(enough - 1), name)


def test_what_does_not_fit_is_refused_with_the_memory_that_would_do():
    budget = Budget.of(100_000_000)
    budget.require(3_000_000, 1_000_000, "the model")
    with pytest.raises(BadInput, match="the model takes 3 MB") as refused:
        budget.require(3_000_000, 1_000_001, "the model")
    least = parse_bytes(str(refused.value).partition("`memory=")[2].partition("`")[0])
    Budget.of(least).require(3_000_000, 1_000_001, "the model")
    assert least - 1_000_000 < PROGRAM_BYTES + 4_000_001 <= least


@pytest.mark.parametrize("memory", [128_000_000, 200_000_000, 360_000_000, 1 << 30])
def test_a_recipe_is_fitted_beside_the_program_itself(memory):
    """Fitting takes some four times the sample: 212 MB were taken of 128."""
    budget = Budget.of(memory)
    assert 4 * budget.sample <= budget.rows
