"""docs/dask-ml.md: every block of Python, in its order, in one interpreter with a real cluster."""

import re

import pytest

from tests.conftest import PROJECT


@pytest.mark.filterwarnings("ignore")  # dask-ml's own, of Dask, NumPy and scikit-learn
def test_the_code_of_the_page_runs(capsys):
    text = (PROJECT / "docs/dask-ml.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    names = {}
    for block in blocks:
        exec(compile(block, "docs/dask-ml.md", "exec"), names)
    assert "passes for all of them" in capsys.readouterr().out
    from dask_ml.model_selection import _incremental

    mended = _incremental.dask
    names["mend_dask_ml"]()
    assert _incremental.dask is mended
