"""The table of docs/scaling.md that says who may take what: python -m tests.docs.budget_table"""

from pathlib import Path

from fewpass.pipeline.budget import ANYONE, PROGRAM, PROGRAM_BYTES, Budget, Copies, MemoryShare
from fewpass.pipeline.sizes import format_bytes
from testing.made_parts import with_part

PROJECT = Path(__file__).resolve().parents[2]
PAGE = PROJECT / "docs/scaling.md"


def table() -> str:
    """Markdown of every share and number of copies."""
    rows = [
        "| who | what | how much | of 1 GiB | why |", "|---|---|---|---:|---|",
        f"| {ANYONE} | the program itself | {format_bytes(PROGRAM_BYTES)} |  | {PROGRAM} |",
    ]  # fmt: skip
    for name, entry in vars(Budget).items():
        if isinstance(entry, (MemoryShare, Copies)):
            is_share = isinstance(entry, MemoryShare)
            size = format_bytes(getattr(Budget.of(1 << 30), name)) if is_share else ""
            rows.append(f"| {entry.taker} | {entry.what} | {entry} | {size} | {entry.why} |")
    return "\n".join(rows) + "\n"


def page() -> str:
    """The page with the table anew."""
    return with_part(PAGE.read_text(encoding="utf-8"), "budget", table())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
