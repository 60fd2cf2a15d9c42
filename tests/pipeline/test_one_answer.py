"""One row, one answer: whatever it comes in, and whoever scores it."""

import math
from decimal import Decimal

import numpy as np
import pytest

from fewpass.pipeline.models.export.sql_dialects import DIALECTS
from tests.pipeline.exported_ways import by_mlflow, by_onnx, by_sql
from tests.pipeline.odd_cells import ODD_CELLS, REFUSED, WAYS, Case, answers, differences, trained

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


def test_cells_of_several_types_in_a_list_say_what_each_says_alone(tmp_path):
    """Numbers among texts are no texts: 1.234 is no 1,234, and 7 is seconds where 11:47 is."""
    model = trained(tmp_path)
    cells = [7, 1.234, -1234.5, True, 10**20, 10**400, math.inf, Decimal("2.50"), np.float32(0.1)]
    for column in ("x", "count", "money", "preis", "took"):
        cases = [Case(column, cell) for cell in [*cells, None, "2.5", "1.250,5 €", "11:47", "8"]]
        alone = answers(model, WAYS["predict_one"], cases)
        good = [k for k, one in enumerate(alone) if one != REFUSED]
        rows = [cases[k].row(model.columns) for k in good]
        together = model.model.decision_function(rows)
        assert len(good) > len(cells)
        np.testing.assert_allclose(together, [alone[k] for k in good], rtol=1e-6, err_msg=column)
