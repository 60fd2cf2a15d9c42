"""The tables of docs/additive.md, out of docs/evidence.jsonl.

python -m benchmarks.additive_page
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from benchmarks.fresh_tables import PART as FRESH
from benchmarks.fresh_tables import fresh_found, fresh_tables
from benchmarks.small_samples import PART as SMALL
from benchmarks.small_samples import small_found, small_tables
from benchmarks.tables import ADDITIVE_PART, by_form, form_tables
from testing.results import EVIDENCE, Row

PAGE = Path(__file__).parent.parent / "docs/additive.md"


def main() -> None:
    """Write what was measured between the marks of the page."""
    forms, small, fresh = rows_of(ADDITIVE_PART), rows_of(SMALL), rows_of(FRESH)
    text = PAGE.read_text(encoding="utf-8")
    text = between(text, "forms", form_tables(forms) + "\n\n" + " ".join(by_form(forms)))
    text = between(text, "small", small_tables(small) + "\n\n" + " ".join(small_found(small)))
    text = between(text, "fresh", fresh_tables(fresh) + "\n\n" + " ".join(fresh_found(fresh)))
    PAGE.write_text(text, encoding="utf-8")


def rows_of(part: str) -> list[Row]:
    """Return the rows of a part, by table and size; each side is the newest one."""
    lines = map(json.loads, EVIDENCE.read_text(encoding="utf-8").splitlines())
    found: dict[tuple[str, int], Row] = {}
    for row in (line for line in lines if line["part"] == part and "about" not in line):
        key = row["table"], row["rows"]
        found[key] = found.get(key, {}) | row
    return list(found.values())


def between(text: str, mark: str, new: str) -> str:
    """Replace what stands between the marks of that name."""
    pattern = rf"(<!-- {mark} -->\n).*?(<!-- end of {mark} -->)"
    return re.sub(pattern, lambda m: f"{m[1]}{new}\n{m[2]}", text, count=1, flags=re.DOTALL)


if __name__ == "__main__":
    main()
