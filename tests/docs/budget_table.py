"""The table of docs/scaling.md that says who may take what: python -m tests.docs.budget_table"""

from pathlib import Path

from fewpass.pipeline.budget import lines
from fewpass.pipeline.sizes import format_bytes

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs/scaling.md"
BEGIN, END = "<!-- budget -->\n", "<!-- /budget -->\n"


def table() -> str:
    """Markdown of every share."""
    rows = ["| who | what | how much | of 1 GiB | why |", "|---|---|---|---:|---|"]
    for line in lines():
        size = "" if line.of_default is None else format_bytes(line.of_default)
        rows.append(f"| {line.taker} | {line.what} | {line.much} | {size} | {line.why} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with the table anew."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{table()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
