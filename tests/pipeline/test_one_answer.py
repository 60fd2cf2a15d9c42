"""One row, one answer: whatever it comes in, and whoever scores it."""

import pytest

from fewpass.pipeline.models.export.sql_dialects import DIALECTS
from tests.pipeline.exported_ways import by_mlflow, by_onnx, by_sql
from tests.pipeline.odd_cells import ODD_CELLS, WAYS, differences, trained

pytestmark = [pytest.mark.timeout(600), pytest.mark.filterwarnings("ignore")]  # of MLflow's own


@pytest.fixture(scope="module", params=["linear", "additive"])
def found(request, tmp_path_factory, databases):
    of_sql = {dialect: by_sql(dialect, databases) for dialect in DIALECTS}
    ways = WAYS | of_sql | {"ONNX": by_onnx, "MLflow": by_mlflow}
    model = trained(tmp_path_factory.mktemp("one"), request.param)
    return differences(model, ways=ways)


@pytest.mark.parametrize("column", ODD_CELLS)
def test_every_way_says_the_same_of_a_cell(found, column):
    wrong = [told for case, told in found if case.column == column]
    assert not wrong, "\n".join(wrong)
