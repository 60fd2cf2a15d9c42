"""docs/python.md: every block of Python, in its order, in one interpreter."""

import re

from tests.conftest import PROJECT


def test_the_code_of_the_page_runs(capsys):
    text = (PROJECT / "docs/python.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert "above the optimum" in capsys.readouterr().out
