"""docs/python.md and README: every block of Python, in its order, in one interpreter."""

import re

from sklearn.datasets import load_breast_cancer

from tests.conftest import PROJECT


def test_the_code_of_the_page_runs(capsys):
    text = (PROJECT / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert "above the optimum" in capsys.readouterr().out


def test_the_code_of_the_readme_runs():
    text = (PROJECT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    X, y = load_breast_cancer(return_X_y=True)
    names = {"X": X, "y": y}
    exec(compile(block, "README.md", "exec"), names)
    assert names["model"].certificate_ <= 1e-6
