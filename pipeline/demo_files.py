"""Small files that the pages of the documentation work on, next to the demo's own.

monday.svm, tuesday.svm   two more days of the click log: the rows that come after it
later.csv                 visits to the shop that come after the others
visits-folder/            the same in two files
messages.csv              short texts, each about one of four topics
ads.vw                    ads as Vowpal Wabbit's text, and whether they were clicked
people.parquet            two numbers of a person, and whether something was bought
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from fewpass.pipeline.clicks import ClickFile, write_clicks, write_visits

DAY_BYTES = 1_500_000  # of a day of clicks at least, and a hundredth of the log
ROWS = 2_000  # of each of the others

_TOPICS = {
    "sport": "goal team match season coach league player win cup keeper",
    "money": "market bank share price rate fund trade profit debt tax",
    "space": "orbit moon launch rocket star planet probe crew mission comet",
    "weather": "rain snow wind cloud storm frost heat sun fog thunder",
}
_COMMON = "the a of and to in is on for with as was new after before last"


def write_demo_files(folder: Path, clicks: ClickFile, visits: int, seed: int) -> list[Path]:
    """Write all of them, and return where they are.

    Parameters
    ----------
    folder
        Where they are written.
    clicks
        The click log, of whose days there are two more.
    visits
        Rows of the table of visits, which later ones come after.
    seed
        Of all randomness; that of the click log and of the visits.
    """
    rng = np.random.default_rng([seed, 1])
    size, first, days = max(DAY_BYTES, clicks.bytes // 100), clicks.rows, []
    for day in ("monday", "tuesday"):
        path = folder / f"{day}.svm"
        made = write_clicks(path, size, seed, columns=clicks.columns, first=first)
        first += made.rows
        days.append(path)
    later, parts = folder / "later.csv", folder / "visits-folder"
    write_visits(later, ROWS // 4, seed, first=visits)
    parts.mkdir(exist_ok=True)
    for k in (1, 2):
        write_visits(parts / f"part-{k}.csv", ROWS // 2, seed, first=visits + k * ROWS)
    messages, ads, people = (folder / name for name in ("messages.csv", "ads.vw", "people.parquet"))
    pyarrow.csv.write_csv(_messages(rng), messages)
    ads.write_text(_ads(rng))
    pyarrow.parquet.write_table(_people(rng), people)
    return [*days, later, parts, messages, ads, people]


def _messages(rng: np.random.Generator) -> Any:
    """Return texts: some words of the topic, and of another one, among common ones."""
    topics, words = [*_TOPICS], {topic: text.split() for topic, text in _TOPICS.items()}
    about = rng.choice(topics, ROWS).tolist()
    texts = []
    for topic in about:
        other = words[topics[rng.integers(len(topics))]]
        said = [*rng.choice(words[topic], 3), rng.choice(other), *rng.choice(_COMMON.split(), 8)]
        texts.append(" ".join(rng.permutation(said).tolist()))
    return pa.table({"topic": about, "text": texts})


def _ads(rng: np.random.Generator) -> str:
    """Return ads: a site, a size and a price each; the log-odds of a click are linear in them."""
    site, size, price = rng.integers(0, 50, ROWS), rng.integers(0, 4, ROWS), rng.random(ROWS)
    liked = rng.normal(0.0, 1.0, 50)[site] + 0.5 * size - 2.0 * price
    clicked = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-liked))
    rows = zip(clicked.tolist(), site.tolist(), size.tolist(), price.tolist(), strict=True)
    return "".join(
        f"{1 if yes else -1} |ad site={where} size={large} price:{p:.3f}\n"
        for yes, where, large, p in rows
    )


def _people(rng: np.random.Generator) -> Any:
    """Return people: who is older, or earns more, buys more often."""
    age, income = rng.normal(40.0, 10.0, ROWS).round(), np.exp(rng.normal(10.0, 0.5, ROWS)).round()
    odds = 0.1 * (age - 40.0) + 1.5 * (np.log(income) - 10.0)
    bought = rng.random(ROWS) < 1.0 / (1.0 + np.exp(-odds))
    return pa.table({"age": age, "income": income, "bought": bought})
