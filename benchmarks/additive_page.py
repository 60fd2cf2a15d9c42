"""The tables of docs/additive.md, out of docs/evidence.jsonl.

python -m benchmarks.additive_page
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.beyond_range import PART as BEYOND
from benchmarks.beyond_range import beyond_found, beyond_table
from benchmarks.fresh_tables import PART as FRESH
from benchmarks.fresh_tables import fresh_found, fresh_tables
from benchmarks.small_samples import PART as SMALL
from benchmarks.small_samples import small_found, small_tables
from benchmarks.tables import ADDITIVE_PART, by_form, form_tables
from testing.results import EVIDENCE, Row

PAGE = Path(__file__).parent.parent / "docs/additive.md"


def main() -> None:
    """Write what was measured between the marks of the page."""
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def filled(text: str) -> str:
    """Return the page with what was measured between its marks."""
    forms, small, fresh, beyond = map(rows_of, (ADDITIVE_PART, SMALL, FRESH, BEYOND))
    for mark, made, found in (
        ("forms", form_tables(forms), by_form(forms)),
        ("small", small_tables(small), small_found(small)),
        ("fresh", fresh_tables(fresh), fresh_found(fresh)),
        ("beyond", beyond_table(beyond), beyond_found(beyond)),
    ):
        text = between(text, mark, made + "\n\n" + " ".join(found))
    return text


def rows_of(part: str) -> list[Row]:
    """Return the rows of a part, by table and size; each side is the newest one."""
    lines = map(json.loads, EVIDENCE.read_text(encoding="utf-8").splitlines())
    found: dict[tuple[str, int | None], Row] = {}
    for row in (line for line in lines if line["part"] == part and "about" not in line):
        key = row["table"], row.get("rows")
        found[key] = found.get(key, {}) | row
    return list(found.values())


def between(text: str, mark: str, new: str) -> str:
    """Replace what stands between the marks of that name."""
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)"
    return re.sub(pattern, lambda m: f"{m[1]}{new}\n{m[2]}", text, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    main()
