"""The table of docs/methods.md of what takes which loss and penalty: python -m tests.docs.method_table"""

from pathlib import Path

from fewpass.solvers.needs import table_of_methods
from testing.made_parts import with_part

PAGE = Path(__file__).resolve().parents[2] / "docs/methods.md"


def table() -> str:
    """Markdown of every combination."""
    rows = ["| penalty | losses | methods |", "|---|---|---|"]
    for penalty, losses, able in table_of_methods():
        words = (", ".join(f"`{word}`" for word in words) or "none" for words in (losses, able))
        rows.append(f"| `{penalty}` | {' | '.join(words)} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with the table anew."""
    return with_part(PAGE.read_text(encoding="utf-8"), "methods", table())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
