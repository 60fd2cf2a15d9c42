"""examples/table_to_service.ipynb: the cells of docs/table-to-service.md.

python -m tests.docs.notebook_of_page
"""

import json
import re

from tests.conftest import PROJECT

PAGE, NOTEBOOK = PROJECT / "docs/table-to-service.md", PROJECT / "examples/table_to_service.ipynb"


def blocks(text):
    """Yield kind (text, console, python) and content of the parts of a page, in their order."""
    for part in re.split(r"(```(?:console|python)\n.*?```)", text, flags=re.DOTALL):
        if match := re.fullmatch(r"```(console|python)\n(.*?)```", part, re.DOTALL):
            yield match[1], match[2].rstrip("\n")
        elif part.strip():
            yield "text", part.strip()


def notebook():
    """Return the notebook, as JSON."""
    cells = [cell(k, *block) for k, block in enumerate(blocks(PAGE.read_text(encoding="utf-8")))]
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = {
        "cells": cells, "metadata": {"kernelspec": python}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def cell(number, kind, content):
    """Return one cell; commands of a terminal are run by the notebook's shell."""
    if kind == "console":
        content = re.sub(r"^\$ ", "!", content, flags=re.MULTILINE)
    if kind == "text":  # links of the page lead from where the notebook is
        content = re.sub(r"\]\((\w[\w-]*\.md)\)", r"](../docs/\1)", content)
    made = {"id": f"cell-{number}", "metadata": {}, "source": content.splitlines(keepends=True)}
    if kind == "text":
        return {"cell_type": "markdown", **made}
    return {"cell_type": "code", "execution_count": None, "outputs": [], **made}


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")
