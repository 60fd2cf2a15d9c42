"""One row, one answer: whatever it comes in, and whoever scores it."""

import pytest

from tests.pipeline.odd_cells import ODD_CELLS, differences, trained

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=["linear", "additive"])
def found(request, tmp_path_factory):
    return differences(trained(tmp_path_factory.mktemp("one"), request.param))


@pytest.mark.parametrize("column", ODD_CELLS)
def test_every_way_says_the_same_of_a_cell(found, column):
    wrong = [told for case, told in found if case.column == column]
    assert not wrong, "\n".join(wrong)
