"""The page of what additive models come to, made of docs/evidence.jsonl."""

from __future__ import annotations

import json

from benchmarks.beyond_range import PART as BEYOND
from benchmarks.beyond_range import beyond_found, beyond_table
from benchmarks.fresh_tables import PART as FRESH
from benchmarks.fresh_tables import fresh_found, fresh_tables
from benchmarks.small_samples import PART as SMALL
from benchmarks.small_samples import small_found, small_tables
from benchmarks.tables import ADDITIVE_PART, by_form, form_tables
from testing.results import EVIDENCE, Row

WORDS = """# Additive models, measured

What [additive models](additive.md) come to on tables of others. R^2 is better where it is higher,
log loss where it is lower.

## Tables of others

By `ingest`, `train --tol 1e-3` and `evaluate`, all training rows. *Default* is what `ingest` does
by itself (`--encode auto`), *straight lines* is `--encode linear`, *curves* is `--additive
splines`. Held-out rows choose lam in all of ours. Boosting is scikit-learn's
`HistGradientBoosting*` as it comes, of numbers and words, not of text; EBM is InterpretML's, of
four outer bags, with pairs for three times the columns. Both run in one thread. Seconds are of the
processor, all commands together, while other programs used its two cores (`python -m
benchmarks.tables --additive`, 2026-11-27; - where EBM had not ended after ten CPU minutes).

{forms}

## Fresh tables

Settings were chosen while looking at the tables above. Nobody had looked at these (`python -m
benchmarks.fresh_tables`): a quarter of the rows, drawn at random, is the test; the *careful
pipeline* is scikit-learn's median imputation, scaling and one-hot words before `Ridge` or
`LogisticRegression`; *LightGBM* ends where 15 % of the rows, drawn at random, are predicted no
better for 50 rounds (learning rate .05); *same days* is ours where `ingest` is told that rows to
predict are of the days of the others, as they are here. Some are no longer fresh, as a rule was
made by them since ([why](decisions.md)). Where ids come again (persons, adverts), rows drawn at
random share them with the rows learnt from, and a feature for each says much; of new persons it
says nothing.

{fresh}

## Few rows

The median of five draws: R^2, or minus log loss, on at most 5,000 rows of the test file (`python
-m benchmarks.small_samples`).

{small}

## Beyond the range

Rows with the largest twentieth of one column's numbers, predicted by models of the others;
*within* are as many of the others, which were left out as well (`python -m
benchmarks.beyond_range`, 2026-11-27).

{beyond}
"""


def page() -> str:
    """Return the page."""
    forms, small, fresh, beyond = map(rows_of, (ADDITIVE_PART, SMALL, FRESH, BEYOND))
    parts = {
        "forms": (form_tables(forms), by_form(forms)),
        "small": (small_tables(small), small_found(small)),
        "fresh": (fresh_tables(fresh), fresh_found(fresh)),
        "beyond": (beyond_table(beyond), beyond_found(beyond)),
    }
    text = {name: f"{made}\n\n{' '.join(said)}" for name, (made, said) in parts.items()}
    return WORDS.format(**text)


def rows_of(part: str) -> list[Row]:
    """Return the rows of a part, by table and size; each side is the newest one."""
    lines = map(json.loads, EVIDENCE.read_text(encoding="utf-8").splitlines())
    found: dict[tuple[str, int | None], Row] = {}
    for row in (line for line in lines if line["part"] == part and "about" not in line):
        key = row["table"], row.get("rows")
        found[key] = found.get(key, {}) | row
    return list(found.values())
